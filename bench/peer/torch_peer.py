"""PyTorch on one GPU, tuned: one training step of GPT-2 or Llama, timed. Prints one JSON line.

  python3 torch_peer.py gpt2-124m                    # compile, the fastest variant found (README.md)
  python3 torch_peer.py llama-1.1b --mode eager
  python3 torch_peer.py gpt2-124m --device cpu --layers 2 --batch 2 --seq 64 --width 64 --heads 4 --vocab 256
"""

import time

START = time.time()
import argparse, contextlib, gc, json, os, tempfile


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("case", choices=["gpt2-124m", "gpt2-1.5b", "llama-1.1b", "llama-7b"])
    p.add_argument("--mode", choices=["compile", "eager"], default="compile")
    p.add_argument("--scope", choices=["block", "whole"], default="block", help="what torch.compile gets at once")
    p.add_argument("--compile-mode", default="default", help="default, max-autotune-no-cudagraphs, reduce-overhead")
    p.add_argument("--coordinate-descent", action="store_true", help="Inductor's coordinate_descent_tuning")
    p.add_argument(
        "--states",
        choices=["master", "autocast", "bf16", "fp32"],
        help="master: bf16 weights, fp32 master and moments; autocast: fp32 weights; bf16: all bf16, no master",
    )
    p.add_argument("--adam", choices=["compiled", "fused"], help="for --states master")
    p.add_argument("--attention", choices=["cudnn", "flash"], default="cudnn")
    p.add_argument("--gqa", choices=["native", "expand"], default="native")
    p.add_argument("--loss-chunks", type=int, default=0, help="Inductor's auto-chunker over head and loss, N pieces")
    p.add_argument("--graph", action="store_true", help="capture the whole step in one CUDA graph")
    p.add_argument("--recompute", choices=["none", "full", "selective"])
    p.add_argument("--save", default="attn,qkv,o", help="kept by selective recompute: attn,qkv,o,up")
    p.add_argument("--accum", type=int, default=1, help="micro-batches a step")
    for k in ("layers", "batch", "seq", "width", "heads", "kv", "ffn", "vocab"):
        p.add_argument("--" + k, type=int)
    p.add_argument("--steps", type=int, default=14)
    p.add_argument("--warmup", type=int, default=4)
    p.add_argument("--device", default="cuda")
    p.add_argument("--cold", action="store_true", help="empty compile caches, for seconds to first step")
    p.add_argument("--profile", type=int, default=0, metavar="N", help="also print the N heaviest kernels of one step")
    return p


def bench(a):
    import torch, models, adamw, measure

    cuda = a.device == "cuda"
    change = {k: v for k in ("layers", "batch", "seq", "width", "heads", "kv", "ffn", "vocab") if (v := getattr(a, k))}
    if "heads" in change and "kv" not in change:
        change["kv"] = change["heads"]
    if "width" in change and "ffn" not in change:
        change["ffn"] = 4 * change["width"]
    s = models.dataclasses.replace(models.CASES[a.case], **change)
    states = a.states or ("bf16" if a.case == "llama-7b" else "master")
    recompute = a.recompute or ("selective" if a.case == "llama-7b" else "none")
    adam = a.adam or ("compiled" if a.mode == "compile" else "fused")
    compiled = a.mode == "compile"
    out = dict(
        case=a.case,
        mode=a.mode,
        scope=a.scope if compiled else "",
        compile_mode=a.compile_mode if compiled else "",
        states=states,
        adam=adam if states == "master" else "fused",
        attention=a.attention,
        gqa=a.gqa if s.kv != s.heads else "",
        recompute=recompute,
        graph=a.graph,
        accum=a.accum,
        **{k: getattr(s, k) for k in ("layers", "width", "heads", "kv", "batch", "seq", "vocab")},
    )
    if a.coordinate_descent:
        out["coordinate_descent"] = True
    if a.loss_chunks:
        out["loss_chunks"] = a.loss_chunks
    # the compile caches do not see which SDPA backend is on, so name it in their key
    torch.compiler.config.cache_key_tag = f"{a.attention}-{a.gqa}-{a.loss_chunks}"
    if cuda:
        models.use_attention(a.attention)
        torch.cuda.reset_peak_memory_stats()
    torch._inductor.config.coordinate_descent_tuning = a.coordinate_descent
    torch._inductor.config.auto_chunker.enable, torch._inductor.config.auto_chunker.num_chunk = (
        a.loss_chunks > 0,
        a.loss_chunks or None,
    )
    torch.manual_seed(0)
    dtype = torch.float32 if states == "fp32" else torch.bfloat16
    with torch.device(a.device):
        m = models.Model(
            s, recompute, tuple(a.save.split(",")), a.gqa, pair=a.scope == "block" or not compiled, dtype=dtype
        )
        if states in ("master", "bf16"):
            m = m.to(torch.bfloat16)
        m.start(a.device)
        pool = torch.randint(0, s.vocab, (4, a.accum, s.batch, s.seq + 1))
        x = torch.empty(a.accum, s.batch, s.seq, dtype=torch.long)
        y = torch.empty_like(x)
    every = list(m.parameters())
    blocks = [list(b.parameters()) for b in m.blocks]
    inner = {id(p) for b in blocks for p in b}
    groups = blocks + [[p for p in every if id(p) not in inner]]
    opt = (
        adamw.MasterAdamW(groups, adam, capturable=a.graph)
        if states == "master"
        else adamw.PlainAdamW(every, capturable=a.graph)
    )
    call = m
    if compiled:
        kw = dict(dynamic=False, mode=None if a.compile_mode == "default" else a.compile_mode)
        if a.scope == "block":
            m.compile(**kw)
        else:
            call = torch.compile(m, **kw)
    cast = torch.autocast(a.device, torch.bfloat16) if states == "autocast" else contextlib.nullcontext()

    def step():
        total = 0
        for j in range(a.accum):
            with cast:
                loss = call(x[j], y[j])
            (loss / a.accum if a.accum > 1 else loss).backward()
            total = total + loss.detach() / a.accum
        opt.step()
        return total

    def feed(k):
        x.copy_(pool[k % 4, ..., :-1])
        y.copy_(pool[k % 4, ..., 1:])

    sync = torch.cuda.synchronize if cuda else (lambda: None)
    feed(0)
    first = step()
    sync()
    out["first_step_s"] = round(time.time() - START, 1)
    run = step
    if a.graph:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                step()
        torch.cuda.current_stream().wait_stream(side)
        gc.collect()
        torch.cuda.empty_cache()
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g):
            static = step()
        run = lambda: (g.replay(), static)[1]

    def fed(k):
        feed(k)
        return run()

    med, least, most, losses = measure.timed(fed, a.warmup, a.steps, cuda)
    tokens = a.accum * s.batch * s.seq
    rate = tokens / med * 1000
    out.update(
        tokens_per_s=round(rate, 1), ms=round(med, 2), ms_min=round(least, 2), ms_max=round(most, 2), steps=a.steps
    )
    if cuda:
        out.update(
            peak_gib=round(torch.cuda.max_memory_allocated() / 2**30, 2),
            reserved_gib=round(torch.cuda.max_memory_reserved() / 2**30, 2),
            mfu_full=round(100 * rate * s.flops() / models.PEAK, 2),
            mfu_causal=round(100 * rate * s.flops(True) / models.PEAK, 2),
            hfu_full=round(100 * rate * (s.flops() + s.again(recompute, a.save.split(","))) / models.PEAK, 2),
        )
    out.update(
        params_m=round(sum(p.numel() for p in every) / 1e6, 1),
        loss_first=round(first.item(), 4),
        loss_last=round(losses[-1], 4),
        torch=torch.__version__,
        device=torch.cuda.get_device_name() if cuda else "cpu",
    )
    if a.profile:
        acts = [torch.profiler.ProfilerActivity.CPU] + ([torch.profiler.ProfilerActivity.CUDA] if cuda else [])
        with torch.profiler.profile(activities=acts) as prof:
            run()
            sync()
        key = "device_time_total" if cuda else "cpu_time_total"
        rows = [e for e in prof.key_averages() if not cuda or e.device_type == torch.autograd.DeviceType.CUDA]
        for e in sorted(rows, key=lambda e: -getattr(e, key))[: a.profile]:
            print("  %9.2f ms %5d  %s" % (getattr(e, key) / 1000, e.count, e.key[:110]))
    return out


def main():
    a = options().parse_args()
    os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    if a.cold:
        os.environ["TORCHINDUCTOR_CACHE_DIR"], os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp(), tempfile.mkdtemp()
    import torch

    try:
        out = bench(a)
    except torch.OutOfMemoryError as e:
        out = dict(
            case=a.case,
            mode=a.mode,
            states=a.states,
            error="out of memory",
            torch=torch.__version__,
            device=torch.cuda.get_device_name(),
            peak_gib=round(torch.cuda.max_memory_allocated() / 2**30, 2),
            detail=str(e)[:160],
        )
    print(json.dumps(out), flush=True)


if __name__ == "__main__":
    main()
