#!/usr/bin/env python3
"""Partita beside transformers and PEFT, from one end to the other, on small random models of every supported kind.

  scripts/setup.sh --peer; bench/compare_hf.py                # a table of what was compared; code 1 if anything differs
  bench/compare_hf.py --only llama --keep /tmp/compare        # kinds whose name has "llama"; the files stay there

For each model: a Hugging Face folder is imported and exported again (the same bytes, logits and special tokens),
evaluated on token files and on prompts with completions, written on greedily, and finetuned in full (losses step by
step next to torch.optim, also sharded over two ranks) and with LoRA (next to PEFT, which then loads our adapter). The
other side is bench/hf_reference.py.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEER = ROOT / ".deps/peer"
if PEER.exists():
    sys.path.insert(0, str(PEER))
sys.dont_write_bytecode = True
try:
    import safetensors
    import torch

    import hf_reference as reference
except ImportError as error:
    sys.exit(f"compare_hf: {error}: 'scripts/setup.sh --peer' installs what is needed")

WINDOW, EXAMPLE = 32, 64  # tokens of a sample: of token files, of prompts
STEPS, CLIP = 6, 1.0
ADAMW = {"learning_rate": 3e-3, "weight_decay": 0.1, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8}
SGD = {"learning_rate": 0.3}
TEXT_TOKENS = 30


class Partita:
    """Runs the program; an unexpected end shows its message."""

    def __init__(self, program):
        self.program = str(program)
        self.environment = dict(os.environ, OMP_NUM_THREADS="1", PARTITA_LOG="warn", OMPI_ALLOW_RUN_AS_ROOT="1",
                                OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")

    def __call__(self, *arguments, ranks=1):
        command = [self.program] + (["launch", "-n", str(ranks), "--"] if ranks > 1 else []) + list(map(str, arguments))
        done = subprocess.run(command, env=self.environment, capture_output=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with code {done.returncode}:\n{done.stderr.decode()}")
        return done.stdout

    def eval(self, model, data, *options):
        return json.loads(self("eval", model, "--data", data, "--json", *options).decode().splitlines()[-1])


@dataclasses.dataclass
class Table:
    """One line a comparison, printed as it is made."""

    made: int = 0
    failed: int = 0

    def start(self, model):
        self.model = model
        print(f"\n### {model}\n| compared | difference | at most | |\n|---|---|---|---|", flush=True)

    def add(self, what, difference, bound):
        good = difference <= bound  # false for NaN, too
        self.made += 1
        self.failed += not good
        print(f"| {what} | {difference:.2g} | {bound:.2g} | {'equal' if good else 'DIFFERS'} |", flush=True)


def relative(found, expected):
    """Of numbers, lists or tensors: the largest difference, as a share of the largest value."""
    found, expected = torch.as_tensor(found).double(), torch.as_tensor(expected).double()
    if found.shape != expected.shape:
        raise RuntimeError(f"{list(found.shape)} values beside {list(expected.shape)}")
    return ((found - expected).abs().max() / expected.abs().max()).item()


def tensors(folder):
    """{name: (dtype, shape, bytes)} of all safetensors files in it."""
    found = {}
    for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
        with safetensors.safe_open(path, "pt") as file:
            for name in file.keys():
                t = file.get_tensor(name)
                found[name] = (t.dtype, tuple(t.shape), t.contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return found


def differing(found, expected):
    """How many tensors differ in anything, or are on one side alone."""
    return sum(found.get(name) != expected.get(name) for name in found.keys() | expected.keys())


class Workspace:
    """Texts, token files and a tokenizer, which all models share."""

    def __init__(self, folder, partita):
        self.folder, self.partita = folder, partita
        text, prompts, self.prompts = reference.text(60, seed=1), reference.prompts(8, seed=2), folder / "prompts.jsonl"
        reference.write_json_lines(folder / "text.jsonl", [{"text": document} for document in text])
        reference.write_json_lines(self.prompts, prompts)
        self.tokenizer_file = folder / "tokenizer.json"
        partita("tokenizer", "train", "--input", folder / "text.jsonl", "--vocab-size", "300", "--output",
                self.tokenizer_file)
        partita("tokenize", "--input", folder / "text.jsonl", "--tokenizer", self.tokenizer_file, "--append-eod",
                "--quiet", "--output-prefix", folder / "tokens")
        self.tokens = folder / "tokens_text_document"
        self.tokenizer = reference.Tokenizer(self.tokenizer_file)
        self.documents = [self.tokenizer.document(document) for document in text]
        self.examples = [self.tokenizer.example(pair) for pair in prompts]


class Comparison:
    """All of one model."""

    def __init__(self, work, table, name, config):
        self.work, self.partita, self.table, self.config = work, work.partita, table, config
        self.folder = work.folder / "".join(c if c.isalnum() else "_" for c in name)
        self.original = self.folder / "original"
        reference.make_model(config, self.original)
        shutil.copy(work.tokenizer_file, self.original)
        reference.add_special_tokens(self.original, work.tokenizer.end)

    def run(self):
        self.import_and_export()
        self.bfloat16()
        self.evaluate(self.original, "eval of the folder")
        self.evaluate(self.folder / "imported", "eval of the import")
        self.generate(self.original, reference.load(self.original), "of the folder")
        self.finetune("one process", "full")
        self.finetune("ZeRO-3 on 2 ranks, full recomputation", "sharded", "--parallel.zero_stage=3",
                      "--memory.recompute=full", ranks=2)
        self.finetune("all examples packed into one sample", "packed", "--data.packing=true", "--train.global_batch=1",
                      "--train.micro_batch=1", f"--train.sequence_length={reference.POSITIONS}")
        self.finetune("embeddings and first layer frozen", "frozen", "--train.freeze=embedding.*,layers.0.*")
        self.lora()

    def import_and_export(self):
        imported, exported = self.folder / "imported", self.folder / "exported"
        expected = tensors(self.original)
        self.partita("import", self.original, imported)
        self.partita("export", imported, exported)
        self.table.add("tensors after import and export", differing(tensors(exported), expected), 0)
        for kind, save in (("shards", reference.save_shards), ("pytorch_model.bin", reference.save_pickle)):
            source = self.folder / kind
            save(self.original, source)
            self.partita("import", source, f"{source}_imported")
            self.partita("export", f"{source}_imported", f"{source}_exported")
            self.table.add(f"the same from {kind}", differing(tensors(f"{source}_exported"), expected), 0)
        source, export = reference.special_tokens(self.original), reference.special_tokens(exported)
        self.table.add(f"tokenizer, chat template and stop ids of the export in transformers ({source['eos_token']})",
                       sum(source[key] != export[key] for key in source), 0)
        self.table.add("logits of the export in transformers",
                       relative(reference.logits(reference.load(exported)),
                                reference.logits(reference.load(self.original))), 0)

    def bfloat16(self):
        original, imported, exported = (self.folder / f"{name}_bf16" for name in ("original", "imported", "exported"))
        reference.make_model(self.config, original, torch.bfloat16)
        shutil.copy(self.work.tokenizer_file, original)
        self.partita("import", original, imported)
        self.partita("export", imported, exported)
        self.table.add("tensors after import and export, bf16", differing(tensors(exported), tensors(original)), 0)
        rounded = self.folder / "rounded"
        self.partita("export", self.folder / "imported", rounded, "--dtype", "bf16")
        self.table.add("tensors after export in bf16", differing(tensors(rounded), tensors(original)), 0)
        self.evaluate(original, "eval of the folder in bf16")

    def evaluate(self, path, what):
        model = reference.load(path if (path / "config.json").exists() else self.original)
        expected, count = reference.loss_of_documents(model, self.work.documents, WINDOW)
        found = self.partita.eval(path, self.work.tokens, "--sequence-length", WINDOW, "--micro-batch", 3)
        self.table.add(f"{what}: loss of a token file", relative(found["loss"], expected), 1e-5)
        self.table.add(f"{what}: its tokens", abs(found["tokens"] - count), 0)
        expected, count = reference.loss_of_examples(model, self.work.examples)
        found = self.partita.eval(path, self.work.prompts)
        self.table.add(f"{what}: loss of completions", relative(found["loss"], expected), 1e-5)
        self.table.add(f"{what}: their tokens", abs(found["tokens"] - count), 0)

    def generate(self, path, model, what):
        prompt = "river and stone"
        ids = reference.greedy(model, self.work.tokenizer.encode(prompt), TEXT_TOKENS,
                               reference.stop_ids(self.work.tokenizer.end))
        expected = prompt.encode() + self.work.tokenizer.bytes(ids) + b"\n"
        found = self.partita("generate", path, "--prompt", prompt, "--greedy", "--tokens", TEXT_TOKENS)
        self.table.add(f"greedy text {what}, {len(set(ids))} different tokens of {len(ids)}", found != expected, 0)

    def train(self, run, optimizer, ranks=1, options=()):
        """Trains on all examples in each step, so that their order means nothing; the loss before each step."""
        examples = len(self.work.examples)
        config = self.folder / "train.toml"
        config.write_text(f"""
[model]
from = "{self.original}"
[data]
format = "prompts"
path = "{self.work.prompts}"
tokenizer = "{self.work.tokenizer_file}"
split = "1,0,0"
[train]
steps = {STEPS}
sequence_length = {EXAMPLE}
micro_batch = 2
global_batch = {examples}
[schedule]
kind = "constant"
[eval]
every = 0
[checkpoint]
every = 1
keep_last = 0
[log]
tensorboard = false
[optimizer]
min_learning_rate = 0
""" + "".join(f"{key} = {value!r}\n" for key, value in optimizer.items()).replace("'", '"'))
        self.partita("train", config, f"--run.directory={run}", *options, ranks=ranks)
        return [json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines()]

    def finetune(self, what, name, *options, ranks=1):
        run, exported = self.folder / name, self.folder / f"{name}_exported"
        found = self.train(run, ADAMW | {"clip": CLIP}, ranks, options)
        model = reference.load(self.original)
        if name == "frozen":
            reference.freeze(model)
        expected = reference.train(model, self.work.examples, reference.adamw(model, ADAMW), STEPS, CLIP)
        self.table.add(f"losses of {STEPS} AdamW steps, {what} ({expected[0]:.3f} to {expected[-1]:.3f})",
                       relative(found, expected), 1e-5)
        self.partita("export", run, exported)
        self.table.add(f"logits of the result in transformers, {what}",
                       relative(reference.logits(reference.load(exported)), reference.logits(model)), 1e-4)
        self.generate(run, model, f"of the result, {what}")

    def lora(self):
        """PEFT goes on from our first step with plain SGD, which has no state."""
        run, adapter, merged = self.folder / "lora", self.folder / "adapter", self.folder / "merged"
        targets = reference.lora_targets(self.config)
        found = self.train(run, SGD | {"kind": "sgd", "momentum": 0.0, "weight_decay": 0.0, "clip": 0.0},
                           options=["--lora.rank=4", "--lora.alpha=8", f"--lora.targets={','.join(targets)}",
                                    "--memory.recompute=full"])
        first = self.folder / "adapter_first"
        self.partita("export", run / "checkpoints/step-00000001", first)
        self.partita("export", run, adapter)
        self.partita("export", run, merged, "--merge")

        peft_model = reference.load_adapter(self.original, first, trainable=True)
        expected = reference.train(peft_model, self.work.examples, reference.sgd(peft_model, SGD), STEPS - 1, clip=0)
        self.table.add(f"losses of {STEPS - 1} LoRA steps ({expected[0]:.3f} to {expected[-1]:.3f})",
                       relative(found[1:], expected), 1e-5)
        ours = reference.load_adapter(self.original, adapter)
        self.table.add("logits with our adapter in PEFT beside its own", relative(
            reference.logits(ours), reference.logits(peft_model)), 1e-5)
        self.table.add("eval of the LoRA run", relative(self.partita.eval(run, self.work.prompts)["loss"],
                                                        reference.loss_of_examples(ours, self.work.examples)[0]), 1e-5)
        with_adapter = reference.logits(ours)
        weights = dict(ours.merge_and_unload().named_parameters())
        theirs = dict(reference.load(merged).named_parameters())
        self.table.add("weights of the merge beside PEFT's",
                       max(relative(theirs[name], weight) for name, weight in weights.items()), 1e-6)
        self.table.add("logits of the merge", relative(reference.logits(reference.load(merged)), with_adapter), 1e-5)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", default="", help="part of the names of the models")
    p.add_argument("--keep", type=pathlib.Path, help="an empty or new folder for all files; default: a temporary one")
    p.add_argument("--partita", type=pathlib.Path, default=ROOT / "build/partita", help="the program")
    args = p.parse_args()
    if not args.partita.exists():
        sys.exit(f"compare_hf: {args.partita} is missing: run 'make build'")

    partita, table = Partita(args.partita), Table()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        work = Workspace(folder.resolve(), partita)
        for name, config in reference.MODELS.items():
            if args.only.lower() in name.lower():
                table.start(name)
                Comparison(work, table, name, config).run()
    fields = subprocess.run([sys.executable, ROOT / "tests/golden/make_hf_fields.py", "--check"],
                            env=dict(os.environ, PYTHONPATH=str(PEER)))
    table.start("configuration files")
    table.add("fields of transformers and PEFT that are on no list", fields.returncode, 0)
    if table.failed or not table.made:
        sys.exit(f"compare_hf: of {table.made} comparisons {table.failed} differ")
    print(f"\nAll {table.made} comparisons are equal.")


if __name__ == "__main__":
    main()
