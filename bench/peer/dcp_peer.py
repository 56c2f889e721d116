#!/usr/bin/env python3
"""torch.distributed.checkpoint, one rank: the seconds that a save takes, and for which it stops training.

  python3 dcp_peer.py --folder /nvme/bench --bytes 12000000000 --device cuda

What is saved is a dictionary of fp32 tensors, as master weights and two moments: three of each matrix. async_save is
tuned on GPUs: copies go to pinned memory that is allocated once, in a stream of their own, and files are written by a
thread. (torch 2.11's DefaultStager allocates anew for every save.) It prints one line of JSON; the median of several
rounds, after one that is not counted.
"""
import argparse
import concurrent.futures
import json
import os
import shutil
import statistics
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint._state_dict_stager import StateDictStager
from torch.distributed.checkpoint.staging import AsyncStager


class KeptStager(AsyncStager):
    """Copies in a stream and a thread of its own, into memory that is kept from save to save."""

    def __init__(self):
        self.stager = StateDictStager(pin_memory=True, share_memory=False)
        self.stream = torch.cuda.Stream()
        self.pool = concurrent.futures.ThreadPoolExecutor(1)

    def stage(self, state_dict):
        return self.pool.submit(self.copy, state_dict)

    def copy(self, state_dict):
        with torch.cuda.stream(self.stream):
            copies = self.stager.stage(state_dict, non_blocking=True)
        self.stream.synchronize()
        return copies

    def synchronize_staging(self):
        pass

    def close(self):
        pass


def state(args):
    each = 16 << 20  # elements of a matrix
    count = max(1, round(args.bytes / 4 / each / 3))
    return {f"{kind}/{k}": torch.randn(each // 4096, 4096, device=args.device)
            for k in range(count) for kind in ("model", "m", "v")}


def folder(args, number):
    path = os.path.join(args.folder, f"dcp-{number}")
    shutil.rmtree(path, ignore_errors=True)
    return path


def wait_for_device(args):
    if args.device != "cpu":
        torch.cuda.synchronize()


def save(args, values, number):
    path = folder(args, number)
    wait_for_device(args)
    begin = time.perf_counter()
    dcp.save(values, storage_writer=dcp.FileSystemWriter(path, thread_count=args.threads))
    seconds = time.perf_counter() - begin
    shutil.rmtree(path)
    return seconds


# What training waits for: the call, and the copy, where it is asynchronous (before the next update).
def save_later(args, values, stager, number):
    path = folder(args, number)
    wait_for_device(args)
    begin = time.perf_counter()
    response = dcp.async_save(values, storage_writer=dcp.FileSystemWriter(path, thread_count=args.threads),
                              async_stager=stager)
    called = time.perf_counter() - begin
    staged = called
    if hasattr(response, "staging_completion"):
        response.staging_completion.result()
        staged = time.perf_counter() - begin
        response.upload_completion.result()
    else:
        response.result()
    seconds = time.perf_counter() - begin
    shutil.rmtree(path)
    return called, staged, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--bytes", type=float, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=4, help="of the writer")
    parser.add_argument("--saves", type=int, default=3)
    args = parser.parse_args()
    os.makedirs(args.folder, exist_ok=True)
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29511")
    dist.init_process_group("cpu:gloo,cuda:nccl" if args.device != "cpu" else "gloo", rank=0, world_size=1)
    values = state(args)
    total = sum(t.numel() * t.element_size() for t in values.values())
    cuda = args.device != "cpu"
    at_once = [save(args, values, k) for k in range(args.saves + 1)][1:]
    stager = KeptStager() if cuda else None
    later = [save_later(args, values, stager, k) for k in range(args.saves + 1)][1:]
    called, staged, seconds = (statistics.median(column) for column in zip(*later))
    print(json.dumps({"bytes": total, "torch": torch.__version__, "at_once_s": statistics.median(at_once),
                      "at_once_gb_per_s": total / statistics.median(at_once) / 1e9, "async_call_ms": 1e3 * called,
                      "async_staged_ms": 1e3 * staged, "async_s": seconds, "async_gb_per_s": total / seconds / 1e9}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
