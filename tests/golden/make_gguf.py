#!/usr/bin/env python3
"""Writes gguf/: models of hf/ as llama.cpp's package `gguf` writes them, with the keys in our order.

    pip install --target /tmp/python gguf==0.19.0 safetensors
    PYTHONPATH=/tmp/python python3 tests/golden/make_gguf.py        # rewrites tests/golden/gguf

NAME.gguf has every tensor in float32 and no tokenizer; q8_0.gguf an array in float32 and as blocks of 8-bit integers.
"""
import json
import math
import pathlib

import gguf
import numpy
from safetensors.numpy import load_file

GOLDEN = pathlib.Path(__file__).resolve().parent
NO_TOKENIZER = "none"


def gpt2(writer, config, weights):
    writer.add_vocab_size(config["vocab_size"])
    writer.add_context_length(config["n_positions"])
    writer.add_embedding_length(config["n_embd"])
    writer.add_block_count(config["n_layer"])
    writer.add_feed_forward_length(config["n_inner"] or 4 * config["n_embd"])
    writer.add_head_count(config["n_head"])
    writer.add_head_count_kv(config["n_head"])
    writer.add_layer_norm_eps(config["layer_norm_epsilon"])
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GPT2, config["n_layer"])
    layer = ["ln_1.weight", "ln_1.bias", "attn.c_attn.weight", "attn.c_attn.bias", "attn.c_proj.weight",
             "attn.c_proj.bias", "ln_2.weight", "ln_2.bias", "mlp.c_fc.weight", "mlp.c_fc.bias", "mlp.c_proj.weight",
             "mlp.c_proj.bias"]
    order = ["transformer.wte.weight", "transformer.wpe.weight"]
    order += [f"transformer.h.{i}.{name}" for i in range(config["n_layer"]) for name in layer]
    order += ["transformer.ln_f.weight", "transformer.ln_f.bias"]
    for name in order + ([] if config["tie_word_embeddings"] else ["lm_head.weight"]):
        array = weights[name]
        yield names.get_name(name, (".weight", ".bias")), array.T if ".c_" in name and array.ndim == 2 else array


def llama(writer, config, weights):
    head = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    rope = config["rope_parameters"]
    writer.add_vocab_size(config["vocab_size"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_rope_dimension_count(head)
    writer.add_rope_freq_base(rope["rope_theta"])
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config["num_hidden_layers"])
    layer = ["input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
             "post_attention_layernorm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]
    order = ["model.embed_tokens"]
    order += [f"model.layers.{i}.{name}" for i in range(config["num_hidden_layers"]) for name in layer]
    order += ["model.norm"] + ([] if config["tie_word_embeddings"] else ["lm_head"])
    if rope["rope_type"] == "llama3":
        yield "rope_freqs.weight", divisors(rope, head)
    for name in order:
        array = weights[name + ".weight"]
        for projection, heads in (("q_proj", "num_attention_heads"), ("k_proj", "num_key_value_heads")):
            if name.endswith(projection):  # channels of a head's two halves become neighbors
                array = array.reshape(config[heads], 2, head // 2, -1).transpose(0, 2, 1, 3).reshape(array.shape)
        yield names.get_name(name) + ".weight", array


def divisors(rope, head):
    """Of the rotary frequencies, each step in float32 as transformers takes it."""
    one = numpy.float32
    frequencies = one(1) / (one(rope["rope_theta"]) ** (numpy.arange(0, head, 2, dtype=numpy.float32) / one(head)))
    length, factor = one(rope["original_max_position_embeddings"]), one(rope["factor"])
    low, high = one(rope["low_freq_factor"]), one(rope["high_freq_factor"])
    scaled = []
    for frequency in frequencies:
        wave_length = one(1) / frequency * one(2 * math.pi)
        share = (length / wave_length - low) / (high - low)
        smooth = (one(1) - share) * frequency / factor + share * frequency
        scaled.append(frequency if wave_length < length / high else
                      frequency / factor if wave_length > length / low else smooth)
    return frequencies / numpy.array(scaled, numpy.float32)


def write_model(name):
    config = json.loads((GOLDEN / "hf" / name / "config.json").read_text())
    weights = load_file(GOLDEN / "hf" / name / "model.safetensors")
    kind = config["model_type"]
    writer = gguf.GGUFWriter(GOLDEN / "gguf" / f"{name}.gguf", kind)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    for tensor, array in {"gpt2": gpt2, "llama": llama}[kind](writer, config, weights):
        writer.add_tensor(tensor, numpy.ascontiguousarray(array))
    writer.add_tokenizer_model(NO_TOKENIZER)
    finish(writer)


def write_blocks():
    """Random numbers of many magnitudes, zeros, halves of a step, and numbers that are subnormal in float16."""
    values = numpy.random.default_rng(3).standard_normal((64, 64)).astype(numpy.float32)
    values *= numpy.exp2(numpy.arange(-45, 19, dtype=numpy.float32))[:, None]
    values[5, :32] = 0
    values[6] = (numpy.arange(64, dtype=numpy.float32) - 31.5) * 2
    values[6, 0] = 127
    writer = gguf.GGUFWriter(GOLDEN / "gguf/q8_0.gguf", "none")
    writer.add_tensor("values", values)
    writer.add_tensor("blocks", gguf.quants.quantize(values, gguf.GGMLQuantizationType.Q8_0),
                      raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    finish(writer)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    (GOLDEN / "gguf").mkdir(exist_ok=True)
    for name in ("gpt2_untied", "llama_gqa_tied", "llama_rope_scaled"):
        write_model(name)
    write_blocks()


if __name__ == "__main__":
    main()
