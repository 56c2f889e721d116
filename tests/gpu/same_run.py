#!/usr/bin/env python3
"""Whether two runs of `partita train` were the same: their metrics.jsonl, step by step.

  same_run.py FOUND EXPECTED TOLERANCE    losses and gradient norms within TOLERANCE, relative; 0: the same numbers

Prints the largest difference; the exit code is 1 where it is too large, or the steps are not the same."""
import json
import math
import pathlib
import sys


def read(run):
    return [json.loads(line) for line in (pathlib.Path(run) / "metrics.jsonl").read_text().splitlines()]


def difference(found, expected):
    if found is None or expected is None or not math.isfinite(found) or not math.isfinite(expected):
        return math.inf
    return abs(found - expected) / max(abs(expected), 1e-30)


def main():
    found, expected, tolerance = read(sys.argv[1]), read(sys.argv[2]), float(sys.argv[3])
    if not expected or [s["step"] for s in found] != [s["step"] for s in expected]:
        print(f"{len(found)} steps, {len(expected)} expected")
        return 1
    worst = {key: max(difference(f[key], e[key]) for f, e in zip(found, expected)) for key in ("loss", "grad_norm")}
    # Of a norm less digits stay than of a loss.
    wrong = worst["loss"] > tolerance or worst["grad_norm"] > 10 * tolerance
    print(", ".join(f"{key} differs by {value:.1e}" for key, value in worst.items()) + f" in {len(found)} steps")
    return int(wrong)


sys.exit(main())
