#!/usr/bin/env python3
"""AdamW on host memory, as offloaded states use it, beside PyTorch's fused AdamW and DeepSpeed's CPUAdam, in turn.

  bench/compare_adam.py                    # wanted: 1.2 times the better peer, or 0.9 of the copy's rate
  bench/compare_adam.py --threads 1 --mi 16,100 --rounds 9 --json result.json

A round is ours (build/bench/adam_speed), each peer (bench/peer/adam.py), ours again, in one process each, so that a
machine that slows down does so for all. Operands are in huge pages on all sides, states and gradients in fp32. "bf16"
also writes the weights in bf16: ours in the same step, the peers by a copy after it, because neither has a step that
does.

Figures are medians over rounds of medians of steps. GB/s counts each operand once, as read or written: 28 bytes an
element, 30 with bf16 weights. "of copy" is relative to a copy of the most elements with stores past the caches, by as
many threads; what fits into the caches may be faster. The ratio of a round is the better peer's time to the mean of
ours. Where other programs use the cores, OMP_WAIT_POLICY=passive keeps waiting threads of all sides off them.

It needs build/bench/adam_speed, and a Python with torch and deepspeed (scripts/setup.sh --peer), which compiles CPUAdam
when it is first used. The largest size takes 18 bytes an element.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEER_PACKAGES = ROOT / ".deps/peer"
PEERS = {"torch": "PyTorch, fused", "deepspeed": "DeepSpeed"}
BYTES = {"fp32": 28, "bf16": 30}  # an element: master, m and v read and written, the gradient read, bf16 written
CHECKS_DIFFER = 1e-6  # relative; more is another algorithm


def output(command, hint, **variables):
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, **variables))
    except FileNotFoundError:
        sys.exit(f"{command[0]} is missing: {hint}")
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed ({hint}): {(done.stderr or done.stdout).strip()}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def size_arguments(args):
    return ["--mi", ",".join(map(str, args.mi)), "--seconds", str(args.seconds)]


def ours(args, threads):
    return output([str(args.program), *size_arguments(args)], "it needs `ninja -C build adam_speed`",
                  OMP_NUM_THREADS=str(threads))


def peer_command(args, peer):
    return [args.python, "-W", "ignore", str(ROOT / "bench/peer/adam.py"), "--peer", peer, *size_arguments(args),
            *(["--small-pages"] if args.small_pages else [])]


def peer_variables(args, threads):
    path = {"PYTHONPATH": args.python_path} if args.python_path else {}
    return path | {"OMP_NUM_THREADS": str(threads), "DS_ACCELERATOR": "cpu"}


def run_peer(args, peer, threads):
    return output(peer_command(args, peer), "it needs `scripts/setup.sh --peer`; --peers chooses others",
                  **peer_variables(args, threads))


def check(one_round):
    """An error unless all sides have computed the same."""
    mine = one_round["ours"][0]["check"]
    for peer, run in one_round["peers"].items():
        if abs(run["check"] - mine) > CHECKS_DIFFER * abs(mine):
            sys.exit(f"{PEERS[peer]} computes something else: a mean weight of {run['check']}, ours {mine}")


def mean_of_ours(one_round, kind, mi):
    return statistics.mean(run[kind][str(mi)] for run in one_round["ours"])


def ratio(rounds, kind, mi):
    return statistics.median(min(run[kind][str(mi)] for run in r["peers"].values()) / mean_of_ours(r, kind, mi)
                             for r in rounds)


def of_copy(rounds, kind, mi):
    """Our rate relative to the copy's."""
    def copied(one_round):
        return statistics.mean(run["copy_gb_s"] for run in one_round["ours"])

    return statistics.median(rate(kind, mi, mean_of_ours(r, kind, mi)) / copied(r) for r in rounds)


def rate(kind, mi, ms):
    """GB/s."""
    return BYTES[kind] * (mi << 20) / ms / 1e6


def head(peers):
    names = " | ".join(f"{PEERS[peer]}, ms" for peer in peers)
    return [f"| threads | weights | Mi elements | Partita, ms | {names} | ratio | of rounds | GB/s | of copy |",
            "|" + "---|" * (8 + len(peers))]


def rows(threads, rounds, sizes):
    lines = []
    for kind in BYTES:
        for mi in sizes:
            mine = statistics.median(run[kind][str(mi)] for r in rounds for run in r["ours"])
            theirs = " | ".join(f"{statistics.median(r['peers'][peer][kind][str(mi)] for r in rounds):.2f}"
                                for peer in rounds[0]["peers"])
            each = [ratio([r], kind, mi) for r in rounds]
            lines.append(f"| {threads} | {kind} | {mi} | {mine:.2f} | {theirs} | {ratio(rounds, kind, mi):.2f} | "
                         f"{min(each):.2f} to {max(each):.2f} | {rate(kind, mi, mine):.1f} | "
                         f"{of_copy(rounds, kind, mi):.2f} |")
    return lines


def numbers(text):
    return [int(word) for word in text.split(",")]


def arguments(words=None):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--mi", type=numbers, default=[1, 16, 100, 400], metavar="N,N", help="sizes, in 2^20 elements")
    p.add_argument("--threads", type=numbers, default=[1, 2], metavar="N,N")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=0.5, help="of each measurement at least")
    p.add_argument("--peers", type=lambda text: text.split(","), default=list(PEERS), metavar="NAME,NAME")
    p.add_argument("--small-pages", action="store_true", help="of the peers")
    p.add_argument("--program", type=pathlib.Path, default=ROOT / "build/bench/adam_speed")
    p.add_argument("--python", default=sys.executable, help="of the peers")
    p.add_argument("--python-path", default=str(PEER_PACKAGES) if PEER_PACKAGES.exists() else None)
    p.add_argument("--json", type=pathlib.Path, help="write all figures there")
    args = p.parse_args(words)
    unknown = set(args.peers) - set(PEERS)
    if unknown:
        p.error(f"--peers {','.join(sorted(unknown))}: expected some of {', '.join(PEERS)}")
    if min([*args.mi, *args.threads, args.rounds]) < 1:
        p.error("expected positive --mi, --threads and --rounds")
    return args


def load():
    return f"{os.getloadavg()[0]:.1f}"


def main():
    args = arguments()
    result, before = {}, load()
    for threads in args.threads:
        rounds = result[str(threads)] = []
        for number in range(args.rounds):
            first = ours(args, threads)
            peers = {peer: run_peer(args, peer, threads) for peer in args.peers}
            rounds.append({"ours": [first, ours(args, threads)], "peers": peers})
            check(rounds[-1])
            print(f"{threads} threads, round {number + 1}, load {load()}: " +
                  ", ".join(f"{kind} {ratio(rounds[-1:], kind, max(args.mi)):.2f}" for kind in BYTES), file=sys.stderr,
                  flush=True)
    print("\n".join(head(args.peers)))
    for threads in args.threads:
        print("\n".join(rows(threads, result[str(threads)], args.mi)))
    for threads, rounds in result.items():
        copies = [run["copy_gb_s"] for r in rounds for run in r["ours"]]
        print(f"copy, {threads} threads: {statistics.median(copies):.1f} GB/s")
    print(f"load average before and after: {before}, {load()}")
    if args.json:
        args.json.write_text(json.dumps(result))


if __name__ == "__main__":
    main()
