#!/usr/bin/env bash
# Installs the library, moves what was installed to another folder, builds examples/ against it in an empty folder with
# find_package(Partita) alone, and runs them.
#
#   tests/library/installed_test.sh BUILD      # the folder in which Partita was built
set -euo pipefail
build=$(realpath "$1")
source=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1

fail() {
  echo "installed_test: $*" >&2
  exit 1
}

cmake --install "$build" --prefix "$work/first" >"$work/install.log" || fail "$(tail -n 5 "$work/install.log")"
mv "$work/first" "$work/partita"
cp -r "$source/examples" "$work/examples"
launcher=$(command -v ccache || true)
# Without symbols, which take half of the time.
cmake -S "$work/examples" -B "$work/build" -G Ninja -DCMAKE_PREFIX_PATH="$work/partita" -DCMAKE_BUILD_TYPE=Debug \
  -DCMAKE_CXX_FLAGS_DEBUG= \
  ${launcher:+-DCMAKE_CXX_COMPILER_LAUNCHER=$launcher} >"$work/configure.log" 2>&1 || fail "$(tail -n 20 "$work/configure.log")"
cmake --build "$work/build" >"$work/build.log" 2>&1 || fail "$(tail -n 30 "$work/build.log")"
cd "$work"

for i in {1..300}; do echo "$i green bottles hang on wall number $((i * i % 17)), and one of them falls"; done >text.txt
awk '{ printf "{\"text\": \"%s\"}\n", $0 }' text.txt >text.jsonl
partita/bin/partita tokenizer train --input text.jsonl --vocab-size 300 --output tokenizer.json >/dev/null
build/tokenize tokenizer.json text.txt tokens 2>said || fail "tokenize: $(<said)"
grep -q '300 documents' said || fail "tokenize said: $(<said)"
[[ -s tokens.bin && -s tokens.idx ]] || fail "tokenize wrote no token files"

# loss N FILE: as logged for step N.
loss() { sed -n "s/.*step $1: loss \([0-9.]*\).*/\1/p" "$2"; }

mpirun -n 2 build/train tokens 2>said || fail "train: $(<said)"
first=$(loss 0 said) last=$(loss 99 said)
awk -v a="$first" -v b="$last" 'BEGIN { exit !(a > 8 && a < 9 && b > 0 && b < a / 2) }' ||
  fail "train: loss $first at the first step, $last at the last: expected about 8.3, and less than half of it"
build/generate runs/example "7 green bottles" tokenizer.json >text.out 2>said || fail "generate: $(<said)"
grep -qE '^7 green bottles.*[a-z]{4}' text.out || fail "generate wrote: $(<text.out)"

mpirun -n 2 build/own_block 2>said || fail "own_block: $(<said)"
awk -v a="$(loss 10 said)" -v b="$(loss 50 said)" 'BEGIN { exit !(a > 0 && b > 0 && b < a / 2) }' ||
  fail "own_block: loss $(loss 10 said) at step 10, $(loss 50 said) at step 50: expected less than half"

mpirun -n 2 build/zero_optimizer 2>said || fail "zero_optimizer: $(<said)"
awk -v a="$(loss 0 said)" -v b="$(loss 300 said)" 'BEGIN { exit !(a > 0 && b > 0 && b < a / 2) }' ||
  fail "zero_optimizer: loss $(loss 0 said) at step 0, $(loss 300 said) at step 300: expected less than half"

# A GPT-2 in one process and on two ranks: the same losses.
for ranks in 1 2; do
  mpirun -n $ranks build/gpt2 text.txt 2>"said$ranks" || fail "gpt2 on $ranks ranks: $(<"said$ranks")"
done
for step in 0 50 100; do
  awk -v a="$(loss $step said1)" -v b="$(loss $step said2)" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 < 1e-6 * a ^ 2) }' ||
    fail "gpt2, step $step: loss $(loss $step said1) in one process, $(loss $step said2) on two ranks"
done
awk -v a="$(loss 0 said1)" -v b="$(loss 100 said1)" 'BEGIN { exit !(a > 5.4 && a < 5.7 && b < a / 4) }' ||
  fail "gpt2: loss $(loss 0 said1) at step 0, $(loss 100 said1) at step 100: expected about 5.5, then less than a quarter"
build/gpt2 missing.txt >said 2>&1 && fail "gpt2: a missing text ended with exit code 0"
grep -q 'missing.txt: 0 bytes, expected a text of more than 64' said || fail "gpt2 on a missing text said: $(<said)"

# The same losses at every stage, with a slice of the weights at stage 3.
for stage in 1 2 3; do
  mpirun -n 2 build/transformer $stage 2>"said$stage" || fail "transformer, stage $stage: $(<"said$stage")"
  awk -v a="$(loss 0 "said$stage")" -v b="$(loss 120 "said$stage")" -v c="$(loss 120 said1)" \
    'BEGIN { exit !(a > 3 && b > 0 && b < a / 3 && (b - c) ^ 2 < 1e-6) }' ||
    fail "transformer, stage $stage: loss $(loss 0 "said$stage") at step 0, $(loss 120 "said$stage") at step 120: \
expected about 3.4, then less than a third of it, and as at stage 1, $(loss 120 said1)"
  [[ -s transformer.pt ]] || fail "transformer, stage $stage: no transformer.pt"
  rm transformer.pt
done

build/transformer 3 2>said || fail "transformer in one process: $(<said)"
awk -v a="$(loss 0 said)" -v b="$(loss 120 said)" 'BEGIN { exit !(a > 3 && b > 0 && b < a / 3) }' ||
  fail "transformer in one process: loss $(loss 0 said) at step 0, $(loss 120 said) at step 120"

# A Llama in one process, on two stages, and on two stages of two tensor-parallel ranks: the same losses.
for ranks in "1 1 1" "2 1 2" "4 2 2"; do
  read -r count tensor stages <<<"$ranks"
  mpirun -n "$count" build/llama "$tensor" "$stages" 2>"said$count" || fail "llama on $count ranks: $(<"said$count")"
  for step in 0 20 40 60; do
    awk -v a="$(loss $step said1)" -v b="$(loss $step "said$count")" \
      'BEGIN { exit !(a > 0 && (a - b) ^ 2 < 1e-6 * a ^ 2) }' ||
      fail "llama, step $step: loss $(loss $step said1) in one process, $(loss $step "said$count") on $count ranks"
  done
done
awk -v a="$(loss 0 said1)" -v b="$(loss 60 said1)" 'BEGIN { exit !(a > 3.5 && b < a / 3) }' ||
  fail "llama: loss $(loss 0 said1) at step 0, $(loss 60 said1) at step 60: expected about 4.1, then less than a third"

# A whole run of an MLP; the same command again has nothing to do.
mpirun -n 2 build/module_trainer runs/mlp >said 2>&1 || fail "module_trainer: $(<said)"
# figures NAME FILE: the values of "NAME" in a file of metrics.
figures() { sed -n "s/.*\"$1\":\([^,}]*\)[,}].*/\1/p" "$2"; }
mlp=runs/mlp/metrics.jsonl
[[ $(figures step $mlp | wc -l) == 300 ]] || fail "module_trainer: $(wc -l <$mlp) steps"
awk -v a="$(figures loss $mlp | head -n 1)" -v b="$(figures loss $mlp | tail -n 1)" \
  'BEGIN { exit !(a > 1 && b > 0 && b < a / 10) }' || fail "module_trainer: the loss did not fall: $(<said)"
mpirun -n 2 build/module_trainer runs/mlp >said 2>&1 || fail "module_trainer again: $(<said)"
grep -q 'The run is complete (step 300 of 300)' said || fail "module_trainer again said: $(<said)"

# The same with the optimizer's states in host memory and on disk, from other initial weights.
printf '[memory]\noptimizer = "host:0.4,disk:0.6"\ndisk_folder = "scratch"\n' >offload.toml
mpirun -n 2 build/module_trainer runs/offload offload.toml >said 2>&1 || fail "module_trainer with offload: $(<said)"
grep -q 'offload: .* in a file of each rank' said || fail "module_trainer with offload said: $(<said)"
offloaded=runs/offload/metrics.jsonl
awk -v a="$(figures loss $offloaded | head -n 1)" -v b="$(figures loss $offloaded | tail -n 1)" \
  'BEGIN { exit !(a > 1 && b > 0 && b < a / 10) }' || fail "with offload the loss did not fall: $(<said)"

# A convolutional net whose hook ends the run. Started by launch, interrupted, and resumed by mpirun, it is the run that
# was not interrupted; on three ranks, at another stage, it goes on.
code=0
mpirun -n 2 build/convolution runs/whole 400 2 >said 2>&1 || code=$?
[[ $code == 75 ]] || fail "convolution: exit code $code: $(<said)"
grep -q 'Stopped by a validation loss below 0.02 after step' said || fail "convolution was not stopped: $(<said)"
partita/bin/partita launch -n 2 -- build/convolution runs/parts 400 2 >said 2>&1 &
launched=$! code=0
for i in {1..600}; do
  if [[ -s runs/parts/metrics.jsonl && $(wc -l <runs/parts/metrics.jsonl) -ge 10 ]]; then break; fi
  sleep 0.1
done
kill -INT $launched
wait $launched || code=$?
[[ $code == 75 ]] || fail "convolution, interrupted: exit code $code: $(<said)"
grep -q 'Interrupted after step [0-9]* of 400, checkpoint saved' said || fail "convolution, interrupted: $(<said)"
cp -r runs/parts runs/three
mpirun -n 2 build/convolution runs/parts 400 2 >said 2>&1 || true
grep -q 'resuming from runs/parts/checkpoints/step-' said || fail "convolution did not resume: $(<said)"
for figure in loss grad_norm lr consumed_samples; do
  cmp <(figures $figure runs/whole/metrics.jsonl) <(figures $figure runs/parts/metrics.jsonl) ||
    fail "convolution: $figure of the interrupted run differs"
done
cmp <(figures loss runs/whole/validation.jsonl) <(figures loss runs/parts/validation.jsonl) ||
  fail "convolution: the validations of the interrupted run differ"
mpirun -n 3 build/convolution runs/three 400 3 >said 2>&1 || true
grep -q 'resuming from' said && grep -q 'Stopped by a validation loss below 0.02' said ||
  fail "convolution on three ranks: $(<said)"

cat >run.toml <<'TOML'
[model]
layers = 1
hidden_size = 32
heads = 2
max_length = 32
[data]
path = "tokens"
tokenizer = "tokenizer.json"
[train]
steps = 300
sequence_length = 32
micro_batch = 8
global_batch = 8
device = "cpu"
[optimizer]
learning_rate = 1e-2
TOML
build/hook run.toml --run.directory=runs/hook >said 2>&1 || fail "hook: $(<said)"
grep -q 'the loss is below 4' said || fail "hook: it did not stop the run: $(tail -n 5 said)"
build/hook missing.toml >said 2>&1 && fail "hook: a missing configuration ended with exit code 0"
grep -q missing.toml said || fail "hook on a missing configuration said: $(<said)"
echo "the installed examples build and run"
