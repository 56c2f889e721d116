"""What the peers' scripts train with: gradients clipped to norm 1, then one fused optimizer. With FSDP2 it works on the
plain local shards, which takes less time of the host than DTensors do."""
import torch
import torch.distributed as dist
from torch import nn


class ClippedAdamW:
    def __init__(self, params, make):
        """make(tensors): the optimizer of these."""
        self.params = list(params)
        self.sharded = hasattr(self.params[0], "to_local")
        self.local = [p.to_local().detach().requires_grad_() for p in self.params] if self.sharded else self.params
        self.adamw = make(self.local)

    def step(self):
        if self.sharded:
            for w, p in zip(self.local, self.params):
                w.grad, p.grad = p.grad.to_local(), None
            grads = [w.grad for w in self.local]
            squares = torch.stack(torch._foreach_norm(grads)).square().sum()
            dist.all_reduce(squares)
            torch._foreach_mul_(grads, (1.0 / (squares.sqrt() + 1e-6)).clamp(max=1.0))
        else:
            nn.utils.clip_grad_norm_(self.params, 1.0, foreach=True)
        self.adamw.step()
        self.adamw.zero_grad(set_to_none=True)
