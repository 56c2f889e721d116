#!/usr/bin/env python3
"""Faults that a training run meets: kill -9 at random moments, two starts at once, file operations that fail.

    tests/faults/campaign.py --program build/partita --shim build/tests/libfail_io.so [--short] [kill] [twice] [io]

The file operations are tried --jobs at once, one per core by default.

Whatever happens, the next start must end the run as if nothing had: the same figures and the same checkpoint, byte for
byte, as a run without faults; no process may be left, none may hang, and a failure must say what it was. The seed is
printed: --seed N repeats a campaign. --short is what the tests run.
"""
import argparse
import concurrent.futures
import errno
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMIT = 60  # seconds for a whole small run on a busy machine
LEFT = 30  # seconds after which no process of a job may be left

CONFIG = """[model]
layers = 1
hidden_size = 16
heads = 2
max_length = 16
[data]
path = "{folder}/tokens_text_document"
tokenizer = "{folder}/tokenizer.json"
split = "80,20,0"
[train]
steps = {steps}
sequence_length = 16
micro_batch = 1
global_batch = 2
device = "cpu"
[parallel]
zero_stage = 2
timeout_seconds = 20
[eval]
every = 4
batches = 1
[checkpoint]
every = 2
[log]
every = 4
"""


class Campaign:
    def __init__(self, arguments):
        self.program = Path(arguments.program).resolve()
        self.shim = Path(arguments.shim).resolve()
        self.random = random.Random(arguments.seed)
        self.folder = Path(tempfile.mkdtemp(prefix="faults-"))
        self.environment = dict(os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1",
                                OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        self.failures = []
        self.counts = {}
        words = ["river", "stone", "light", "over", "the", "mountain"]
        with open(self.folder / "text.jsonl", "w") as file:
            for document in range(60):
                text = " ".join(words[(document * 7 + i * i) % len(words)] for i in range(30))
                file.write(json.dumps({"text": text}) + "\n")
        self.must(["tokenizer", "train", "--input", "text.jsonl", "--vocab-size", "270", "--output", "tokenizer.json"])
        self.must(["tokenize", "--input", "text.jsonl", "--tokenizer", "tokenizer.json", "--append-eod", "--quiet",
                   "--output-prefix", "tokens"])
        self.references = {}

    def must(self, command):
        subprocess.run([self.program, *command], cwd=self.folder, env=self.environment, check=True,
                       stdout=subprocess.DEVNULL, timeout=LIMIT)

    def config(self, steps):
        path = self.folder / f"run-{steps}.toml"
        if not path.exists():
            path.write_text(CONFIG.format(folder=self.folder, steps=steps))
        return path

    # Starts a run; layouts: alone, launch (2 ranks by mpirun), restarts (so, with checkpoints in memory),
    # sockets (2 ranks by torchrun's variables), mesh (4 so, of two pipeline stages with two tensor-parallel ranks
    # each).
    def start(self, layout, run, steps, more=None):
        command = [str(self.program), "train", str(self.config(steps)), f"--run.directory={run}"]
        environment = dict(self.environment, **(more or {}))
        options = dict(cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
        if layout == "alone":
            return [subprocess.Popen(command, env=environment, **options)]
        if layout in ("launch", "restarts"):
            start = [str(self.program), "launch", "-n", "2"]
            if layout == "restarts":
                start += ["--restarts", "9"]
                command += ["--checkpoint.memory_every=7", "--checkpoint.every=500"]
            return [subprocess.Popen([*start, "--", *command[1:]], env=environment, **options)]
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        ranks = 4 if layout == "mesh" else 2
        if layout == "mesh":
            command += ["--model.layers=2", "--parallel.tensor=2", "--parallel.pipeline=2", "--parallel.schedule=zb_h1",
                        "--train.micro_batch=1"]
        return [subprocess.Popen(command, env=dict(environment, RANK=str(rank), WORLD_SIZE=str(ranks),
                                                   LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(ranks),
                                                   MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)), **options)
                for rank in range(ranks)]

    # Exit codes and what was said; None for a process that had to be killed.
    def finish(self, processes, limit=LIMIT):
        codes, texts = [], []
        deadline = time.monotonic() + limit
        for process in processes:
            try:
                texts.append(process.communicate(timeout=max(0.1, deadline - time.monotonic()))[1].decode(errors="replace"))
                codes.append(process.returncode)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                texts.append(process.communicate()[1].decode(errors="replace"))
                codes.append(None)
        return codes, "".join(texts)

    # Processes whose command line names the run.
    def processes_of(self, run):
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and str(run).encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                pass
        return found

    # The folder in memory that the ranks among these processes have from their launcher.
    @staticmethod
    def memory_of(processes):
        for process in processes:
            try:
                found = re.search(rb"PARTITA_MEMORY_FOLDER=([^\0]+)", Path(f"/proc/{process}/environ").read_bytes())
            except OSError:
                continue
            if found:
                return {Path(found[1].decode())}
        return set()

    @staticmethod
    def figures(run):
        lines = []
        for line in (run / "metrics.jsonl").read_text().splitlines():
            values = json.loads(line)
            for clock in ("seconds", "tokens_per_second"):
                values.pop(clock)
            lines.append(values)
        return lines

    def result(self, run, steps):
        return self.figures(run), (run / "checkpoints" / f"step-{steps:08d}" / "manifest.json").read_text()

    def reference(self, layout, steps):
        key = (layout if layout in ("alone", "mesh") else "two ranks", steps)
        if key not in self.references:
            run = self.folder / f"reference-{layout}-{steps}"
            begin = time.monotonic()
            codes, said = self.finish(self.start(layout, run, steps))
            if any(code != 0 for code in codes):
                sys.exit(f"a run without faults failed: {codes}\n{said}")
            self.references[key] = (self.result(run, steps), time.monotonic() - begin)
        return self.references[key]

    def fault(self, text):
        print("FAILED", text, flush=True)
        self.failures.append(text)

    def count(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    # Ends the run without a fault, and compares it.
    def check(self, name, layout, run, steps):
        codes, said = self.finish(self.start(layout, run, steps))
        if any(code != 0 for code in codes):
            return self.fault(f"{name}: the next start ended with {codes}: {said}")
        try:
            if self.result(run, steps) != self.reference(layout, steps)[0]:
                return self.fault(f"{name}: the run is another one")
        except (OSError, ValueError) as error:
            return self.fault(f"{name}: {error}")
        left = [str(p.relative_to(run)) for p in run.rglob("*") if re.search(r"\.tmp$|\.partial|\.lock$", p.name)]
        if left:
            self.fault(f"{name}: left behind: {left}")
        shutil.rmtree(run)

    def kill(self, kills, in_a_row, layouts):
        chain = 0
        while kills > 0:
            layout = layouts[chain % len(layouts)]
            steps = 2000 if layout == "restarts" else 24  # so many that kills also come after the first
            seconds = self.reference(layout, steps)[1]
            run = self.folder / f"kill-{chain}"
            chain += 1
            memory = set()
            for _ in range(min(kills, in_a_row)):
                processes = self.start(layout, run, steps)
                time.sleep(self.random.uniform(0.2, 1.0) * seconds)
                victims = self.processes_of(run)
                memory |= self.memory_of(victims)
                whole = self.random.random() < 0.4
                ended = None
                if whole:
                    for victim in victims:
                        self.end(victim)
                elif victims:
                    ended = self.random.choice(victims)
                    self.end(ended)
                kills -= 1
                killed = time.monotonic()
                codes, said = self.finish(processes, LEFT)
                while self.processes_of(run) and time.monotonic() - killed < LEFT:
                    time.sleep(0.05)
                left = self.processes_of(run)
                if left or None in codes:
                    self.fault(f"kill {layout}: {left or codes} left after {LEFT} s: {said}")
                    for process in left:
                        self.end(process)
                self.count(f"kill -9, {layout}")
                if ": restart " in said:
                    self.count("  restarted" + (", from memory" if "resuming from step" in said else ""))
                # Of a program that the user started and that was killed itself the shell says so.
                if not said and not whole and layout != "alone" and any(codes) and codes != [-signal.SIGKILL]:
                    self.fault(f"kill {layout}: a silent end, {codes}")
                # The others name it, unless they had finished when it was killed.
                rank = next((r for r, process in enumerate(processes) if process.pid == ended), None)
                others = [code for r, code in enumerate(codes) if r != rank]
                if layout in ("sockets", "mesh") and rank is not None and any(codes):
                    named = rf"rank {rank}\b|did not connect in time: [\d, ]*\b{rank}\b"
                    if any(others) and not re.search(named, said):
                        self.fault(f"kill {layout}: rank {rank} is not named: {codes}, {said}")
                    # A start that finds nothing left to train ends like one that trained its last step.
                    if not any(others) and not re.search("Finished step|The run is complete", said):
                        self.fault(f"kill {layout}: rank {rank} was killed, the others ended early: {codes}, {said}")
            self.check(f"kill {layout}", layout, run, steps)
            if any(folder.exists() for folder in memory):
                self.fault(f"kill {layout}: left in memory: {memory}")

    @staticmethod
    def end(process):
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def twice(self, times):
        steps = 400  # longer than a second start waits for a process that is about to end
        for number in range(times):
            layout = ["alone", "launch"][number % 2]
            self.reference(layout, steps)
            run = self.folder / f"twice-{number}"
            first = self.start(layout, run, steps)
            time.sleep(self.random.choice([0, 0, 0.05, 0.3]))
            second = self.start(layout, run, steps)
            results = [self.finish(first), self.finish(second)]
            self.count(f"two starts, {layout}")
            done = [r for r in results if r[0] == [0]]
            # The loser is refused, or, where the winner was done meanwhile, finds nothing to do.
            refused = [r for r in results if r[0] == [1] and "is in use by process" in r[1]]
            if not done or len(done) + len(refused) != 2:
                self.fault(f"two starts, {layout}: {results}")
                continue
            self.count("  refused" if refused else "  the second found the run complete")
            self.check(f"two starts, {layout}", layout, run, steps)

    def io(self, stride, short, layouts, jobs):
        steps = 4
        kinds = [("ENOSPC once", errno.ENOSPC, 0), ("ENOSPC from then on", errno.ENOSPC, 1), ("EIO once", errno.EIO, 0),
                 ("EMFILE once", errno.EMFILE, 0), ("EACCES from then on", errno.EACCES, 1)]
        cases = []
        for layout in layouts:
            self.reference(layout, steps)
            self.begun_run(layout, steps)
            for rank in [0] if layout == "alone" else [1] if short else [0, 1]:
                for name, code, lasts in kinds:
                    if (short or layout != "alone") and name not in ("ENOSPC once", "EIO once"):
                        continue
                    for begun in [True] if short else [False, True]:  # one that has checkpoints, and a new run
                        last = self.operations(layout, rank, steps, code, begun)
                        # A stride that is longer for runs of several ranks, which take longer.
                        step = stride * (1 if layout == "alone" else 3)
                        for at in range(1 + self.random.randrange(step), last + 1, step):
                            plan = dict(FAIL_AT=str(at), FAIL_WITH=str(code), FAIL_EVERY=str(lasts), FAIL_RANK=str(rank))
                            cases.append((f"{name} at operation {at} of rank {rank}", layout, steps, begun, plan))
                            self.count(f"{name}, {layout}, rank {rank}")
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for future in [pool.submit(self.one_io, number, *case) for number, case in enumerate(cases)]:
                future.result()

    # A run whose last checkpoint is missing, made once per layout.
    def begun_run(self, layout, steps):
        kept = self.folder / f"begun-{layout}"
        if not kept.exists():
            codes, said = self.finish(self.start(layout, kept, steps))
            if any(codes):
                sys.exit(f"a run without faults failed: {said}")
            shutil.rmtree(kept / "checkpoints" / f"step-{steps:08d}")
        return kept

    def new_run(self, number, layout, begun, steps):
        run = self.folder / f"io-{number}-of-it"  # a name that is not the beginning of another's
        shutil.rmtree(run, ignore_errors=True)
        if begun:
            shutil.copytree(self.begun_run(layout, steps), run)
        return run

    def operations(self, layout, rank, steps, code, begun):
        run = self.new_run("count", layout, begun, steps)
        count = self.folder / "count"
        self.finish(self.start(layout, run, steps,
                               dict(LD_PRELOAD=str(self.shim), FAIL_UNDER=str(run), FAIL_WITH=str(code),
                                    FAIL_RANK=str(rank), FAIL_COUNT=str(count))))
        return int(count.read_text())

    def one_io(self, number, name, layout, steps, begun, plan):
        name = f"{name} ({layout}, {'begun' if begun else 'new'})"
        run = self.new_run(number, layout, begun, steps)
        codes, said = self.finish(self.start(layout, run, steps, dict(plan, LD_PRELOAD=str(self.shim),
                                                                      FAIL_UNDER=str(run))), LEFT)
        if not set(codes) <= {0, 1}:
            self.fault(f"{name}: ended with {codes}: {said}")
        elif 1 in codes and ("partita: " not in said or "terminate called" in said or "internal error" in said):
            self.fault(f"{name}: {said}")
        self.check_io(name, layout, run, steps, begun)

    def check_io(self, name, layout, run, steps, begun):
        if begun and not (run / "checkpoints" / "step-00000002" / "manifest.json").exists():
            if not (run / "checkpoints" / "step-00000004" / "manifest.json").exists():
                return self.fault(f"{name}: the checkpoint that was there is gone")
        self.check(name, layout, run, steps)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--shim", required=True)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--kills", type=int, help="default: 200, short: 10")
    parser.add_argument("--starts", type=int, help="default: 50, short: 2")
    parser.add_argument("--stride", type=int, help="every so many-th file operation; default: 1, short: 40")
    parser.add_argument("--layout", action="append", choices=["alone", "launch", "restarts", "sockets", "mesh"],
                        help="of runs whose file operations fail, default: alone, launch; of kills, default: all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at once whose file operations fail")
    parser.add_argument("kinds", nargs="*", default=["kill", "twice", "io"])
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    campaign = Campaign(arguments)
    try:
        if "kill" in arguments.kinds:
            campaign.kill(arguments.kills or (10 if arguments.short else 200), 2 if arguments.short else 5,
                          arguments.layout or ["mesh", "alone", "launch", "restarts", "sockets"])
        if "twice" in arguments.kinds:
            campaign.twice(arguments.starts or (2 if arguments.short else 50))
        if "io" in arguments.kinds:
            campaign.io(arguments.stride or (40 if arguments.short else 1), arguments.short,
                        arguments.layout or ["alone", "launch"], arguments.jobs)
    finally:
        shutil.rmtree(campaign.folder, ignore_errors=True)
        for what, count in campaign.counts.items():
            print(f"{count:6} {what}")
        print(f"{len(campaign.failures)} failures")
    return 1 if campaign.failures else 0


if __name__ == "__main__":
    sys.exit(main())
