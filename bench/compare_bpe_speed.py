#!/usr/bin/env python3
"""MB of text a second and thread beside gigatoken, tokenizers and tiktoken (pip), in one run, a round after the other.

    scripts/setup.sh --peer; ninja -C build tokenizer_speed
    bench/compare_bpe_speed.py
    bench/compare_bpe_speed.py --tiktoken llama3=models/llama3/tokenizer.model --text news.txt

Each of --data's corpora is repeated up to --megabytes and cut into documents of 4 KB; --text adds a file as it is.
"cold": the first pass of a new tokenizer, "warm": those after it. CPU time of the process; the table shows medians of
--rounds, and what multiple of a peer's figure ours is in the same round. The slow ones encode a part, and are compared
with ours on that part. Other ids than ours end the run.
"""
import argparse
import base64
import bz2
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
if (ROOT / ".deps/peer").exists():
    sys.path.insert(0, str(ROOT / ".deps/peer"))
sys.dont_write_bytecode = True
os.environ["TOKENIZERS_PARALLELISM"] = "false"

PATTERNS = {"llama3": ("cl100k", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
                                 r"\s*[\r\n]+|\s+(?!\S)|\s+"),
            "qwen": ("qwen2", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
                              r"\s*[\r\n]+|\s+(?!\S)|\s+")}
MOST_OF_SLOW = 6_000_000  # bytes for those that take seconds for a megabyte


def documents(text, size=4096):
    at = 0
    while at < len(text):
        end = text.find(b"\n", at + size) if len(text) - at > size else -1
        end = len(text) if end < 0 else end + 1
        yield text[at:end]
        at = end


def gpt2_json(folder):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    tokenizer = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer.to_str()


def ranks_of(path):
    return {base64.b64decode(token): int(rank) for token, rank in
            (line.split() for line in pathlib.Path(path).read_bytes().splitlines() if line)}


def seconds(work):
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def peers(kind, path):
    """(name, a function that makes an encoder of documents -> ids a document, whether it is slow)"""
    if kind == "gpt2":
        text = gpt2_json(path)

        def make_gigatoken():
            import gigatoken
            return gigatoken.Tokenizer.from_json(text)

        def make_tokenizers():
            from tokenizers import Tokenizer
            return Tokenizer.from_str(text)
    else:
        def make_gigatoken():
            import gigatoken
            return gigatoken.Tokenizer.from_tiktoken(path, PATTERNS[kind][0], {})
        make_tokenizers = None

    def gigatoken():
        import awkward
        import gigatoken as module
        tokenizer = make_gigatoken()

        def encode(texts):
            took, ids = seconds(lambda: tokenizer.encode_batch(module.BytesSource(texts), parallel=False))
            flat = awkward.flatten(ids)
            return took, len(flat), int(awkward.sum(flat))
        return encode

    def tokenizers():
        tokenizer = make_tokenizers()

        def encode(texts):
            texts = [text.decode() for text in texts]
            took, found = seconds(lambda: tokenizer.encode_batch_fast(texts, add_special_tokens=False))
            return took, sum(len(e.ids) for e in found), sum(sum(e.ids) for e in found)
        return encode

    def tiktoken():
        import tiktoken as module
        if kind == "gpt2":
            from tiktoken.load import data_gym_to_mergeable_bpe_ranks
            ranks = data_gym_to_mergeable_bpe_ranks(str(path / "merges.txt"), str(path / "vocab.json"))
            pattern = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
        else:
            ranks, pattern = ranks_of(path), PATTERNS[kind][1]
        encoding = module.Encoding(kind, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})

        def encode(texts):
            texts = [text.decode() for text in texts]
            took, found = seconds(lambda: [encoding.encode_ordinary(text) for text in texts])
            return took, sum(map(len, found)), sum(map(sum, found))
        return encode

    yield "gigatoken", gigatoken, False
    if make_tokenizers:
        yield "tokenizers", tokenizers, True
    yield "tiktoken", tiktoken, True


def ours(program, path, text, folder):
    file = folder / "text"
    file.write_bytes(text)
    command = [program, str(path), "--documents", "4096", "--rounds", "2", str(file)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {"cold": found["first"], "warm": found["median"], "ids": found["ids"], "sum": found["sum"]}


def compare(kind, path, name, text, args, folder):
    rates = {}
    for _ in range(args.rounds):
        found = ours(args.program, path, text, folder)
        texts = list(documents(text))
        part = []
        while sum(map(len, part)) < min(MOST_OF_SLOW, len(text)) and len(part) < len(texts):
            part.append(texts[len(part)])
        found_of_part = ours(args.program, path, b"".join(part), folder)
        for name_of_ours, result in (("ours", found), ("ours, part", found_of_part)):
            rates.setdefault(name_of_ours, []).append((result["cold"], result["warm"]))
        for peer, make, slow in peers(kind, path):
            if peer not in args.peers:
                continue
            batch, expected = (part, found_of_part) if slow else (texts, found)
            try:
                encode = make()
            except BaseException as error:  # gigatoken panics where it cannot read a file
                if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                    raise
                print(f"{kind:8} {name:24} {peer:11} cannot be used: {error!r}"[:118], flush=True)
                continue
            size = 1e-6 * sum(map(len, batch))
            cold, ids, total = encode(batch)
            if (ids, total) != (expected["ids"], expected["sum"]):
                sys.exit(f"{kind}, {name}: {peer} finds {ids} ids of sum {total}, ours {expected['ids']} of "
                         f"{expected['sum']}")
            warm = statistics.median(encode(batch)[0] for _ in range(1 if slow else 2))
            rates.setdefault(peer, []).append((size / cold, size / warm))
    slow_peers = [peer for peer, _, slow in peers(kind, path) if slow]
    for peer, figures in rates.items():
        cold, warm = (statistics.median(figure[i] for figure in figures) for i in (0, 1))
        line = f"{kind:8} {name:24} {peer:11} cold {cold:7.1f} MB/s  warm {warm:7.1f} MB/s"
        if not peer.startswith("ours"):
            own = rates["ours, part" if peer in slow_peers else "ours"]
            line += "   ours: " + ", ".join(
                f"{statistics.median(o[i] / p[i] for o, p in zip(own, figures)):.1f}x {word}"
                for i, word in enumerate(("cold", "warm")))
        print(line, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/bench/tokenizer_speed"))
    parser.add_argument("--data", type=pathlib.Path, default=ROOT.parent / "shared/data")
    parser.add_argument("--text", action="append", default=[], type=pathlib.Path, help="a file more")
    parser.add_argument("--tiktoken", action="append", default=[], metavar="llama3=FILE|qwen=FILE")
    parser.add_argument("--megabytes", type=float, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", nargs="+", default=["gigatoken", "tokenizers", "tiktoken"])
    args = parser.parse_args()

    texts = {}
    for file in sorted((args.data / "corpora").iterdir()):
        content = bz2.decompress(file.read_bytes()) if file.suffix == ".bz2" else file.read_bytes()
        texts[file.name] = content * max(1, round(args.megabytes * 1e6 / len(content)))
    for file in args.text:
        texts[file.name] = file.read_bytes()
    kinds = {"gpt2": args.data / "tokenizers/gpt2"} | dict(item.split("=", 1) for item in args.tiktoken)
    with tempfile.TemporaryDirectory() as folder:
        for kind, path in kinds.items():
            for name, text in texts.items():
                compare(kind, pathlib.Path(path), name, text, args, pathlib.Path(folder))


if __name__ == "__main__":
    main()
