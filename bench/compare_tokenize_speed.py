#!/usr/bin/env python3
"""Text to token ids on all cores: `partita tokenize` as a whole command beside the libraries' own parallel calls.

    scripts/setup.sh --peer; bench/compare_tokenize_speed.py                   # two workers, three rounds, 200 MB
    bench/compare_tokenize_speed.py --workers 1 --megabytes 50

The text is --data's Wikipedia pages as JSON lines of 3.6 KB. Ours starts, loads the tokenizer, reads the file, and
writes .bin and .idx; a peer has its tokenizer loaded and the texts in memory, and is timed from there to its ids, the
slow ones on the first part of the texts alone. Wall time, all of them in turn, round after round; medians, and medians
of the ratios within a round. The number of tokens must be the same.
"""
import argparse
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
MOST_OF_SLOW = 4_000_000  # bytes


def write_text(data, path, megabytes):
    """The documents, and writes them `megabytes` long as JSON lines."""
    pages = bz2.open(data / "corpora/enwiki-206-pages.xml.bz2", "rt", encoding="utf-8").read()
    pages = [pages[i:i + 3600] for i in range(0, len(pages), 3600)]
    texts, size = [], 0
    with path.open("w", encoding="utf-8") as file:
        while size < megabytes * 1e6:
            for page in pages:
                size += file.write(json.dumps({"text": page}, ensure_ascii=False) + "\n")
                texts.append(page)
    return texts


def ours(args, tokenizer, file, folder):
    begin = time.perf_counter()
    done = subprocess.run([str(args.partita), "tokenize", "--input", str(file), "--tokenizer", str(tokenizer), "--quiet",
                           "--workers", str(args.workers), "--output-prefix", str(folder / "out")],
                          capture_output=True, text=True)
    took = time.perf_counter() - begin
    if done.returncode != 0:
        sys.exit(f"compare_tokenize_speed: partita tokenize ended with code {done.returncode}: {done.stderr[-1000:]}")
    return took, (folder / "out_text_document.bin").stat().st_size


def gpt2_peers(args, folder):
    """[(name, texts -> number of ids, whether it is slow)]"""
    from compare_bpe_speed import gpt2_json
    import awkward
    import gigatoken
    import tiktoken
    from tiktoken.load import data_gym_to_mergeable_bpe_ranks
    from tokenizers import Tokenizer
    text = gpt2_json(folder)
    fast, slow = gigatoken.Tokenizer.from_json(text), Tokenizer.from_str(text)
    ranks = data_gym_to_mergeable_bpe_ranks(str(folder / "merges.txt"), str(folder / "vocab.json"))
    pattern = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
    encoding = tiktoken.Encoding("gpt2", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    return [("gigatoken", lambda texts: len(awkward.flatten(fast.encode_batch(texts, parallel=args.workers > 1))), False),
            ("tokenizers", lambda texts: sum(len(e.ids) for e in slow.encode_batch_fast(texts)), True),
            ("tiktoken", lambda texts: sum(map(len, encoding.encode_ordinary_batch(texts, num_threads=args.workers))), True)]


def llama2_peers(args, folder):
    import sentencepiece
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    return [("sentencepiece", lambda texts: sum(map(len, model.encode(texts, num_threads=args.workers))), True)]


def compare(args, name, tokenizer, peers, texts, file, folder):
    size = 1e-6 * sum(len(text.encode()) for text in texts)
    part, part_size = [], 0
    while part_size < MOST_OF_SLOW and len(part) < len(texts):
        part_size += len(texts[len(part)].encode())
        part.append(texts[len(part)])
    expected_of_part, rates = None, {}
    for _ in range(args.rounds):
        took, bytes_of_ids = ours(args, tokenizer, file, folder)
        rates.setdefault("Partita, whole command", []).append(size / took)
        for peer, encode, slow in peers:
            begin = time.perf_counter()
            ids = encode(part if slow else texts)
            rates.setdefault(peer, []).append((part_size * 1e-6 if slow else size) / (time.perf_counter() - begin))
            if not slow and 2 * ids != bytes_of_ids:
                sys.exit(f"compare_tokenize_speed: {name}: {peer} finds {ids} tokens, ours {bytes_of_ids // 2}")
            if slow and ids != (expected_of_part := expected_of_part or ids):
                sys.exit(f"compare_tokenize_speed: {name}: {peer} finds {ids} tokens, another {expected_of_part}")
    own = rates["Partita, whole command"]
    for peer, figures in rates.items():
        ratio = statistics.median(o / p for o, p in zip(own, figures))
        print(f"{name:8} {peer:24} {statistics.median(figures):8.1f} MB/s   ours: {ratio:6.1f}x", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partita", type=pathlib.Path, default=ROOT / "build/partita")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT.parent / "shared/data", help="corpora and tokenizers")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--megabytes", type=float, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = str(args.workers)
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if args.workers > 1 else "false"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        texts = write_text(args.data, folder / "text.jsonl", args.megabytes)
        kinds = args.data / "tokenizers"
        compare(args, "gpt2", kinds / "gpt2", gpt2_peers(args, kinds / "gpt2"), texts, folder / "text.jsonl", folder)
        compare(args, "llama2", kinds / "llama2/tokenizer.model", llama2_peers(args, kinds / "llama2"), texts,
                folder / "text.jsonl", folder)


if __name__ == "__main__":
    main()
