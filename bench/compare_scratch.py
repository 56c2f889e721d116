#!/usr/bin/env python3
"""Files for states on disk (memory.optimizer = "disk") beside fio in the same folder, in turn: a table with ratios.

  bench/compare_scratch.py --folder /nvme/scratch                  # wanted: at least 0.85 of fio, read and write
  bench/compare_scratch.py --mib 8192 --rounds 9 --json result.json

A round is ours, fio, ours again: a disk that slows down does so for both. Ours (build/bench/scratch_speed) passes over
a file unit by unit, as training does: it reads one unit ahead and writes one behind. fio transfers as many bytes
directly, 4 MiB at a time in eight threads, each in its own eighth of a file, from and to huge pages as ours (with small
pages it may be slower: --small-pages). "both" reads and writes at the same time; its figure is of all
bytes. The ratio of a round is the mean of ours to fio; that of a row is the median over rounds.

It needs build/bench/scratch_speed and fio (Debian: fio).
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
KINDS = {"read": "read", "write": "write", "both": "rw"}  # fio's names
THREADS = 8
BLOCK_MIB = 4


def output(command, **variables):
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, **variables))
    except FileNotFoundError:
        sys.exit(f"{command[0]} is missing: it needs `ninja -C build scratch_speed` and Debian's package fio")
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def ours(args):
    """GB/s by kind."""
    text = output([str(args.program), "--folder", str(args.folder), "--mib", str(args.mib), "--unit-mib",
                   str(args.unit_mib), "--rounds", "1"])
    result = json.loads(text)
    if not result["direct"]:
        sys.exit(f"{args.folder}: the file system has no direct access: choose a folder on another one")
    return {kind: result[kind][0] for kind in KINDS}


def fio_command(args, file, kind):
    part = args.mib // THREADS
    return [args.fio, "--name=scratch", f"--filename={file}", f"--rw={KINDS[kind]}", f"--bs={BLOCK_MIB}m", "--direct=1",
            "--ioengine=psync", "--thread", f"--numjobs={THREADS}", f"--size={part}m", f"--offset_increment={part}m",
            "--group_reporting", "--output-format=json", *([] if args.small_pages else ["--iomem_align=2m"])]


def fio_variables(args):
    return {} if args.small_pages else {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


def fio_speed(text):
    """GB/s of all bytes in fio's output."""
    job = json.loads(text[text.index("{"):])["jobs"][0]
    return (job["read"]["bw_bytes"] + job["write"]["bw_bytes"]) / 1e9


def fio(args, file):
    return {kind: fio_speed(output(fio_command(args, file, kind), **fio_variables(args))) for kind in KINDS}


def ratio(rounds, kind):
    return statistics.median((first[kind] + second[kind]) / 2 / peer[kind] for first, peer, second in rounds)


def rows(rounds):
    lines = ["| | Partita, GB/s | fio, GB/s | ratio | of rounds |", "|---|---|---|---|---|"]
    for kind in KINDS:
        mine = statistics.median(run[kind] for first, _, second in rounds for run in (first, second))
        peer = statistics.median(peer[kind] for _, peer, _ in rounds)
        each = [ratio([one], kind) for one in rounds]
        lines.append(f"| {kind} | {mine:.2f} | {peer:.2f} | {ratio(rounds, kind):.3f} | "
                     f"{min(each):.2f} to {max(each):.2f} |")
    return lines


def arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("."), help="of the files, on the disk")
    parser.add_argument("--mib", type=int, default=3072, help="MiB of each file, a multiple of 32")
    parser.add_argument("--unit-mib", type=int, default=96, help="MiB of a unit's states")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/bench/scratch_speed")
    parser.add_argument("--fio", default="fio")
    parser.add_argument("--small-pages", action="store_true", help="of fio's buffers")
    parser.add_argument("--json", type=pathlib.Path, help="write all figures there")
    args = parser.parse_args(words)
    if args.mib % (THREADS * BLOCK_MIB) != 0 or args.mib < args.unit_mib:
        parser.error(f"--mib {args.mib}: expected a multiple of {THREADS * BLOCK_MIB}, at least --unit-mib")
    return args


def main():
    args = arguments()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="compare-scratch-", dir=args.folder))
    try:
        file = folder / "fio"
        output(fio_command(args, file, "write"))  # the file has its blocks
        rounds = []
        for number in range(args.rounds):
            rounds.append((ours(args), fio(args, file), ours(args)))
            print(f"round {number + 1}: " + ", ".join(f"{kind} {ratio(rounds[-1:], kind):.3f}" for kind in KINDS),
                  file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("\n".join(rows(rounds)))
    if args.json:
        args.json.write_text(json.dumps({"rounds": rounds, "ratios": {kind: ratio(rounds, kind) for kind in KINDS}}))


if __name__ == "__main__":
    main()
