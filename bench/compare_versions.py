#!/usr/bin/env python3
"""Two versions of the program train the same small models: whether every number is the same, bit for bit.

  bench/compare_versions.py OLD NEW                    # two programs; a covering array of features; code 1: some differ
  bench/compare_versions.py OLD NEW --full --jobs 8    # every product of features
  bench/compare_versions.py OLD NEW --device cuda      # bf16 and fp8, deterministic, on one GPU

For changes of shape that must not change numbers. For each case: metrics.jsonl of both, apart from the clocks; the
exported weights, byte for byte; then NEW continues from OLD's checkpoint in the middle of the run, which must lead to
the same end: that compares optimizer states, and shows that NEW reads the checkpoints of OLD. Keys of the configuration
are those that OLD knows; NEW must accept them.
"""
import argparse
import concurrent.futures
import hashlib
import itertools
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

STEPS, MIDDLE = 4, 2
FEATURES = {
    "model": ["gpt2", "llama", "llama-gqa-tied"],
    "zero": [0, 1, 2, 3],
    "ranks": [1, 2, 3, 4],
    "precision": ["fp32", "bf16", "bf16-states", "fp16"],
    "recompute": ["none", "selective", "mlp", "full", "first-layer"],
    "train": ["all", "lora", "frozen"],
    "optimizer": ["adamw", "sgd", "lamb"],
    "micro_batches": [1, 2],
    "dropout": [0.0, 0.1],
    "offload": ["none", "optimizer", "activations"],
}
ON_GPU = {"ranks": [1], "precision": ["bf16", "bf16-states", "fp8-current", "fp8-delayed"]}
CLOCKS = ("seconds", "tokens_per_second", "mfu", "tflops", "memory")


def covering_array(features, seed):
    """Rows in which every pair of values of two features stands at least once; greedy, from random candidates."""
    rng = random.Random(seed)
    names = list(features)
    missing = {((a, x), (b, y)) for a, b in itertools.combinations(names, 2) for x in features[a] for y in features[b]}
    rows = []
    while missing:
        candidates = []
        for _ in range(60):
            row = {name: rng.choice(values) for name, values in features.items()}
            for pair in [rng.choice(sorted(missing, key=str))]:
                row.update(pair)
            candidates.append((sum(((a, row[a]), (b, row[b])) in missing for a, b in itertools.combinations(names, 2)), row))
        row = max(candidates, key=lambda c: c[0])[1]
        missing -= {((a, row[a]), (b, row[b])) for a, b in itertools.combinations(names, 2)}
        rows.append(row)
    return rows


def config_of(case, folder, device):
    width = 48 if device == "cpu" else 64
    precision, _, variant = case["precision"].partition("-")
    keys = {
        "model": {"kind": case["model"].split("-")[0], "layers": 3, "hidden_size": width, "heads": 4, "max_length": 24,
                  "dropout": case["dropout"], "embedding_dropout": case["dropout"]},
        "data": {"path": f"{folder}/tokens_text_document", "tokenizer": f"{folder}/tokenizer.json", "split": "80,20,0"},
        "train": {"steps": STEPS, "sequence_length": 24, "micro_batch": 2,
                  "global_batch": 2 * case["ranks"] * case["micro_batches"], "device": device,
                  "precision": "bf16" if precision == "fp8" else precision, "deterministic": True,
                  "recompute": "none" if case["recompute"] == "first-layer" else case["recompute"],
                  "recompute_full_layers": 1 if case["recompute"] == "first-layer" else 0,
                  "offload_optimizer": case["offload"] == "optimizer",
                  "offload_activations": 3 if case["offload"] == "activations" else 0,
                  "cuda_graph": "false"},
        "optimizer": {"kind": case["optimizer"], "learning_rate": 0.3 if case["optimizer"] == "sgd" else 0.003},
        "loss_scale": {"initial": 1024.0},
        "schedule": {"warmup": 1},
        "parallel": {"zero_stage": case["zero"]},
        "eval": {"every": MIDDLE, "batches": 1},
        "checkpoint": {"every": MIDDLE},
        "log": {"every": 1},
    }
    if case["model"] == "llama-gqa-tied":
        keys["model"].update(kv_heads=2, tied_head="true")
    if precision == "fp8":
        keys["train"]["fp8"] = variant
    if variant == "states":
        keys["train"]["states"] = "bf16"
    if case["train"] == "lora":
        keys["model"] = {"from": f"{folder}/base-{case['model']}", "dropout": case["dropout"]}
        keys["lora"] = {"rank": 4, "alpha": 8.0, "dropout": case["dropout"]}
    if case["train"] == "frozen":
        keys["train"]["freeze"] = "layers.0.*"
    if case["optimizer"] == "sgd":
        keys["optimizer"]["min_learning_rate"] = 0.03
    lines = []
    for section, values in keys.items():
        lines.append(f"[{section}]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    return "\n".join(lines) + "\n"


def run(program, arguments, ranks=1):
    environment = dict(os.environ, OMP_NUM_THREADS="1", PARTITA_LOG="warn", OMPI_ALLOW_RUN_AS_ROOT="1",
                       OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    command = [str(program)] + (["launch", "-n", str(ranks), "--"] if ranks > 1 else []) + list(map(str, arguments))
    done = subprocess.run(command, env=environment, capture_output=True, timeout=300)
    return done.returncode, done.stderr.decode(errors="replace")


def metrics(folder):
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if not key.startswith(CLOCKS)} for row in rows]


def weights(program, folder):
    out = folder.with_name(folder.name + "-export")
    code, said = run(program, ["export", folder, out])
    if code:
        return f"export: {said}"
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(out.glob("*.safetensors"))}


def check(old, new, case, number, folder, device):
    """None, or how the versions differ; an error of both is 'refused' (a combination that is not supported)."""
    place = folder / f"case-{number}"
    place.mkdir()
    config = place / "run.toml"
    config.write_text(config_of(case, folder, device))
    ends = {}
    for name, program in (("old", old), ("new", new)):
        code, said = run(program, ["train", config, f"--run.directory={place}/{name}"], case["ranks"])
        ends[name] = code, said
    if ends["old"][0] != ends["new"][0]:
        return f"exit codes {ends['old'][0]} and {ends['new'][0]}: {ends['old'][1]} {ends['new'][1]}"
    if ends["old"][0]:
        return "refused: " + ends["old"][1].strip().splitlines()[-1]
    a, b = metrics(place / "old"), metrics(place / "new")
    if a != b:
        return "metrics differ: " + next(f"{x} {y}" for x, y in itertools.zip_longest(a, b) if x != y)
    want = weights(old, place / "old")
    if weights(new, place / "new") != want:
        return "weights differ"
    middle = place / "middle"
    shutil.copytree(place / "old", middle)
    shutil.rmtree(middle / "checkpoints" / f"step-{STEPS:08d}")
    code, said = run(new, ["train", config, f"--run.directory={middle}"], case["ranks"])
    if code:
        return f"continuing from the old checkpoint: {said}"
    if metrics(middle) != a:
        return "metrics differ after continuing from the old checkpoint"
    if weights(new, middle) != want:
        return "weights differ after continuing from the old checkpoint"
    shutil.rmtree(place)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("new", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--full", action="store_true", help="every product of features instead of a covering array")
    parser.add_argument("--jobs", type=int, default=1, help="cases at once")
    parser.add_argument("--seed", type=int, default=1, help="of the covering array")
    arguments = parser.parse_args()
    features = dict(FEATURES, **ON_GPU) if arguments.device == "cuda" else dict(FEATURES, offload=["none"])
    cases = ([dict(zip(features, values)) for values in itertools.product(*features.values())] if arguments.full
             else covering_array(features, arguments.seed))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        words = "river stone light of the and walked over mountain".split()
        rng = random.Random(1)
        (folder / "t.jsonl").write_text("".join(json.dumps({"text": " ".join(rng.choices(words, k=40))}) + "\n"
                                                for _ in range(80)))
        for command in (["tokenizer", "train", "--input", folder / "t.jsonl", "--vocab-size", "280", "--output",
                         folder / "tokenizer.json"],
                        ["tokenize", "--input", folder / "t.jsonl", "--tokenizer", folder / "tokenizer.json",
                         "--append-eod", "--quiet", "--output-prefix", folder / "tokens"]):
            code, said = run(arguments.old, command)
            if code:
                sys.exit(said)
        for model in FEATURES["model"]:  # what adapters are added to
            plain = {name: values[0] for name, values in features.items()}
            (folder / "base.toml").write_text(config_of(dict(plain, model=model, ranks=1), folder, "cpu"))
            code, said = run(arguments.old, ["train", folder / "base.toml", f"--run.directory={folder}/base-{model}"])
            if code:
                sys.exit(said)
        equal, refused, different = 0, 0, 0
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            futures = [pool.submit(check, arguments.old, arguments.new, case, number, folder, arguments.device)
                       for number, case in enumerate(cases)]
            for case, future in zip(cases, futures):
                found = future.result()
                words = ", ".join(f"{key} {value}" for key, value in case.items())
                if found is None:
                    equal += 1
                elif found.startswith("refused"):
                    refused += 1
                    print(f"{found}\n   {words}", flush=True)
                else:
                    different += 1
                    print(f"DIFFERS: {found}\n   {words}", flush=True)
    print(f"{equal} cases equal bit for bit, {refused} refused by both versions, {different} different")
    return 1 if different or not equal else 0


if __name__ == "__main__":
    sys.exit(main())
