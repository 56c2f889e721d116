#!/usr/bin/env bash
# The quick start: from the King James Bible in a Debian package to a trained GPT-2, with the program's own commands.
# Each is printed before it runs, to be copied. Files that exist are not made again; training resumes from its last
# checkpoint. To start over: rm -r runs/quickstart
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly kPartita=build/partita
readonly kRun=runs/quickstart
readonly kText=$kRun/data/kjv.jsonl
readonly kTokenizer=$kRun/data/tokenizer.json
readonly kTokens=$kRun/data/kjv  # tokenize appends _text_document

say() { printf '\n== %s\n' "$*"; }

run() {
  printf '$'
  printf ' %q' "$@"
  printf '\n'
  "$@"
}

command -v bible >/dev/null && [[ -x $kPartita ]] || {
  echo "quickstart: $kPartita or the program 'bible' is missing: start this with 'make quickstart'" >&2
  exit 1
}
mkdir -p "$kRun/data"

say "Text: the King James Bible, one document per chapter -> $kText"
if [[ ! -s $kText ]]; then
  bible -f gen1:1-rev22:21 </dev/null | scripts/bible_to_jsonl.py >"$kText.partial"
  mv "$kText.partial" "$kText"
fi
wc -lc <"$kText" | awk '{ printf "%d documents, %.1f MB\n", $1, $2 / 1e6 }'

say "Tokenizer: a byte-level BPE learned from it -> $kTokenizer"
if [[ ! -s $kTokenizer ]]; then
  run $kPartita tokenizer train --input "$kText" --vocab-size 4096 --output "$kTokenizer"
else
  echo "already exists"
fi

say "Token files: .bin and .idx in Megatron-LM's format"
if [[ ! -s ${kTokens}_text_document.idx || ${kTokens}_text_document.idx -ot $kTokenizer ]]; then
  run $kPartita tokenize --input "$kText" --tokenizer "$kTokenizer" --append-eod --output-prefix "$kTokens"
else
  echo "already exists"
fi

stopped() {
  echo "quickstart: $1; the same command resumes from the last checkpoint" >&2
  exit "$2"
}
trap 'stopped "stopped" 130' INT
say "Training: ZeRO-2 over two MPI ranks; the settings are in configs/quickstart.toml"
run $kPartita launch -n 2 -- train configs/quickstart.toml || {
  code=$?
  ((code == 75)) && stopped "the training was interrupted and saved" $code
  stopped "the training ended with exit code $code, see above" $code
}

say "The loss curve"
run $kPartita plot "$kRun"

say "A sample of the model"
run $kPartita generate "$kRun" --prompt "And it came to pass" --tokens 120 --temperature 0.8 --top-k 40 --seed 7

cat <<END

Done. Look at
  $kRun/loss.png            the loss curve (and loss.svg)
  $kRun/metrics.jsonl       one line per step; with TensorBoard: tensorboard --logdir runs
  $kRun/config.toml         every setting of the run
  $kRun/checkpoints/        the checkpoints
Next commands to try
  $kPartita generate $kRun --prompt "In the beginning"
  $kPartita launch -n 2 -- train configs/quickstart.toml --parallel.zero_stage=3 --run.directory=runs/zero3
  $kPartita --help
END
