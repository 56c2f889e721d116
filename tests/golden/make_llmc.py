#!/usr/bin/env python3
"""Writes llmc/: the model hf/gpt2_tied as llm.c's train_gpt2.py keeps it (write_model, at commit f1e2ace).

    pip install --target /tmp/python numpy safetensors
    PYTHONPATH=/tmp/python python3 tests/golden/make_llmc.py        # rewrites tests/golden/llmc

gpt2_tied_fp32.bin is of version 3, gpt2_tied_bf16.bin of version 5. The vocabulary of 61 tokens, where that script has
GPT-2's, is padded to 128 in the same way.
"""
import json
import pathlib

import numpy
from safetensors.numpy import load_file

GOLDEN = pathlib.Path(__file__).resolve().parent
MAGIC = 20240326
VERSIONS = {"fp32": 3, "bf16": 5}
# In the order of the file, each for all layers; matrices are nn.Linear's, so the Conv1D ones are turned.
OF_LAYER = ["ln_1.weight", "ln_1.bias", "attn.c_attn.weight", "attn.c_attn.bias", "attn.c_proj.weight",
            "attn.c_proj.bias", "ln_2.weight", "ln_2.bias", "mlp.c_fc.weight", "mlp.c_fc.bias", "mlp.c_proj.weight",
            "mlp.c_proj.bias"]


def to_bf16(array):
    """Rounded to nearest, ties to even."""
    bits = array.view(numpy.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(numpy.uint16)


def main():
    (GOLDEN / "llmc").mkdir(exist_ok=True)
    config = json.loads((GOLDEN / "hf/gpt2_tied/config.json").read_text())
    weights = load_file(GOLDEN / "hf/gpt2_tied/model.safetensors")
    vocab, layers = config["vocab_size"], config["n_layer"]
    padded = -(-vocab // 128) * 128
    tensors = [numpy.pad(weights["transformer.wte.weight"], ((0, padded - vocab), (0, 0))),
               weights["transformer.wpe.weight"]]
    for name in OF_LAYER:
        for layer in range(layers):
            array = weights[f"transformer.h.{layer}.{name}"]
            tensors.append(array.T if array.ndim == 2 else array)
    tensors += [weights["transformer.ln_f.weight"], weights["transformer.ln_f.bias"]]
    for dtype, version in VERSIONS.items():
        header = numpy.zeros(256, numpy.int32)
        header[:8] = [MAGIC, version, config["n_positions"], vocab, layers, config["n_head"], config["n_embd"], padded]
        data = header.tobytes()
        for tensor in tensors:
            tensor = numpy.ascontiguousarray(tensor)
            data += (tensor if dtype == "fp32" else to_bf16(tensor)).tobytes()
        (GOLDEN / f"llmc/gpt2_tied_{dtype}.bin").write_bytes(data)


if __name__ == "__main__":
    main()
