"""PyTorch on several GPUs: FSDP2 (fully_shard a block) or DDP, bf16 compute, fp32 reduction, fp32 master
weights and moments, fused AdamW, clip 1.0, torch.compile a block. --offload: CPUOffloadPolicy, the fp32 weights,
gradients and moments in pinned host memory, updated there. Rank 0 prints one JSON line.

  torchrun --nproc-per-node 2 fsdp_peer.py llama-7b --batch 4 --recompute full
  torchrun --nproc-per-node 2 fsdp_peer.py gpt2-1.5b --strategy ddp
"""

import time

START = time.time()
import argparse, contextlib, json, os, sys


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("case", choices=["gpt2-124m", "gpt2-1.5b", "llama-1.1b", "llama-7b"])
    p.add_argument("--strategy", choices=["fsdp2", "ddp"], default="fsdp2")
    p.add_argument(
        "--zero", type=int, choices=[2, 3], default=3, help="2: keep a block's weights gathered until its backward"
    )
    p.add_argument("--group", type=int, default=1, help="blocks in one fully_shard group: fewer, larger collectives")
    p.add_argument(
        "--local-adam",
        action="store_true",
        help="clip and AdamW on the plain local shards, not on DTensors: less host time",
    )
    p.add_argument("--offload", action="store_true", help="FSDP2's CPUOffloadPolicy, with --local-adam")
    p.add_argument("--bucket-mb", type=int, default=25, help="DDP's bucket_cap_mb")
    p.add_argument("--mode", choices=["compile", "eager"], default="compile")
    p.add_argument("--precision", choices=["bf16", "fp32"], default="bf16")
    p.add_argument("--attention", choices=["cudnn", "flash"], default="cudnn")
    p.add_argument("--recompute", choices=["none", "full", "selective"])
    p.add_argument("--save", default="attn,qkv", help="kept by selective recompute: attn,qkv,o,up")
    for k in ("layers", "batch", "seq", "width", "heads", "kv", "ffn", "vocab"):
        p.add_argument("--" + k, type=int)
    p.add_argument("--steps", type=int, default=12)
    p.add_argument("--warmup", type=int, default=3)
    p.add_argument("--device", default="cuda")
    return p


def build(s, a, recompute, rank, mesh):
    """The model, wrapped; the parameters of every rank are fp32."""
    import torch, models
    from torch.distributed.fsdp import CPUOffloadPolicy, OffloadPolicy, fully_shard, MixedPrecisionPolicy
    from torch.nn.parallel import DistributedDataParallel

    low = torch.bfloat16 if a.precision == "bf16" else torch.float32
    device = torch.device(a.device, rank if a.device == "cuda" else None)
    with torch.device("meta"):
        m = models.Model(s, recompute, tuple(a.save.split(",")), dtype=low)
    if a.mode == "compile":
        m.compile(dynamic=False)
    if a.strategy == "fsdp2":
        how = dict(
            mesh=mesh,
            mp_policy=MixedPrecisionPolicy(param_dtype=low, reduce_dtype=torch.float32),
            reshard_after_forward=a.zero == 3,
            offload_policy=CPUOffloadPolicy() if a.offload else OffloadPolicy(),
        )
        for k in range(0, s.layers, a.group):
            g = list(m.blocks[k : k + a.group])
            fully_shard(g if a.group > 1 else g[0], **how)
        if not s.tied:
            fully_shard(m.embed, **how)
            fully_shard(m.head, **{**how, "reshard_after_forward": False})
        fully_shard(m, **{**how, "reshard_after_forward": False})
    m.to_empty(device="cpu" if a.offload else device)
    if s.tied:
        m.head.out.weight = m.embed.token.weight
    torch.manual_seed(1 + (rank if a.strategy == "fsdp2" else 0))
    m.start(device)
    if a.strategy == "ddp":
        return m, DistributedDataParallel(
            m,
            device_ids=[rank] if a.device == "cuda" else None,
            gradient_as_bucket_view=True,
            bucket_cap_mb=a.bucket_mb,
        )
    return m, m


class LocalAdamW:
    """The same clip and fused AdamW on each rank's own shards, as plain tensors."""

    def __init__(self, params):
        import torch

        self.params = list(params)
        self.local = [p.to_local() for p in self.params]
        self.opt = torch.optim.AdamW(
            [w.detach().requires_grad_() for w in self.local], lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True
        )

    def step(self):
        import torch, torch.distributed as dist

        grads = [p.grad.to_local() for p in self.params]
        total = torch.stack(torch._foreach_norm(grads)).square().sum()
        if dist.get_world_size() > 1:
            dist.all_reduce(total)
        torch._foreach_mul_(grads, (1.0 / (total.sqrt() + 1e-6)).clamp(max=1.0))
        for w, g in zip(self.opt.param_groups[0]["params"], grads):
            w.grad = g
        self.opt.step()
        self.opt.zero_grad(set_to_none=True)
        for p in self.params:
            p.grad = None


def bench(a):
    import torch, torch.distributed as dist, models, measure

    cuda, rank, world = a.device == "cuda", int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"])
    change = {k: v for k in ("layers", "batch", "seq", "width", "heads", "kv", "ffn", "vocab") if (v := getattr(a, k))}
    if "heads" in change and "kv" not in change:
        change["kv"] = change["heads"]
    if "width" in change and "ffn" not in change:
        change["ffn"] = 4 * change["width"]
    s = models.dataclasses.replace(models.CASES[a.case], **change)
    recompute = a.recompute or ("full" if a.case == "llama-7b" else "none")
    torch.compiler.config.cache_key_tag = a.attention
    if cuda:
        models.use_attention(a.attention)
        torch.cuda.reset_peak_memory_stats()
    mesh = torch.distributed.init_device_mesh(a.device, (world,))
    m, call = build(s, a, recompute, rank, mesh)
    local = a.local_adam and a.strategy == "fsdp2"
    opt = (
        LocalAdamW(m.parameters())
        if local
        else torch.optim.AdamW(m.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    )
    torch.manual_seed(100 + rank)
    pool = torch.randint(0, s.vocab, (4, s.batch, s.seq + 1), device=torch.device(a.device, rank if cuda else None))
    cast = (
        torch.autocast(a.device, torch.bfloat16)
        if a.strategy == "ddp" and a.precision == "bf16"
        else contextlib.nullcontext()
    )

    def step(k):
        t = pool[k % 4]
        with cast:
            loss = call(t[:, :-1].contiguous(), t[:, 1:].contiguous())
        loss.backward()
        if not local:
            torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0, foreach=True)
        opt.step()
        if not local:
            opt.zero_grad(set_to_none=True)
        return loss.detach()

    first = step(0).item()
    begun = time.time() - START
    dist.barrier()
    med, least, most, losses = measure.timed(step, a.warmup, a.steps, cuda)
    kept = a.save.split(",") if recompute == "selective" else []
    rate = s.batch * s.seq / med * 1000
    peak = torch.tensor(
        [
            med,
            torch.cuda.max_memory_allocated() / 2**30 if cuda else 0,
            torch.cuda.max_memory_reserved() / 2**30 if cuda else 0,
        ],
        device=pool.device,
    )
    dist.all_reduce(peak, dist.ReduceOp.MAX)
    out = dict(
        case=a.case,
        strategy=a.strategy,
        zero=a.zero if a.strategy == "fsdp2" else 0,
        group=a.group,
        local_adam=local,
        offload=a.offload,
        mode=a.mode,
        precision=a.precision,
        attention=a.attention if cuda else "",
        recompute=recompute,
        saved=kept,
        ranks=world,
        **{k: getattr(s, k) for k in ("layers", "width", "heads", "kv", "batch", "seq", "vocab")},
        tokens_per_s_rank=round(rate, 1),
        tokens_per_s=round(rate * world, 1),
        ms=round(med, 2),
        ms_min=round(least, 2),
        ms_max=round(most, 2),
        steps=a.steps,
        first_step_s=round(begun, 1),
    )
    if cuda:
        pct = lambda f: round(100 * rate * f / models.PEAK, 2)
        out.update(
            peak_gib=round(peak[1].item(), 2),
            reserved_gib=round(peak[2].item(), 2),
            mfu_full=pct(s.flops()),
            mfu_causal=pct(s.flops(True)),
            hfu_full=pct(s.flops() + s.again(recompute, kept)),
        )
    out.update(
        loss_first=round(first, 4),
        loss_last=round(losses[-1], 4),
        torch=torch.__version__,
        device=torch.cuda.get_device_name() if cuda else "cpu",
    )
    return out


def main(argv=None):
    parser = options()
    a = parser.parse_args(argv)
    if a.offload and not (a.local_adam and a.strategy == "fsdp2"):
        parser.error("--offload needs --local-adam and FSDP2")
    os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    import torch, torch.distributed as dist

    if "LOCAL_RANK" not in os.environ:  # one rank
        os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    rank = int(os.environ["LOCAL_RANK"])
    if a.device == "cuda":
        torch.cuda.set_device(rank)
        backend = "cpu:gloo,cuda:nccl" if a.offload else "nccl"
        dist.init_process_group(backend, device_id=torch.device("cuda", rank))
    else:
        dist.init_process_group("gloo")
    try:
        out = bench(a)
    except torch.OutOfMemoryError as e:
        out = dict(
            case=a.case,
            strategy=a.strategy,
            recompute=a.recompute,
            batch=a.batch,
            error="out of memory",
            rank=rank,
            detail=str(e)[:160],
        )
        print(json.dumps(out), flush=True)
        os._exit(1)
    if rank == 0:
        print(json.dumps(out), flush=True)
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # gloo's threads can abort an ordinary exit


if __name__ == "__main__":
    main()
