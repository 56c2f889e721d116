#!/usr/bin/env bash
# Configures build/ with the torch that scripts/setup.sh installs; further arguments go to CMake.
#
#   scripts/configure.sh            what 'make build' does first
#   scripts/configure.sh --cuda     prints 1 or 0: whether code for NVIDIA GPUs is built
#
# It is built where nvcc 13 or newer (on PATH, or in CUDA_HOME/bin, /usr/local/cuda/bin) and a GPU (nvidia-smi -L) are
# found. PARTITA_CUDA=1 builds it without a GPU, too, PARTITA_CUDA=0 nowhere. PARTITA_TORCH=FOLDER takes a torch that is
# already there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

die() {
  echo "configure: $*" >&2
  exit 1
}

# The first nvcc that is new enough for torch's headers; nothing where there is none.
find_nvcc() {
  local nvcc release
  for nvcc in "$(command -v nvcc || true)" "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc"; do
    [[ -x $nvcc ]] || continue
    release=$("$nvcc" --version | sed -n 's/.*release \([0-9]*\).*/\1/p')
    if ((${release:-0} >= 13)); then
      echo "$nvcc"
      return
    fi
  done
}

sees_gpu() {
  command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q '^GPU '
}

# Whether $1 was installed with its CUDA packages (cmake/PartitaCuda.cmake).
has_cuda() {
  [[ -f $1/lib/libtorch_cuda.so && -f $1/../nvidia/cudnn/include/cudnn.h && -f $1/../include/cudnn_frontend.h ]]
}

nvcc=$(find_nvcc)
case "${PARTITA_CUDA-auto}" in
  0) cuda=0 ;;
  1)
    cuda=1
    [[ -n $nvcc ]] || die "PARTITA_CUDA=1: no nvcc of CUDA 13 or newer on PATH or in ${CUDA_HOME:-/usr/local/cuda}/bin"
    ;;
  auto)
    cuda=0
    if [[ -n $nvcc ]] && sees_gpu; then
      if [[ -z ${PARTITA_TORCH-} ]] || has_cuda "$PARTITA_TORCH"; then
        cuda=1
      else
        echo "configure: PARTITA_TORCH=$PARTITA_TORCH has no CUDA packages beside it: building for CPUs alone" >&2
      fi
    fi
    ;;
  *) die "PARTITA_CUDA=$PARTITA_CUDA: 0, 1 or nothing expected" ;;
esac

if [[ ${1-} == --cuda ]]; then
  echo "$cuda"
  exit
fi
if ((cuda)); then
  exec cmake --preset release --log-level=WARNING -DPARTITA_CUDA=ON -DCMAKE_CUDA_COMPILER="$nvcc" \
    -DPARTITA_TORCH="${PARTITA_TORCH:-$PWD/.deps/cuda/torch}" "$@"
fi
exec cmake --preset release --log-level=WARNING -DPARTITA_CUDA=OFF \
  -DPARTITA_TORCH="${PARTITA_TORCH:-$PWD/.deps/torch/torch}" "$@"
