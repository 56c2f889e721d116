#!/usr/bin/env python3
"""Writes hf/: small random GPT-2 and Llama models as Hugging Face keeps them, with what transformers and PEFT make of
them: logits, loss and gradients.

    scripts/setup.sh --peer
    PYTHONPATH=.deps/peer python3 tests/golden/make_hf.py        # rewrites tests/golden/hf

A model NAME is a folder hf/NAME just as save_pretrained wrote it and a file hf/NAME.safetensors with (float32 unless
said otherwise)
    tokens, labels      int32 [2, 11]; a label is the token to predict at its position, -1: not counted
    logits              [2, 11, vocabulary]
    loss                float64 [1]; mean over the labels that count
    gradient/HF_NAME    of loss, for every parameter as transformers names it; a tied matrix once
An adapter NAME_lora is a folder just as PEFT wrote it and a file with the same, where the gradients are those of the
adapter (HF_NAME with PEFT's base_model.model. in front, as in its file), and with merged/HF_NAME, every weight of the
model after merge_and_unload in float32. The metadata "settings" is JSON: versions, and "base" for an adapter.

The same weights in other wrappings, without a file of their own: NAME_sharded (safetensors in parts with an index),
NAME_bin (pytorch_model.bin), NAME_bin_sharded (pytorch_model.bin in parts). NAME_bf16 holds them rounded, with a file.

Everything is computed in float64 from the stored weights, then rounded; the rotary tables stay float32, as
transformers makes them.
"""

import json
import os
import pathlib
import shutil
import sys
import unittest.mock

# PEFT keeps target modules in a set, whose order would differ from run to run.
if os.environ.get("PYTHONHASHSEED") != "0":
    os.execve(sys.executable, [sys.executable, *sys.argv], dict(os.environ, PYTHONHASHSEED="0"))

import peft
import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file, save_file

FOLDER = pathlib.Path(__file__).with_name("hf")
VOCAB, BATCH, LENGTH = 61, 2, 11
VERSIONS = {"transformers": transformers.__version__, "peft": peft.__version__, "torch": torch.__version__}


def gpt2(**settings):
    return transformers.GPT2Config(vocab_size=VOCAB, n_layer=2, n_head=3, n_positions=13, resid_pdrop=0.0,
                                   embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=None, eos_token_id=None, **settings)


def llama(**settings):
    return transformers.LlamaConfig(vocab_size=VOCAB, num_hidden_layers=2, max_position_embeddings=64,
                                    bos_token_id=None, eos_token_id=None, **settings)


# With original_max_position_embeddings 16 and rope_theta 50, turns of the 5 frequencies take 6.3, 14, 30, 66 and 144
# positions: the first stays, the second lies in the smooth part (8 to 16), the others are divided.
LLAMA3_ROPE = {"rope_type": "llama3", "rope_theta": 50.0, "factor": 8.0, "low_freq_factor": 1.0,
               "high_freq_factor": 2.0, "original_max_position_embeddings": 16}

MODELS = {
    "gpt2_tied": gpt2(n_embd=18),
    "gpt2_untied": gpt2(n_embd=12, n_inner=40, layer_norm_epsilon=1e-3, tie_word_embeddings=False),
    "llama_mha": llama(hidden_size=24, num_attention_heads=3, num_key_value_heads=3, intermediate_size=40),
    "llama_gqa_tied": llama(hidden_size=16, num_attention_heads=4, num_key_value_heads=2, intermediate_size=22,
                            rms_norm_eps=1e-3, tie_word_embeddings=True),
    "llama_rope_scaled": llama(hidden_size=12, num_attention_heads=4, num_key_value_heads=2, head_dim=10,
                               intermediate_size=20, rope_parameters=LLAMA3_ROPE),
}
ADAPTERS = {
    "gpt2_tied": ["c_attn", "c_proj", "c_fc"],
    "llama_gqa_tied": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
}


def fill(parameters, generator):
    """Random values that leave nothing zero or one: a forgotten bias or norm weight must show."""
    for name, parameter in parameters:
        values = 0.2 * torch.randn(parameter.shape, generator=generator)
        is_norm = parameter.dim() == 1 and name.endswith("weight")
        parameter.data.copy_(values + 1 if is_norm else values)


def results(model, generator):
    """tokens, labels, logits, loss and gradient/NAME; the model is turned into float64."""
    tokens = torch.randint(VOCAB, (BATCH, LENGTH), generator=generator)
    labels = torch.randint(VOCAB, (BATCH, LENGTH), generator=generator)
    labels[0, 3] = labels[1, 0] = labels[1, -1] = -1
    as_used = model.float()(tokens, use_cache=False).logits
    # transformers computes softmax and RMS norm in torch.float32 whatever the dtype of the model.
    with unittest.mock.patch.object(torch, "float32", torch.float64):
        logits = model.double()(tokens, use_cache=False).logits
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-1)
        loss.backward()
    torch.testing.assert_close(logits.float(), as_used, rtol=1e-4, atol=1e-5)
    assert logits.float().double().ne(logits).any(), "not computed in float64"

    tensors = {"tokens": tokens.int(), "labels": labels.int(), "logits": logits.detach().float(),
               "loss": loss.detach().reshape(1)}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            # ".default" names the adapter among several of a model; files leave it out.
            tensors[f"gradient/{name.replace('.default.', '.')}"] = parameter.grad.float()
    return tensors


def save_results(name, tensors, **settings):
    path = FOLDER / f"{name}.safetensors"
    save_file({key: value.contiguous() for key, value in tensors.items()}, path,
              {"settings": json.dumps(VERSIONS | settings)})
    print(f"{name}: loss {tensors['loss'].item():.6f}, {path.stat().st_size} bytes")


def load(name):
    return transformers.AutoModelForCausalLM.from_pretrained(FOLDER / name, attn_implementation="eager",
                                                             dtype=torch.float32)


def make_model(name, config, generator):
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    fill(model.named_parameters(), generator)
    model.save_pretrained(FOLDER / name)
    save_results(name, results(load(name), generator))


def make_adapter(base, targets, generator):
    name = f"{base}_lora"
    config = peft.LoraConfig(r=4, lora_alpha=8, lora_dropout=0.0, target_modules=targets, task_type="CAUSAL_LM",
                             fan_in_fan_out=base.startswith("gpt2"))
    model = peft.get_peft_model(load(base), config)
    fill(((n, p) for n, p in model.named_parameters() if p.requires_grad), generator)
    model.peft_config["default"].base_model_name_or_path = base
    model.save_pretrained(FOLDER / name, save_embedding_layers=False)
    (FOLDER / name / "README.md").unlink()  # a form to fill in
    tensors = results(model, generator)
    merged = peft.PeftModel.from_pretrained(load(base), FOLDER / name).merge_and_unload()
    tensors |= {f"merged/{key}": value.detach() for key, value in merged.named_parameters()}
    save_results(name, tensors, base=base)


def copy_config(source, target):
    (FOLDER / target).mkdir()
    shutil.copy(FOLDER / source / "config.json", FOLDER / target)


def make_wrappings():
    load("gpt2_untied").save_pretrained(FOLDER / "gpt2_untied_sharded", max_shard_size="8KB")
    copy_config("gpt2_tied", "gpt2_tied_bin")
    # The tied matrix is in it under both names, with one storage.
    torch.save(load("gpt2_tied").state_dict(), FOLDER / "gpt2_tied_bin" / "pytorch_model.bin")

    name = "llama_gqa_tied_bin_sharded"
    copy_config("llama_gqa_tied", name)
    tensors = list(load_file(FOLDER / "llama_gqa_tied" / "model.safetensors").items())
    parts = [dict(tensors[0::2]), dict(tensors[1::2])]
    index = {"metadata": {"total_size": sum(t.nbytes for _, t in tensors)}, "weight_map": {}}
    for number, part in enumerate(parts, 1):
        file = f"pytorch_model-{number:05}-of-{len(parts):05}.bin"
        torch.save(part, FOLDER / name / file)
        index["weight_map"] |= dict.fromkeys(part, file)
    index["weight_map"] = dict(sorted(index["weight_map"].items()))
    (FOLDER / name / "pytorch_model.bin.index.json").write_text(json.dumps(index, indent=2) + "\n")


def make_bf16(name, generator):
    load(name).bfloat16().save_pretrained(FOLDER / f"{name}_bf16")
    save_results(f"{name}_bf16", results(load(f"{name}_bf16"), generator))


def main():
    torch.set_num_threads(1)  # the same bits on every machine of one kind
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    generator = torch.Generator().manual_seed(21)
    for name, config in MODELS.items():
        make_model(name, config, generator)
    for base, targets in ADAPTERS.items():
        make_adapter(base, targets, generator)
    make_wrappings()
    make_bf16("llama_gqa_tied", generator)
    total = sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file())
    print(f"{FOLDER}: {total} bytes")


if __name__ == "__main__":
    main()
