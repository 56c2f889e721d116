"""GPT-2 and Llama in plain PyTorch, written to be fast under torch.compile: fused QKV and gate/up
projections, one residual tensor pair between blocks (so that the residual add of one block fuses with
the norm of the next although every block is compiled alone), rotary tables in the compute type."""

import dataclasses, functools
import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts, CheckpointPolicy

PEAK = 989e12  # dense bf16 FLOP/s of an H100 SXM, the divisor of every MFU here


@dataclasses.dataclass
class Shape:
    kind: str
    layers: int
    width: int
    heads: int
    kv: int
    ffn: int
    vocab: int
    seq: int
    batch: int
    tied: bool

    @property
    def qkv(self):
        return self.width + 2 * self.kv * (self.width // self.heads)

    def block_params(self):  # matrices, biases and norms of one block
        C, F_, gpt = self.width, self.ffn, self.kind == "gpt2"
        mats = C * self.qkv + C * C + C * F_ * (2 if gpt else 3)
        return mats + (self.qkv + C + F_ + C + 4 * C if gpt else 2 * C)

    def n(self):  # parameters without embeddings, with the head: the N of 6N
        return (
            self.layers * self.block_params() + self.width * self.vocab + self.width * (2 if self.kind == "gpt2" else 1)
        )

    def flops(self, causal=False):  # a token, forward and backward
        return 6 * self.n() + (6 if causal else 12) * self.layers * self.width * self.seq

    def again(self, recompute, save=()):  # FLOPs a token of the recomputed forward, full attention
        if recompute == "none":
            return 0
        if recompute == "full":
            return self.flops() / 3  # the usual convention: one whole forward more
        C, up = self.width, self.ffn * (1 if self.kind == "gpt2" else 2)
        part = {"qkv": 2 * C * self.qkv, "o": 2 * C * C, "up": 2 * C * up, "attn": 4 * C * self.seq}
        return self.layers * sum(v for k, v in part.items() if k not in save)


CASES = {
    "gpt2-124m": Shape("gpt2", 12, 768, 12, 12, 3072, 50304, 1024, 64, True),
    "gpt2-1.5b": Shape("gpt2", 48, 1600, 25, 25, 6400, 50304, 1024, 8, True),
    "llama-1.1b": Shape("llama", 22, 2048, 32, 4, 5632, 32000, 2048, 8, False),
    "llama-7b": Shape("llama", 32, 4096, 32, 32, 11008, 32000, 4096, 4, False),
}
ATTENTION = {
    "cudnn": torch.nn.attention.SDPBackend.CUDNN_ATTENTION,
    "flash": torch.nn.attention.SDPBackend.FLASH_ATTENTION,
}


def use_attention(name):
    """One SDPA backend for the whole process, so that nothing falls back unseen."""
    torch.backends.cuda.enable_cudnn_sdp(name == "cudnn")
    torch.backends.cuda.enable_flash_sdp(name == "flash")
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_math_sdp(False)


def norm(s):
    return nn.LayerNorm(s.width) if s.kind == "gpt2" else nn.RMSNorm(s.width, eps=1e-5)


def rotate(x, cos, sin):  # x: batch, time, heads, dim
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


class Block(nn.Module):
    def __init__(self, s, recompute="none", save=(), gqa="native"):
        super().__init__()
        C, gpt = s.width, s.kind == "gpt2"
        self.s, self.recompute, self.save, self.gqa = s, recompute, save, gqa
        self.norm1, self.norm2 = norm(s), norm(s)
        self.qkv = nn.Linear(C, s.qkv, bias=gpt)
        self.o = nn.Linear(C, C, bias=gpt)
        self.up = nn.Linear(C, s.ffn if gpt else 2 * s.ffn, bias=gpt)
        self.down = nn.Linear(s.ffn, C, bias=gpt)

    def attend(self, x, cos, sin):
        s, (B, T, C) = self.s, x.shape
        D = C // s.heads
        q, k, v = self.qkv(x).split((C, s.kv * D, s.kv * D), -1)
        q, k, v = q.view(B, T, s.heads, D), k.view(B, T, s.kv, D), v.view(B, T, s.kv, D)
        if cos is not None:
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if s.kv != s.heads and self.gqa == "expand":
            k, v = (z.repeat_interleave(s.heads // s.kv, 2) for z in (k, v))
        y = F.scaled_dot_product_attention(
            q.transpose(1, 2),
            k.transpose(1, 2),
            v.transpose(1, 2),
            is_causal=True,
            enable_gqa=s.kv != s.heads and self.gqa == "native",
        )
        return self.o(y.transpose(1, 2).reshape(B, T, C))

    def mlp(self, x):
        if self.s.kind == "gpt2":
            return self.down(F.gelu(self.up(x), approximate="tanh"))
        gate, up = self.up(x).chunk(2, -1)
        return self.down(F.silu(gate) * up)

    def body(self, x, d, cos, sin):
        if d is not None:
            x = x + d
        h = x + self.attend(self.norm1(x), cos, sin)
        y = self.mlp(self.norm2(h))
        return h + y if d is None else (h, y)

    def forward(self, x, d, cos, sin):
        if self.recompute == "none":
            return self.body(x, d, cos, sin)
        kw = {}
        if self.recompute == "selective":
            kw["context_fn"] = functools.partial(contexts, self.s, self.save)
        return checkpoint(self.body, x, d, cos, sin, use_reentrant=False, preserve_rng_state=False, **kw)


def contexts(s, save):
    """Selective recompute: keep the outputs named in `save` (attn, qkv, o, up), run the rest again."""
    C, up = s.width, s.ffn * (1 if s.kind == "gpt2" else 2)
    shape = {"qkv": (C, s.qkv), "o": (C, C), "up": (C, up)}
    keep = {shape[k] for k in save if k in shape}
    a = torch.ops.aten
    attn = {
        a._scaled_dot_product_cudnn_attention.default,
        a._scaled_dot_product_flash_attention.default,
        a._scaled_dot_product_flash_attention_for_cpu.default,
    }

    def policy(ctx, op, *args, **kwargs):
        weight = args[1] if op == a.mm.default else args[2] if op == a.addmm.default else None
        hit = op in attn and "attn" in save or weight is not None and tuple(weight.shape) in keep
        return CheckpointPolicy.MUST_SAVE if hit else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


class Embed(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.token = nn.Embedding(s.vocab, s.width)
        self.place = nn.Embedding(s.seq, s.width) if s.kind == "gpt2" else None

    def forward(self, i, dtype):
        x = self.token(i)
        if self.place is not None:
            x = x + self.place.weight[: i.shape[1]]
        return x.to(dtype)


class Head(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.norm = norm(s)
        self.out = nn.Linear(s.width, s.vocab, bias=False)

    def forward(self, x, d, t):
        x = self.norm(x if d is None else x + d)
        return F.cross_entropy(self.out(x).flatten(0, 1).float(), t.flatten())


class Model(nn.Module):
    """pair=True carries (x, last block's output) between blocks; False is the textbook form."""

    def __init__(self, s, recompute="none", save=(), gqa="native", pair=True, dtype=torch.bfloat16):
        super().__init__()
        self.s, self.pair, self.dtype = s, pair and recompute == "none", dtype
        self.embed, self.head = Embed(s), Head(s)
        self.blocks = nn.ModuleList(Block(s, recompute, save, gqa) for _ in range(s.layers))
        if s.tied:
            self.head.out.weight = self.embed.token.weight

    def start(self, device):
        """Fill the weights and the rotary tables (also after to_empty from the meta device)."""
        s = self.s
        local = lambda p: p.to_local() if hasattr(p, "to_local") else p
        with torch.no_grad():
            for m in self.modules():
                if isinstance(m, (nn.Linear, nn.Embedding)):
                    w = local(m.weight)  # drawn on the device, which may not be where it is
                    w.copy_(torch.empty(w.shape, dtype=w.dtype, device=device).normal_(0, 0.02))
                if isinstance(m, (nn.LayerNorm, nn.RMSNorm)):
                    local(m.weight).fill_(1)
                if getattr(m, "bias", None) is not None:
                    local(m.bias).zero_()
        self.cos = self.sin = None
        if s.kind == "llama":
            D = s.width // s.heads
            f = torch.arange(s.seq, device=device)[:, None] / 10000 ** (torch.arange(0, D, 2, device=device) / D)
            f = torch.cat((f, f), -1)[:, None, :]
            self.cos, self.sin = f.cos().to(self.dtype), f.sin().to(self.dtype)
        return self

    def compile(self, **kw):
        """Each block, the embedding and the loss alone: blocks share one compiled graph."""
        for k, b in enumerate(self.blocks):
            self.blocks[k] = torch.compile(b, **kw)
        self.embed, self.head = torch.compile(self.embed, **kw), torch.compile(self.head, **kw)
        return self

    def forward(self, i, t):
        x = self.embed(i, self.dtype)
        d = torch.zeros_like(x).requires_grad_() if self.pair else None
        for b in self.blocks:
            y = b(x, d, self.cos, self.sin)
            x, d = y if self.pair else (y, None)
        return self.head(x, d, t)
