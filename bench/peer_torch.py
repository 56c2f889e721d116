#!/usr/bin/env python3
"""The peer: one training step of GPT-2 in plain PyTorch on CPUs, as fast as PyTorch can be made to do it. Prints JSON.

  peer_torch.py 6,6,384,256,8,4096 --mode compile --precision bf16       # layers,heads,width,length,batch,vocabulary
  torchrun --nproc-per-node 2 peer_torch.py 6,6,384,256,4,4096 --strategy fsdp2          # batch is that of a rank

What makes it fast: packed q, k, v; scaled_dot_product_attention; one fused AdamW; gradients dropped, not zeroed; the
whole model in one torch.compile (alone) or a block in each (under a strategy, where hooks would cut a whole graph);
blocks hand on (sum, branch), so that the add of one block is compiled together with the norm of the next; under FSDP2,
clipping and AdamW on plain local shards.
bf16: autocast over fp32 weights; under FSDP2, bf16 weights are gathered and fp32 gradients reduced.

With --turns it takes turns with others on the same machine: a line N on its standard input makes it run N steps and
print their times, and it sleeps in between; the end of the input ends it (bench/train_cpu.py).
"""
import argparse
import contextlib
import gc
import json
import os
import pathlib
import statistics
import sys
import time

START = time.perf_counter()

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).parent / "peer"))
from clipped_adamw import ClippedAdamW


class Block(nn.Module):
    """One layer, pre-norm. Takes and returns (sum, branch): the residual stream is sum + branch, not yet added."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, branch):
        if branch is not None:
            x = x + branch
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x, self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Embedding(nn.Module):
    def __init__(self, vocabulary, width, length, dtype):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.dtype = dtype

    def forward(self, tokens):
        return (self.token(tokens) + self.position.weight[: tokens.shape[1]]).to(self.dtype)


class Head(nn.Module):
    """Final norm, logits by the tied token table, mean loss."""

    def __init__(self, table, width):
        super().__init__()
        self.norm, self.table = nn.LayerNorm(width), table

    def forward(self, x, branch, labels):
        logits = F.linear(self.norm(x + branch), self.table)
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


class Gpt2(nn.Module):
    def __init__(self, layers, heads, width, length, vocabulary, dtype):
        super().__init__()
        self.embedding = Embedding(vocabulary, width, length, dtype)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = Head(self.embedding.token.weight, width)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, tokens, labels):
        x, branch = self.embedding(tokens), None
        for block in self.blocks:
            x, branch = block(x, branch)
        return self.head(x, branch, labels)

    def compile_blocks(self):
        for k, block in enumerate(self.blocks):
            self.blocks[k] = torch.compile(block, dynamic=False)
        self.embedding = torch.compile(self.embedding, dynamic=False)
        self.head = torch.compile(self.head, dynamic=False)


def wrap(model, args):
    """The callable that trains: the model, compiled and distributed as asked."""
    if args.mode == "compile":
        if args.strategy is None:
            return torch.compile(model, dynamic=False)
        model.compile_blocks()
    if args.strategy == "ddp":
        return nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    if args.strategy == "fsdp2":
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        low = torch.bfloat16 if args.precision == "bf16" else torch.float32
        policy = MixedPrecisionPolicy(param_dtype=low, reduce_dtype=torch.float32)
        mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
        for block in model.blocks:
            fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=args.zero == 3)
        fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=False)
    return model


def make_step(args):
    """A function that trains one step and returns the loss; tokens are random, the same in every run."""
    layers, heads, width, length, batch, vocabulary = args.shape
    torch.manual_seed(0)  # the same weights on every rank
    dtype = torch.bfloat16 if args.precision == "bf16" else torch.float32
    model = Gpt2(layers, heads, width, length, vocabulary, dtype)
    call = wrap(model, args)
    optimizer = ClippedAdamW(model.parameters(), lambda tensors: torch.optim.AdamW(
        tensors, lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True))
    autocast = args.precision == "bf16" and args.strategy != "fsdp2"
    torch.manual_seed(1 + (dist.get_rank() if args.strategy else 0))
    pool = torch.randint(0, vocabulary, (4, batch, length + 1))
    turn = 0

    def step():
        nonlocal turn
        tokens, turn = pool[turn % len(pool)], turn + 1
        with torch.autocast("cpu", torch.bfloat16) if autocast else contextlib.nullcontext():
            loss = call(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def timed(step, count):
    """Milliseconds of each of `count` steps, and the last loss."""
    milliseconds = []
    for _ in range(count):
        begin = time.perf_counter()
        loss = step()
        milliseconds.append(round(1000 * (time.perf_counter() - begin), 3))
    return milliseconds, loss


def parse_args():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("shape", type=lambda s: [int(n) for n in s.split(",")], help="L,H,C,T,B,V")
    p.add_argument("--mode", choices=["eager", "compile"], default="eager")
    p.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    p.add_argument("--strategy", choices=["ddp", "fsdp2"], help="under torchrun: over Gloo")
    p.add_argument("--zero", type=int, choices=[2, 3], default=3, help="fsdp2: 2 keeps a block gathered till backward")
    p.add_argument("--threads", type=int, help="of each process; default: torch's own choice")
    p.add_argument("--steps", type=int, default=12, help="timed steps")
    p.add_argument("--warmup", type=int, default=3, help="steps before them, besides the first")
    p.add_argument("--turns", action="store_true", help="step when a number comes on the standard input")
    args = p.parse_args()
    if len(args.shape) != 6:
        p.error("the shape has six numbers: layers,heads,width,length,batch,vocabulary")
    return args


def main():
    args = parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    if args.strategy:
        dist.init_process_group("gloo")
    quiet = args.strategy and dist.get_rank() > 0

    def report(**fields):
        if not quiet:
            print(json.dumps(fields), flush=True)

    step = make_step(args)
    first_loss = step()
    first_step_s = round(time.perf_counter() - START, 1)
    timed(step, args.warmup)
    gc.collect()
    gc.freeze()
    about = {"torch": torch.__version__, "threads": torch.get_num_threads(), "first_step_s": first_step_s,
             "first_loss": round(first_loss, 4)}
    if args.turns:
        report(ready=True, **about)
        for line in sys.stdin:
            milliseconds, loss = timed(step, int(line))
            report(ms=milliseconds, loss=round(loss, 4))
    else:
        milliseconds, loss = timed(step, args.steps)
        median = round(statistics.median(milliseconds), 3)
        ranks = dist.get_world_size() if args.strategy else 1
        tokens = ranks * args.shape[3] * args.shape[4]
        report(tokens_per_s=round(1000 * tokens / median, 1), ms=median, ms_min=min(milliseconds),
               ms_max=max(milliseconds), loss=round(loss, 4), **about)
    sys.stdout.flush()
    if args.strategy:
        os._exit(0)  # Gloo's threads can abort an ordinary exit


if __name__ == "__main__":
    main()
