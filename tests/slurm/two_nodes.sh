#!/bin/bash
# The same program finds its ranks under each way that Slurm starts them: mpirun in a batch script over two nodes, srun
# with PMIx, srun without (sockets). Usage: two_nodes.sh RANK_PROGRAM
set -u
program=$(realpath "$1")
. "$(dirname "$0")/cluster.sh"
start_cluster
export OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Both nodes are this host: shared memory would mix them up, and each is to be reached by loopback.
export OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=lo
cd "$CLUSTER" || exit 1
failures=0

# expect NAME RANKS FILE: the file holds one line of each rank, with the sum of 1..RANKS.
expect() {
  local name=$1 ranks=$2 file=$3 rank
  for ((rank = 0; rank < ranks; ++rank)); do
    if ! grep -qE "^rank $rank of $ranks \(local [0-9]+ of [0-9]+\): sum $((ranks * (ranks + 1) / 2))\$" "$file"; then
      echo "FAILED $name: no right line of rank $rank in:"
      cat "$file"
      failures=$((failures + 1))
      return
    fi
  done
  echo "passed $name: $(grep '^rank' "$file" | sort | paste -sd ';')"
}

# 1. A batch script that calls mpirun, which finds the nodes by itself. The script alone is no rank.
cat >job.sh <<END
#!/bin/bash
$program hello >alone.out 2>&1
mpirun $program hello >mpirun.out 2>&1
END
chmod +x job.sh
timeout 60 sbatch --wait -N2 -n4 --ntasks-per-node=2 -o sbatch.log job.sh >/dev/null || cat sbatch.log
expect "sbatch, outside of srun" 1 alone.out
expect "sbatch with mpirun on two nodes" 4 mpirun.out

# 2. srun with PMIx: MPI without mpirun.
timeout 60 srun -N1 -n2 --mpi=pmix "$program" hello >pmix.out 2>&1
expect "srun --mpi=pmix" 2 pmix.out

# 3. srun alone, over both nodes.
timeout 60 srun -N2 -n4 --ntasks-per-node=2 --mpi=none "$program" hello >none.out 2>&1
expect "srun --mpi=none on two nodes" 4 none.out

# A rank that fails takes the step down.
start=$SECONDS
if timeout 60 srun -N2 -n4 --ntasks-per-node=2 --mpi=none "$program" throw 30 >throw.out 2>&1; then
  echo "FAILED: srun reports success although a rank failed"
  failures=$((failures + 1))
elif ! grep -q "the disk of rank 3 is full" throw.out || ((SECONDS - start > 20)); then
  echo "FAILED: a failing rank under srun, after $((SECONDS - start)) s:"
  cat throw.out
  failures=$((failures + 1))
else
  echo "passed a failing rank under srun: ended after $((SECONDS - start)) s"
fi
exit $((failures > 0))
