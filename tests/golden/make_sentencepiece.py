#!/usr/bin/env python3
"""Writes the golden files of the SentencePiece tests with the sentencepiece package, the reference.

    pip install --target /tmp/python sentencepiece==0.2.3
    PYTHONPATH=/tmp/python python3 tests/golden/make_sentencepiece.py

sentencepiece/NAME.model       small models that it trains, each with other options on
sentencepiece/NAME_cases.json  texts (bytes in hex) with the ids that it gives, ids with the text (hex) that it gives,
                               long texts ("text" repeated "times") with the number of ids and a hash of them
"""
import io
import json
import pathlib
import random

import sentencepiece

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE / "sentencepiece"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)

# Rules of normalization: code points, a tab, code points. Longest first, to several, to a space, to nothing.
RULES = """\
FF21\t41
FF22\t42
65 301\tE9
65 301 301\t65 65
FB03\t66 66 69
9\t20
3000\t20
2002 2002\t20
A0\t
200B\t
1F600\t3A 29
"""
BACK = "E9\t65 301\n3A 29\t1F600\n"

PIECES = [" ", "  ", "   ", "\n", "\t", "\u3000", "\u00a0", "\u200b", "\u2002\u2002", "the", "The", " of", "license", "copy",
          "é", "e\u0301", "e\u0301\u0301", "ＡＢ", "ﬃ", "😀", "🙂", "中", "日本語", "Привет", "हि", "▁", "▁▁", " ▁", "▁the",
          "<s>", "</s>", "<unk>", "<0x41>", "<sep>", "foo bar", "ab", "abc", "qu", "1", "42", "1984", "!", "...", "'s", "\x00",
          "\ufffd", "\U0010ffff", "a", "b", "aaaa", "\r\n"]
BROKEN = [b"\xff", b"\xfe", b"\xe2\x96", b"\xe2", b"\x81", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xf0\x9f", b"\x80"]


def models(corpus):
    bpe = {"model_type": "bpe"}
    unigram = {"model_type": "unigram"}
    as_llama = {"byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False,
                "split_digits": True, "allow_whitespace_only_pieces": True}
    user = {"user_defined_symbols": ["<sep>", "foo bar", "▁the", "ab", "abc", "▁▁", "qu"], "control_symbols": ["<user>", "#"]}
    yield "bpe_bytes", train(corpus, vocab_size=600, **bpe, **as_llama)
    yield "bpe_rules", train(corpus, rules=RULES, back=BACK, vocab_size=450, character_coverage=0.98, **bpe, **user)
    yield "bpe_suffix", train(corpus, vocab_size=400, treat_whitespace_as_suffix=True, normalization_rule_name="identity",
                              unk_surface="?", bos_id=-1, eos_id=5, pad_id=3, **bpe)
    yield "bpe_unused", with_unused(train(corpus, vocab_size=500, split_by_whitespace=False, add_dummy_prefix=False,
                                          normalization_rule_name="identity", user_defined_symbols=["<sep>"], **bpe))
    yield "bpe_unused_bytes", with_unused(train(corpus, vocab_size=700, **bpe, **as_llama))
    yield "unigram_rules", train(corpus, rules=RULES, vocab_size=450, character_coverage=0.98, **unigram, **user)
    yield "unigram_bytes", train(corpus, vocab_size=700, **unigram, **as_llama)
    yield "unigram_unused", with_unused(train(corpus, vocab_size=500, split_by_whitespace=False,
                                              normalization_rule_name="identity", treat_whitespace_as_suffix=True, **unigram))


def train(corpus, rules=None, back=None, **options):
    for name, text in (("normalization_rule_tsv", rules), ("denormalization_rule_tsv", back)):
        if text is not None:
            path = OUT / (name + ".tmp")
            path.write_text(text)
            options[name] = str(path)
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(corpus), model_writer=written, minloglevel=2,
                                             hard_vocab_limit=False, num_threads=1, max_sentencepiece_length=8, **options)
    for path in OUT.glob("*.tmp"):
        path.unlink()
    return without_paths(written.getvalue())


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def read_varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def fields(message):
    at = 0
    while at < len(message):
        tag, at = read_varint(message, at)
        if tag & 7 == 2:
            size, at = read_varint(message, at)
            yield tag >> 3, 2, message[at:at + size]
            at += size
        elif tag & 7 == 0:
            value, at = read_varint(message, at)
            yield tag >> 3, 0, value
        else:
            size = {1: 8, 5: 4}[tag & 7]
            yield tag >> 3, tag & 7, message[at:at + size]
            at += size


def write_field(number, kind, value):
    tag = varint(number << 3 | kind)
    return tag + (varint(value) if kind == 0 else varint(len(value)) + value if kind == 2 else value)


def without_paths(model):
    """Without normalizer_spec's normalization_rule_tsv, which is the name of a file of this machine."""
    out = b""
    for number, kind, value in fields(model):
        if number in (3, 5):
            value = b"".join(write_field(*field) for field in fields(value) if field[0] != 6)
        out += write_field(number, kind, value)
    return out


def with_unused(model):
    """Every third ordinary piece, of one or several characters, becomes one that is not used."""
    out, ordinary = b"", 0
    for number, kind, value in fields(model):
        if number == 1 and not any(field[0] == 3 for field in fields(value)):
            ordinary += 1
            if ordinary % 3 == 0:
                value += write_field(3, 0, UNUSED)
        out += write_field(number, kind, value)
    return out


def random_text(draw):
    kind, count = draw.random(), draw.choice([1, 2, 3, 5, 9, 30])
    if kind < 0.6:
        return "".join(draw.choices(PIECES, k=count)).encode()
    if kind < 0.8:
        return b"".join(draw.choice(BROKEN) if draw.random() < 0.2 else draw.choice(PIECES).encode() for _ in range(count))
    if kind < 0.9:
        return bytes(draw.randrange(256) for _ in range(count))
    return "".join(draw.choices("abcdehlopqtu ▁1", k=3 * count)).encode()


def id_hash(ids):
    value = 0
    for token in ids:
        value = (value * 1000003 + token + 1) % (1 << 64)
    return str(value)


def cases(processor, corpus, draw):
    texts = [b"", b" ", b"  ", "▁".encode(), " ▁ ".encode()] + [piece.encode() for piece in PIECES]
    texts += [line.encode() for line in draw.sample(corpus, 25)] + [random_text(draw) for _ in range(120)]
    encoded = [{"text": text.hex(), "ids": processor.encode(text)} for text in texts]
    decoded = []
    for case in encoded[::3]:
        decoded.append(case["ids"])
    for _ in range(60):
        decoded.append([draw.randrange(processor.vocab_size()) for _ in range(draw.randint(1, 12))])
    long = []
    for text, times in (("the license", 30000), ("a", 100001), ("x ", 5003), ("中", 40000)):
        ids = processor.encode(text * times)
        long.append({"text": text.encode().hex(), "times": times, "count": len(ids), "hash": id_hash(ids)})
    return {"encode": encoded, "decode": [{"ids": ids, "text": processor.decode(ids, return_type=bytes).hex()} for ids in decoded],
            "long": long}


def main():
    OUT.mkdir(exist_ok=True)
    corpus = (HERE / "tokenizer_corpus.txt").read_text().split("\n")
    corpus = [line for line in corpus if line]
    for name, model in models(corpus):
        (OUT / f"{name}.model").write_bytes(model)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        written = cases(processor, corpus, random.Random(name))
        (OUT / f"{name}_cases.json").write_text(
            "{\n" + ",\n".join(f'"{key}": [\n' + ",\n".join(map(json.dumps, value)) + "\n]"
                               for key, value in written.items()) + "\n}\n")


if __name__ == "__main__":
    main()
