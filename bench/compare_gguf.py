#!/usr/bin/env python3
"""GGUF exports beside the package `gguf` and llama.cpp itself, on small models of every supported kind.

  scripts/setup.sh --peer; bench/compare_gguf.py              # a table of what was compared; code 1 if anything differs
  bench/compare_gguf.py --only llama --keep /tmp/compare      # models whose name has "llama"; the files stay there

For random models and for runs trained here, one with merged adapters: every tensor in each element type beside the
Hugging Face export of the same model, metadata beside its config.json, tokens and merges beside its tokenizer.json.
Then llama.cpp loads the file: ids of texts, losses of completions and greedy texts beside ours. For each of
SentencePiece's models among the tests' golden files, and for each way of splitting a text that we know: ids of texts,
where the export gives no warning about them. The other side is bench/gguf_reference.py; torch and transformers are not
needed.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEER = ROOT / ".deps/peer"
if PEER.exists():
    sys.path.insert(0, str(PEER))
sys.dont_write_bytecode = True
try:
    import numpy

    import gguf_reference as reference
except ImportError as error:
    sys.exit(f"compare_gguf: {error}: 'scripts/setup.sh --peer' installs what is needed")

VOCABULARY = 307  # more than the tokenizer has
WORDS = "river stone light of the and walked over mountain slowly again".split()
STRINGS = ["the river", " and  walked\n\n over\tthe", "It's 12345 stones, don't!", "naïve café — 中文 😀", "\n",
           "a  \n  b ", "<|endoftext|>", "I'VE SEEN 3.14"]
SPLIT_ALPHABET = list("abA '1.s/") + ["\n", "\t", "\u00e9", "\u4e2d"]
NUMPY = {"F32": numpy.float32, "F16": numpy.float16, "BF16": numpy.uint16}
LLAMA = {"model_type": "llama", "vocab_size": VOCABULARY, "max_position_embeddings": 256, "num_hidden_layers": 2,
         "rms_norm_eps": 1e-6, "tie_word_embeddings": False, "rope_theta": 10000.0}
GPT2 = {"model_type": "gpt2", "vocab_size": VOCABULARY, "n_positions": 256, "n_layer": 2, "n_head": 4}
MODELS = {
    "GPT-2": GPT2 | {"n_embd": 64},
    "GPT-2, untied head, rows of 48 and 80": GPT2 | {"n_embd": 48, "n_inner": 80, "tie_word_embeddings": False},
    "Llama": LLAMA | {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 16,
                      "intermediate_size": 96},
    "Llama, GQA, tied head": LLAMA | {"hidden_size": 48, "num_attention_heads": 6, "num_key_value_heads": 2,
                                      "head_dim": 8, "intermediate_size": 72, "tie_word_embeddings": True},
    "Llama 3, GQA, wide heads, scaled rotation": LLAMA | {
        "hidden_size": 42, "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 12, "intermediate_size": 50,
        "rope_theta": 100.0,
        "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 2.0,
                         "original_max_position_embeddings": 16}},
}
# Of losses in llama.cpp beside ours, relative, per type: llama.cpp also rounds what a matrix in that type multiplies.
LOSS_BOUNDS = {"bf16": 2e-3, "fp16": 5e-4, "q8_0": 2e-2}
# In fp32 nothing is rounded but GPT-2's GELU, which llama.cpp takes from a table in fp16.
FP32_LOSS_BOUNDS = {"gpt2": 1e-4, "llama": 2e-5}


class Partita:
    """Runs the program; an unexpected end shows its message."""

    def __init__(self, program):
        self.program = str(program)
        self.environment = dict(os.environ, OMP_NUM_THREADS="1", PARTITA_LOG="warn")

    def __call__(self, *arguments, text=None):
        command = [self.program, *map(str, arguments)]
        done = subprocess.run(command, env=self.environment, capture_output=True, input=text)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with code {done.returncode}:\n{done.stderr.decode()}")
        self.warnings = done.stderr.decode()
        return done.stdout

    def encode(self, tokenizer, texts, *options):
        lines = "".join(json.dumps(text) + "\n" for text in texts)
        return [json.loads(line) for line in
                self("tokenizer", "encode", tokenizer, "--json", *options, text=lines.encode()).splitlines()]


@dataclasses.dataclass
class Table:
    """One line a comparison, printed as it is made."""

    made: int = 0
    failed: int = 0

    def start(self, model):
        print(f"\n### {model}\n| compared | difference | at most | |\n|---|---|---|---|", flush=True)

    def add(self, what, difference, bound=0):
        good = difference <= bound  # false for NaN, too
        self.made += 1
        self.failed += not good
        print(f"| {what} | {difference:.2g} | {bound:.2g} | {'equal' if good else 'DIFFERS'} |", flush=True)


def differing(found, expected):
    """How many entries differ in anything, or are on one side alone."""
    return sum(found.get(name) != expected.get(name) for name in found.keys() | expected.keys())


def read_safetensors(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    arrays = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            arrays[name] = numpy.frombuffer(data[8 + length + begin:8 + length + end],
                                            NUMPY[entry["dtype"]]).reshape(entry["shape"])
    return arrays


def write_safetensors(path, arrays):
    header, data = {}, b""
    for name, array in arrays.items():
        header[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def shapes_of(c):
    """Names and shapes in a Hugging Face folder."""
    found = {}
    if c["model_type"] == "gpt2":
        w, inner = c["n_embd"], c.get("n_inner", 4 * c["n_embd"])
        found = {"transformer.wte.weight": (c["vocab_size"], w), "transformer.wpe.weight": (c["n_positions"], w)}
        for i in range(c["n_layer"]):
            layer = f"transformer.h.{i}."
            for name, shape in {"attn.c_attn": (w, 3 * w), "attn.c_proj": (w, w), "mlp.c_fc": (w, inner),
                                "mlp.c_proj": (inner, w)}.items():
                found |= {f"{layer}{name}.weight": shape, f"{layer}{name}.bias": shape[1:]}
            for name in ("ln_1", "ln_2"):
                found |= {f"{layer}{name}.weight": (w,), f"{layer}{name}.bias": (w,)}
        found |= {"transformer.ln_f.weight": (w,), "transformer.ln_f.bias": (w,)}
    else:
        w, inner, head = c["hidden_size"], c["intermediate_size"], c["head_dim"]
        q, kv = c["num_attention_heads"] * head, c["num_key_value_heads"] * head
        found = {"model.embed_tokens.weight": (c["vocab_size"], w)}
        for i in range(c["num_hidden_layers"]):
            layer = f"model.layers.{i}."
            for name, shape in {"self_attn.q_proj": (q, w), "self_attn.k_proj": (kv, w), "self_attn.v_proj": (kv, w),
                                "self_attn.o_proj": (w, q), "mlp.gate_proj": (inner, w), "mlp.up_proj": (inner, w),
                                "mlp.down_proj": (w, inner), "input_layernorm": (w,),
                                "post_attention_layernorm": (w,)}.items():
                found[f"{layer}{name}.weight"] = shape
        found["model.norm.weight"] = (w,)
    if not c.get("tie_word_embeddings", c["model_type"] == "gpt2"):
        found["lm_head.weight"] = (c["vocab_size"], w)
    return found


def make_model(config, folder):
    """Random values that leave nothing zero or one."""
    generator = numpy.random.default_rng(0)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    arrays = {}
    for name, shape in shapes_of(config).items():
        values = 0.2 * generator.standard_normal(shape, numpy.float32)
        arrays[name] = values + numpy.float32(len(shape) == 1 and name.endswith("weight"))
    write_safetensors(folder / "model.safetensors", arrays)


class Workspace:
    """Texts, prompts, token files and a tokenizer, which all models share."""

    def __init__(self, folder, partita):
        self.folder, self.partita = folder, partita
        generator = random.Random(1)
        text = [" ".join(generator.choices(WORDS, k=generator.randint(3, 40))) + "." for _ in range(200)]
        (folder / "text.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in text))
        self.pairs = [{"prompt": " ".join(generator.choices(WORDS, k=4)), "completion": " walked over the stone."}
                      for _ in range(3)]
        self.prompts = folder / "prompts.jsonl"
        self.prompts.write_text("".join(json.dumps(pair) + "\n" for pair in self.pairs))
        self.tokenizer = folder / "tokenizer.json"
        partita("tokenizer", "train", "--input", folder / "text.jsonl", "--vocab-size", "300", "--output",
                self.tokenizer)
        partita("tokenize", "--input", folder / "text.jsonl", "--tokenizer", self.tokenizer, "--append-eod", "--quiet",
                "--output-prefix", folder / "tokens")
        read = json.loads(self.tokenizer.read_text())
        self.end, self.tokens = read["added_tokens"][0]["id"], len(read["model"]["vocab"])
        prompts, completions = (partita.encode(self.tokenizer, [pair[key] for pair in self.pairs])
                                for key in ("prompt", "completion"))
        self.examples = [(prompt, completion + [self.end]) for prompt, completion in zip(prompts, completions)]

    def train(self, name, *options):
        run, config = self.folder / name, self.folder / "train.toml"
        config.write_text(f"""
[data]
path = "{self.folder / 'tokens_text_document'}"
tokenizer = "{self.tokenizer}"
split = "90,10,0"
[train]
steps = 40
sequence_length = 32
micro_batch = 4
global_batch = 4
device = "cpu"
[eval]
every = 0
[log]
tensorboard = false
[optimizer]
learning_rate = 0.01
""")
        self.partita("train", config, f"--run.directory={run}", *options)
        return run


class Comparison:
    """All of one model: what `partita export` and `partita eval` take, with `options` of exports (--merge)."""

    def __init__(self, work, table, name, path, options=()):
        self.work, self.partita, self.table, self.path, self.options = work, work.partita, table, path, options
        self.folder = work.folder / f"{name}_exports"

    def export(self, name, *options):
        out = self.folder / name
        self.partita("export", self.path, out, *self.options, *options)
        return out

    def run(self):
        for dtype in ("fp32", "bf16", "fp16", "q8_0"):
            file = self.export(f"{dtype}.gguf", "--dtype", dtype)
            if dtype == "fp32":
                self.whole = self.export("fp32", "--dtype", "fp32")
                self.config = json.loads((self.whole / "config.json").read_text())
            # The same model in Hugging Face's format, which has no q8_0.
            same = self.export(dtype, "--dtype", dtype) if dtype in ("bf16", "fp16") else self.whole
            self.compare_file(file, dtype, same)
            self.compare_in_llama_cpp(file, dtype, same)

    def compare_file(self, file, dtype, same):
        exact, rounded = (read_safetensors(folder / "model.safetensors") for folder in (self.whole, same))
        found, divisors = reference.tensors(file), reference.rope_divisors(self.config)
        if divisors is not None:
            data = numpy.frombuffer(found.pop("rope_freqs.weight")[2], numpy.float32)
            self.table.add("divisors of rotary frequencies", abs(data / divisors - 1).max(), 1e-6)
        expected = reference.expected_tensors(self.config, rounded, exact, dtype)
        self.table.add(f"{len(expected)} tensors in {dtype}", differing(found, expected))
        metadata = reference.metadata(file)
        model = {key: metadata.get(key) for key in reference.expected_metadata(self.config)}
        self.table.add("metadata of the model", differing(model, reference.expected_metadata(self.config)))
        if dtype == "fp32":
            self.compare_vocabulary(metadata)

    def compare_vocabulary(self, metadata):
        tokenizer = json.loads(self.work.tokenizer.read_text())
        tokens = {id: token for token, id in tokenizer["model"]["vocab"].items()}
        expected = [tokens.get(i, f"[PAD{i}]") for i in range(self.config["vocab_size"])]
        types = [5 if i not in tokens else 3 if i == self.work.end else 1 for i in range(self.config["vocab_size"])]
        known = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": expected,
                 "tokenizer.ggml.token_type": types, "tokenizer.ggml.add_bos_token": False,
                 "tokenizer.ggml.merges": [m if isinstance(m, str) else " ".join(m)
                                           for m in tokenizer["model"]["merges"]],
                 "tokenizer.ggml.bos_token_id": self.work.end, "tokenizer.ggml.eos_token_id": self.work.end}
        self.table.add("metadata of the tokenizer", differing({key: metadata.get(key) for key in known}, known))

    def compare_in_llama_cpp(self, file, dtype, same):
        llama = reference.LlamaCpp(file)
        if dtype == "fp32":
            ids = self.partita.encode(self.work.tokenizer, STRINGS)
            self.table.add("ids of texts in llama.cpp", sum(llama.tokenize(s) != i for s, i in zip(STRINGS, ids)))
            for pair, (prompt, _) in zip(self.work.pairs, self.work.examples):
                ours = self.partita("generate", self.whole, "--prompt", pair["prompt"], "--greedy", "--tokens", 30)
                unused = range(self.work.tokens, self.config["vocab_size"])
                after = [i for i in llama.greedy(prompt, 30, unused) if i != self.work.end]
                theirs = self.partita("tokenizer", "decode", self.work.tokenizer,
                                      text=json.dumps(prompt + after).encode())
                self.table.add(f"greedy text in llama.cpp, {len(after)} tokens, {len(set(after))} different",
                               ours != theirs)
        losses = [-llama.log_probability(prompt + completion[:i], token)
                  for prompt, completion in self.work.examples for i, token in enumerate(completion)]
        loss = json.loads(self.partita("eval", same, "--data", self.work.prompts, "--json"))["loss"]
        bound = FP32_LOSS_BOUNDS[self.config["model_type"]] if dtype == "fp32" else LOSS_BOUNDS[dtype]
        self.table.add(f"loss of completions in llama.cpp, {dtype} ({loss:.4f})",
                       abs(sum(losses) / len(losses) / loss - 1), bound)


def tokenizer_json(metadata):
    """A tokenizer.json like Llama 2's from a SentencePiece vocabulary in a GGUF file: every way to make a piece is a
    merge, in the order of scores."""
    tokens, scores, types = (metadata[f"tokenizer.ggml.{name}"] for name in ("tokens", "scores", "token_type"))
    ids = {token: i for i, token in enumerate(tokens) if types[i] in (1, 2, 3, 6)}
    plain = {token for token, i in ids.items() if types[i] == 1}
    merges = [(scores[ids[token]], token[:i], token[i:]) for token in plain for i in range(1, len(token))
              if token[:i] in plain and token[i:] in plain]
    merges = [pair for _, *pair in sorted(merges, key=lambda merge: (-merge[0], merge[1:]))]
    special = [{"id": i, "content": tokens[i], "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False, "special": True} for i in range(3)]
    begin = {"SpecialToken": {"id": tokens[1], "type_id": 0}}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": special,
            "normalizer": {"type": "Sequence", "normalizers": [
                {"type": "Prepend", "prepend": "\u2581"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
            "pre_tokenizer": None,
            "post_processor": {"type": "TemplateProcessing", "single": [begin, {"Sequence": {"id": "A", "type_id": 0}}],
                               "pair": [begin, {"Sequence": {"id": "A", "type_id": 0}}],
                               "special_tokens": {tokens[1]: {"id": tokens[1], "ids": [1], "tokens": [tokens[1]]}}},
            "decoder": None,
            "model": {"type": "BPE", "dropout": None, "unk_token": tokens[0], "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
                      "vocab": ids, "merges": merges}}


def compare_sentencepiece(work, table):
    for path in sorted((ROOT / "tests/golden/sentencepiece").glob("*.model")):
        folder, name = work.folder / path.stem, path.stem
        cases = json.loads(path.with_name(f"{name}_cases.json").read_text())["encode"]
        make_model(MODELS["Llama"] | {"vocab_size": 1000, "bos_token_id": 1, "eos_token_id": 2}, folder)
        (folder / "tokenizer.model").write_bytes(path.read_bytes())
        file = work.folder / f"{name}.gguf"
        work.partita("export", folder, file)
        if work.partita.warnings:
            print(f"{name}: {work.partita.warnings.strip()}")
            continue
        texts = {}
        for case in cases:
            try:
                texts[bytes.fromhex(case["text"]).decode()] = case["ids"]
            except UnicodeDecodeError:
                pass  # llama.cpp's server takes no other texts
        texts = {text: ids for text, ids in texts.items() if "\0" not in text}
        compare_ids(table, f"{name}, tokenizer.model", file, texts)

        (folder / "tokenizer.model").unlink()
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json(reference.metadata(file))))
        file = work.folder / f"{name}_json.gguf"
        work.partita("export", folder, file)
        table.add(f"warnings, {name}, tokenizer.json", len(work.partita.warnings))
        ids = work.partita.encode(folder / "tokenizer.json", list(texts), "--add-special")
        compare_ids(table, f"{name}, tokenizer.json, with <s>", file, dict(zip(texts, ids)), add_special=True)

        # With one merge less of a token that has two, texts have other ids than in llama.cpp.
        tokenizer = tokenizer_json(reference.metadata(file))
        merges = tokenizer["model"]["merges"]
        made = ["".join(pair) for pair in merges]
        merges.pop(next(i for i, token in enumerate(made) if made.count(token) > 1))
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
        work.partita("export", folder, work.folder / f"{name}_incomplete.gguf")
        table.add(f"no warning, {name}, tokenizer.json without one merge", "merges" not in work.partita.warnings)


def split_tokenizer(regex, ignore_merges, alphabet):
    """Byte-level BPE with a token for every string of two and three characters, so that each split shows in the ids.
    Of three, every other one is missing among the merges."""
    printable = gguf_bytes()
    ids = {printable[byte]: byte for byte in range(256)}
    merges = []

    def join(left, right, by_merges=True):
        ids.setdefault(left + right, len(ids))
        if by_merges:
            merges.append([left, right])
    spelled = ["".join(printable[byte] for byte in character.encode()) for character in alphabet]
    for character in spelled:
        for i in range(1, len(character)):
            join(character[:i], character[i:i + 1])
    for left in spelled:
        for right in spelled:
            join(left, right)
    pairs = [left + right for left in spelled for right in spelled]
    for i, left in enumerate(pairs):
        for j, right in enumerate(spelled):
            join(left, right, by_merges=not ignore_merges or (i + j) % 2 == 0)
    split = {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]}, "post_processor": None,
            "decoder": level, "model": {"type": "BPE", "dropout": None, "unk_token": None,
                                        "continuing_subword_prefix": None, "end_of_word_suffix": None,
                                        "fuse_unk": False, "byte_fallback": False, "ignore_merges": ignore_merges,
                                        "vocab": ids, "merges": merges}}


def gguf_bytes():
    """GPT-2's printable character of each byte."""
    shown = [*range(ord("!"), ord("~") + 1), *range(ord("\xa1"), ord("\xac") + 1), *range(ord("\xae"), 256)]
    others = iter(range(256, 512))
    return {byte: chr(byte if byte in shown else next(others)) for byte in range(256)}


def compare_splits(work, table):
    """Each way of splitting that we recognize, as our own list has it, with and without merges ignored."""
    source = (ROOT / "src/partita/tokenizer/split/splitter.cc").read_text()
    generator = random.Random(7)
    for number, (pattern, regex) in enumerate(re.findall(r'\{SplitPattern::(\w+),\s*R"\((.*)\)"\}', source)):
        for ignore_merges in (False, True):
            name = f"{pattern}_{number}_{'ignoring' if ignore_merges else 'merging'}"
            folder, file = work.folder / f"split_{name}", work.folder / f"{name}.gguf"
            tokenizer = split_tokenizer(regex, ignore_merges, SPLIT_ALPHABET)
            make_model(MODELS["Llama"] | {"vocab_size": len(tokenizer["model"]["vocab"]), "eos_token_id": 0}, folder)
            (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
            work.partita("export", folder, file)
            if work.partita.warnings:
                print(f"{name}: {work.partita.warnings.strip()}")
                continue
            texts = ["".join(generator.choices(SPLIT_ALPHABET, k=generator.randint(1, 12))) for _ in range(400)]
            ids = work.partita.encode(folder / "tokenizer.json", texts)
            compare_ids(table, f"split as {pattern}, {'ignoring' if ignore_merges else 'by'} merges", file,
                        dict(zip(texts, ids)))


def compare_ids(table, what, file, texts, **options):
    llama = reference.LlamaCpp(file)
    wrong = [text for text, ids in texts.items() if llama.tokenize(text, **options) != ids]
    table.add(f"ids of {len(texts)} texts in llama.cpp, {what} {wrong[:3] or ''}", len(wrong))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", default="", help="part of the names of the models")
    p.add_argument("--keep", type=pathlib.Path, help="an empty or new folder for all files; default: a temporary one")
    p.add_argument("--partita", type=pathlib.Path, default=ROOT / "build/partita", help="the program")
    args = p.parse_args()
    if not args.partita.exists():
        sys.exit(f"compare_gguf: {args.partita} is missing: run 'make build'")

    partita, table = Partita(args.partita), Table()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (args.keep or pathlib.Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        work = Workspace(folder, partita)

        def compare(name, make, *options):
            if args.only.lower() in name.lower():
                table.start(name)
                Comparison(work, table, name, make(), options).run()

        def random_model(config):
            model = folder / f"random_{len(list(folder.glob('random_*')))}"
            make_model(config, model)
            (model / "tokenizer.json").write_bytes(work.tokenizer.read_bytes())
            return model
        for name, config in MODELS.items():
            compare(name, lambda: random_model(config | {"bos_token_id": None, "eos_token_id": work.end}))
        compare("trained GPT-2", lambda: work.train("gpt2", "--model.layers=2", "--model.hidden_size=64",
                                                    "--model.heads=4", "--model.max_length=128"))
        llama = ["--model.kind=llama", "--model.layers=2", "--model.hidden_size=64", "--model.heads=4",
                 "--model.kv_heads=2", "--model.max_length=128"]
        compare("trained Llama", lambda: work.train("llama", *llama))
        compare("trained Llama, merged adapters", lambda: work.train(
            "lora", f"--model.from={work.train('base', *llama)}", "--lora.rank=4", "--train.steps=60"), "--merge")
        if args.only.lower() in "sentencepiece":
            table.start("SentencePiece")
            compare_sentencepiece(work, table)
        if args.only.lower() in "splits":
            table.start("splits in front of BPE")
            compare_splits(work, table)
    if table.failed or not table.made:
        sys.exit(f"compare_gguf: of {table.made} comparisons {table.failed} differ")
    print(f"\nAll {table.made} comparisons are equal.")


if __name__ == "__main__":
    main()
