#!/usr/bin/env python3
"""The decoder of bench/module_speed.cc in PyTorch, under DDP or FSDP2. Rank 0 prints JSON.

  torchrun --nproc-per-node 2 module_torch.py --stage 3 --layers 4 --width 512          # batch is that of a rank

--stage is what the peer corresponds to: 0 is DDP; 1 is DDP with ZeroRedundancyOptimizer; 2 is FSDP2 that keeps weights
gathered until backward has used them (reshard_after_forward=False); 3 is FSDP2 that gathers them for forward and for
backward. FSDP2 shards each layer, and the rest as one.
bf16: DDP computes under autocast with fp32 parameters; FSDP2 gathers bf16 and reduces gradients in fp32.
Gloo on CPUs, NCCL on GPUs. All compute eagerly, as ours does.
"""
import argparse
import contextlib
import gc
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from clipped_adamw import ClippedAdamW


class Layer(nn.Module):
    """Pre-norm."""

    def __init__(self, a):
        super().__init__()
        self.heads = a.heads
        self.norm1 = nn.LayerNorm(a.width)
        self.qkv, self.out = nn.Linear(a.width, 3 * a.width), nn.Linear(a.width, a.width)
        self.norm2 = nn.LayerNorm(a.width)
        self.up, self.down = nn.Linear(a.width, 4 * a.width), nn.Linear(4 * a.width, a.width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Decoder(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.token, self.position = nn.Embedding(a.vocabulary, a.width), nn.Embedding(a.length, a.width)
        self.layers = nn.ModuleList(Layer(a) for _ in range(a.layers))
        self.norm, self.head = nn.LayerNorm(a.width), nn.Linear(a.width, a.vocabulary, bias=False)

    def forward(self, tokens, labels):
        x = self.token(tokens) + self.position.weight
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), labels.flatten())


def distribute(model, a):
    """The callable that trains."""
    if a.stage <= 1:
        return nn.parallel.DistributedDataParallel(
            model, device_ids=[torch.cuda.current_device()] if a.device == "cuda" else None,
            gradient_as_bucket_view=True)
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    low = torch.bfloat16 if a.precision == "bf16" else torch.float32
    how = {"mesh": dist.init_device_mesh(a.device, (dist.get_world_size(),)),
           "mp_policy": MixedPrecisionPolicy(param_dtype=low, reduce_dtype=torch.float32),
           "reshard_after_forward": a.stage == 3}
    for layer in model.layers:
        fully_shard(layer, **how)
    fully_shard(model, **(how | {"reshard_after_forward": False}))  # backward begins with it
    return model


def make_optimizer(model, a):
    def make(tensors):
        if a.stage == 1:
            from torch.distributed.optim import ZeroRedundancyOptimizer

            return ZeroRedundancyOptimizer(tensors, torch.optim.AdamW, lr=1e-3, fused=True,
                                           parameters_as_bucket_view=True)
        return torch.optim.AdamW(tensors, lr=1e-3, fused=True)
    return ClippedAdamW(model.parameters(), make)


def make_step(a):
    """A function that trains one step and returns the loss, as a tensor."""
    torch.manual_seed(0)  # the same weights on every rank
    model = Decoder(a).to(a.device)
    call = distribute(model, a)
    optimizer = make_optimizer(model, a)
    torch.manual_seed(1 + dist.get_rank())
    pool = torch.randint(a.vocabulary, (4, a.batch, a.length + 1)).to(a.device)
    autocast = a.precision == "bf16" and a.stage <= 1

    def step(number):
        tokens = pool[number % len(pool)]
        with torch.autocast(a.device, torch.bfloat16) if autocast else contextlib.nullcontext():
            loss = call(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def timed(step, first, count, cuda):
    """Milliseconds of each of `count` steps, and the losses. Without waits for a GPU in between."""
    losses, marks = [], []

    def mark():
        if not cuda:
            return marks.append(time.perf_counter())
        marks.append(torch.cuda.Event(enable_timing=True))
        marks[-1].record()

    mark()
    for number in range(first, first + count):
        losses.append(step(number))
        mark()
    if cuda:
        torch.cuda.synchronize()
    pairs = zip(marks, marks[1:])
    return [b.elapsed_time(c) if cuda else 1000 * (c - b) for b, c in pairs], losses


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in [("layers", 4), ("heads", 4), ("width", 256), ("length", 128), ("batch", 4),
                          ("vocabulary", 4096), ("steps", 10), ("warmup", 3)]:
        p.add_argument(f"--{name}", type=int, default=default)
    p.add_argument("--stage", type=int, choices=[0, 1, 2, 3], default=3)
    p.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    p.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    return p


def main():
    a = options().parse_args()
    cuda = a.device == "cuda"
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    else:
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))
        dist.init_process_group("gloo")
    step = make_step(a)
    _, before = timed(step, 0, a.warmup, cuda)
    gc.collect()
    gc.freeze()
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    begun = time.process_time()
    milliseconds, losses = timed(step, a.warmup, a.steps, cuda)
    host = 1000 * (time.process_time() - begun) / a.steps
    median = statistics.median(milliseconds)
    result = {"side": ["DDP", "DDP, ZeroRedundancyOptimizer", "FSDP2, kept", "FSDP2"][a.stage], "stage": a.stage,
              "precision": a.precision, "ranks": dist.get_world_size(), "threads": torch.get_num_threads(),
              "steps": a.steps, "ms": median, "all_ms": milliseconds, "host_ms": host,
              "tokens_per_s_rank": 1000 * a.batch * a.length / median,
              "loss_first": before[0].item(), "loss_last": losses[-1].item(), "torch": torch.__version__}
    if cuda:
        result |= {"device": torch.cuda.get_device_name(), "peak_gib": torch.cuda.max_memory_allocated() / 2**30}
    if dist.get_rank() == 0:
        print(json.dumps(result), flush=True)
    dist.barrier()
    os._exit(0)  # gloo's threads can abort an ordinary exit


if __name__ == "__main__":
    main()
