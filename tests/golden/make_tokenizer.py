#!/usr/bin/env python3
"""Writes the golden files of the tokenizer tests with Hugging Face's `tokenizers`, an independent implementation.

    pip install --target /tmp/python tokenizers==0.23.3
    PYTHONPATH=/tmp/python python3 tests/golden/make_tokenizer.py

tokenizer.json         a byte-level BPE trained by `tokenizers` on tokenizer_corpus.txt, as it saves it itself
tokenizer_corpus.txt   what it was trained on: the project's licence and sentences in several scripts
tokenizer_cases.json   texts with the ids that it gives, texts with their pretokens
"""
import json
import pathlib
import random

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

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


def split(tokenizer, text):
    """Lengths of the pretokens in bytes."""
    return [len(piece) for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text)]


if __name__ == "__main__":
    main()
