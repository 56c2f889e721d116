"""From what programs print to the tables of bench/train_gpu.py: nothing here starts or reads anything."""
import json
import statistics

FIGURES = ("ms", "ms_min", "ms_max", "mfu_full", "mfu_causal", "hfu_full", "peak_gib", "reserved_gib", "first_step_s",
           "loss_first", "loss_last", "steps")


def result_of(text):
    """The figures of the last line of JSON in what a program printed; {"error": ...} if there are none."""
    lines = [line for line in text.splitlines() if line.startswith("{")]
    if not lines:
        return {"error": "no line of JSON"}
    try:
        line = json.loads(lines[-1])
    except json.JSONDecodeError as problem:
        return {"error": f"not JSON: {problem}"}
    if "error" in line:
        return {"error": line["error"]}
    rates = [line[key] for key in ("tokens_per_s_rank", "tokens_per_s_gpu", "tokens_per_s") if key in line]
    rate = rates[0] if rates else None
    if rate is None:
        return {"error": "no tokens_per_s in the line of JSON"}
    return {"tokens_per_s": rate, **{key: line[key] for key in FIGURES if key in line}}


def read_sample(line):
    """[clock in MHz, power in W, temperature in C] from a line of nvidia-smi's CSV; None: the card does not say."""

    def number(text):
        try:
            return float(text)
        except ValueError:
            return None

    cells = [number(cell.strip()) for cell in line.split(",")]
    return cells if len(cells) == 3 else [None] * 3


def card_state(samples, begin, end):
    """Medians of what cards said between two moments: samples are (moment, [clock, power, temperature])."""
    within = [values for moment, values in samples if begin <= moment <= end]
    state = {}
    for place, key in enumerate(("clock_mhz", "power_w", "temperature_c")):
        values = [v[place] for v in within if v[place] is not None]
        if values:
            state[key] = statistics.median(values)
    return state


def ratio(runs):
    """Ours to the peer's in tokens/s: means of the runs that ended well. None: one side has none."""
    ours, theirs = ([run["tokens_per_s"] for run in runs if run["who"] == who and "error" not in run]
                    for who in ("Partita", "PyTorch"))
    return statistics.mean(ours) / statistics.mean(theirs) if ours and theirs else None


def cell(run, key, digits=1):
    return f"{run[key]:.{digits}f}" if run.get(key) is not None else "-"


def rows(case, runs):
    """A line of the table for each run of a case; the ratio stands in the last."""
    lines = []
    for run in runs:
        who = run["who"] + (f", {run['options']}" if run.get("options") else "")
        if "error" in run:
            lines.append(f"| {case} | {who} | {run['error']} |" + " |" * 7)
            continue
        reserved = f" ({run['reserved_gib']:.1f})" if "reserved_gib" in run else ""
        state = "-"
        if "clock_mhz" in run:
            state = f"{run['clock_mhz']:.0f} MHz, {cell(run, 'power_w', 0)} W, {cell(run, 'temperature_c', 0)} °C"
        lines.append(f"| {case} | {who} | {run['tokens_per_s']:.0f} | {cell(run, 'ms')} | "
                     f"{cell(run, 'mfu_full')} / {cell(run, 'mfu_causal')} | {cell(run, 'hfu_full')} | "
                     f"{cell(run, 'peak_gib')}{reserved} | {cell(run, 'first_step_s')} | {state} | |")
    compared = ratio(runs)
    if lines and compared is not None:
        lines[-1] = lines[-1][:-2] + f" {compared:.3f} |"
    return lines


HEAD = ("| case | who | tokens/s a card | ms | MFU %, full / causal | HFU % | peak GiB (reserved) | first step s | "
        "card in the timed steps | ratio |\n|" + "---|" * 10)


def table(results):
    """results: [(case's name, its runs)]."""
    return "\n".join([HEAD, *(line for case, runs in results for line in rows(case, runs))])


def entry(machine, results):
    """What is appended to docs/performance.md: date, card and versions, the table, and the commands that were run."""
    commands = []
    for _, runs in results:
        for run in runs:
            if run["command"] not in commands:
                commands.append(run["command"])
    about = ", ".join(f"{key} {value}" for key, value in machine.items() if key not in ("date", "card", "command"))
    return (f"\n### {machine['date']}, {machine['card']}\n{about}.\n`{machine['command']}`: ours, PyTorch, ours again, "
            f"one process after the other; medians of a run's timed steps; the ratio is of means over runs.\n\n"
            f"{table(results)}\n\n```\n" + "\n".join(commands) + "\n```\n")
