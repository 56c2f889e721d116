"""Timing shared by the peers: warm up, then one mark a step without synchronising in between."""

import gc, statistics, time
import torch


def timed(step, warmup, steps, cuda):
    """step(k) returns a loss tensor. Returns the median, least and greatest milliseconds and all losses."""
    losses, marks = [], []
    sync = torch.cuda.synchronize if cuda else (lambda: None)

    def mark():
        if not cuda:
            return marks.append(time.perf_counter())
        marks.append(torch.cuda.Event(enable_timing=True))
        marks[-1].record()

    for k in range(warmup):
        losses.append(step(k).clone())
    sync()
    gc.collect()
    gc.freeze()
    mark()
    for k in range(steps):
        losses.append(step(warmup + k).clone())
        mark()
    sync()
    gc.unfreeze()
    ms = [b.elapsed_time(c) if cuda else 1000 * (c - b) for b, c in zip(marks, marks[1:])]
    return statistics.median(ms), min(ms), max(ms), [float(l) for l in losses]
