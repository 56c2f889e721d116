#!/usr/bin/env python3
"""Training steps of Partita beside PyTorch's on the same GPUs, in turn: one command, a table with ratios.

  bench/train_gpu.py                                             # every case that the GPUs here can run
  bench/train_gpu.py --cases gpt2-124m,llama-1.1b --json result.json --append docs/performance.md
  bench/train_gpu.py --cases llama-7b --ours "--memory.recompute=selective --memory.recompute_full_layers=8"
  bench/train_gpu.py --list

A case is ours, the peer, ours again, each a process of its own, so that a card that grows warm or slow within minutes
does so for both. Both train the same shape on random tokens with AdamW and clipping at 1.0. The peer (bench/peer/) is
PyTorch as fast as it can be made: compiled blocks, cuDNN attention, one pass of AdamW; FSDP2 or DDP on several GPUs,
there with fp32 states. A figure is the median of a run's timed steps after its warm-up. Clock, power and temperature
are medians of what nvidia-smi says during these steps.

It needs Partita built for GPUs and a Python with torch for GPUs, and no other packages.
"""
import argparse
import contextlib
import json
import os
import pathlib
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import gpu_cases
import gpu_report

PATH_OPTIONS = ("--partita", "--library-path", "--python", "--json", "--append")
GRACE = 5  # seconds for the other ranks to end where one has failed


def output(*command):
    """What a program prints; empty if it is missing or fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=120).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def query(what, *more):
    return output("nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader,nounits", *more).splitlines()


class Sampler:
    """What the first `cards` GPUs say of themselves, five times a second, until it is closed."""

    def __init__(self, cards):
        self.samples = []
        command = ["nvidia-smi", "--query-gpu=clocks.sm,power.draw,temperature.gpu", "--format=csv,noheader,nounits",
                   "-lms", "200", "-i", ",".join(map(str, range(cards)))]
        try:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        except OSError:
            self.process = None
            return
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            self.samples.append((time.monotonic(), gpu_report.read_sample(line)))

    def close(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.thread.join()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ranks_environments(cards, base):
    """The environment of each rank, as torchrun would set it."""
    if cards == 1:
        return [base]
    shared = {"WORLD_SIZE": str(cards), "LOCAL_WORLD_SIZE": str(cards), "MASTER_ADDR": "127.0.0.1",
              "MASTER_PORT": str(free_port())}
    return [base | shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(cards)]


def read_result(rank0):
    """Text and the moment of the line of JSON, when the timed steps have just ended."""
    text, moment = [], time.monotonic()
    for line in rank0.stdout:
        text.append(line)
        if line.startswith("{"):
            moment = time.monotonic()
    return "".join(text), moment


def kill(ranks):
    """With what they have started: torch compiles in processes of its own, which would hold the pipes open."""
    for r in ranks:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(r.pid, signal.SIGKILL)


def end_late(ranks, limit):
    """Ends ranks that run longer than `limit` seconds, or GRACE longer than one that has failed."""
    end = time.monotonic() + limit
    while any(r.poll() is None for r in ranks):
        if time.monotonic() > end:
            kill(ranks)
        elif any(r.poll() for r in ranks):
            end = min(end, time.monotonic() + GRACE)
        time.sleep(0.1)


def run(command, environment, cards, limit):
    """Runs a command on `cards` ranks; the figures that rank 0 printed, or {"error": ...} with its last messages."""
    sampler = Sampler(cards)
    ranks = []
    try:
        for rank, env in enumerate(ranks_environments(cards, environment)):
            ranks.append(subprocess.Popen(command, env=env, text=True, cwd=ROOT, stderr=subprocess.PIPE,
                                          start_new_session=True,
                                          stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL))
        errors = [[] for _ in ranks]
        readers = [threading.Thread(target=lambda r=r, e=e: e.append(r.stderr.read()), daemon=True)
                   for r, e in zip(ranks, errors)]
        for reader in readers:
            reader.start()
        threading.Thread(target=end_late, args=(ranks, limit), daemon=True).start()
        text, end = read_result(ranks[0])
        codes = [r.wait() for r in ranks]
        for reader in readers:
            reader.join(timeout=5)
    finally:
        kill(ranks)
        sampler.close()
    result = gpu_report.result_of(text)
    if "error" in result or any(codes):
        last = [line for e in errors for line in "".join(e).strip().splitlines()[-1:]]
        return {"error": f"{result.get('error', 'failed')}, codes {codes}: {' / '.join(last)[:300]}".replace("|", "/")}
    seconds = result.get("steps", 0) * result.get("ms", 0) / 1000
    return result | gpu_report.card_state(sampler.samples, end - seconds, end)


class Bench:
    """Runs cases and remembers what the peer did: two cases that have the same one need it once."""

    def __init__(self, args):
        self.args = args
        self.peers = {}

    def ours(self, case):
        more = shlex.split(self.args.ours)
        command = [str(self.args.partita), *case.our_arguments(more)]
        env = dict(os.environ)
        if self.args.library_path:
            env["LD_LIBRARY_PATH"] = self.args.library_path
        return {"who": "Partita", "options": " ".join([*case.ours, *more]), "command": self.text(command, case.cards),
                **run(command, env, case.cards, self.args.limit)}

    def peer(self, case):
        script, *options = case.peer_arguments()
        command = [self.args.python, str(ROOT / "bench/peer" / script), *options]
        key = shlex.join(command)
        if key not in self.peers:
            self.peers[key] = {"who": "PyTorch", "options": " ".join(case.peer),
                               "command": self.text(command, case.cards),
                               **run(command, dict(os.environ), case.cards, self.args.limit)}
        return self.peers[key]

    @staticmethod
    def text(command, cards):
        """As it would be typed in the root of the project."""
        short = [word.removeprefix(str(ROOT) + "/") for word in command]
        if cards == 1:
            return shlex.join(short)
        ours = short[0].endswith("partita")
        return f"torchrun --nproc-per-node {cards} " + shlex.join(["--no-python", *short] if ours else short[1:])

    def run(self, case):
        runs = [self.ours(case)]
        if case.peer_arguments():
            runs += [self.peer(case), self.ours(case)]
        return runs


def machine(args, cards):
    """What the figures depend on."""
    commit = output("git", "-C", str(ROOT), "describe", "--always", "--dirty")
    torch = output(args.python, "-c", "import torch; print(torch.__version__)")
    names = query("name,power.limit")
    return {"date": time.strftime("%Y-%m-%d"), "card": f"{cards} x {names[0]} W" if names else "no GPU",
            "driver": (query("driver_version") or ["?"])[0], "partita": args.version or commit or "?",
            "torch": torch or "?", "command": shlex.join(["bench/train_gpu.py", *without_paths(sys.argv[1:])])}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--cases", default="", help="names with commas; default: all that the GPUs can run")
    p.add_argument("--list", action="store_true", help="print the cases with the options of both sides, and stop")
    p.add_argument("--partita", type=pathlib.Path, default=ROOT / "build/partita", help="the program")
    p.add_argument("--library-path", help="LD_LIBRARY_PATH of the program, where its libraries lie elsewhere")
    p.add_argument("--version", help="of the program, for the entry; default: what git says")
    p.add_argument("--python", default=sys.executable, help="one that has torch")
    p.add_argument("--ours", default="", metavar="OPTIONS", help="more keys of our configuration")
    p.add_argument("--only", choices=["ours", "both"], default="both", help="ours: no peer, one run a case")
    p.add_argument("--time-budget", type=float, default=float("inf"), metavar="S", help="no case is begun later than this after the first")
    p.add_argument("--limit", type=float, default=400, metavar="S", help="a run that takes longer is ended")
    p.add_argument("--json", type=pathlib.Path, help="write every figure to this file, after each case")
    p.add_argument("--append", type=pathlib.Path, metavar="FILE", help="add a dated entry, docs/performance.md")
    return p.parse_args()


def without_paths(arguments):
    """The arguments but for where programs, libraries and files lie: those are of one machine."""
    kept, skip = [], False
    for argument in arguments:
        name = argument.split("=")[0]
        if skip:
            skip = False
        elif name in PATH_OPTIONS:
            skip = "=" not in argument
        else:
            kept.append(argument)
    return kept


def main():
    args = arguments()
    if args.list:
        for case in gpu_cases.CASES:
            peer = case.peer_arguments()
            print(f"{case.name} ({case.cards} GPU{'s' * (case.cards > 1)})\n  {shlex.join(case.our_arguments())}"
                  f"\n  {shlex.join(peer) if peer else 'no peer'}")
        return
    args.partita = args.partita.resolve()
    if not args.partita.exists():
        sys.exit(f"train_gpu: {args.partita} is missing: build it for GPUs, or name it with --partita")
    cards = len(query("name"))
    if cards == 0:
        sys.exit("train_gpu: nvidia-smi shows no GPU here")
    try:
        chosen = gpu_cases.select([name for name in args.cases.split(",") if name], cards)
    except ValueError as problem:
        sys.exit(f"train_gpu: {problem}")

    bench, results = Bench(args), []
    about = machine(args, max(case.cards for case in chosen))
    print("\n".join(f"{key}: {value}" for key, value in about.items()) + f"\n\n{gpu_report.HEAD}", flush=True)
    begun = time.monotonic()
    for case in chosen:
        if time.monotonic() - begun > args.time_budget:
            print(f"| {case.name} | not begun: {args.time_budget:.0f} s are over |" + " |" * 8, flush=True)
            continue
        runs = bench.run(case) if args.only == "both" else [bench.ours(case)]
        results.append((case.name, runs))
        print("\n".join(gpu_report.rows(case.name, runs)), flush=True)
        if args.json:
            lines = [{"case": name, "ratio": gpu_report.ratio(of_case), "runs": of_case} for name, of_case in results]
            args.json.write_text(json.dumps({"machine": about, "cases": lines}, indent=1) + "\n")
    if args.append and results:
        with args.append.open("a") as file:
            file.write(gpu_report.entry(about, results))
    failed = [case for case, runs in results if any("error" in r for r in runs)]
    if failed:
        sys.exit(f"train_gpu: runs failed in {', '.join(failed)}")


if __name__ == "__main__":
    main()
