#!/usr/bin/env python3
"""Compares ids, decoded text and speed with those of `sentencepiece`.

    pip install --target FOLDER sentencepiece mistral-common
    PYTHONPATH=FOLDER bench/compare_sentencepiece.py --build build [--strings 100000] [--only llama2] [--speed]

Models are Llama 2's of --data, those that mistral-common brings, and small ones trained here on --data's corpora and
for the tests' golden files, with BPE and unigram, each rule of normalization and each option that changes ids. For each
the corpora, and random strings of pieces where models differ, a third of them with bytes that are not UTF-8; ids that
the reference gives and random ones are decoded. --speed: also MB/s of processor time on one thread, one after the
other. Prints a line for each; exits with 1 if any id or text differs.
"""
import argparse
import bz2
import importlib.util
import io
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import sentencepiece

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests/golden")]
from compare_tokenizers import random_strings  # noqa: E402
import make_sentencepiece  # noqa: E402

BROKEN = make_sentencepiece.BROKEN
PIECES = make_sentencepiece.PIECES + ["ＡＢＣ", "ﬁ", "\u212b", "①", "がぎ", "か\u3099", "q\u0323\u0307", "\u1112\u1161\u11ab",
                                     "http://", "tokenization", "##", "zz zz", "▁foo", "\u0344", "\ufeff"]


def trained(corpus):
    """(name, what trains the model): each option beside others, so that a few models have them all."""
    def train(**options):
        return lambda: run(options)

    def run(options):
        written = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(corpus), model_writer=written, minloglevel=2,
                                                 hard_vocab_limit=False, **options)
        return written.getvalue()
    for kind in ("bpe", "unigram"):
        common = {"model_type": kind}
        yield f"{kind} plain", train(vocab_size=3000, **common)
        yield f"{kind} bytes", train(vocab_size=3000, byte_fallback=True, normalization_rule_name="identity", split_digits=True,
                                     remove_extra_whitespaces=False, allow_whitespace_only_pieces=True,
                                     character_coverage=0.98, **common)
        yield f"{kind} suffix", train(vocab_size=3000, treat_whitespace_as_suffix=True, normalization_rule_name="nfkc",
                                      **common)
        yield f"{kind} user", train(vocab_size=3000, normalization_rule_name="nmt_nfkc_cf", character_coverage=0.98,
                                    user_defined_symbols=["<sep>", "foo bar", "▁foo", "ab", "abc", "\n", "▁▁", "qu"],
                                    control_symbols=["<user>", "#"], **common)
        yield f"{kind} user bytes", train(vocab_size=3500, byte_fallback=True, normalization_rule_name="identity",
                                          add_dummy_prefix=False, remove_extra_whitespaces=False,
                                          user_defined_symbols=["<sep>", "the", "\t", "▁▁", "▁▁▁▁"], **common)
        yield f"{kind} sentences", train(vocab_size=3000, split_by_whitespace=False, split_by_unicode_script=False,
                                         split_by_number=False, normalization_rule_name="nfkc_cf", add_dummy_prefix=False,
                                         **common)
        yield f"{kind} names", train(vocab_size=3000, unk_surface="?", unk_piece="[UNK]", bos_id=-1, eos_id=5, pad_id=3,
                                     **common)


def models(data, scratch, corpus):
    """(name, what gives its path)"""
    llama = data / "tokenizers/llama2/tokenizer.model"
    if llama.exists():
        yield "llama2", lambda: llama
    if found := importlib.util.find_spec("mistral_common"):
        folder = pathlib.Path(found.submodule_search_locations[0], "data")
        for path in sorted(folder.glob("*.model*")):
            yield f"mistral {path.name.removeprefix('mistral_instruct_')}", lambda path=path: path
    for path in sorted((ROOT / "tests/golden/sentencepiece").glob("*.model")):
        yield f"golden {path.stem}", lambda path=path: path
    for name, make in trained(corpus) if corpus else ():
        path = scratch / (name.replace(" ", "_") + ".model")
        yield name, lambda path=path, make=make: path.write_bytes(make()) and path


def random_bytes(count, draw):
    """Without line ends: they are handed over a line each."""
    def text():
        kind, length = draw.random(), draw.choice((1, 2, 3, 5, 9, 30))
        if kind < 0.3:
            return bytes(draw.choice(range(11, 256)) for _ in range(length))
        return b"".join(draw.choice(BROKEN) if draw.random() < 0.25 else draw.choice(PIECES).encode() for _ in range(length))
    return [text().replace(b"\n", b" ").replace(b"\r", b" ") for _ in range(count)]


def encode(partita, path, texts):
    """Texts of bytes, a line each, or strings as JSON."""
    as_json = bool(texts) and isinstance(texts[0], str)
    lines = [json.dumps(text).encode() for text in texts] if as_json else texts
    command = [partita, "tokenizer", "encode", path] + (["--json"] if as_json else [])
    done = subprocess.run(command, input=b"".join(line + b"\n" for line in lines), stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def decode(partita, path, lists):
    done = subprocess.run([partita, "tokenizer", "decode", path, "--json"], check=True, stdout=subprocess.PIPE,
                          input="".join(json.dumps(ids) + "\n" for ids in lists).encode())
    return [json.loads(line) for line in done.stdout.splitlines()]


def differences(what, inputs, found, expected):
    wrong = [i for i in range(len(inputs)) if i >= len(found) or found[i] != expected[i]]
    for i in wrong[:3]:
        print(f"    {what} {ascii(inputs[i])[:300]}\n    found    {ascii(found[i] if i < len(found) else None)[:300]}\n"
              f"    expected {ascii(expected[i])[:300]}")
    return len(wrong)


def compare(partita, name, path, texts, broken, corpora, draw):
    peer = sentencepiece.SentencePieceProcessor(model_file=str(path))
    differ, count, encoded = 0, 0, []
    for inputs in (texts, broken, *(text.split("\n") for text in corpora.values()), list(corpora.values())):
        expected = [peer.encode(text) for text in inputs]
        differ += differences("text", inputs, encode(partita, path, inputs), expected)
        count += len(inputs)
        encoded += expected[:10_000]
    lists = encoded + [[draw.randrange(peer.vocab_size()) for _ in range(draw.randint(1, 12))] for _ in range(10_000)]
    differ += differences("ids", lists, decode(partita, path, lists), [peer.decode(ids) for ids in lists])
    print(f"{name:28} {count} texts, {len(lists)} lists of ids, {differ} differ", flush=True)
    return differ


def time_corpora(build, name, path, corpora, scratch):
    peer = sentencepiece.SentencePieceProcessor(model_file=str(path))
    for corpus, text in corpora.items():
        file = scratch / "corpus.txt"
        file.write_text(text, newline="")
        for lines in (False, True):
            texts = text.encode().split(b"\n") if lines else [text.encode()]
            seconds = []
            for _ in range(3):
                begin = time.process_time()
                for item in texts:
                    peer.encode(item)
                seconds.append(time.process_time() - begin)
            command = [str(build / "bench/tokenizer_speed"), str(path)] + (["--lines"] if lines else []) + [str(file)]
            ours = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
            theirs = len(text.encode()) / 1e6 / sorted(seconds)[1]
            print(f"{name:28} {corpus:18} {'lines' if lines else 'whole':6} sentencepiece {theirs:6.2f} MB/s, "
                  f"partita {ours['first']:6.1f} at first, then {ours['median']:6.1f} ({ours['median'] / theirs:.0f}x)",
                  flush=True)


def read_corpora(data):
    corpora = {}
    for path in (data / "corpora/botchan.txt", data / "corpora/tinyshakespeare.txt", data / "corpora/enwiki-206-pages.xml.bz2",
                 *(data / "language-id").glob("*.txt")):
        if path.exists():
            content = bz2.decompress(path.read_bytes()) if path.suffix == ".bz2" else path.read_bytes()
            corpora[path.name.split(".")[0]] = content.decode()
    return corpora


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT.parent / "shared/data")
    parser.add_argument("--strings", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1234)
    parser.add_argument("--only", help="models whose name holds this")
    parser.add_argument("--speed", action="store_true")
    arguments = parser.parse_args()
    print(f"sentencepiece {sentencepiece.__version__}")
    draw = random.Random(arguments.seed)
    broken = random_bytes(arguments.strings // 3, draw)
    texts = random_strings(arguments.strings - len(broken), arguments.seed)
    corpora = read_corpora(arguments.data)
    training = [line for name, text in corpora.items() if name != "enwiki-206-pages" for line in text.split("\n")[:800]]
    differ = compared = 0
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        for name, make in models(arguments.data, scratch, training):
            if arguments.only and arguments.only not in name:
                continue
            path = make()
            differ += compare(str(arguments.build / "partita"), name, path, texts, broken, corpora, draw)
            compared += 1
            if arguments.speed:
                time_corpora(arguments.build, name, path, corpora, scratch)
    if not compared:
        sys.exit("nothing to compare: no model was found")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
