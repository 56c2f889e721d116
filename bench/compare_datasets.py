#!/usr/bin/env python3
"""Token files and sample orders beside megatron-core's, byte for byte.

  scripts/setup.sh --peer; bench/compare_datasets.py          # a line a comparison; code 1 if anything differs
  bench/compare_datasets.py --data FOLDER                     # with corpora/ and tokenizers/ in it

Compared are: .bin and .idx of text, with and without ends of documents, plain, compressed, from standard input, of
several keys; theirs read by ours and ours by theirs; merged files; document, sample and shuffle index of one dataset
and of blends, as the .npy files that theirs keeps, for random lengths, splits, seeds and numbers of samples.
"""
import argparse
import gzip
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import types
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEER = ROOT / ".deps/peer"
if PEER.exists():
    sys.path.insert(0, str(PEER))
sys.dont_write_bytecode = True
warnings.filterwarnings("ignore")  # of what megatron-core could use and need not
try:
    import numpy
    import torch
    from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
    from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
    from megatron.core.datasets.indexed_dataset import DType, IndexedDataset, IndexedDatasetBuilder
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
except ImportError as error:
    sys.exit(f"compare_datasets: {error}: 'scripts/setup.sh --peer' installs what is needed")


class Comparison:
    def __init__(self, program, folder):
        self.program, self.folder, self.different = str(program), folder, 0

    def __call__(self, *arguments, stdin=None, code=0):
        done = subprocess.run([self.program, *map(str, arguments)], input=stdin, capture_output=True)
        if done.returncode != code:
            raise RuntimeError(f"{arguments} ended with code {done.returncode}:\n{done.stderr.decode()}")
        return done.stdout.decode()

    def check(self, what, same, note=""):
        self.different += not same
        print(f"{'same' if same else 'DIFFERENT':10}{what}{note}", flush=True)

    def files(self, what, ours, theirs, note=""):
        ours, theirs = pathlib.Path(ours), pathlib.Path(theirs)
        self.check(what, ours.read_bytes() == theirs.read_bytes(), f", {theirs.stat().st_size} bytes{note}")


def documents(data):
    """Pieces of the corpora, empty ones and single characters among them."""
    draw = random.Random(4)
    texts = ["", "a", " ", "\n", "日本語 текст हिन्दी 👩‍👩‍👧", "<|endoftext|> is text", "x" * 100_000, ""]
    for name in ("tinyshakespeare.txt", "botchan.txt"):
        text, at = (data / "corpora" / name).read_text(), 0
        while at < len(text):
            size = draw.choice((10, 300, 3000, 40_000))
            texts.append(text[at:at + size])
            at += size
    return texts


def gpt2(data):
    folder = data / "tokenizers/gpt2"
    tokenizer = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def preprocess(prefix, ids, vocabulary, eod):
    """As tools/preprocess_data.py of Megatron-LM writes documents whose ids are these."""
    builder = IndexedDatasetBuilder(f"{prefix}.bin", dtype=DType.optimal_dtype(vocabulary))
    for document in ids:
        document = list(document)
        if document and eod is not None:
            document.append(eod)
        builder.add_document(document, [len(document)] if document else [])
    builder.finalize(f"{prefix}.idx")


def compare_text(c, data):
    texts, tokenizer, folder = documents(data), gpt2(data), c.folder
    lines = "".join(json.dumps({"id": i, "text": t, "title": t[:20]}) + "\n" for i, t in enumerate(texts)).encode()
    (folder / "a.jsonl").write_bytes(lines)
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(lines))
    begun = time.perf_counter()
    ids = [e.ids for e in tokenizer.encode_batch_fast(texts)]
    seconds = time.perf_counter() - begun
    options = ["--tokenizer-type", "GPT2BPETokenizer", "--vocab-file", data / "tokenizers/gpt2/vocab.json", "--merge-file",
               data / "tokenizers/gpt2/merges.txt", "--quiet"]
    for eod in (None, 50256):
        theirs = folder / f"theirs-{eod}"
        preprocess(theirs, ids, 50257, eod)
        for name, given, stdin in (("plain", folder / "a.jsonl", None), ("gzip", folder / "a.jsonl.gz", None),
                                   ("standard input", "-", lines)):
            ours = folder / f"ours-{eod}-{name}"
            for workers in (1, 3):
                report = c("tokenize", "--input", given, *options, "--output-prefix", ours, "--workers", workers,
                           *(["--append-eod"] if eod else []), stdin=stdin)
                for ending in (".bin", ".idx"):
                    c.files(f"{ending} of text, {name}, {workers} workers{', with ends' if eod else ''}",
                            f"{ours}_text_document{ending}", f"{theirs}{ending}")
    print(f"          ours with 3 workers: {report.splitlines()[0]}; their tokenizer alone {seconds:.1f} s")
    c("tokenize", "--input", folder / "a.jsonl", *options, "--output-prefix", folder / "two", "--json-keys", "text", "title")
    preprocess(folder / "titles", [e.ids for e in tokenizer.encode_batch_fast([t[:20] for t in texts])], 50257, None)
    for ending in (".bin", ".idx"):
        c.files(f"{ending} of a second key", folder / f"two_title_document{ending}", folder / f"titles{ending}")

    ours, theirs = folder / "ours-None-plain_text_document", folder / "theirs-None"
    summary = c("dataset", "verify", theirs)
    c.check("theirs read by ours", f"{len(texts)} documents" in summary and f"{sum(map(len, ids))} tokens" in summary)
    read = IndexedDataset(str(ours))
    filled = [document for document in ids if document]
    c.check("ours read by theirs", len(read) == len(filled) and all(read[i].tolist() == d for i, d in enumerate(filled))
            and len(read.document_indices) == len(texts) + 1, f", {len(filled)} sequences")

    merged = IndexedDatasetBuilder(str(folder / "merged.bin"), dtype=numpy.uint16)
    for prefix in (theirs, folder / "titles", theirs):
        merged.add_index(str(prefix))
    merged.finalize(str(folder / "merged.idx"))
    c("dataset", "merge", folder / "ours-merged", theirs, folder / "titles", theirs)
    for ending in (".bin", ".idx"):
        c.files(f"{ending} of three, merged", folder / f"ours-merged{ending}", folder / f"merged{ending}")


def random_dataset(prefix, draw):
    builder = IndexedDatasetBuilder(f"{prefix}.bin", dtype=draw.choice((numpy.uint16, numpy.int32)))
    for _ in range(draw.randint(20, 400)):
        lengths = [draw.choice((0, 1, 7, 60, 900)) for _ in range(draw.randint(1, 3))]
        builder.add_document(list(range(1, sum(lengths) + 1)), lengths)
    builder.add_document([1] * 2000, [1000, 1000])  # theirs does not end where a split has no tokens
    builder.finalize(f"{prefix}.idx")


def order_of(c, draw, number):
    """One dataset or a blend through their builder and ours."""
    folder = c.folder / f"order{number}"
    folder.mkdir()
    parts = number % 4 + 1
    prefixes = [str(folder / f"d{d}") for d in range(parts)]
    for prefix in prefixes:
        random_dataset(prefix, draw)
    weights = None if parts == 1 else [round(draw.uniform(0.05, 3), 3) for _ in prefixes]
    samples, length, seed = draw.randint(1, 6000), draw.choice((2, 5, 16, 33, 128)), draw.randint(1, 2**32 - 1)
    split = draw.choice(("100,0,0", "969,31,0", "50,50,0"))
    cache = folder / "theirs"
    tokenizer = types.SimpleNamespace(eod=0, pad=None, vocab_size=50257, unique_identifiers={"class": "none"})
    config = GPTDatasetConfig(
        random_seed=seed, sequence_length=length, blend=(prefixes, weights), split=split, path_to_cache=str(cache),
        tokenizer=tokenizer, reset_position_ids=False, reset_attention_mask=False, eod_mask_loss=False)
    begun = time.perf_counter()
    # Of validation a single sample: it only has to exist.
    train = BlendedMegatronDatasetBuilder(GPTDataset, [samples, 1, 0], lambda: True, config).build()[0]
    theirs_took = time.perf_counter() - begun
    blend = prefixes if weights is None else [str(x) for pair in zip(weights, prefixes) for x in pair]
    begun = time.perf_counter()
    c("dataset", "index", *blend, "--samples", samples, "--sequence-length", length, "--seed", seed, "--split", split,
      "--output", folder / "ours")
    ours_took = time.perf_counter() - begun
    kept = lambda dataset, what: cache / f"{dataset.unique_description_hash}-{type(dataset).__name__}-train-{what}.npy"
    same, size = True, 0
    for d, dataset in enumerate([train] if weights is None else train.datasets):
        place = folder / "ours" / ("" if weights is None else str(d))
        for what in ("document_index", "sample_index", "shuffle_index"):
            same &= (place / f"{what}.npy").read_bytes() == kept(dataset, what).read_bytes()
            size += kept(dataset, what).stat().st_size
    if weights is not None:
        for what in ("dataset_index", "dataset_sample_index"):
            same &= (folder / "ours" / f"{what}.npy").read_bytes() == kept(train, what).read_bytes()
            size += kept(train, what).stat().st_size
    c.check(f"order of {samples} samples of {length}, {parts} dataset{'s' if parts > 1 else ''}, split {split}, seed {seed}",
            same, f", {size} bytes; {ours_took:.2f} s, theirs {theirs_took:.2f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partita", type=pathlib.Path, default=ROOT / "build/partita")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT.parent / "shared/data", help="corpora and tokenizers")
    parser.add_argument("--orders", type=int, default=24, help="random datasets and blends")
    arguments = parser.parse_args()
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    with tempfile.TemporaryDirectory() as folder:
        c = Comparison(arguments.partita, pathlib.Path(folder))
        if arguments.data.exists():
            compare_text(c, arguments.data)
        else:
            print(f"left out   text: {arguments.data} does not exist, see --data")
        draw = random.Random(11)
        for number in range(arguments.orders):
            order_of(c, draw, number)
    if c.different:
        sys.exit(f"compare_datasets: {c.different} differ")
    print("compare_datasets: all the same" + ("" if arguments.data.exists() else ", text left out"))


if __name__ == "__main__":
    main()
