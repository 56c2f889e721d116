#!/usr/bin/env bash
# Checks on the GPUs of this machine what others cannot: kernels, collectives, and training as a user starts it. A line
# a check, and a last one with the sums; the exit code is 1 where one failed. Six minutes with two GPUs; no network.
#
#   tests/gpu/run.sh                                             after 'make build'
#   PARTITA=/opt/partita PROGRAMS=/opt/checks tests/gpu/run.sh   programs that were built elsewhere; needs python3
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$here/../../build
partita=$(realpath "${PARTITA:-$build/partita}")
programs=$(realpath "${PROGRAMS:-$build/tests}")
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ') || true
port=${PORT:-29610}
passed=0 failed=0

[[ -x $partita ]] || { echo "gpu checks: $partita is no program: build it, or name it in PARTITA" >&2; exit 2; }
((gpus > 0)) || { echo "gpu checks: nvidia-smi shows no GPU" >&2; exit 2; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-4}

# check NAME COMMAND...: passes where the command does; what it said is shown beside it, or, where it failed, in full.
check() {
  local name=$1
  shift
  if "$@" >"$work/said" 2>&1; then
    passed=$((passed + 1))
    echo "ok      $name: $(tail -n 1 "$work/said" | cut -c1-150)"
  else
    failed=$((failed + 1))
    echo "FAILED  $name"
    { grep -m 20 -e '^FAIL' -e '^C++ exception' "$work/said"; tail -n 8 "$work/said"; } | sed 's/^/        /'
  fi
}

# ranks N COMMAND...: a process a GPU, as torchrun would start them; what rank 0 said.
ranks() {
  local count=$1 rank pids=() status=0
  shift
  port=$((port + 1))
  for ((rank = 0; rank < count; ++rank)); do
    RANK=$rank WORLD_SIZE=$count LOCAL_RANK=$rank LOCAL_WORLD_SIZE=$count MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
      timeout 60 "$@" >"$work/rank$rank" 2>&1 &
    pids+=($!)
  done
  for rank in "${!pids[@]}"; do wait "${pids[$rank]}" || status=1; done
  for ((rank = count - 1; rank >= 0; --rank)); do
    if ((rank == 0 || status != 0)); then tail -n 6 "$work/rank$rank"; fi
  done
  return "$status"
}

train() {  # RUN KEY=VALUE...
  local run=$1
  shift
  "$partita" train small.toml --run.directory="$run" "${@/#/--}" >"$run.log" 2>&1 || { tail -n 6 "$run.log"; return 1; }
}
train_ranks() {  # N RUN KEY=VALUE...
  local count=$1 run=$2
  shift 2
  ranks "$count" "$partita" train small.toml --run.directory="$run" "${@/#/--}"
}
same() { python3 "$here/same_run.py" "$@"; }
differs() { ! same "$@" 0; }
# Every file of the last checkpoint, byte for byte.
same_checkpoint() {
  local folder=checkpoints/step-00000020
  diff -rq "$1/$folder" "$2/$folder" && echo "$(find "$1/$folder" -type f | wc -l) files are the same"
}
refuses() {  # TEXT COMMAND...: the command fails and says so
  local text=$1 said
  shift
  if said=$("$@" 2>&1); then
    echo "no error"
    return 1
  fi
  grep -F -m 1 -- "$text" <<<"$said" || { tail -n 6 <<<"$said"; return 1; }
}
same_checkpoints() {
  diff -rq "$1/checkpoints" "$2/checkpoints" && echo "$(find "$1/checkpoints" -type f | wc -l) files are the same"
}
too_many_ranks() { CUDA_VISIBLE_DEVICES=0 train_ranks 2 none; }
says() {  # FILE TEXT
  grep -F -m 1 -- "$2" "$1" || { tail -n 6 "$1"; return 1; }
}
evaluates() {  # FILE OPTION...
  local file=$1
  shift
  "$partita" eval gpt2 --data tokens_text_document --json "$@" >"$file" && cat "$file"
}
writes() {  # RUN FILE OPTION...
  local run=$1 file=$2
  shift 2
  "$partita" generate "$run" --prompt "the river" --tokens 80 --greedy "$@" >"$file" && tail -n 1 "$file"
}
close() {  # TOLERANCE A B: figures of eval --json
  python3 -c 'import json, sys
a, b = (json.load(open(path))["loss"] for path in sys.argv[2:])
print(f"loss {a:.7f}, {b:.7f} expected")
sys.exit(not abs(a - b) <= float(sys.argv[1]) * abs(b))' "$@"
}

echo "== programs"
for names in "ops_cuda_kernels kernels_check" "ops_cuda_libs libs_check"; do
  for name in $names; do
    if [[ -x $programs/$name ]]; then check "$name" "$programs/$name" check; fi
  done
done
for name in comm_cuda_nccl nccl_check; do
  if [[ -x $programs/$name ]] && ((gpus >= 2)); then check "$name on $gpus" ranks "$gpus" "$programs/$name"; fi
done

modules() { PARTITA_TEST_DEVICE=cuda ranks "$1" "$programs/module_ranks_test" --gtest_filter="$2"; }
late_modules() { PARTITA_TEST_DELAYS=300 modules "$@"; }
if [[ -x $programs/module_ranks_test ]]; then
  echo "== modules of torch::nn"
  check "ZeRO and pipeline on one GPU" modules 1 'ZeroOptimizer.IsTheSingleProcessRun:Pipeline.IsTheSingleProcessRun'
  if ((gpus >= 2)); then
    check "ZeRO is the single process" modules 2 'ZeroOptimizer.IsTheSingleProcessRun:ZeroOptimizer.ShardedWeightsTake*'
    check "with streams that are late, too" late_modules 2 'ZeroOptimizer.IsTheSingleProcessRun:ZeroOptimizer.ShardedWeightsTake*'
    check "recompute" modules 2 'Recompute.*'
    check "tensor parallelism" modules 2 'Parallelize.*:TensorModules.Are*'
    check "pipelines" modules 2 'Pipeline.*'
  fi
fi

echo "== text, tokenizer, token files"
awk 'BEGIN {
  split("river stone light of the and walked over mountain slowly again bread morning under", word, " ")
  state = 11
  for (d = 0; d < 150; ++d) {
    line = ""
    state = (state * 1103515245 + 12345) % 2147483648
    for (n = 20 + int(state / 65536) % 40; n > 0; --n) {
      state = (state * 1103515245 + 12345) % 2147483648
      line = line word[1 + int(state / 65536) % 14] (n == 1 ? "." : " ")
    }
    print "{\"text\": \"" line "\"}"
  }
}' >text.jsonl
check "tokenizer" "$partita" tokenizer train --input text.jsonl --vocab-size 300 --output tokenizer.json
check "tokens" "$partita" tokenize --input text.jsonl --tokenizer tokenizer.json --append-eod --quiet \
  --output-prefix tokens
cat >small.toml <<END
[model]
layers = 3
hidden_size = 64
heads = 4
max_length = 64
dropout = 0.1
embedding_dropout = 0.1
[data]
path = "tokens_text_document"
tokenizer = "tokenizer.json"
split = "80,20,0"
[train]
steps = 20
sequence_length = 64
micro_batch = 2
global_batch = 8
device = "cuda"
[kernels]
tune_matmul = "false"
[optimizer]
learning_rate = 1e-3
min_learning_rate = 1e-4
[parallel]
timeout_seconds = 30
layers_per_collective = 1
[eval]
every = 10
batches = 1
[checkpoint]
every = 10
END

echo "== the CPU's losses in fp32"
llama=(model.kind=llama model.kv_heads=2)
check "gpt2 on the CPU" train gpt2-cpu train.device=cpu model.attention_dropout=0.1
check "gpt2 trains" train gpt2 model.attention_dropout=0.1
check "gpt2 like the CPU" same gpt2 gpt2-cpu 1e-5
check "llama on the CPU" train llama-cpu train.device=cpu "${llama[@]}"
check "llama trains" train llama "${llama[@]}"
check "llama like the CPU" same llama llama-cpu 1e-5
check "the card is named" says gpt2.log "training on NVIDIA"
check "memory: workspace" says gpt2.log "workspace"
check "memory: peak" says gpt2.log "measured ("
check "a checkpoint of the GPU is valid" "$partita" checkpoint verify gpt2
cp -r gpt2 moved
rm -r moved/checkpoints/step-00000020
check "a GPU's run goes on on the CPU" train moved train.device=cpu model.attention_dropout=0.1
check "and gives the same" same moved gpt2-cpu 1e-5

echo "== the same bits in every run, in bf16"
bits=(precision.compute=bf16 kernels.deterministic=true)
check "first run" train bits "${bits[@]}"
check "second run" train again "${bits[@]}"
check "the same losses" same again bits 0
check "the same checkpoint" same_checkpoint again bits
rm -r again/checkpoints/step-00000020
check "resumed at step 10" train again "${bits[@]}"
check "it did resume" says again.log "resuming from"
check "resumed: the same losses" same again bits 0
check "resumed: the same checkpoint" same_checkpoint again bits
check "bf16 states" train states "${bits[@]}" precision.states=bf16 "${llama[@]}"
cp -r states states-again
rm -r states-again/checkpoints/step-00000020
check "bf16 states resumed" train states-again "${bits[@]}" precision.states=bf16 "${llama[@]}"
check "bf16 states: did resume" says states-again.log "resuming from"
check "bf16 states: the same checkpoint" same_checkpoint states-again states
check "recomputed in full" train recomputed "${bits[@]}" precision.states=bf16 "${llama[@]}" \
  memory.recompute=full debug.poison=true
check "recomputed in full: the same losses" same recomputed states 0

echo "== checkpoints that are written while training goes on"
saves=("${bits[@]}" checkpoint.every=3 checkpoint.keep_last=0)
for places in device host host:0.5; do
  check "saves at once, states on $places" train "waits-$places" "${saves[@]}" memory.optimizer="$places" \
    checkpoint.background=false
  check "saves in the background, states on $places" train "behind-$places" "${saves[@]}" memory.optimizer="$places" \
    checkpoint.background=true debug.delay_streams=200
  check "the same checkpoints, states on $places" same_checkpoints "behind-$places" "waits-$places"
done
check "says that they were" says behind-device.log "of which training waited"

echo "== graphs, stages on one GPU, offload, 8 bits, tuning"
check "without a graph" train eager model.attention_dropout=0.1 kernels.cuda_graph=false
check "without a graph: the same losses" same eager gpt2 1e-5
for stage in 2 3; do
  check "ZeRO-$stage alone" train "alone$stage" model.attention_dropout=0.1 parallel.zero_stage="$stage" debug.poison=true
  check "ZeRO-$stage alone: the same losses" same "alone$stage" gpt2 1e-5
done
check "offload" train host model.attention_dropout=0.1 memory.optimizer=host memory.offload_activations=3 \
  debug.poison=true debug.delay_streams=200
check "offload: the same losses" same host gpt2 1e-5
for place in host:0.5 host:0.3,disk:0.4 disk; do
  check "offload, $place" train "place-$place" model.attention_dropout=0.1 memory.optimizer="$place" debug.poison=true \
    debug.delay_streams=200
  check "offload, $place: the same losses" same "place-$place" gpt2 1e-5
done
for place in host host:0.5,disk:0.5 disk; do
  check "weights, $place" train "weights-$place" model.attention_dropout=0.1 memory.optimizer=host \
    memory.parameters="$place" parallel.layers_per_collective=1 debug.poison=true debug.delay_streams=200
  check "weights, $place: the same losses" same "weights-$place" gpt2 1e-5
done
check "unclipped" train unclipped model.attention_dropout=0.1 optimizer.clip=0
check "early updates" train early model.attention_dropout=0.1 optimizer.clip=0 memory.optimizer=host \
  memory.parameters=host memory.early_updates=true parallel.layers_per_collective=1 debug.poison=true \
  debug.delay_streams=200
check "early updates: the same losses" same early unclipped 1e-5
check "gradients added on the host" train sums model.attention_dropout=0.1 train.micro_batch=2 memory.optimizer=host \
  memory.gradients_on_host=true memory.parameters=host parallel.layers_per_collective=1 debug.poison=true \
  debug.delay_streams=200
check "gradients added on the host: the same losses" same sums gpt2 1e-5
check "8 bits" train eight "${bits[@]}" precision.fp8=current
check "8 bits: close to bf16" same eight bits 0.02
check "8 bits: not bf16" differs eight bits
check "8 bits, second run" train eight-again "${bits[@]}" precision.fp8=current
check "8 bits: the same checkpoint" same_checkpoint eight-again eight
check "8 bits, delayed" train delayed "${bits[@]}" precision.fp8=delayed
check "8 bits, delayed: close to bf16" same delayed bits 0.02
check "8 bits, delayed: not current" differs delayed eight
cp -r delayed delayed-again
rm -r delayed-again/checkpoints/step-00000020
check "8 bits, delayed, resumed" train delayed-again "${bits[@]}" precision.fp8=delayed
check "8 bits, delayed: did resume" says delayed-again.log "resuming from"
check "8 bits, delayed: the same checkpoint" same_checkpoint delayed-again delayed
check "tuned" train tuned precision.compute=bf16 kernels.tune_matmul=true train.steps=30
check "tuned: says so" says tuned.log "matmuls use a faster algorithm now"
check "tuned before" train taken "${bits[@]}" kernels.tuning_file=tuned/matmul_tuning.json
check "tuned before: says so" says taken.log "reusing the tuned algorithms"

echo "== evaluation and generation"
check "eval on the CPU" evaluates eval-cpu --device cpu
check "eval" evaluates eval-gpu --device cuda
check "eval in bf16" evaluates eval-bf16 --device cuda --precision bf16
check "eval like the CPU" close 1e-6 eval-gpu eval-cpu
check "eval in bf16 like the CPU" close 1e-2 eval-bf16 eval-cpu
for run in gpt2 llama; do
  check "$run writes on the CPU" writes "$run" text-cpu --device cpu
  check "$run writes" writes "$run" text-gpu --device cuda
  check "$run: the same text" cmp text-gpu text-cpu
done
check "bf16 writes" writes gpt2 text-bf16 --device cuda --precision bf16

echo "== what cannot be"
check "no GPU is visible" refuses "no GPU is visible" \
  env CUDA_VISIBLE_DEVICES= "$partita" train small.toml --run.directory=none
check "more ranks than GPUs" refuses "2 ranks on this machine, which shows 1 GPU" too_many_ranks
check "auto without a GPU: the CPU" env CUDA_VISIBLE_DEVICES= "$partita" train small.toml --run.directory=auto \
  --train.device=auto --train.steps=1
check "a token outside the model" refuses "the model knows 0 to 99" "$partita" train small.toml --run.directory=outside \
  --data.tokenizer= --model.vocab_size=100

if ((gpus >= 2)); then
  echo "== two GPUs"
  for stage in 0 1 2 3; do
    check "ZeRO-$stage" train_ranks 2 "zero$stage" parallel.zero_stage="$stage" \
      model.attention_dropout=0.1 debug.poison=true
    check "ZeRO-$stage like one GPU" same "zero$stage" gpt2 1e-5
  done
  three=(parallel.zero_stage=3 "${bits[@]}" "${llama[@]}")
  check "ZeRO-3 in bf16" train_ranks 2 three "${three[@]}"
  check "with streams that are late" train_ranks 2 late "${three[@]}" debug.poison=true debug.delay_streams=200
  check "the same losses" same late three 0
  check "the same checkpoint" same_checkpoint late three
  cp -r three three-again
  rm -r three-again/checkpoints/step-00000020
  check "ZeRO-3 resumed" train_ranks 2 three-again "${three[@]}"
  check "ZeRO-3 resumed: the same checkpoint" same_checkpoint three-again three
  check "ZeRO-3, 8 bits, delayed" train_ranks 2 three-eight "${three[@]}" precision.fp8=delayed
  check "ZeRO-3, 8 bits, delayed: close to bf16" same three-eight three 0.02
  for scales in current delayed; do
    check "tensor, 8 bits, $scales" train_ranks 2 "tensor-$scales" "${bits[@]}" parallel.tensor=2 precision.fp8="$scales"
    check "tensor, 8 bits, $scales: close to bf16" same "tensor-$scales" bits 0.02
  done
  check "pipeline, 8 bits, delayed" train_ranks 2 pipeline-eight "${bits[@]}" parallel.pipeline=2 precision.fp8=delayed
  check "pipeline, 8 bits, delayed: close to bf16" same pipeline-eight bits 0.02
  # Matmuls of 1024 rows per rank are made in pieces, between which copy engines exchange rows; recorded graphs use NCCL.
  layers=(model.layers=4 model.attention_dropout=0.1 train.micro_batch=32 train.global_batch=64 kernels.cuda_graph=false)
  check "four layers" train four "${layers[@]}"
  for sequence in true false; do
    check "tensor, sequence $sequence" train_ranks 2 "tensor-$sequence" "${layers[@]}" parallel.tensor=2 \
      parallel.sequence="$sequence" debug.poison=true
    check "tensor, sequence $sequence, like one GPU" same "tensor-$sequence" four 1e-5
  done
  check "tensor: the same losses without sequence parallelism" same tensor-true tensor-false 0
  check "tensor, recorded" train_ranks 2 tensor-recorded "${layers[@]}" parallel.tensor=2 kernels.cuda_graph=true
  check "tensor, recorded: the same losses" same tensor-recorded tensor-true 0
  check "tensor with streams that are late" train_ranks 2 tensor-late "${layers[@]}" parallel.tensor=2 debug.poison=true \
    debug.delay_streams=200
  check "tensor with streams that are late: the same losses" same tensor-late tensor-true 0
  for scales in current delayed; do
    eight=("${layers[@]}" model.attention_dropout=0 precision.compute=bf16 kernels.deterministic=true
      precision.fp8="$scales")
    check "four layers, 8 bits, $scales" train "four-$scales" "${eight[@]}"
    for sequence in true false; do
      check "tensor in pieces, 8 bits, $scales, sequence $sequence" train_ranks 2 "pieces-$scales-$sequence" \
        "${eight[@]}" parallel.tensor=2 parallel.sequence="$sequence" debug.poison=true
    done
    check "tensor in pieces, 8 bits, $scales: like one GPU" same "pieces-$scales-true" "four-$scales" 0.002
    check "tensor in pieces, 8 bits, $scales, with streams that are late" train_ranks 2 "pieces-$scales-late" \
      "${eight[@]}" parallel.tensor=2 debug.delay_streams=200
    check "tensor in pieces, 8 bits, $scales, with streams that are late: the same losses" same "pieces-$scales-late" \
      "pieces-$scales-true" 0
    check "tensor in pieces, 8 bits, $scales: the same without sequence parallelism" same "pieces-$scales-true" \
      "pieces-$scales-false" 0
  done
  check "context" train_ranks 2 context "${layers[@]}" parallel.context=2 debug.poison=true
  check "context, like one GPU" same context four 1e-5
  half=("${layers[@]}" model.attention_dropout=0 precision.compute=bf16 kernels.deterministic=true)
  check "four layers in bf16" train four-half "${half[@]}"
  for recompute in none full; do
    check "context in bf16, recompute $recompute" train_ranks 2 "context-$recompute" "${half[@]}" parallel.context=2 \
      memory.recompute="$recompute"
    check "context in bf16, recompute $recompute, like one GPU" same "context-$recompute" four-half 0.002
  done
  check "context with streams that are late" train_ranks 2 context-late "${layers[@]}" parallel.context=2 \
    debug.delay_streams=200
  check "context with streams that are late: the same losses" same context-late context 0
  for schedule in gpipe 1f1b interleaved looped_bfs zb_h1 interleaved_zero_bubble zbv dual_pipe_v; do
    check "pipeline, $schedule" train_ranks 2 "pipeline-$schedule" "${layers[@]}" parallel.pipeline=2 \
      parallel.schedule="$schedule" train.micro_batch=8 debug.check_messages=true debug.poison=true
    check "pipeline, $schedule, like one GPU" same "pipeline-$schedule" four 1e-5
  done
  check "pipeline of Llama" train_ranks 2 pipeline-llama "${llama[@]}" model.layers=4 parallel.pipeline=2 \
    parallel.schedule=interleaved_zero_bubble
  check "four layers of Llama" train llama-four "${llama[@]}" model.layers=4
  check "pipeline of Llama, like one GPU" same pipeline-llama llama-four 1e-5
  check "pipeline with streams that are late" train_ranks 2 pipeline-late "${layers[@]}" parallel.pipeline=2 \
    parallel.schedule=zbv train.micro_batch=8 debug.poison=true debug.delay_streams=200
  check "pipeline with streams that are late: the same losses" same pipeline-late pipeline-zbv 0
  check "ZeRO-3, offload" train_ranks 2 three-host parallel.zero_stage=3 model.attention_dropout=0.1 \
    memory.optimizer=host memory.offload_activations=3 debug.poison=true debug.delay_streams=200
  check "ZeRO-3, offload: the same losses" same three-host gpt2 1e-5
  check "ZeRO-3, everything offloaded" train_ranks 2 three-all parallel.zero_stage=3 model.attention_dropout=0.1 \
    memory.optimizer=host memory.parameters=host memory.gradients_on_host=true train.micro_batch=2 \
    parallel.layers_per_collective=1 debug.poison=true debug.delay_streams=200
  check "ZeRO-3, everything offloaded: the same losses" same three-all gpt2 1e-5
  for stage in 1 2; do
    check "ZeRO-$stage, half offloaded" train_ranks 2 "half$stage" parallel.zero_stage="$stage" \
      model.attention_dropout=0.1 memory.optimizer=host:0.5 debug.poison=true debug.delay_streams=200
    check "ZeRO-$stage, half offloaded: the same losses" same "half$stage" gpt2 1e-5
  done
  check "pipeline, offload" train_ranks 2 pipeline-host "${layers[@]}" parallel.pipeline=2 parallel.schedule=zbv \
    train.micro_batch=8 memory.optimizer=host:0.4 debug.poison=true debug.delay_streams=200
  check "pipeline, offload: the same losses" same pipeline-host pipeline-zbv 1e-5
  check "ZeRO-3 resumes on one GPU" train three-again "${bits[@]}" "${llama[@]}" train.steps=22
fi

echo "$passed passed, $failed failed"
((failed == 0))
