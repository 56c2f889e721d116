#!/usr/bin/env python3
"""The steps of bench/adam_speed.cc by PyTorch or DeepSpeed. Prints JSON.

  OMP_NUM_THREADS=2 adam.py --peer torch --mi 1,16          # torch.optim.AdamW(fused=True)
  OMP_NUM_THREADS=2 adam.py --peer deepspeed --mi 1,16      # DeepSpeedCPUAdam; compiles itself at the first call

Operands are in huge pages, as ours (--small-pages: as torch allocates them). "bf16" is a step in fp32 and a copy of the
weights to bf16: neither peer writes both in one step.
"""
import argparse
import json
import mmap
import statistics
import time

import torch

PERIOD = 4096
LEAST_STEPS = 3


def zeros(count, dtype, small_pages):
    if small_pages:
        return torch.zeros(count, dtype=dtype).fill_(0)  # touched
    memory = mmap.mmap(-1, count * dtype.itemsize, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=dtype).fill_(0)


def pattern(factor):
    return (torch.arange(PERIOD) * factor % PERIOD).float() / PERIOD - 0.5


class Operands:
    def __init__(self, count, small_pages):
        self.master, self.m, self.v, self.gradient = (zeros(count, torch.float32, small_pages) for _ in range(4))
        self.weight = zeros(count, torch.bfloat16, small_pages)
        self.master.view(-1, PERIOD).copy_(pattern(7919))
        self.gradient.view(-1, PERIOD).copy_(pattern(4423))


def make(peer, operands, count):
    """A function that makes a step of the first `count` elements."""
    parameter = torch.nn.Parameter(operands.master[:count])
    parameter.grad = operands.gradient[:count]
    options = dict(lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    if peer == "torch":
        optimizer, step = torch.optim.AdamW([parameter], fused=True, **options), torch.tensor(0.0)
    else:
        from deepspeed.ops.adam import DeepSpeedCPUAdam
        optimizer, step = DeepSpeedCPUAdam([parameter], **options), 0
    optimizer.state[parameter] = {"step": step, "exp_avg": operands.m[:count], "exp_avg_sq": operands.v[:count]}
    return optimizer.step


def median_time(seconds, work):
    work()
    times, first = [], time.perf_counter()
    while len(times) < LEAST_STEPS or time.perf_counter() - first < seconds:
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


@torch.no_grad()
def measure(args):
    operands = Operands(max(args.mi) << 20, args.small_pages)
    first = make(args.peer, operands, PERIOD)
    for _ in range(3):
        first()
    result = {"check": operands.master[:PERIOD].double().abs().mean().item(), "fp32": {}, "bf16": {}}
    for mi in args.mi:
        count = mi << 20
        step = make(args.peer, operands, count)
        master, weight = operands.master[:count], operands.weight[:count]

        def step_and_copy():
            step()
            weight.copy_(master)

        result["fp32"][str(mi)] = 1e3 * median_time(args.seconds, step)
        result["bf16"][str(mi)] = 1e3 * median_time(args.seconds, step_and_copy)
    return result


def numbers(text):
    return [int(word) for word in text.split(",")]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--peer", choices=["torch", "deepspeed"], required=True)
    p.add_argument("--mi", type=numbers, default=[1, 16, 100], help="Mi elements (2^20) of each size")
    p.add_argument("--seconds", type=float, default=0.5, help="of each measurement at least")
    p.add_argument("--small-pages", action="store_true")
    print(json.dumps(measure(p.parse_args())))


if __name__ == "__main__":
    main()
