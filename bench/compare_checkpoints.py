#!/usr/bin/env python3
"""Checkpoints beside torch.distributed.checkpoint (DCP) on the same disk, in turn: a table with ratios.

  bench/compare_checkpoints.py --folder /nvme/bench
  bench/compare_checkpoints.py --device cuda --json result.json -- \\
      --model.kind=llama --model.layers=22 --precision.compute=bf16       # further words go to partita bench checkpoint

A round is ours, theirs. Both save as many bytes: master weights and two moments in fp32. "at once": training waits
until the checkpoint is on the disk (both call fsync); GB/s. "background": the milliseconds for which training is
stopped. Ours is what a save adds to the steps that are made meanwhile (extra) and for how long the training thread
waited (waited); theirs is the call of async_save alone, and with the copy, which the next update must wait for. Ratios
are medians over rounds, ours to theirs, so that more GB/s and fewer milliseconds are better.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ["--model.layers=8", "--model.hidden_size=768", "--model.heads=12", "--train.sequence_length=256"]


def output(command, **variables):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          env=dict(os.environ, **variables))
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed: {(done.stderr or done.stdout).strip()[-2000:]}")
    return json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])


def ours(args, folder):
    variables = {"LD_LIBRARY_PATH": args.library_path} if args.library_path else {}
    return output([args.program, "bench", "checkpoint", f"--train.device={args.device}", *(args.words or MODEL),
                   "--steps", args.steps, "--warmup", 2, "--saves", args.saves, "--folder", folder / "ours"],
                  **variables)


def theirs(args, folder, size):
    return output([args.python, ROOT / "bench/peer/dcp_peer.py", "--folder", folder / "theirs", "--bytes", size,
                   "--device", args.device, "--saves", args.saves],
                  PYTHONPATH=os.pathsep.join([str(args.packages), os.environ.get("PYTHONPATH", "")]))


def rows(rounds):
    def median(read):
        return statistics.median(read(*one) for one in rounds)
    lines = [f"{rounds[0][0]['checkpoint_bytes'] / 1e9:.2f} GB, a step of {median(lambda a, _: a['ms']):.0f} ms", "",
             "| | Partita | DCP | ratio |", "|---|---|---|---|"]
    figures = [("at once, GB/s", lambda a: a["at_once"]["gb_per_s"], lambda b: b["at_once_gb_per_s"]),
               ("background, until on disk, GB/s", lambda a: a["background"]["gb_per_s"],
                lambda b: b["async_gb_per_s"]),
               ("background, waited / call, ms", lambda a: a["background"]["waited_ms"], lambda b: b["async_call_ms"]),
               ("background, extra / with copy, ms", lambda a: a["background"]["extra_ms"],
                lambda b: b["async_staged_ms"])]
    for name, mine, peer in figures:
        a, b = median(lambda x, _: mine(x)), median(lambda _, x: peer(x))
        lines.append(f"| {name} | {a:.2f} | {b:.2f} | {median(lambda x, y: mine(x) / peer(y)):.3f} |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("."), help="on the disk")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--saves", type=int, default=3, help="of each kind in a round")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/partita")
    parser.add_argument("--python", default="python3")
    parser.add_argument("--packages", type=pathlib.Path, default=ROOT / ".deps/peer", help="that holds torch")
    parser.add_argument("--library-path", default="", help="LD_LIBRARY_PATH of the program")
    parser.add_argument("--json", type=pathlib.Path, help="write all figures there")
    parser.add_argument("words", nargs="*", help="of partita bench checkpoint")
    args = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="compare-checkpoints-", dir=args.folder))
    rounds = []
    try:
        for _ in range(args.rounds):
            mine = ours(args, folder)
            rounds.append((mine, theirs(args, folder, mine["checkpoint_bytes"])))
            print("\n".join(rows(rounds[-1:])[-4:]), file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("\n".join(rows(rounds)))
    if args.json:
        args.json.write_text(json.dumps(rounds))


if __name__ == "__main__":
    main()
