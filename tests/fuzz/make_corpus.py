#!/usr/bin/env python3
"""Writes the small valid inputs that fuzzing starts from: FOLDER/{safetensors,pickle,torch_file,dcp_metadata,
megatron_file,indexed,sentencepiece,tokenizer_json,tiktoken}/.

    tests/fuzz/make_corpus.py FOLDER
"""
import argparse
import io
import json
import pathlib
import pickle
import struct
import sys
import zipfile


def safetensors(tensors, metadata=None):
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, dtype, shape, content in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def short_text(value):
    return b"\x8c" + bytes([len(value)]) + value.encode()


def name(module, what):
    return b"c" + module.encode() + b"\n" + what.encode() + b"\n"


def integers(values):
    return b"(" + b"".join(b"J" + struct.pack("<i", v) for v in values) + b"t"


ORDERED_DICT = name("collections", "OrderedDict") + b")R"


def tensor(storage, key, count, offset, shape, strides):
    return (name("torch._utils", "_rebuild_tensor_v2") + b"((" + text("storage") + name("torch", storage) + text(key)
            + text("cpu") + b"K" + bytes([count]) + b"tQK" + bytes([offset]) + integers(shape) + integers(strides)
            + b"\x89" + ORDERED_DICT + b"tR")


def parameter(inner):
    return name("torch._utils", "_rebuild_parameter") + b"(" + inner + b"\x88" + ORDERED_DICT + b"tR"


PICKLES = {
    "empty": b"\x80\x02}.",
    "plain": b"\x80\x02}(" + text("w") + tensor("FloatStorage", "0", 6, 0, [2, 3], [3, 1]) + text("b")
             + tensor("HalfStorage", "1", 3, 1, [2], [1]) + b"u.",
    "state_dict": b"\x80\x02" + ORDERED_DICT + b"q\x01(" + text("w")
                  + parameter(tensor("BFloat16Storage", "0", 12, 0, [3, 2], [1, 3])) + b"r\x02\x00\x00\x00"
                  + text("tied") + b"j\x02\x00\x00\x00u}" + text("_metadata") + ORDERED_DICT + b"sb.",
    "protocol4": b"\x80\x04\x95" + struct.pack("<Q", 24) + b"}\x94" + short_text("k") + short_text("collections")
                 + short_text("OrderedDict")[:3] + b"\x93.",
    "list": b"\x80\x02](K\x01M\x02\x00\x8a\x03abcG" + struct.pack(">d", 1.5) + b"N\x88eN\x85N\x86.",
}


def archive(pickle, storages, wide=False):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as file:
        for member, content in [("m/data.pkl", pickle), ("m/byteorder", b"little")] + storages:
            with file.open(zipfile.ZipInfo("m/" + member if "/" not in member else member), "w",
                           force_zip64=wide) as stream:
                stream.write(content)
    return out.getvalue()


# Objects of any class, as a training script keeps them.
CHECKPOINTS = {
    "arguments": pickle.dumps({"args": argparse.Namespace(num_layers=2, lr=0.5, names=["a"], path=pathlib.PurePath("a"),
                                                          flops=10**21, pair=(1, None), some={1, 2}, raw=b"x"),
                               "checkpoint_version": 3.0}, 2),
    "protocol4": pickle.dumps([{"args": argparse.Namespace(a=True), "rng_state": [b"y", frozenset([1])]}], 4),
    "model": b"\x80\x02}(" + text("model") + b"}(" + text("w") + tensor("FloatStorage", "0", 6, 0, [2, 3], [3, 1])
             + text("_extra_state") + b"N" + text("a") + b"}" + text("b") + name("os", "system") + b")Rsuu.",
}


def index(code, documents):
    """PREFIX.idx of documents, each a list of its sequences' lengths."""
    size = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 8: 2}[code]
    lengths = [length for document in documents for length in document]
    offsets = [size * sum(lengths[:s]) for s in range(len(lengths))]
    ends = [sum(map(len, documents[:d])) for d in range(len(documents) + 1)]
    return (b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, len(lengths), len(ends))
            + struct.pack(f"<{len(lengths)}i", *lengths) + struct.pack(f"<{len(offsets)}q", *offsets)
            + struct.pack(f"<{len(ends)}q", *ends))


def field(number, content):
    """Of protobuf: bytes, a float or a small number."""
    if isinstance(content, bytes):
        return bytes([number << 3 | 2, len(content)]) + content
    if isinstance(content, float):
        return bytes([number << 3 | 5]) + struct.pack("<f", content)
    return bytes([number << 3, content])


def sentencepiece(kind, texts, extra=b""):
    pieces = [("<unk>", 0.0, 2), ("</s>", 0.0, 3)] + [(text, -float(i), 4 if text == "ab" else 5 if text == "abc" else 1)
                                                     for i, text in enumerate(texts)]
    return (b"".join(field(1, field(1, text.encode()) + field(2, score) + field(3, type)) for text, score, type in pieces)
            + field(2, field(3, kind)) + field(3, field(3, 1) + field(4, 0)) + extra)


def main():
    root = pathlib.Path(sys.argv[1])
    golden = pathlib.Path(__file__).resolve().parent.parent / "golden" / "sentencepiece"
    texts = ["a", "b", "c", "ab", "bc", "abc", "▁", "▁a", "é", "▁▁"]
    corpus = {
        "safetensors": {
            "empty": safetensors([]),
            "one": safetensors([("w", "F32", [2, 3], b"x" * 24)], {"format": "pt"}),
            "several": safetensors([("a", "BF16", [], b"ab"), ("none", "I64", [0, 5], b""), ("b", "U8", [5], b"12345")]),
        },
        "pickle": PICKLES,
        "dcp_metadata": {path.parent.name: path.read_bytes() for path in sorted(golden.parent.glob("trainers/*/.metadata"))},
        "megatron_file": CHECKPOINTS,
        "indexed": {
            "empty": index(8, []),
            "documents": index(8, [[4], [2], [3]]),
            "sentences": index(4, [[1, 0, 5], [], [2147483647]]),
            "old": b"TNTIDX\0\0" + b"\0" * 32,
        },
        "torch_file": {
            key: archive(pickle, [("m/data/0", b"x" * 24), ("m/data/1", b"y" * 6)], wide)
            for key, pickle, wide in [("empty", PICKLES["empty"], False), ("plain", PICKLES["plain"], False),
                                      ("wide", PICKLES["plain"], True), ("state_dict", PICKLES["state_dict"], False)]
        },
        "sentencepiece": {
            "bpe": sentencepiece(2, texts),
            "unigram": sentencepiece(1, texts, field(5, field(3, 0))),
            **{path.stem: path.read_bytes() for path in sorted(golden.glob("*.model"))},
        },
        "tokenizer_json": {feature["name"].replace(" ", "_"): json.dumps(feature["tokenizer"]).encode()
                           for feature in json.loads((golden.parent / "tokenizer_features.json").read_text())},
        "tiktoken": {"pairs": b"YWI= 256\nYmM= 257\nYWJj 258\n", "hole": b"YWI= 300\r\nYWI 299\n"},
    }
    for target, files in corpus.items():
        (root / target).mkdir(parents=True, exist_ok=True)
        for key, content in files.items():
            (root / target / key).write_bytes(content)


if __name__ == "__main__":
    main()
