#!/usr/bin/env python3
"""Random pairs of layouts: what is saved on one is loaded on the other, bit for bit, and the run goes on as before.

    tests/layout_pairs/campaign.py --program build/partita --load-and-save build/tests/load_and_save [--pairs 60]

A run trains on layout A: it saves a checkpoint at step 5 and goes on to step 15. On layout B, the checkpoint is loaded
and saved again at the same step: every tensor must have the same bits and every scalar the same value (partita
checkpoint diff). Then B resumes from it and trains to step 15: each of its ten losses must be A's, up to the rounding
of sums in another order, and every step must have the samples that it has on A.

A layout is a number of ranks from 1 to 4, divided over data, tensor, pipeline and context parallelism, with a schedule,
ZeRO stage, sequence parallelism, size of micro-batches, layers per collective, recomputation, and places of optimizer
states and weights. Models, optimizers, adapters, tied tables, dropout and precision change from pair to pair. The seed
is printed: --seed N repeats a campaign, --only N one of its pairs. --short is what the tests run.
"""
import argparse
import collections
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMIT = 120  # seconds for a small run on a busy machine
SAVED, STEPS = 5, 15  # the step of the checkpoint, and the last one
GLOBAL_BATCH = 12
# Relative. In bf16 sums in another order differ in the last of 8 bits of some activations.
TOLERANCE = {"fp32": 1e-5, "bf16": 1e-3}

CONFIG = """[model]
layers = 4
hidden_size = 32
heads = 4
max_length = 32
[data]
path = "{folder}/tokens_text_document"
tokenizer = "{folder}/tokenizer.json"
split = "100,0,0"
[train]
steps = {steps}
sequence_length = 32
global_batch = {global_batch}
micro_batch = 1
threads = 1
device = "cpu"
[optimizer]
learning_rate = 1e-3
min_learning_rate = 1e-4
[parallel]
timeout_seconds = 60
[eval]
every = 0
[checkpoint]
every = {saved}
keep_last = 0
[log]
tensorboard = false
"""


# The model of a pair and how it is trained: the same on both sides.
def draw_task(draw, number):
    task = {"model.kind": ["gpt2", "llama"][number % 2],
            "model.tied_head": draw.choice(["true", "false"]),
            "model.dropout": draw.choice(["0.0", "0.1"]),
            "optimizer.kind": ["adamw", "lamb", "sgd"][number % 3]}
    if task["model.kind"] == "llama":
        task["model.kv_heads"] = draw.choice(["1", "2", "4"])
    if task["optimizer.kind"] == "sgd":
        task["optimizer.learning_rate"] = "0.05"
    if number % 4 == 3:
        task["lora.rank"] = "4"
    elif number % 8 == 5:
        task["train.freeze"] = draw.choice(["embedding.*", "layers.0.*,layers.2.*"])
    if number % 6 == 4:
        task["precision.compute"] = "bf16"
        task["precision.states"] = draw.choice(["fp32", "bf16"])
    return task


def draw_layout(draw):
    ranks = draw.choice([1, 2, 2, 3, 3, 4, 4, 4, 4])
    products = [(t, p, c, ranks // (t * p * c)) for t in range(1, ranks + 1) for p in range(1, ranks + 1)
                for c in range(1, ranks + 1) if ranks % (t * p * c) == 0]
    # A sequence of 32 is cut into 2 x context pieces, 12 samples into equal parts.
    tensor, pipeline, context, data = draw.choice([s for s in products if s[2] != 3 and GLOBAL_BATCH % s[3] == 0])
    micro = draw.choice([m for m in (1, 2, 3, 4, 6, 12) if GLOBAL_BATCH // data % m == 0])
    layout = {"parallel.tensor": tensor, "parallel.pipeline": pipeline, "parallel.context": context,
              "parallel.data": data, "train.micro_batch": micro, "parallel.zero_stage": draw.randrange(4),
              "parallel.layers_per_collective": draw.choice([0, 1, 2]),
              "memory.recompute": draw.choice(["none", "none", "selective", "mlp", "full"])}
    if tensor > 1:
        layout["parallel.sequence"] = draw.choice(["auto", "auto", "false"])
    if pipeline > 1:
        layout["parallel.schedule"] = draw.choice(["1f1b", "gpipe", "interleaved", "looped_bfs", "zb_h1",
                                                   "interleaved_zero_bubble", "zbv", "dual_pipe_v"])
    place = draw.choice(["device", "device", "disk", "disk:0.5"])
    if place != "device":
        layout["memory.optimizer"] = place
        layout["memory.parameters"] = draw.choice(["device", place])
    return ranks, layout


def options(keys):
    return [f"--{key}={value}" for key, value in keys.items()]


def shown(ranks, layout):
    default = {"parallel.tensor": 1, "parallel.pipeline": 1, "parallel.context": 1, "memory.recompute": "none",
               "parallel.layers_per_collective": 0}
    return f"{ranks} ranks " + " ".join(f"{key.split('.')[1]}={value}" for key, value in layout.items()
                                        if default.get(key) != value)


class Failed(Exception):
    pass


class Campaign:
    def __init__(self, arguments):
        self.program = Path(arguments.program).resolve()
        self.load_and_save = Path(arguments.load_and_save).resolve()
        self.seed = arguments.seed
        self.folder = Path(tempfile.mkdtemp(prefix="layout-pairs-"))
        self.environment = dict(os.environ, OMP_NUM_THREADS="1")
        self.refused = collections.Counter()
        self.worst = {precision: 0.0 for precision in TOLERANCE}
        words = random.Random(1)
        with open(self.folder / "text.jsonl", "w") as file:
            for _ in range(120):
                text = " ".join("".join(words.choice("abcdefgh") for _ in range(words.randint(1, 6)))
                                for _ in range(60))
                file.write(json.dumps({"text": text}) + "\n")
        self.must("tokenizer", "train", "--input", "text.jsonl", "--vocab-size", "280", "--output", "tokenizer.json")
        self.must("tokenize", "--input", "text.jsonl", "--tokenizer", "tokenizer.json", "--append-eod", "--quiet",
                  "--output-prefix", "tokens")
        (self.folder / "run.toml").write_text(CONFIG.format(folder=self.folder, steps=STEPS, saved=SAVED,
                                                            global_batch=GLOBAL_BATCH))

    def must(self, *command):
        done = subprocess.run([self.program, *command], cwd=self.folder, env=self.environment, timeout=LIMIT,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise Failed(f"partita {' '.join(command)}: exit code {done.returncode}\n{done.stdout}")
        return done.stdout

    # Runs a command on ranks that find each other by torchrun's variables. Error: one of them does not end well.
    def ranks(self, ranks, command):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        processes = []
        for rank in range(ranks):
            environment = dict(self.environment, RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank),
                               LOCAL_WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
            processes.append(subprocess.Popen([str(word) for word in command], cwd=self.folder,
                                              env=environment if ranks > 1 else self.environment,
                                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                              start_new_session=True))
        said, codes = "", []
        deadline = time.monotonic() + LIMIT
        for process in processes:
            try:
                said += process.communicate(timeout=max(0.1, deadline - time.monotonic()))[1]
                codes.append(process.returncode)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                said += process.communicate()[1]
                codes.append("killed: it took too long")
        if any(codes):
            raise Failed(f"{' '.join(str(word) for word in command)}\n  on {ranks} ranks: {codes}\n{said}")

    # The base model of adapters, trained for a few steps.
    def base(self, task):
        shape = {key: value for key, value in task.items() if key.startswith("model.") and key != "model.dropout"}
        run = self.folder / ("base-" + "-".join(shape.values()))
        if not run.exists():
            self.ranks(1, [self.program, "train", "run.toml", *options(shape), f"--train.steps={SAVED}",
                           f"--run.directory={run}"])
        return run

    # A layout that the model can be trained on: what the program refuses is drawn again.
    def layout(self, draw, task):
        while True:
            ranks, layout = draw_layout(draw)
            plan = subprocess.run([self.program, "plan", "run.toml", "--ranks", str(ranks), "--json", *options(task),
                                   *options(layout)], cwd=self.folder, env=self.environment, stderr=subprocess.PIPE,
                                  stdout=subprocess.DEVNULL, text=True, timeout=LIMIT)
            if plan.returncode == 0:
                return ranks, layout
            if plan.returncode != 1:
                raise Failed(f"partita plan of {shown(ranks, layout)} ended with {plan.returncode}: {plan.stderr}")
            self.refused[plan.stderr.strip().split(": ", 1)[-1][:60]] += 1

    def steps(self, run):
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        return {line["step"]: line for line in lines}

    def compare(self, precision, run_a, run_b):
        a, b = self.steps(run_a), self.steps(run_b)
        if sorted(b) != list(range(SAVED + 1, STEPS + 1)):
            raise Failed(f"B has the steps {sorted(b)}")
        for step in b:
            if a[step]["consumed_samples"] != b[step]["consumed_samples"]:
                raise Failed(f"step {step}: {a[step]['consumed_samples']} samples on A, "
                             f"{b[step]['consumed_samples']} on B")
            difference = abs(a[step]["loss"] - b[step]["loss"]) / abs(a[step]["loss"])
            self.worst[precision] = max(self.worst[precision], difference)
            if not difference <= TOLERANCE[precision]:
                raise Failed(f"step {step}: loss {a[step]['loss']} on A, {b[step]['loss']} on B: {difference:.2e}")

    def pair(self, number):
        draw = random.Random(f"{self.seed}/{number}")
        task = draw_task(draw, number)
        a, b = self.layout(draw, task), self.layout(draw, task)
        name = f"{number}: {' '.join(options(task))}\n    A: {shown(*a)}\n    B: {shown(*b)}"
        if "lora.rank" in task:
            task["model.from"] = self.base(task)
        runs = [self.folder / f"{number}-{side}" for side in "ab"]
        checkpoint = runs[0] / "checkpoints" / f"step-{SAVED:08d}"
        again = self.folder / f"{number}-again"
        try:
            commands = [["run.toml", *options(task), *options(layout), f"--run.directory={run}"]
                        for (_, layout), run in zip((a, b), runs)]
            self.ranks(a[0], [self.program, "train", *commands[0]])
            runs[1].mkdir()  # of states on disk
            self.ranks(b[0], [self.load_and_save, checkpoint, again, *commands[1]])
            self.must("checkpoint", "diff", str(checkpoint), str(again))
            self.ranks(b[0], [self.program, "train", *commands[1], f"--checkpoint.resume={checkpoint}"])
            self.compare(task.get("precision.compute", "fp32"), *runs)
        except Failed as error:
            print(f"FAILED {name}\n{error}", flush=True)
            return False
        finally:
            for folder in [*runs, again]:
                shutil.rmtree(folder, ignore_errors=True)
        print(name, flush=True)
        return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--load-and-save", required=True)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--pairs", type=int, help="default: 60, short: 4")
    parser.add_argument("--only", type=int, help="the number of one pair")
    parser.add_argument("--short", action="store_true")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    pairs = arguments.pairs or (4 if arguments.short else 60)
    numbers = range(pairs) if arguments.only is None else [arguments.only]
    campaign = Campaign(arguments)
    begin = time.monotonic()
    try:
        failures = [number for number in numbers if not campaign.pair(number)]
    finally:
        shutil.rmtree(campaign.folder, ignore_errors=True)
    for reason, count in campaign.refused.most_common():
        print(f"{count:6} drawn again: {reason}")
    worst = ", ".join(f"{value:.1e} in {precision}" for precision, value in campaign.worst.items())
    print(f"{len(numbers)} pairs in {time.monotonic() - begin:.0f} s, largest relative difference of losses: {worst}")
    print(f"{len(failures)} failures{': ' if failures else ''}{', '.join(str(number) for number in failures)}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
