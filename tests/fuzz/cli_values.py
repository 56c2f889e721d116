#!/usr/bin/env python3
"""Starts the program with absurd values for every key and number, in little memory, and looks at how it ends.

  tests/fuzz/cli_values.py PROGRAM [--keys PATTERN] [--starts] [--jobs N]      # exit code 1 and a line for every slip

Each value is read by --print-config; with --starts each that is taken there also starts a run of one step on a tiny
corpus, with 8 GB of address space and 20 s of time. A slip is a signal, an exit code other than 0, 1 and 2, a run out
of time, or words of a library without a sentence of ours.
"""
import argparse
import concurrent.futures
import fnmatch
import functools
import json
import os
import pathlib
import random
import re
import resource
import subprocess
import sys
import tempfile

VALUES = ["0", "-1", "1", str(2**20), str(2**30), str(2**31), str(2**62), str(2**63 - 1), "1e308", "nan", "inf", "", "x" * 100_000, "../..",
          "a\nb", "\x1b[2J"]
RAW = ["terminate called", "frame #", "what():", "enforce fail", "Exception raised", "internal error", "libgomp:",
       "std::", "json.exception", "Segmentation"]
MEMORY, SECONDS = 8 << 30, 20


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def run(command, seconds=SECONDS):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(command, capture_output=True, timeout=seconds, preexec_fn=limit_memory, env=environment,
                              stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return None, f"no end within {seconds} s"
    return done.returncode, (done.stdout + done.stderr).decode(errors="backslashreplace")


def slip_of(code, text):
    if code is None:
        return text
    if code not in (0, 1, 2):
        return f"exit code {code}: {text[-200:]!r}"
    raw = [word for word in RAW if word in text]
    if raw:
        return f"raw words {raw}: {text[-300:]!r}"
    if code != 0 and "partita" not in text:
        return f"no sentence: {text[-200:]!r}"
    return "\x1b" in text and f"a control character: {text[-200:]!r}"


def make_corpus(program, folder):
    words = "river stone light of the and walked over mountain".split()
    rng = random.Random(1)
    lines = [json.dumps({"text": " ".join(rng.choices(words, k=40)) + "."}) for _ in range(60)]
    (folder / "t.jsonl").write_text("\n".join(lines) + "\n")
    tokenizer, prefix = folder / "tokenizer.json", folder / "tokens"
    for command in (["tokenizer", "train", "--input", folder / "t.jsonl", "--vocab-size", "280", "--output", tokenizer],
                    ["tokenize", "--input", folder / "t.jsonl", "--tokenizer", tokenizer, "--append-eod", "--quiet",
                     "--output-prefix", prefix]):
        subprocess.run([program, *command], check=True, capture_output=True)
    (folder / "run.toml").write_text(f"""[model]
layers = 1
hidden_size = 16
heads = 2
max_length = 16
[data]
path = "{prefix}_text_document"
tokenizer = "{tokenizer}"
split = "80,20,0"
[train]
steps = 1
sequence_length = 16
micro_batch = 1
global_batch = 1
device = "cpu"
[checkpoint]
every = 0
[eval]
every = 0
""")
    return folder / "run.toml"


def try_value(arguments, config, number, case):
    key, value = case
    command = [arguments.program, "train", str(config), f"--run.directory={config.parent}/run{number}", f"--{key}={value}"]
    code, text = run(command + ["--print-config"])
    slip = slip_of(code, text)
    # What takes long by its meaning is not started: a run of many steps.
    long_run = key in ("train.steps", "eval.batches") and value.isdigit() and int(value) > 1
    if not slip and code == 0 and arguments.starts and not long_run:
        slip = slip_of(*run(command))
    return slip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=lambda p: str(pathlib.Path(p).resolve()))
    parser.add_argument("--keys", default="*", help="shell pattern of the keys to try")
    parser.add_argument("--starts", action="store_true", help="also start a run with each value that is taken")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="values tried at once")
    arguments = parser.parse_args()
    help_text = subprocess.run([arguments.program, "train", "--help"], capture_output=True, text=True, check=True).stdout
    keys = [key for key in re.findall(r"--([a-z_0-9]+\.[a-z_0-9]+) \(", help_text) if fnmatch.fnmatch(key, arguments.keys)]
    slips = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        config = make_corpus(arguments.program, folder)
        os.chdir(folder)
        cases = [(key, value) for key in keys for value in VALUES]
        with concurrent.futures.ProcessPoolExecutor(arguments.jobs) as pool:
            slips_of_cases = pool.map(functools.partial(try_value, arguments, config), range(len(cases)), cases)
            for case, slip in zip(cases, slips_of_cases):
                if slip:
                    slips.append(f"--{case[0]}={case[1][:30]!r}: {slip}")
                    print(slips[-1], flush=True)
    print(f"{len(keys) * len(VALUES)} values of {len(keys)} keys, {len(slips)} slips")
    return 1 if slips or not keys else 0


if __name__ == "__main__":
    sys.exit(main())
