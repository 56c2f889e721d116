#!/usr/bin/env python3
"""Do the precisions train alike? One model, one text, one order of samples: loss curves of all, compared and drawn.

  bench/loss_curves.py --prepare data/curves                     # tokens of the King James Bible (or of --input FILES)
  bench/loss_curves.py --tokens data/curves/tokens_text_document   # on a GPU; about two minutes
  bench/loss_curves.py --tokens ... --cpu 50                       # and 50 steps in fp32 on the CPU, which are slow
  bench/loss_curves.py --tokens ... --device cpu --models gpt2 --variants fp32,bf16 --steps 60
  bench/loss_curves.py --tokens ... --variants bf16,fp8-current,layouts             # and those of two ranks

Models of 6 layers 384 wide, sequences of 256 tokens. Each curve is a run of `partita train`. It fails where
  - fp32 on CPU and GPU differ by more than 1e-4 of the loss in one of their common first 50 steps,
  - another precision's curve leaves fp32's by more than its tolerance (VARIANTS below), both smoothed over 20 steps.
In the folder --output: curves.csv, curves-MODEL.gp and .png (where gnuplot is installed), and the runs.
"""
import argparse
import csv
import json
import math
import os
import pathlib
import shlex
import shutil
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SMOOTH = 20  # steps: a batch more or less lucky moves all curves alike, but rounding spreads within a batch

MODELS = {"gpt2": ["--model.kind=gpt2"], "llama": ["--model.kind=llama", "--model.kv_heads=2"]}
SIZE = ["--model.layers=6", "--model.hidden_size=384", "--model.heads=6", "--model.max_length=256",
        "--train.sequence_length=256", "--train.micro_batch=16", "--train.global_batch=16"]
TRAINING = ["--optimizer.learning_rate=1e-3", "--optimizer.min_learning_rate=1e-4",
            "--eval.every=0", "--log.every=50", "--log.tensorboard=false", "--log.progress=false",
            "--checkpoint.resume=never", "--data.split=1,0,0", "--kernels.tune_matmul=false"]
BF16 = "--precision.compute=bf16"
OTHER_ORDER = "--train.micro_batch=8"  # the same sums in another order: what rounding alone does to a curve
VARIANTS = {  # what is added, and how far the smoothed loss may be from that of fp32
    "fp32": (["--precision.compute=fp32"], 0.0),
    "fp32-again": (["--precision.compute=fp32", OTHER_ORDER], 0.002),
    "bf16": ([BF16], 0.01),
    "bf16-again": ([BF16, OTHER_ORDER], 0.01),
    "bf16-states": ([BF16, "--precision.states=bf16"], 0.01),
    "fp8-current": ([BF16, "--precision.fp8=current"], 0.01),
    "fp8-delayed": ([BF16, "--precision.fp8=delayed"], 0.01),
}
LAYOUTS = {"tensor2": ["--parallel.tensor=2"], "context2": ["--parallel.context=2"],
           "pipeline2": ["--parallel.pipeline=2", "--parallel.schedule=zbv", "--train.micro_batch=4"]}
LAYOUT_VARIANTS = {f"{name}-{layout}": ([*VARIANTS[name][0], *options], VARIANTS[name][1])
                   for name in ("bf16", "fp8-current") for layout, options in LAYOUTS.items()}
ONE_RANK = list(VARIANTS)
VARIANTS |= LAYOUT_VARIANTS
CPU_TOLERANCE, CPU_STEPS = 1e-4, 50


def read_losses(text):
    """The losses of metrics.jsonl, one a step from the first; a step that was not finite is NaN."""
    losses = []
    for number, line in enumerate(text.splitlines(), 1):
        values = json.loads(line)
        if values["step"] != number:
            raise ValueError(f"metrics.jsonl: line {number} is of step {values['step']}")
        losses.append(math.nan if values["loss"] is None else values["loss"])
    return losses


def smoothed(losses, width=SMOOTH):
    """Means of `width` consecutive losses; shorter curves have one mean of all."""
    width = min(width, len(losses))
    return [sum(losses[i:i + width]) / width for i in range(len(losses) - width + 1)] if losses else []


def largest_difference(curve, reference):
    """The largest relative difference over the common steps, and its place; infinite where one is not finite."""
    worst, place = 0.0, 0
    for i, (a, b) in enumerate(zip(curve, reference)):
        difference = abs(a - b) / abs(b) if math.isfinite(a) and math.isfinite(b) and b else math.inf
        if difference > worst:
            worst, place = difference, i
    return worst, place


def compare(curves):
    """[(name, difference, step, tolerance)] of {name: losses}, against those of fp32; the CPU's against those of a run
    of as many steps on the device, since the length of a run decides its order of samples and its learning rates."""
    verdicts = []
    for name, losses in curves.items():
        if name == "cpu-fp32":
            difference, place = largest_difference(losses[:CPU_STEPS], curves["fp32-short"])
            verdicts.append((name, difference, place + 1, CPU_TOLERANCE))
        elif name not in ("fp32", "fp32-short"):
            difference, place = largest_difference(smoothed(losses), smoothed(curves["fp32"]))
            verdicts.append((name, difference, place + min(SMOOTH, len(losses)), VARIANTS[name][1]))
    return verdicts


def write_csv(path, curves):
    """A line a step, a column a curve; empty where a curve has ended."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["step", *curves])
        for step in range(max(map(len, curves.values()))):
            writer.writerow([step + 1, *(losses[step] if step < len(losses) else "" for losses in curves.values())])


def draw(folder, model, curves):
    """The smoothed curves as a PNG, by a gnuplot script that stays beside it. False: there is no gnuplot."""
    blocks, lines = [], []
    for number, (name, losses) in enumerate(curves.items()):
        means = smoothed(losses)
        blocks.append("\n".join(f"{len(losses) - len(means) + i + 1} {value}" for i, value in enumerate(means)))
        lines.append(f"$curves index {number} with lines lw 1.5 title '{name}'")
    script = folder / f"curves-{model}.gp"
    script.write_text(f"set terminal pngcairo size 1000,700\nset output '{folder / f'curves-{model}.png'}'\n"
                      f"set title '{model}: training loss, mean of {SMOOTH} steps'\nset xlabel 'step'\n"
                      f"set ylabel 'loss'\nset grid\n$curves << EOD\n" + "\n\n\n".join(blocks) + "\nEOD\nplot "
                      + ", \\\n     ".join(lines) + "\n")
    return bool(shutil.which("gnuplot")) and subprocess.run(["gnuplot", str(script)]).returncode == 0


def merged(*lists):
    """Options of all lists; of those with the same key the last."""
    return list({option.split("=")[0]: option for options in lists for option in options}.values())


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def rank_variables(rank, ranks, port):
    """As torchrun sets them; none for one rank."""
    if ranks == 1:
        return {}
    return {"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def train(args, env, model, name, options, device, steps):
    """Losses of a new run."""
    run = args.output / f"{model}-{name}"
    shutil.rmtree(run, ignore_errors=True)
    config = args.output / "empty.toml"
    config.write_text("# All keys are given on the command line.\n")
    command = [str(args.partita), "train", str(config), f"--model.vocab_size={args.vocabulary}",
               f"--data.path={args.tokens}", *merged(MODELS[model], SIZE, TRAINING, options), f"--train.steps={steps}",
               f"--schedule.warmup={min(30, args.steps // 2)}", f"--schedule.decay={args.steps}",
               f"--train.device={device}", f"--run.directory={run}"]
    begun = time.monotonic()
    ranks, port = 2 if name in LAYOUT_VARIANTS else 1, free_port()
    processes = [subprocess.Popen(command, env=env | rank_variables(rank, ranks, port), stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True) for rank in range(ranks)]
    errors = [process.communicate()[1] for process in processes]
    for process, error in zip(processes, errors):
        if process.returncode != 0:
            sys.exit(f"loss_curves: {shlex.join(command)} ended with code {process.returncode}:\n{error[-2000:]}")
    losses = read_losses((run / "metrics.jsonl").read_text())
    print(f"{model} {name}: {steps} steps in {time.monotonic() - begun:.1f} s, loss {losses[0]:.4f} -> "
          f"{losses[-1]:.4f}, smoothed {smoothed(losses)[-1]:.4f}", flush=True)
    return losses


def prepare(args, env):
    """tokenizer.json and the token files; without --input of the Bible that Debian's bible-kjv prints."""
    args.prepare.mkdir(parents=True, exist_ok=True)
    texts, tokenizer = args.input, args.prepare / "tokenizer.json"
    if not texts:
        texts = [args.prepare / "kjv.jsonl"]
        verses = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], stdin=subprocess.DEVNULL, check=True,
                                stdout=subprocess.PIPE).stdout
        with texts[0].open("wb") as file:
            subprocess.run([str(ROOT / "scripts/bible_to_jsonl.py")], input=verses, stdout=file, check=True)
    inputs = [word for text in texts for word in ("--input", str(text))]
    subprocess.run([str(args.partita), "tokenizer", "train", *inputs, "--vocab-size", str(args.vocabulary), "--output",
                    str(tokenizer)], env=env, check=True)
    subprocess.run([str(args.partita), "tokenize", *inputs, "--tokenizer", str(tokenizer), "--append-eod",
                    "--output-prefix", str(args.prepare / "tokens")], env=env, check=True)
    print(f"prepared: --tokens {args.prepare / 'tokens_text_document'}")


def names(known):
    def parse(text):
        chosen = []
        for name in text.split(","):
            chosen += LAYOUT_VARIANTS if name == "layouts" and known is VARIANTS else [name]
        for name in chosen:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name}: expected some of {', '.join(known)}")
        return chosen
    return parse


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--prepare", type=pathlib.Path, metavar="DIR", help="make the token files there, and stop")
    p.add_argument("--input", type=pathlib.Path, nargs="+", help="texts for --prepare, as `partita tokenize` reads them")
    p.add_argument("--tokens", type=pathlib.Path, metavar="PREFIX", help="of the token files")
    p.add_argument("--vocabulary", type=int, default=4096)
    p.add_argument("--models", type=names(MODELS), default=list(MODELS))
    p.add_argument("--variants", type=names(VARIANTS), default=ONE_RANK,
                   help="fp32 is always among them; layouts: those of two ranks")
    p.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="of the variants")
    p.add_argument("--steps", type=int, default=300)
    p.add_argument("--cpu", type=int, default=0, metavar="STEPS", help="so many steps in fp32 on the CPU as well")
    p.add_argument("--output", type=pathlib.Path, default=pathlib.Path("runs/loss_curves"))
    p.add_argument("--partita", type=pathlib.Path, default=ROOT / "build/partita")
    p.add_argument("--library-path", help="LD_LIBRARY_PATH of the program, where its libraries lie elsewhere")
    args = p.parse_args()
    if not args.prepare and not args.tokens:
        p.error("expected --tokens PREFIX, or --prepare DIR to make them")
    if args.tokens and not args.tokens.with_name(args.tokens.name + ".idx").exists():
        p.error(f"--tokens {args.tokens}: there is no {args.tokens}.idx")
    return args


def main():
    args = arguments()
    args.partita = args.partita.resolve()
    env = dict(os.environ)
    if args.library_path:
        env["LD_LIBRARY_PATH"] = args.library_path
    if args.prepare:
        return prepare(args, env)
    args.output.mkdir(parents=True, exist_ok=True)
    passed = failed = 0
    every = {}
    for model in args.models:
        chosen = ["fp32", *(name for name in args.variants if name != "fp32")]
        curves = {name: train(args, env, model, name, VARIANTS[name][0], args.device, args.steps) for name in chosen}
        if args.cpu:
            curves["fp32-short"] = train(args, env, model, "fp32-short", VARIANTS["fp32"][0], args.device, args.cpu)
            curves["cpu-fp32"] = train(args, env, model, "cpu-fp32", VARIANTS["fp32"][0], "cpu", args.cpu)
        for name, difference, step, tolerance in compare(curves):
            good = difference <= tolerance
            passed, failed = passed + good, failed + (not good)
            print(f"{'ok' if good else 'FAILED'}: {model} {name} to fp32: at most {difference:.2e}, at step {step}; "
                  f"tolerance {tolerance:.0e}", flush=True)
        every |= {f"{model} {name}": losses for name, losses in curves.items()}
        write_csv(args.output / "curves.csv", every)
        if not draw(args.output, model, curves):
            print(f"no gnuplot here: {args.output}/curves-{model}.gp draws the curves elsewhere")
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
