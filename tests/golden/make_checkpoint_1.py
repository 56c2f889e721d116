#!/usr/bin/env python3
"""Writes checkpoint_1/: a checkpoint in version 1 of the format, of a tiny model trained on five ranks.

    tests/golden/make_checkpoint_1.py PARTITA        # the program, built from commit c0433d9
"""
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile

CONFIG = """
[model]
kind = "gpt2"
layers = 1
hidden_size = 6
heads = 2
vocab_size = 67
max_length = 8
[data]
path = "tokens"
split = "100,0,0"
[train]
steps = 2
sequence_length = 8
micro_batch = 1
global_batch = 5
device = "cpu"
deterministic = true
precision = "bf16"
freeze = "layers.0.mlp.*,layers.0.attention.*"
[parallel]
zero_stage = 2
[eval]
every = 0
[checkpoint]
every = 2
"""


def main():
    program, tokens, draw = pathlib.Path(sys.argv[1]).resolve(), 400, random.Random(1)
    target = pathlib.Path(__file__).parent / "checkpoint_1"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "run.toml").write_text(CONFIG)
        (folder / "tokens.bin").write_bytes(struct.pack(f"<{tokens}H", *(draw.randrange(67) for _ in range(tokens))))
        (folder / "tokens.idx").write_bytes(b"MMIDIDX\0\0" + struct.pack("<QBQQiqqq", 1, 8, 1, 2, tokens, 0, 0, 1))
        environment = dict(os.environ, OMP_NUM_THREADS="1")
        subprocess.run([program, "launch", "-n", "5", "--", "train", "run.toml", "--run.directory=run"], cwd=folder,
                       env=environment, check=True)
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(folder / "run/checkpoints", target)


main()
