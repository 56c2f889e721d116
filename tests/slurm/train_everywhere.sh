#!/bin/bash
# The same training command under every launcher makes the same run: alone, partita launch, mpirun in a Slurm batch
# script over two nodes, srun with PMIx, srun over two nodes, torchrun's variables, and torchrun itself where it is on
# PATH or in .deps/peer. Usage: train_everywhere.sh PARTITA
set -u
program=$(realpath "$1")
peer=$(realpath "$(dirname "$0")/../..")/.deps/peer
. "$(dirname "$0")/cluster.sh"
start_cluster
export OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PARTITA_LOG=warn
export OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=lo
cd "$CLUSTER" || exit 1
failures=0

for document in $(seq 60); do
  printf '{"text": "document %d of the river and the stone, %d steps over the mountain and %d back again"}\n' \
    "$document" $((document * 37 % 101)) $((document * 53 % 97))
done >text.jsonl
"$program" tokenizer train --input text.jsonl --vocab-size 280 --output tokenizer.json >/dev/null &&
  "$program" tokenize --input text.jsonl --tokenizer tokenizer.json --append-eod --quiet --output-prefix tokens >/dev/null || exit 1
cat >config.toml <<END
[model]
layers = 2
hidden_size = 24
heads = 2
max_length = 16
[data]
path = "$CLUSTER/tokens_text_document"
tokenizer = "$CLUSTER/tokenizer.json"
split = "90,10,0"
[train]
steps = 5
sequence_length = 16
micro_batch = 2
global_batch = 8
[parallel]
zero_stage = 2
timeout_seconds = 60
[eval]
every = 0
END

# same NAME RANKS: runs/NAME is a run of so many ranks and has the losses of the run on one process, within 1e-5.
same() {
  if grep -q "Parallelism = $2 rank" "$1.out" && awk -v OFS=' ' '
      function value(key) { match($0, "\"" key "\":[^,}]*"); return substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) }
      NR == FNR { loss[value("step")] = value("loss"); next }
      { difference = value("loss") / loss[value("step")] - 1; if (difference < 0) difference = -difference
        if (difference > 1e-5) exit 1; ++lines }
      END { if (lines != 5) exit 1 }' runs/alone/metrics.jsonl "runs/$1/metrics.jsonl" 2>/dev/null; then
    echo "passed $1"
  else
    echo "FAILED $1:"
    cat "$1.out"
    failures=$((failures + 1))
  fi
}

"$program" train config.toml --run.directory=runs/alone >alone.out 2>&1
same alone 1
OMPI_MCA_btl= "$program" launch -n 2 -- train config.toml --run.directory=runs/launch >launch.out 2>&1
same launch 2

cat >job.sh <<END
#!/bin/bash
mpirun $program train config.toml --run.directory=runs/mpirun >mpirun.out 2>&1
END
chmod +x job.sh
timeout 100 sbatch --wait -N2 -n4 --ntasks-per-node=2 -o sbatch.log job.sh >/dev/null || cat sbatch.log
same mpirun 4
timeout 100 srun -N2 -n4 --ntasks-per-node=2 --mpi=none "$program" train config.toml --run.directory=runs/srun >srun.out 2>&1
same srun 4
timeout 100 srun -N1 -n2 --mpi=pmix "$program" train config.toml --run.directory=runs/pmix >pmix.out 2>&1
same pmix 2

port=$((20000 + $$ % 20000))
for rank in 0 1; do
  RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
    timeout 100 "$program" train config.toml --run.directory=runs/torchrun >"torchrun.$rank" 2>&1 &
  ranks[rank]=$!
done
wait "${ranks[@]}"
cat torchrun.0 torchrun.1 >torchrun.out
same torchrun 2

if ! torchrun=$(command -v torchrun) && [ -x "$peer/bin/torchrun" ]; then
  torchrun=$peer/bin/torchrun
  export PYTHONPATH=$peer
fi
if [ -n "$torchrun" ]; then
  timeout 100 "$torchrun" --nproc-per-node 2 --master-port $((port + 1)) --no-python \
    "$program" train config.toml --run.directory=runs/real_torchrun >real_torchrun.out 2>&1
  same real_torchrun 2
else
  echo "not run: torchrun itself (scripts/setup.sh --peer installs it)"
fi
exit $((failures > 0))
