#!/usr/bin/env python3
"""Writes the golden files of the tokenizer tests with Hugging Face's `tokenizers`, an independent implementation.

    pip install --target /tmp/python tokenizers==0.23.3
    PYTHONPATH=/tmp/python python3 tests/golden/make_tokenizer.py

tokenizer.json         a byte-level BPE trained by `tokenizers` on tokenizer_corpus.txt, as it saves it itself
tokenizer_corpus.txt   what it was trained on: the project's licence and sentences in several scripts
tokenizer_cases.json   texts with the ids that it gives, texts with their pretokens
tokenizer_features.json  small tokenizers with what tokenizer.json may hold, each with texts and ids: as documents, with
                       special tokens in text, with the tokens around a text; and those decoded
"""
import json
import pathlib
import random

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)

HERE = pathlib.Path(__file__).resolve().parent

SENTENCES = [
    "It's the dogs' own fault; they'll see, we've seen, I'd say: \"DON'T\".\n",
    "Привет, мир! Съешь ещё этих мягких французских булок, да выпей чаю.\n",
    "हिन्दी में लिखा हुआ एक वाक्य। नमस्ते दुनिया।\n",
    "日本語の文章です。今日は良い天気ですね。中文句子也在这里。\n",
    "Größe, naïve café, Ærø, İstanbul, ſharp: 12½ + Ⅷ = ①②③.\n",
    "  two  spaces \n\n x\t\ttabs\r\n and   wide\u3000space, no\u00a0break.\n",
    "emoji 👩‍👩‍👧 🫨 and signs → ∑ ≠ € — … “quotes”.\n",
]

# Where splitters differ: spaces that are none, marks, case, long runs, text that spells a special token.
EDGES = [
    "", " ", "  ", "\n", " \n", "\r\n\t x", "a", "'", "''s", "'s'S'ſ", "don't DON'T", "<|endoftext|>", "a<|endoftext|>b",
    "  two  spaces \n\n x", " don’t", "e\u0301", "a\u200bb", "a\ufeffb", "a\u180eb", "a\u0085b", "a\u001cb",
    "a\u2028b", "x\u3000\u3000y", "x \u3000y", "x\u3000 y", "½Ⅷ①", "a1b2", "हिन्दी", "a 🫨", "ab" * 200, "a" * 1000,
    " " * 100 + "x", "\n" * 33, "^" * 257, "\x00\x01", "trailing  ",
]
PIECES = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", " ", "  ", "\n", "\r\n", "\t", "\u3000", "\u00a0", "\u200b", "\u180e",
          "\u0085", "'", "the", "The", " of", "é", "e\u0301", "½", "1", "42", "!", "...", "’", "ſ", "İ", "中", "र्", "👧"]


LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
          r"\s*[\r\n]+|\s+(?!\S)|\s+")
ADDED = [AddedToken("<a>", special=True), AddedToken("<a><b>", special=True), AddedToken("[L]", lstrip=True),
         AddedToken("[R]", rstrip=True, special=True), AddedToken("QZ", single_word=True), AddedToken("  ", normalized=True),
         AddedToken("   ", normalized=False), AddedToken("caf\u00e9", normalized=True),
         AddedToken("the", single_word=True, lstrip=True, rstrip=True, normalized=False), AddedToken("\n\n")]
NASTY = ["<a>", "<b>", "<a><b>", "[L]", "[R]", "QZ", "QZ1", "xQZ", "caf\u00e9", "cafe\u0301", "the", "The", "[L][R]", "<s>",
         "</s>", "<unk>", "\u2581", "\u2581\u2581", "<0x0A>", "12", "345", "1234", "a-b", "--", "\ufb01", "\u00bd", "A\u030a"]


def byte_level(pre_tokenizer, ignore_merges=False, corpus="".join(SENTENCES)):
    """Trained by `tokenizers` on a few sentences, cut by `pre_tokenizer`."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.train_from_iterator([corpus], trainers.BpeTrainer(
        vocab_size=330, min_frequency=1, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=[],
        show_progress=False))
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def characters(pre_tokenizer=None, byte_fallback=False, **options):
    """BPE over characters: words of the sentences, U+2581 for spaces."""
    text = "".join(SENTENCES[:1] + SENTENCES[4:6]).replace(" ", "\u2581")
    trainer = trainers.BpeTrainer(vocab_size=150, min_frequency=1, show_progress=False, limit_alphabet=70,
                                  special_tokens=["<unk>", "<s>", "</s>"])
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.pre_tokenizer = pre_tokenizers.Split("\u2581", "merged_with_next")
    trained.train_from_iterator([text], trainer)
    model = json.loads(trained.to_str())["model"]
    names = [f"<0x{byte:02X}>" for byte in range(256)] if byte_fallback else []
    vocab = model["vocab"] | {name: len(model["vocab"]) + i for i, name in enumerate(names)}
    tokenizer = Tokenizer(models.BPE(vocab, [tuple(merge) for merge in model["merges"]], byte_fallback=byte_fallback,
                                     **options))
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return tokenizer


def unigram(byte_fallback):
    pieces = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0)]
    draw = random.Random(3)
    words = sorted({"\u2581" * draw.randint(0, 1) + word[:draw.randint(1, 5)] for word in "".join(SENTENCES).split()
                    for _ in range(4)} | set("abcdefghijklmnopqrstuvwxyz\u2581.'"))
    pieces += [(word, -draw.random() * 12) for word in words if word]
    if byte_fallback:
        pieces += [(f"<0x{byte:02X}>", -20.0) for byte in range(256)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=byte_fallback))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return tokenizer


def features():
    """(name, Tokenizer): what tokenizer.json may hold, in the combinations that published ones have and some more."""
    level = pre_tokenizers.ByteLevel
    made = byte_level(level(add_prefix_space=True))
    made.add_special_tokens(["<s>", "</s>"])
    made.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B", special_tokens=[("<s>", 330), ("</s>", 331)])])
    yield "prefix space", made
    made = byte_level(level(add_prefix_space=False))
    made.normalizer = normalizers.NFC()
    made.add_tokens(ADDED)
    yield "added tokens", made
    isolated = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
                                        level(add_prefix_space=False, use_regex=False)])
    yield "llama3", byte_level(isolated, ignore_merges=True)
    yield "digits", byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(True), level(add_prefix_space=False)]))
    yield "prefix space of pieces", byte_level(pre_tokenizers.Sequence([
        pre_tokenizers.Digits(False), pre_tokenizers.WhitespaceSplit(), level(add_prefix_space=True)]))
    yield "falcon", byte_level(pre_tokenizers.Sequence([
        pre_tokenizers.Punctuation("contiguous"), level(add_prefix_space=False), pre_tokenizers.Digits(False),
        pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")]))
    yield "deepseek", byte_level(pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"\p{N}{1,3}"), "isolated"), pre_tokenizers.Split(Regex("[一-龥぀-ゟ゠-ヿ]+"), "isolated"),
        pre_tokenizers.Split(Regex("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}"
                                   "\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"), "isolated"),
        level(add_prefix_space=False, use_regex=False)]))
    for behavior in ("removed", "contiguous", "merged_with_previous", "merged_with_next"):
        yield behavior, byte_level(pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(r"[-\s]|(?=[A-Z])"), behavior, invert=behavior == "contiguous"),
            level(add_prefix_space=False, use_regex=False)]))
    yield "inverted", byte_level(pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r"\w+|[^\w\s]+"), "removed", invert=True),
                                                          level(add_prefix_space=False, use_regex=False)]))
    made = characters(byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    made.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    made.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                      decoders.Strip(" ", 1, 0)])
    made.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    yield "llama2", made
    for scheme in ("first", "always", "never"):
        made = characters(pre_tokenizers.Metaspace(prepend_scheme=scheme, split=scheme != "never"), unk_token="<unk>",
                          fuse_unk=scheme == "always")
        made.decoder = decoders.Metaspace(prepend_scheme=scheme)
        made.add_tokens([AddedToken("QZ", normalized=False), AddedToken("\u2581the")])
        yield f"metaspace {scheme}", made
    made = characters(pre_tokenizers.WhitespaceSplit(), ignore_merges=True)
    made.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Strip(),
                                            normalizers.Replace(Regex("[0-9]+"), "1"), normalizers.NFKC()])
    yield "normalizers", made
    for byte_fallback in (False, True):
        yield f"unigram {byte_fallback}", unigram(byte_fallback)


def feature_cases(tokenizer, texts):
    def ids(text, allow_special=False, surrounded=False):
        tokenizer.encode_special_tokens = not allow_special
        return tokenizer.encode(text, add_special_tokens=surrounded).ids

    return [{"text": text, "ids": ids(text), "allow_special": ids(text, True), "add_special": ids(text, False, True),
             "decoded": tokenizer.decode(ids(text), skip_special_tokens=False)} for text in texts]


def write_features():
    draw = random.Random(4321)
    lines = []
    for name, tokenizer in features():
        texts = ["", " ", "the", " the", "the  QZ <a><b>\n\n x", "Hello the [L] QZ, [R]  QZ1."]
        texts += ["".join(draw.choices(PIECES + NASTY, k=draw.randint(1, 12))) for _ in range(40)]
        lines.append(json.dumps({"name": name, "cases": feature_cases(tokenizer, texts),
                                 "tokenizer": json.loads(tokenizer.to_str())}))
    (HERE / "tokenizer_features.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")


def main():
    corpus = (HERE.parent.parent / "LICENSE").read_text() + "".join(SENTENCES) * 3
    (HERE / "tokenizer_corpus.txt").write_text(corpus, newline="")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([corpus], trainers.BpeTrainer(
        vocab_size=699, min_frequency=2, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=[],
        show_progress=False))
    tokenizer.add_special_tokens(["<|endoftext|>"])
    tokenizer.save(str(HERE / "tokenizer.json"))

    tokenizer.encode_special_tokens = True  # ordinary text
    draw = random.Random(1234)
    texts = EDGES + SENTENCES + ["".join(draw.choices(PIECES, k=draw.randint(1, 30))) for _ in range(300)]
    cases = [{"text": text, "ids": tokenizer.encode(text).ids,
              "pretokens": [part for part in split(tokenizer, text)]} for text in texts]
    (HERE / "tokenizer_cases.json").write_text(
        "[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
    write_features()


def split(tokenizer, text):
    """Lengths of the pretokens in bytes."""
    return [len(piece) for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text)]


if __name__ == "__main__":
    main()
