#!/usr/bin/env python3
"""ZeroOptimizer beside PyTorch's DDP and FSDP2 on the same torch::nn model, in turn: one command, a table with ratios.

  bench/compare_modules.py                                                    # two ranks on this machine's CPUs
  bench/compare_modules.py --device cuda --precision bf16 --shape 24,16,2048,1024,8,32000 --python PYTHON
  bench/compare_modules.py --stages 2,3 --rounds 5 --json result.json

A round of a stage is ours, the peer, ours again, each a job of its own with a process a rank, so that a machine that
slows down does so for both. A figure is the median of a run's timed steps; the ratio of a round is the peer's time to
the mean of ours; that of a stage is the median over rounds. A round ends with forward and backward alone, without
exchange and update: what no optimizer makes faster, and so the largest ratio that one could reach. Both train the same
parameters on the same tokens, so their losses are compared, too. The peer is bench/peer/module_torch.py: DDP for stage
0, ZeroRedundancyOptimizer for 1, FSDP2 for 2 and 3. Both run with the same number of threads.

Ranks of both are started alike, with torchrun's variables: on CPUs both talk over sockets. --launcher mpirun lets ours
use MPI, for a quiet machine only: Linux divides busy cores by session, and mpirun's ranks share one.

It needs build/bench/module_speed and a Python with torch (scripts/setup.sh --peer).
"""
import argparse
import json
import os
import pathlib
import platform
import shlex
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import train_gpu

PEER_PACKAGES = ROOT / ".deps/peer"  # from scripts/setup.sh --peer
SHAPE = ("layers", "heads", "width", "length", "batch", "vocabulary")
PEERS = {0: "DDP", 1: "DDP, ZeroRedundancyOptimizer", 2: "FSDP2, weights kept", 3: "FSDP2"}
ALONE = "forward, backward alone"
LOSSES_DIFFER = {"fp32": 1e-4, "bf16": 2e-2}  # relative, of the first loss; more is another model


def model_arguments(args):
    """What both programs are told."""
    shape = [word for name, number in zip(SHAPE, args.shape) for word in (f"--{name}", str(number))]
    return [*shape, "--precision", args.precision, "--device", args.device, "--steps", str(args.steps), "--warmup",
            str(args.warmup)]


def our_command(args, stage):
    """stage None: forward and backward alone."""
    what = ["--alone"] if stage is None else ["--stage", str(stage)]
    return [str(args.program), *model_arguments(args), *what, *shlex.split(args.ours)]


def peer_command(args, stage):
    return [args.python, "-W", "ignore", str(ROOT / "bench/peer/module_torch.py"), *model_arguments(args), "--stage",
            str(stage)]


def environment(args, own):
    env = dict(os.environ, OMP_NUM_THREADS=str(args.threads), PARTITA_NUM_THREADS=str(args.threads),
               OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1",
               OMPI_MCA_hwloc_base_binding_policy="none")
    if own and args.library_path:
        env["LD_LIBRARY_PATH"] = args.library_path
    if not own and args.python_path:
        env["PYTHONPATH"] = args.python_path
    return env


def ours(args, stage):
    command, ranks = our_command(args, stage), args.ranks
    if args.launcher == "mpirun":
        command, ranks = ["mpirun", "-n", str(ranks), *command], 1
    who = ALONE if stage is None else "Partita"
    return {"who": who, "stage": stage} | train_gpu.run(command, environment(args, True), ranks, args.limit)


def peer(args, stage):
    return {"who": PEERS[stage], "stage": stage} | train_gpu.run(peer_command(args, stage), environment(args, False),
                                                                 args.ranks, args.limit)


def ratio(rounds, of=(0, 2)):
    """How much faster ours is: the median over rounds of the peer's time to the mean of ours, the runs `of` a round.
    None: no whole round."""
    whole = [r for r in rounds if not any("error" in run for run in r)]
    if not whole:
        return None
    return statistics.median(r[1]["ms"] / statistics.mean(r[i]["ms"] for i in of) for r in whole)


def check_losses(rounds, precision):
    """What is wrong with them: a text, empty if nothing."""
    for run, other, *_ in rounds:
        if "error" in run or "error" in other:
            continue
        if abs(run["loss_first"] - other["loss_first"]) > LOSSES_DIFFER[precision] * abs(other["loss_first"]):
            return f"first losses differ: {run['loss_first']:.6f}, the peer's {other['loss_first']:.6f}"
    return ""


HEAD = ("| stage | who | ms, median of each run | tokens/s a rank | peak GiB | loss, first and last | ratio |\n|"
        + "---|" * 7)


def rows(stage, rounds):
    """Three lines of the table, or more where runs failed."""
    lines = []
    ratios = {"Partita": ratio(rounds), ALONE: ratio(rounds, of=[3])}
    runs = [run for r in rounds for run in r]
    for who in ("Partita", PEERS[stage], ALONE):
        good = [run for run in runs if run["who"] == who and "error" not in run]
        if good:
            ms = " ".join(f"{run['ms']:.1f}" for run in good)
            rate = statistics.median(run["tokens_per_s"] for run in good)
            peak = f"{good[0]['peak_gib']:.2f}" if "peak_gib" in good[0] else "-"
            last = ratios.get(who)
            lines.append(f"| {stage} | {who} | {ms} | {rate:.0f} | {peak} | {good[0]['loss_first']:.4f} "
                         f"{good[0]['loss_last']:.4f} | {'' if last is None else f'{last:.3f} '}|")
        lines += [f"| {stage} | {who} | {run['error']} |" + " |" * 4
                  for run in runs if run["who"] == who and "error" in run]
    return lines


def machine(args):
    """What the figures depend on."""
    about = {"ranks": f"{args.ranks} of {args.threads} thread{'s' * (args.threads > 1)}, ours by {args.launcher}",
             "shape": ", ".join(f"{name} {number}" for name, number in zip(SHAPE, args.shape)),
             "precision": args.precision,
             "commit": train_gpu.output("git", "-C", str(ROOT), "describe", "--always", "--dirty"),
             "torch of the peer": train_gpu.output("env", f"PYTHONPATH={args.python_path or ''}", args.python, "-W",
                                                   "ignore", "-c", "import torch; print(torch.__version__)")}
    if args.device == "cuda":
        names = train_gpu.query("name,power.limit")
        drivers = train_gpu.query("driver_version")
        return about | {"card": f"{names[0]} W" if names else "?", "driver": drivers[0] if drivers else "?"}
    models = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return about | {"cpu": models[0] if models else platform.machine(), "cores": os.cpu_count()}


def numbers(text):
    return [int(word) for word in text.split(",")]


def arguments(words=None):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--threads", type=int, default=1, help="of each rank of both sides")
    p.add_argument("--stages", type=numbers, default=[0, 1, 2, 3])
    p.add_argument("--shape", type=numbers, default=[4, 4, 256, 128, 4, 4096], metavar="L,H,W,T,B,V",
                   help="layers, heads, width, tokens of a sample, samples of a rank, vocabulary")
    p.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=10, help="timed steps of a run")
    p.add_argument("--warmup", type=int, default=3, help="untimed steps before them")
    p.add_argument("--launcher", choices=["variables", "mpirun"], default="variables", help="of ours")
    p.add_argument("--ours", default="", metavar="OPTIONS", help="more options of module_speed")
    p.add_argument("--program", type=pathlib.Path, default=ROOT / "build/bench/module_speed")
    p.add_argument("--library-path", help="LD_LIBRARY_PATH of the program, where its libraries lie elsewhere")
    p.add_argument("--python", default=sys.executable, help="one that has torch")
    p.add_argument("--python-path", default=str(PEER_PACKAGES) if PEER_PACKAGES.exists() else None,
                   help="PYTHONPATH of the peer; default: .deps/peer, if it exists")
    p.add_argument("--limit", type=float, default=600, metavar="S", help="a run that takes longer is ended")
    p.add_argument("--json", type=pathlib.Path, help="write every figure to this file, after each stage")
    args = p.parse_args(words)
    if len(args.shape) != len(SHAPE) or min(args.shape) < 1:
        p.error(f"--shape {','.join(map(str, args.shape))}: expected six numbers from 1: {', '.join(SHAPE)}")
    if args.shape[2] % args.shape[1]:
        p.error(f"--shape: width {args.shape[2]} is not divisible by {args.shape[1]} heads")
    if not args.stages or not set(args.stages) <= set(PEERS):
        p.error(f"--stages {','.join(map(str, args.stages))}: expected some of 0, 1, 2, 3")
    return args


def main():
    args = arguments()
    if not args.program.exists():
        sys.exit(f"compare_modules: {args.program} is missing: ninja -C build module_speed")
    about = machine(args)
    print("\n".join(f"{key}: {value}" for key, value in about.items()) + f"\n\n{HEAD}", flush=True)
    results, wrong = [], []
    for stage in args.stages:
        rounds = [[ours(args, stage), peer(args, stage), ours(args, stage), ours(args, None)]
                  for _ in range(args.rounds)]
        print("\n".join(rows(stage, rounds)), flush=True)
        results.append({"stage": stage, "ratio": ratio(rounds), "rounds": rounds})
        if any("error" in run for r in rounds for run in r):
            wrong.append(f"runs of stage {stage} failed")
        elif problem := check_losses(rounds, args.precision):
            wrong.append(f"stage {stage}: {problem}")
        if args.json:
            args.json.write_text(json.dumps({"machine": about, "stages": results}, indent=1) + "\n")
    if wrong:
        sys.exit(f"compare_modules: {'; '.join(wrong)}")


if __name__ == "__main__":
    main()
