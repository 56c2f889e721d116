#!/usr/bin/env bash
# Fuzzes the readers of files that others wrote with libFuzzer, under the address and undefined-behaviour sanitizers.
#
#   tests/fuzz/run.sh                      # 10 minutes each
#   SECONDS_EACH=60 tests/fuzz/run.sh pickle
#
# A finding stops it and stays in build-fuzz/findings: make it a test of the reader's layer, then mend the reader. The
# inputs that fuzzing collects stay in build-fuzz/corpus, and the next run goes on with them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly kFolder=build-fuzz
readonly kTargets=("${@:-safetensors pickle torch_file dcp_metadata megatron_file indexed sentencepiece tokenizer_json tiktoken}")
readonly kSeconds=${SECONDS_EACH:-600}
readonly kBase=($(cd src/partita && printf '%s\n' base/*.cc | sed 's/\.cc$//'))
readonly kSources=("${kBase[@]}" checkpoint/safetensors interop/zip_archive interop/pickle_machine
  interop/torch_pickle interop/torch_file interop/dcp_metadata interop/megatron_file data/indexed_format)
readonly kTokenizerSources=("${kBase[@]}" $(cd src/partita && find tokenizer unicode -name '*.cc' | sed 's/\.cc$//'))

command -v clang++ >/dev/null || { echo 'fuzz: install clang' >&2; exit 1; }
mkdir -p "$kFolder/findings"
tests/fuzz/make_corpus.py "$kFolder/seeds"

readonly kFlags=(-std=c++20 -O1 -g -Isrc -DSPDLOG_FMT_EXTERNAL -DSPDLOG_SHARED_LIB -DSPDLOG_COMPILED_LIB -DTOML_HEADER_ONLY=0 -DTOML_SHARED_LIB=1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined)
for target in ${kTargets[*]}; do
  case $target in
    sentencepiece | tokenizer_json | tiktoken) sources=("${kTokenizerSources[@]}") libraries=(-lfmt -lspdlog -ltomlplusplus -lpcre2-8 -lhwy) ;;
    *) sources=("${kSources[@]}") libraries=(-lfmt -lspdlog -ltomlplusplus -lisal) ;;
  esac
  objects=()
  for source in "${sources[@]}"; do
    objects+=("$kFolder/${source//\//_}.o")
    clang++ "${kFlags[@]}" -c "src/partita/$source.cc" -o "${objects[-1]}"
  done
  clang++ "${kFlags[@]}" -fsanitize=fuzzer "tests/fuzz/${target}_fuzz.cc" "${objects[@]}" "${libraries[@]}" \
    -o "$kFolder/$target"
  mkdir -p "$kFolder/corpus/$target"
  echo "fuzz: $target for $kSeconds seconds"
  "$kFolder/$target" -max_total_time="$kSeconds" -max_len=12288 -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 \
    -dict=tests/fuzz/words.dict -artifact_prefix="$kFolder/findings/$target-" \
    "$kFolder/corpus/$target" "$kFolder/seeds/$target" 2>"$kFolder/$target.log" ||
    { tail -n 40 "$kFolder/$target.log" >&2; exit 1; }
  grep -E 'stat::number_of_executed_units|DONE' "$kFolder/$target.log"
done
