#!/bin/bash
# Trains small models on every product of layouts, schedules, ZeRO stages and micro-batches that 2 to 8 ranks allow, and
# compares each with one process (tests/engine/tensor_ranks_test.cc, tensor_division_ranks_test.cc,
# pipeline_ranks_test.cc), and with much of what offload may be, with none (offload_products_ranks_test.cc); then users'
# modules on every product of settings and places of the optimizer's states, on 1 to 3 ranks
# (tests/module/zero_optimizer_offload_ranks_test.cc).
#
#   scripts/test_layouts.sh [RANKS...]
set -u
cd "$(dirname "$0")/.."
export PARTITA_FULL_PRODUCTS=1 OMP_NUM_THREADS=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
[ $# -gt 0 ] || set -- 2 3 4 6 8
status=0
for ranks in "$@"; do
  echo "== $ranks ranks"
  mpirun -n "$ranks" build/tests/engine_ranks_test --gtest_filter='TensorParallel*:TensorDivision*:TensorFp8*:SequenceParallel*:ContextParallel*:Pipeline*:OffloadProducts*' || status=1
done
for ranks in 1 2 3; do
  echo "== offload of modules, $ranks ranks"
  mpirun -n "$ranks" build/tests/module_ranks_test --gtest_filter='ZeroOptimizerOffload*' || status=1
done
exit $status
