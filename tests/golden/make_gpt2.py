#!/usr/bin/env python3
"""Writes gpt2.safetensors: a small GPT-2 with its loss, gradients and three AdamW steps, by PyTorch in float64.

An independent implementation (autograd, torch.nn.functional, torch.optim) of what src/partita/models/gpt2.h computes by
hand-written passes. Run in any environment that has torch and safetensors:

    pip install torch==2.11.0 safetensors numpy
    python3 tests/golden/make_gpt2.py               # rewrites tests/golden/gpt2.safetensors

The file holds (float32 unless said otherwise)
    tokens, labels          int32 [2, 11]; label -1: not counted
    weight/NAME             the parameters, linear weights as [out, in], qkv rows in the order q, k, v
    logits                  [2, 11, 61]
    loss.sum, loss.mean     float64 [1]; over the labels that count
    gradient/NAME           of loss.mean
    step.loss, step.norm    float64 [3]: loss.mean before each of three steps on this batch, norm of its gradient
    after/NAME, after.loss  the parameters after those steps, and loss.mean with them
and in its metadata "settings", JSON: the sizes of the model and the numbers of the optimizer.

Everything is computed from the float32 weights in float64 and then rounded. The gradient of the k part of a qkv bias is
zero in exact arithmetic (softmax ignores a constant): AdamW makes steps of any size up to the learning rate from its
rounding, so compare after/ of those elements with that tolerance.
"""

import json
import math
import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

LAYERS, WIDTH, HEADS, VOCAB, POSITIONS, BATCH, LENGTH = 2, 24, 3, 61, 13, 2, 11
EPSILON = 1e-5
LEARNING_RATE, BETAS, ADAM_EPSILON, DECAY, CLIP, STEPS = 1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0, 3


def make_weights(generator):
    """Random values that leave nothing zero or one: a forgotten bias or norm weight must show."""
    shapes = {"embedding.token.weight": (VOCAB, WIDTH), "embedding.position.weight": (POSITIONS, WIDTH)}
    for layer in range(LAYERS):
        for name, shape in {
            "attention.norm": (WIDTH,),
            "attention.qkv": (3 * WIDTH, WIDTH),
            "attention.output": (WIDTH, WIDTH),
            "mlp.norm": (WIDTH,),
            "mlp.up": (4 * WIDTH, WIDTH),
            "mlp.down": (WIDTH, 4 * WIDTH),
        }.items():
            shapes[f"layers.{layer}.{name}.weight"] = shape
            shapes[f"layers.{layer}.{name}.bias"] = shape[:1]
    shapes["final_norm.weight"] = shapes["final_norm.bias"] = (WIDTH,)
    weights = {}
    for name, shape in shapes.items():
        values = 0.2 * torch.randn(shape, generator=generator)
        weights[name] = values + 1 if name.endswith("norm.weight") else values
    return weights


def make_batch(generator):
    tokens = torch.randint(VOCAB, (BATCH, LENGTH), generator=generator)
    labels = torch.randint(VOCAB, (BATCH, LENGTH), generator=generator)
    labels[0, 3] = labels[1, 0] = labels[1, -1] = -1
    return tokens, labels


def forward(w, tokens):
    """GPT-2 (Radford et al., 2019): pre-norm, learned positions, GELU by tanh, head tied to the token embedding."""

    def norm(x, name):
        return F.layer_norm(x, (WIDTH,), w[f"{name}.weight"], w[f"{name}.bias"], EPSILON)

    def linear(x, name):
        return F.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])

    def heads(x):
        return x.unflatten(-1, (HEADS, WIDTH // HEADS)).transpose(1, 2)

    x = w["embedding.token.weight"][tokens] + w["embedding.position.weight"][: tokens.shape[1]]
    for layer in range(LAYERS):
        name = f"layers.{layer}"
        q, k, v = linear(norm(x, f"{name}.attention.norm"), f"{name}.attention.qkv").chunk(3, dim=-1)
        scores = heads(q) @ heads(k).transpose(-2, -1) / math.sqrt(WIDTH // HEADS)
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        mixed = scores.masked_fill(future, -math.inf).softmax(-1) @ heads(v)
        x = x + linear(mixed.transpose(1, 2).flatten(-2), f"{name}.attention.output")
        hidden = F.gelu(linear(norm(x, f"{name}.mlp.norm"), f"{name}.mlp.up"), approximate="tanh")
        x = x + linear(hidden, f"{name}.mlp.down")
    return F.linear(norm(x, "final_norm"), w["embedding.token.weight"])


def loss_of(logits, labels, reduction):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-1, reduction=reduction)


def train(parameters, tokens, labels):
    """Three steps in place; returns the loss and the norm of the gradient before each."""
    groups = [
        {"params": [p for p in parameters.values() if p.dim() == 2], "weight_decay": DECAY},
        {"params": [p for p in parameters.values() if p.dim() == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=LEARNING_RATE, betas=BETAS, eps=ADAM_EPSILON)
    losses, norms = [], []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(forward(parameters, tokens), labels, "mean")
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(list(parameters.values()), CLIP).item())
        losses.append(loss.item())
        optimizer.step()
    return losses, norms


def main():
    torch.set_num_threads(1)  # the same bits on every machine of one kind
    generator = torch.Generator().manual_seed(20)
    weights = make_weights(generator)
    tokens, labels = make_batch(generator)
    parameters = {name: value.double().requires_grad_() for name, value in weights.items()}

    logits = forward(parameters, tokens)
    loss_sum, loss_mean = loss_of(logits, labels, "sum"), loss_of(logits, labels, "mean")
    loss_mean.backward()
    gradients = {name: p.grad.clone() for name, p in parameters.items()}
    losses, norms = train(parameters, tokens, labels)
    assert min(norms) > CLIP, "clipping must be seen in every step"
    with torch.no_grad():
        after = loss_of(forward(parameters, tokens), labels, "mean")

    def float64(*values):
        return torch.tensor(values, dtype=torch.float64)

    tensors = {
        "tokens": tokens.int(),
        "labels": labels.int(),
        "logits": logits.detach().float(),
        "loss.sum": float64(loss_sum.item()),
        "loss.mean": float64(loss_mean.item()),
        "step.loss": float64(*losses),
        "step.norm": float64(*norms),
        "after.loss": float64(after.item()),
    }
    for name, value in weights.items():
        tensors[f"weight/{name}"] = value
        tensors[f"gradient/{name}"] = gradients[name].float()
        tensors[f"after/{name}"] = parameters[name].detach().float()
    settings = {
        "layers": LAYERS,
        "width": WIDTH,
        "heads": HEADS,
        "vocab": VOCAB,
        "positions": POSITIONS,
        "norm_epsilon": EPSILON,
        "learning_rate": LEARNING_RATE,
        "beta1": BETAS[0],
        "beta2": BETAS[1],
        "adam_epsilon": ADAM_EPSILON,
        "weight_decay": DECAY,
        "clip": CLIP,
        "steps": STEPS,
    }
    metadata = {"settings": json.dumps(settings)}  # one key: the library writes several in any order
    path = pathlib.Path(__file__).with_name("gpt2.safetensors")
    save_file({name: value.contiguous() for name, value in tensors.items()}, path, metadata)
    print(f"{path}: {path.stat().st_size} bytes, loss {losses} then {after.item()}, norms {norms}")


if __name__ == "__main__":
    main()
