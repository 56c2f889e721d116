"""AdamW with bf16 parameters, fp32 master weights and fp32 moments, gradient clipping inside.
"fused": torch.optim.AdamW(fused=True) on the masters, with the casts around it.
"compiled": one torch.compile'd pass a block (read gradient, moments, master; write all and the bf16 copy)."""

import torch


def update(p, w, m, v, g, scale, t, lr, b1, b2, eps, decay):
    g = torch._foreach_mul([x.float() for x in g], scale)
    torch._foreach_lerp_(m, g, 1 - b1)
    torch._foreach_mul_(v, b2)
    torch._foreach_addcmul_(v, g, g, 1 - b2)
    d = torch._foreach_sqrt(v)
    torch._foreach_mul_(d, (1 - b2**t).rsqrt())
    torch._foreach_add_(d, eps)
    u = torch._foreach_div(m, d)
    torch._foreach_mul_(u, -lr / (1 - b1**t))
    torch._foreach_mul_(w, 1 - lr * decay)
    torch._foreach_add_(w, u)
    torch._foreach_copy_(p, w)


class MasterAdamW:
    def __init__(self, groups, kind, lr=1e-4, betas=(0.9, 0.95), eps=1e-8, decay=0.1, clip=1.0, capturable=False):
        self.kind, self.clip = kind, clip
        self.groups = [list(g) for g in groups]
        self.params = [p for g in self.groups for p in g]
        self.masters = [[p.detach().float() for p in g] for g in self.groups]
        if kind == "fused":
            self.flat = [w for g in self.masters for w in g]
            self.opt = torch.optim.AdamW(
                self.flat, lr=lr, betas=betas, eps=eps, weight_decay=decay, fused=True, capturable=capturable
            )
        else:
            self.m = [[torch.zeros_like(w) for w in g] for g in self.masters]
            self.v = [[torch.zeros_like(w) for w in g] for g in self.masters]
            self.t = torch.zeros((), device=self.params[0].device)
            self.hyper = (lr, *betas, eps, decay)
            self.update = torch.compile(update, dynamic=False, fullgraph=True) if kind == "compiled" else update

    @torch.no_grad()
    def step(self):
        grads = [p.grad for p in self.params]
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float32)))
        scale = (self.clip / (norm + 1e-6)).clamp(max=1.0)
        if self.kind == "fused":
            g32 = [torch.empty_like(w) for w in self.flat]
            torch._foreach_copy_(g32, grads)
            torch._foreach_mul_(g32, scale)
            for w, g in zip(self.flat, g32):
                w.grad = g
            self.opt.step()
            for w in self.flat:
                w.grad = None
            torch._foreach_copy_(self.params, self.flat)
        else:
            self.t += 1
            for g, w, m, v in zip(self.groups, self.masters, self.m, self.v):
                self.update([p.detach() for p in g], w, m, v, [p.grad for p in g], scale, self.t, *self.hyper)
        for p in self.params:
            p.grad = None


class PlainAdamW:
    """torch.optim.AdamW(fused=True) on the parameters as they are (fp32, or bf16 with bf16 moments)."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.95), eps=1e-8, decay=0.1, clip=1.0, capturable=False):
        self.params, self.clip = list(params), clip
        self.opt = torch.optim.AdamW(
            self.params, lr=lr, betas=betas, eps=eps, weight_decay=decay, fused=True, capturable=capturable
        )

    def step(self):
        torch.nn.utils.clip_grad_norm_(self.params, self.clip, foreach=True)
        self.opt.step()
        self.opt.zero_grad(set_to_none=True)
