"""What llama.cpp and its package `gguf` make of a GGUF file: the other side of compare_gguf.py.

The names of tensors, the keys and the packing into blocks are the package's. Arrays are numpy's.
"""
import json
import math
import urllib.request

import gguf
import numpy
import xllamacpp

TYPES = {"fp32": ("F32", gguf.GGMLQuantizationType.F32), "bf16": ("BF16", gguf.GGMLQuantizationType.BF16),
         "fp16": ("F16", gguf.GGMLQuantizationType.F16)}
ALWAYS_F32 = ("position_embd.weight",)


def tensors(path):
    """{name: (type, shape, bytes)} of a GGUF file, shapes as numpy's."""
    return {t.name: (t.tensor_type, tuple(int(n) for n in reversed(t.shape)), t.data.tobytes())
            for t in gguf.GGUFReader(path).tensors}


def metadata(path):
    return {name: field.contents() for name, field in gguf.GGUFReader(path).fields.items()
            if not name.startswith("GGUF.")}


def _interleaved(matrix, heads):
    """The rows of each head in the order of llama.cpp's rotation."""
    halves = matrix.reshape(heads, 2, -1, matrix.shape[1])
    return halves.swapaxes(1, 2).reshape(matrix.shape)


def expected_tensors(config, rounded, exact, dtype):
    """The same from the tensors {name: array} of a Hugging Face folder, in the asked type and in float32."""
    llama = config["model_type"] == "llama"
    layers = config["num_hidden_layers" if llama else "n_layer"]
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA if llama else gguf.MODEL_ARCH.GPT2, layers)
    found = {}
    for theirs in exact:
        name = names.get_name(theirs, try_suffixes=(".weight", ".bias"))

        def turned(array):
            if theirs.endswith((".c_attn.weight", ".c_proj.weight", ".c_fc.weight")):
                array = array.T
            if theirs.endswith("q_proj.weight"):
                array = _interleaved(array, config["num_attention_heads"])
            if theirs.endswith("k_proj.weight"):
                array = _interleaved(array, config["num_key_value_heads"])
            return numpy.ascontiguousarray(array)
        array = turned(exact[theirs])
        if array.ndim == 1 or name in ALWAYS_F32:
            found[name] = (gguf.GGMLQuantizationType.F32, array.shape, array.tobytes())
        elif dtype == "q8_0":
            kind = gguf.GGMLQuantizationType.F16 if array.shape[1] % 32 else gguf.GGMLQuantizationType.Q8_0
            found[name] = (kind, array.shape, gguf.quants.quantize(array, kind).tobytes())
        else:
            found[name] = (TYPES[dtype][1], array.shape, turned(rounded[theirs]).tobytes())
    return found


def rope_divisors(config):
    """Llama 3's, from the definition; None without scaling."""
    scaling = config.get("rope_scaling")
    if not scaling:
        return None
    width = config["head_dim"]
    wave_lengths = 2 * math.pi * config["rope_theta"] ** (numpy.arange(0, width, 2) / width)
    turns = scaling["original_max_position_embeddings"] / wave_lengths
    low, high, factor = (scaling[key] for key in ("low_freq_factor", "high_freq_factor", "factor"))
    share = numpy.clip((turns - low) / (high - low), 0, 1)
    return 1 / ((1 - share) / factor + share)


def expected_metadata(config):
    """What follows from config.json."""
    llama = config["model_type"] == "llama"
    keys = gguf.Keys

    def key(name):
        return name.format(arch=config["model_type"])
    found = {keys.General.ARCHITECTURE: config["model_type"], key(keys.LLM.VOCAB_SIZE): config["vocab_size"]}
    if llama:
        found |= {key(keys.LLM.CONTEXT_LENGTH): config["max_position_embeddings"],
                  key(keys.LLM.EMBEDDING_LENGTH): config["hidden_size"],
                  key(keys.LLM.BLOCK_COUNT): config["num_hidden_layers"],
                  key(keys.LLM.FEED_FORWARD_LENGTH): config["intermediate_size"],
                  key(keys.Attention.HEAD_COUNT): config["num_attention_heads"],
                  key(keys.Attention.HEAD_COUNT_KV): config["num_key_value_heads"],
                  key(keys.Attention.KEY_LENGTH): config["head_dim"],
                  key(keys.Attention.VALUE_LENGTH): config["head_dim"],
                  key(keys.Rope.DIMENSION_COUNT): config["head_dim"],
                  key(keys.Rope.FREQ_BASE): float(numpy.float32(config["rope_theta"])),
                  key(keys.Attention.LAYERNORM_RMS_EPS): float(numpy.float32(config["rms_norm_eps"]))}
    else:
        found |= {key(keys.LLM.CONTEXT_LENGTH): config["n_positions"],
                  key(keys.LLM.EMBEDDING_LENGTH): config["n_embd"],
                  key(keys.LLM.BLOCK_COUNT): config["n_layer"],
                  key(keys.LLM.FEED_FORWARD_LENGTH): config["n_inner"] or 4 * config["n_embd"],
                  key(keys.Attention.HEAD_COUNT): config["n_head"],
                  key(keys.Attention.HEAD_COUNT_KV): config["n_head"],
                  key(keys.Attention.LAYERNORM_EPS): float(numpy.float32(config["layer_norm_epsilon"]))}
    return found


class LlamaCpp:
    """A loaded model, behind llama.cpp's own server on the loopback."""

    def __init__(self, path, context=256):
        p = xllamacpp.CommonParams()
        p.model.path, p.n_ctx, p.n_parallel, p.warmup, p.verbosity = str(path), context, 1, False, 0
        p.cpuparams.n_threads = 1
        p.cache_type_k = p.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        p.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self.server = xllamacpp.Server(p)

    def _call(self, path, **body):
        request = urllib.request.Request(self.server.listening_address + path, json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def tokenize(self, text, add_special=False):
        return self._call("/tokenize", content=text, add_special=add_special, parse_special=False)["tokens"]

    def greedy(self, prompt, count, never):
        """The ids after a prompt of ids, with the one that ends the text and without the ones of `never`."""
        return self._call("/completion", prompt=prompt, n_predict=count, temperature=0, cache_prompt=False,
                          return_tokens=True, logit_bias=[[token, False] for token in never])["tokens"]

    def log_probability(self, prompt, token):
        """Of `token` after a prompt of ids. The bias makes it the sampled one; probabilities are those before it."""
        answer = self._call("/completion", prompt=prompt, n_predict=1, temperature=0, n_probs=1,
                            logit_bias=[[token, 1e6]])
        sampled = answer["completion_probabilities"][0]
        if sampled["id"] != token:
            raise RuntimeError(f"token {sampled['id']} in place of {token}")
        return sampled["logprob"]
