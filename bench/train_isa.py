#!/usr/bin/env python3
"""Training steps in fp32 and half precision on sets of CPU instructions, Partita beside PyTorch, interleaved.

  bench/train_isa.py                                  # avx2, avx512 (without bf16), native; some 30 minutes
  bench/train_isa.py --isa avx2 --rounds 3 --json result.json

As bench/train_cpu.py, whose method this is, with the precisions in one table, so that their ratio is one within a
round. A lesser set is this machine, held back: Partita by PARTITA_MAX_ISA, PyTorch by the variables of its libraries.
(torch.compile writes its own kernels for what it finds, so only its matrix products are held back.)
"""
import argparse
import json
import os
import pathlib
import statistics
import sys

import train_cpu
from train_cpu import Partita, Setting, Torch


def cases(shape, isa, threads, modes):
    competitors = []
    for precision in ("fp32", "bf16"):
        setting = Setting(shape, precision, 1, threads, isa)
        competitors += [Torch(f"PyTorch, {precision}", setting, mode) for mode in modes]
        competitors.append(Partita(f"Partita, {precision}", setting))
    fp16 = Setting(shape, "fp16", 1, threads, isa)
    return competitors + [Partita("Partita, fp16", fp16)]


def best_of_peers(times, precision):
    peers = [rounds for case, rounds in times.items() if case.family == f"PyTorch, {precision}"]
    return min(peers, key=statistics.median)


def table(isa, times):
    ours = {case.setting.precision: rounds for case, rounds in times.items() if case.family == "Partita"}
    print(f"\n### {isa}\n| case | tokens/s | slowest to fastest round | to ours in fp32 | to PyTorch's best in that precision |")
    print("|---|---|---|---|---|")
    rows = []
    for case, rounds in times.items():
        rate = [1000 * case.setting.tokens / ms for ms in rounds]
        row = {"case": case.name, "version": case.about, "tokens_per_s": statistics.median(rate), "rounds_ms": rounds,
               "to_fp32": train_cpu.ratio(rounds, ours["fp32"])}
        cells = [case.name, f"{row['tokens_per_s']:.0f}", f"{min(rate):.0f} - {max(rate):.0f}", f"{row['to_fp32']:.2f}"]
        precision = case.setting.precision
        if case.family == "Partita" and precision != "fp16":
            row["to_peer"] = train_cpu.ratio(rounds, best_of_peers(times, precision))
            cells.append(f"{row['to_peer']:.2f}")
        else:
            cells.append("")
        print("| " + " | ".join(cells) + " |", flush=True)
        rows.append(row)
    return {"isa": isa, "cases": rows}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--shape", default="4,4,256,256,4,4096", help="layers,heads,width,length,batch,vocabulary")
    p.add_argument("--isa", choices=list(train_cpu.ISAS), action="append", help="default: all")
    p.add_argument("--mode", choices=["eager", "compile"], action="append", help="of PyTorch; default: both")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--steps", type=int, default=3, help="timed steps of a turn")
    p.add_argument("--json", type=pathlib.Path, help="write every figure to this file")
    args = p.parse_args()
    if not (train_cpu.ROOT / "build/partita").exists():
        sys.exit("train_isa: build/partita is missing: run 'make build'")
    shape = [int(n) for n in args.shape.split(",")]
    if len(shape) != 6:
        p.error(f"--shape {args.shape}: expected six numbers")
    result = {"machine": train_cpu.machine(), "shape": shape, "threads": args.threads, "tables": []}
    for key, value in result["machine"].items():
        print(f"{key}: {value}")
    for isa in args.isa or list(train_cpu.ISAS):
        times = train_cpu.measure(cases(shape, isa, args.threads, args.mode or ["eager", "compile"]), args.rounds,
                                  args.steps)
        result["tables"].append(table(isa, times))
        if args.json:
            args.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
