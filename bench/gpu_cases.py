"""What bench/train_gpu.py compares: the cases, with the options of Partita and of its peer for each."""
import dataclasses


def shape(layers, heads, width, length, batch, vocabulary, *more):
    """Keys of a model, and of the batch of a card."""
    sizes = {"model.layers": layers, "model.heads": heads, "model.hidden_size": width, "train.sequence_length": length,
             "train.micro_batch": batch, "model.vocab_size": vocabulary}
    return [f"--{key}={value}" for key, value in sizes.items()] + list(more)


LLAMA = "--model.kind=llama"
SHAPES = {  # as CASES of bench/peer/models.py
    "gpt2-124m": shape(12, 12, 768, 1024, 64, 50304),
    "gpt2-1.5b": shape(48, 25, 1600, 1024, 8, 50304),
    "llama-1.1b": shape(22, 32, 2048, 2048, 8, 32000, LLAMA, "--model.kv_heads=4", "--model.ffn_hidden_size=5632"),
    "llama-7b": shape(32, 32, 4096, 4096, 4, 32000, LLAMA, "--model.ffn_hidden_size=11008"),
    "llama-13b": shape(40, 40, 5120, 4096, 4, 32000, LLAMA, "--model.ffn_hidden_size=13824"),
    "llama-30b": shape(60, 52, 6656, 4096, 4, 32000, LLAMA, "--model.ffn_hidden_size=17920"),
}
FP8, DELAYED = ["--precision.fp8=current"], ["--precision.fp8=delayed"]


def zero(stage, *more):
    return [f"--parallel.zero_stage={stage}", *more]


def recompute(mode):
    return f"--memory.recompute={mode}"


@dataclasses.dataclass(frozen=True)
class Case:
    """Both sides train `model` on `cards` GPUs; lists are keys of our configuration and options of the peer's script."""

    name: str
    model: str
    ours: list
    peer: list = None  # None: nobody to compare with
    cards: int = 1
    steps: int = 14
    warmup: int = 4
    script: str = None  # of the peer; None: torch_peer.py on one card, else fsdp_peer.py

    def our_arguments(self, more=()):
        keys = {key.split("=")[0]: key for key in [*SHAPES[self.model], *self.ours]}  # the case's own, if given twice
        return ["bench", "step", "--train.device=cuda", "--precision.compute=bf16", *keys.values(),
                "--steps", str(self.steps), "--warmup", str(self.warmup), *more]

    def peer_arguments(self):
        """The script and its options; None where there is no peer."""
        if self.peer is None:
            return None
        script = ["torch_peer.py", self.model, "--cold"] if self.cards == 1 else ["fsdp_peer.py", self.model]
        if self.script is not None:
            script = [self.script, self.model] if self.script == "fsdp_peer.py" else [self.script, "--model", self.model]
        return [*script, *self.peer, "--steps", str(self.steps), "--warmup", str(self.warmup)]


def large(name, ours, peer, cards):
    """Llama-2 7B, whose steps take over a second."""
    return Case(name, "llama-7b", ours, peer, cards, steps=10, warmup=3)


def offloaded(name, ours, model="llama-7b", more=()):
    """Fp32 states in host memory, beside FSDP2's CPUOffloadPolicy."""
    return Case(name, model, ["--memory.optimizer=host", recompute("full"), *ours],
                ["--recompute", "full", "--local-adam", "--offload", *more], 1, steps=10, warmup=3,
                script="fsdp_peer.py")


def medium_sharded(stage, peer):
    return Case(f"gpt2-1.5b-zero{stage}", "gpt2-1.5b", zero(stage), peer, cards=2)


def tensor(model, cards, peer, ours=(), batch=8):
    """Tensor and sequence parallelism over all cards."""
    name = f"{model}-tensor{cards}" + "".join({FP8[0]: "-fp8", DELAYED[0]: "-fp8-delayed"}.get(key, "") for key in ours)
    return Case(name, model, [f"--parallel.tensor={cards}", *ours],
                None if peer is None else ["--tp", str(cards), "--batch", str(batch), *peer], cards, steps=10, warmup=3,
                script="parallel_peer.py")


def pipeline(model, cards, schedule, peer, micro_batches=8):
    """A pipeline over all cards, with micro-batches of one sample."""
    return Case(f"{model}-pipeline{cards}-{schedule}", model,
                [f"--parallel.pipeline={cards}", f"--parallel.schedule={schedule}", "--train.micro_batch=1",
                 f"--train.global_batch={micro_batches}"],
                ["--pp", str(cards), "--schedule", peer, "--batch", str(micro_batches), "--micro-batches",
                 str(micro_batches)], cards, steps=10, warmup=3, script="parallel_peer.py")


TUNED_FSDP2 = ["--local-adam", "--group", "6"]
CASES = [
    Case("gpt2-124m", "gpt2-124m", [], []),
    Case("gpt2-1.5b", "gpt2-1.5b", [], []),
    Case("llama-1.1b", "llama-1.1b", [], []),
    Case("llama-1.1b-fp8", "llama-1.1b", FP8, []),
    Case("llama-1.1b-fp8-delayed", "llama-1.1b", DELAYED, []),
    large("llama-7b", ["--precision.states=bf16", recompute("mlp")], [], 1),
    large("llama-7b-16384", ["--precision.states=bf16", "--train.sequence_length=16384", "--train.micro_batch=1",
                             recompute("full")], None, 1),
    offloaded("llama-7b-host", []),
    offloaded("llama-7b-host-early", ["--memory.early_updates=true"]),
    offloaded("llama-7b-host-weights", ["--memory.parameters=host"]),
    offloaded("llama-7b-host-weights-early", ["--memory.parameters=host", "--memory.early_updates=true"]),
    offloaded("gpt2-1.5b-host-weights", ["--memory.parameters=host", "--memory.offload_activations=48"], "gpt2-1.5b"),
    Case("llama-13b-host", "llama-13b", ["--memory.optimizer=host", recompute("full")],
         steps=10, warmup=3),
    Case("llama-30b-host", "llama-30b", ["--memory.optimizer=host:0.75", recompute("full"), "--precision.states=bf16"], steps=10, warmup=3),
    large("llama-7b-full", zero(3, recompute("full")), ["--recompute", "full", "--local-adam"], 2),
    large("llama-7b-free", zero(3, recompute("mlp")),
          ["--recompute", "selective", "--save", "attn,qkv", "--local-adam"], 2),
    large("llama-7b-full-fp8", zero(3, recompute("full"), *FP8),
          ["--recompute", "full", "--local-adam"], 2),
    medium_sharded(3, [*TUNED_FSDP2, "--zero", "3"]),
    medium_sharded(2, [*TUNED_FSDP2, "--zero", "2"]),
    medium_sharded(0, ["--strategy", "ddp", "--bucket-mb", "100"]),
    tensor("llama-7b", 2, ["--async-tp"], batch=4),
    tensor("llama-7b", 2, ["--async-tp"], FP8, batch=4),
    tensor("llama-7b", 2, ["--async-tp"], DELAYED, batch=4),
    tensor("llama-1.1b", 2, []),
    tensor("gpt2-1.5b", 2, None),  # its 25 heads do not divide there
    pipeline("llama-7b", 2, "1f1b", "1f1b"),
    pipeline("llama-7b", 2, "interleaved_zero_bubble", "zbv"),
    pipeline("llama-7b", 2, "zbv", "zbv"),
    pipeline("llama-1.1b", 2, "1f1b", "1f1b"),
    pipeline("llama-1.1b", 2, "interleaved_zero_bubble", "1f1b"),
    pipeline("llama-1.1b", 2, "zbv", "1f1b"),
    pipeline("gpt2-1.5b", 2, "interleaved_zero_bubble", "1f1b"),
    pipeline("gpt2-1.5b", 2, "zbv", "1f1b"),
    large("llama-7b-context2", zero(3, "--parallel.context=2", "--train.sequence_length=32768",
                                    "--train.micro_batch=1", recompute("full")), None, 2),
]


def select(names, cards):
    """The cases of these names, in the order named; all that `cards` GPUs can run where there are no names."""
    if not names:
        return [case for case in CASES if case.cards <= cards]
    known = {case.name: case for case in CASES}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"no case {', '.join(unknown)}: there are {', '.join(known)}")
    wide = [name for name in names if known[name].cards > cards]
    if wide:
        raise ValueError(f"{', '.join(wide)}: needs more GPUs than the {cards} found")
    return [known[name] for name in names]
