#!/usr/bin/env python3
"""Training steps of Partita beside PyTorch's on this machine's CPUs, interleaved: one command, a table with ratios.

  bench/train_cpu.py                                    # one process, then two ranks; fp32 and bf16; some 25 minutes
  bench/train_cpu.py --only one --precision bf16 --rounds 7
  bench/train_cpu.py --json result.json                 # every figure, with versions and the machine

Machines drift by 10% within minutes, so nobody is timed alone: in each round every case runs a few steps, one case
after the other. PyTorch's processes are started (and compiled) once and sleep between their turns; Partita starts anew
each time. A figure is the median over rounds of a turn's median step; a ratio is the median over rounds of the ratio
within a round. The peer is bench/peer_torch.py (scripts/setup.sh --peer installs what it needs).
"""
import argparse
import dataclasses
import json
import os
import pathlib
import platform
import socket
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WARMUP = 2  # untimed steps at the start of a turn

# Both sides on a CPU with fewer instructions. MKL obeys on Intel's CPUs alone.
ISAS = {
    "native": {},
    "avx512": {"PARTITA_MAX_ISA": "avx512", "DNNL_MAX_CPU_ISA": "AVX512_CORE_VNNI", "ATEN_CPU_CAPABILITY": "avx512",
               "MKL_ENABLE_INSTRUCTIONS": "AVX512"},
    "avx2": {"PARTITA_MAX_ISA": "avx2", "DNNL_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2",
             "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
}


@dataclasses.dataclass
class Setting:
    """What all cases of a table share."""

    shape: list  # layers, heads, width, length, batch of a rank, vocabulary
    precision: str
    ranks: int
    threads: int  # of each rank
    isa: str = "native"  # the set of instructions, as in ISAS

    @property
    def tokens(self):
        return self.ranks * self.shape[3] * self.shape[4]

    @property
    def shape_text(self):
        return ",".join(map(str, self.shape))

    def environment(self):
        env = dict(os.environ, OMP_NUM_THREADS=str(self.threads)) | ISAS[self.isa]
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT / ".deps/peer"), env.get("PYTHONPATH")]))
        env["OMPI_ALLOW_RUN_AS_ROOT"] = env["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
        return env


class Partita:
    """Our program: a fresh job for each turn."""

    def __init__(self, name, setting, zero=0):
        self.name, self.family, self.setting = name, "Partita", setting
        program = str(ROOT / "build/partita")
        launch = [program, "launch", "-n", str(setting.ranks), "--"] if setting.ranks > 1 else [program]
        keys = {"model.layers": 0, "model.heads": 1, "model.hidden_size": 2, "train.sequence_length": 3,
                "train.micro_batch": 4, "model.vocab_size": 5}
        self.command = launch + ["bench", "step", *(f"--{key}={setting.shape[at]}" for key, at in keys.items()),
                                 f"--precision.compute={setting.precision}", f"--parallel.zero_stage={zero}",
                                 "--train.device=cpu", "--warmup", str(WARMUP)]

    def start(self):
        self.about = subprocess.run([self.command[0], "--version"], capture_output=True, text=True).stdout.strip()

    def turn(self, steps):
        """Milliseconds of the median step."""
        done = subprocess.run(self.command + ["--steps", str(steps)], env=self.setting.environment(), text=True,
                              capture_output=True)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode != 0 or len(lines) != 1:
            sys.exit(f"train_cpu: {' '.join(self.command)} ended with code {done.returncode} and {len(lines)} results:"
                     f"\n{done.stderr}")
        return json.loads(lines[0])["ms"]

    def stop(self):
        pass


class Torch:
    """PyTorch: one process a rank, started once, that steps when told to."""

    def __init__(self, family, setting, mode, *options):
        self.family, self.setting = family, setting
        self.name = f"{family}, {mode}"
        self.command = [sys.executable, str(ROOT / "bench/peer_torch.py"), setting.shape_text, "--mode", mode,
                        "--precision", setting.precision, "--threads", str(setting.threads), "--warmup", str(WARMUP),
                        "--turns", *options]
        self.processes = []

    def start(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        for rank in range(self.setting.ranks):
            env = self.setting.environment() | {"RANK": str(rank), "LOCAL_RANK": str(rank), "MASTER_PORT": str(port),
                                                "WORLD_SIZE": str(self.setting.ranks), "MASTER_ADDR": "127.0.0.1"}
            self.processes.append(subprocess.Popen(self.command, env=env, text=True, stdin=subprocess.PIPE,
                                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
        self.about = f"torch {self.read()['torch']}"

    def read(self):
        line = self.processes[0].stdout.readline()
        if not line:
            sys.exit(f"train_cpu: {' '.join(self.command[1:])} ended without a result. 'scripts/setup.sh --peer'"
                     f" installs what it needs; to see its message, run it with PYTHONPATH={ROOT / '.deps/peer'}")
        return json.loads(line)

    def turn(self, steps):
        for process in self.processes:
            process.stdin.write(f"{steps + WARMUP}\n")
            process.stdin.flush()
        return statistics.median(self.read()["ms"][WARMUP:])

    def stop(self):
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()


def cases(setting):
    modes = ("eager", "compile")
    if setting.ranks == 1:
        return [Torch("PyTorch", setting, mode) for mode in modes] + [Partita("Partita", setting)]
    distributed = ["--strategy", "fsdp2", "--zero"]
    return ([Torch("DDP", setting, mode, "--strategy", "ddp") for mode in modes] +
            [Torch(f"FSDP2, ZeRO-{zero}", setting, mode, *distributed, str(zero))
             for zero in (2, 3) for mode in modes] +
            [Partita(f"Partita, ZeRO-{zero}", setting, zero) for zero in range(4)])


def measure(competitors, rounds, steps):
    """{case: milliseconds of each round}; every round visits every case."""
    try:
        for case in competitors:
            print(f"  starting {case.name}", file=sys.stderr, flush=True)
            case.start()
        times = {case: [] for case in competitors}
        for number in range(rounds):
            print(f"  round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            for case in competitors:
                times[case].append(case.turn(steps))
    finally:
        for case in competitors:
            case.stop()
    return times


def ratio(ours, theirs):
    """How much faster ours is: the median over rounds of the ratio within a round."""
    return statistics.median(t / o for o, t in zip(ours, theirs))


def best(times, family):
    """The rounds of the family's fastest case."""
    return min((t for case, t in times.items() if case.family.startswith(family)), key=statistics.median)


def table(setting, times):
    families = ["PyTorch"] if setting.ranks == 1 else ["DDP", "FSDP2"]
    title = f"{setting.precision}, {setting.ranks} rank{'s' * (setting.ranks > 1)} of {setting.threads} thread" \
            f"{'s' * (setting.threads > 1)}, {setting.shape_text}"
    print(f"\n### {title}\n| case | tokens/s | slowest to fastest round | ms |"
          + "".join(f" to the best of {family} |" for family in families))
    print("|---|---|---|---|" + "---|" * len(families))
    rows = []
    for case, rounds in times.items():
        rate = [1000 * setting.tokens / ms for ms in rounds]
        row = {"case": case.name, "version": case.about, "tokens_per_s": statistics.median(rate), "rounds_ms": rounds}
        cells = [case.name, f"{row['tokens_per_s']:.0f}", f"{min(rate):.0f} - {max(rate):.0f}",
                 f"{statistics.median(rounds):.0f}"]
        for family in families:
            if case.family == "Partita":
                row[f"to {family}"] = ratio(rounds, best(times, family))
                cells.append(f"{row[f'to {family}']:.2f}")
            else:
                cells.append("")
        print("| " + " | ".join(cells) + " |", flush=True)
        rows.append(row)
    return {"setting": dataclasses.asdict(setting), "cases": rows}


def machine():
    """What the figures depend on."""
    models = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    commit = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True)
    return {"cpu": models[0] if models else platform.machine(), "cores": os.cpu_count(),
            "system": platform.platform(), "commit": commit.stdout.strip(), "command": " ".join(sys.argv)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--shape", default="6,6,384,256,8,4096",
                   help="layers,heads,width,length,batch of all ranks,vocabulary")
    p.add_argument("--precision", choices=["fp32", "bf16"], action="append", help="default: both")
    p.add_argument("--only", choices=["one", "ranks"], help="one process, or two ranks")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--steps", type=int, default=4, help="timed steps of a turn")
    p.add_argument("--json", type=pathlib.Path, help="write every figure to this file")
    args = p.parse_args()
    if not (ROOT / "build/partita").exists():
        sys.exit("train_cpu: build/partita is missing: run 'make build'")
    shape = [int(n) for n in args.shape.split(",")]
    if len(shape) != 6 or shape[4] % args.ranks:
        p.error(f"--shape {args.shape}: expected six numbers, and a batch that {args.ranks} ranks divide")

    result = {"machine": machine(), "tables": []}
    for key, value in result["machine"].items():
        print(f"{key}: {value}")
    for ranks in [1] * (args.only != "ranks") + [args.ranks] * (args.only != "one"):
        for precision in args.precision or ["fp32", "bf16"]:
            share = shape[:4] + [shape[4] // ranks] + shape[5:]
            setting = Setting(share, precision, ranks, max(1, os.cpu_count() // ranks))
            result["tables"].append(table(setting, measure(cases(setting), args.rounds, args.steps)))
            if args.json:
                args.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
