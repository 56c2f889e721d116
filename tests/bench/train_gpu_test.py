#!/usr/bin/env python3
"""bench/train_gpu.py without a GPU: what it reads, compares and writes, and a run with programs that only print."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import gpu_cases
import gpu_report
import train_gpu

OURS = {"tokens_per_s": 2000.0, "tokens_per_s_rank": 1000.0, "ms": 100.0, "steps": 2, "mfu_full": 50.0,
        "mfu_causal": 40.0, "hfu_full": 60.0, "peak_gib": 10.5, "reserved_gib": 12.25, "first_step_s": 1.5}


class Reading(unittest.TestCase):
    def test_the_last_line_of_json_counts_and_the_speed_is_of_a_card(self):
        text = "warning\n{\"tokens_per_s\": 1}\n" + json.dumps(OURS) + "\nbye\n"
        result = gpu_report.result_of(text)
        self.assertEqual(result["tokens_per_s"], 1000.0)
        self.assertEqual(result["reserved_gib"], 12.25)
        self.assertEqual(gpu_report.result_of('{"tokens_per_s": 7.5, "ms": 2}'), {"tokens_per_s": 7.5, "ms": 2})

    def test_what_is_no_result_is_an_error(self):
        self.assertEqual(gpu_report.result_of(""), {"error": "no line of JSON"})
        self.assertIn("not JSON", gpu_report.result_of("{oops")["error"])
        self.assertEqual(gpu_report.result_of('{"error": "out of memory", "case": "x"}'), {"error": "out of memory"})
        self.assertIn("tokens_per_s", gpu_report.result_of('{"ms": 2}')["error"])

    def test_samples(self):
        self.assertEqual(gpu_report.read_sample("1485, 698.12, 61\n"), [1485.0, 698.12, 61.0])
        self.assertEqual(gpu_report.read_sample("1485, [N/A], 61"), [1485.0, None, 61.0])
        self.assertEqual(gpu_report.read_sample("Failed to initialize"), [None, None, None])
        samples = [(1, [1980, 100, 30]), (2, [1500, 690, 60]), (3, [1400, None, 62]), (4, [1600, 700, 61]),
                   (5, [1980, 100, 40])]
        self.assertEqual(gpu_report.card_state(samples, 2, 4),
                         {"clock_mhz": 1500, "power_w": 695, "temperature_c": 61})
        self.assertEqual(gpu_report.card_state(samples, 6, 7), {})


class Report(unittest.TestCase):
    runs = [{"who": "Partita", "command": "a", "tokens_per_s": 1000.0, "ms": 10.0, "mfu_full": 50.04},
            {"who": "PyTorch", "command": "b", "tokens_per_s": 800.0, "ms": 12.5, "clock_mhz": 1500.0, "power_w": 695.0},
            {"who": "Partita", "command": "a", "tokens_per_s": 1040.0, "ms": 9.6, "options": "--zero 3"}]

    def test_ratio_is_of_the_means_of_what_ended_well(self):
        self.assertAlmostEqual(gpu_report.ratio(self.runs), 1020 / 800)
        failed = {"who": "Partita", "command": "a", "error": "out of memory"}
        self.assertAlmostEqual(gpu_report.ratio([failed, *self.runs[1:]]), 1040 / 800)
        self.assertIsNone(gpu_report.ratio([failed, self.runs[1]]))
        self.assertIsNone(gpu_report.ratio(self.runs[:1]))

    def test_each_line_has_the_columns_of_the_head(self):
        failed = {"who": "PyTorch", "command": "c", "error": "out of memory"}
        lines = gpu_report.table([("one", self.runs), ("two", [failed])]).splitlines()
        self.assertEqual(len(lines), 2 + 3 + 1)
        self.assertEqual({line.count("|") for line in lines}, {11})
        self.assertIn("| one | Partita | 1000 | 10.0 | 50.0 / - | - | - | - | - | |", lines[2])
        self.assertIn("1500 MHz, 695 W, - °C", lines[3])
        self.assertTrue(lines[4].startswith("| one | Partita, --zero 3 | 1040"))
        self.assertTrue(lines[4].endswith(" 1.275 |"))
        self.assertIn("| two | PyTorch | out of memory |", lines[5])

    def test_entry_names_card_versions_and_each_command_once(self):
        machine = {"date": "2026-01-02", "card": "1 x NVIDIA H100, 700 W", "driver": "580.1", "torch": "2.11.0",
                   "command": "bench/train_gpu.py --cases one"}
        text = gpu_report.entry(machine, [("one", self.runs)])
        self.assertIn("\n### 2026-01-02, 1 x NVIDIA H100, 700 W\ndriver 580.1, torch 2.11.0.\n", text)
        self.assertIn("`bench/train_gpu.py --cases one`", text)
        self.assertTrue(text.endswith("```\na\nb\n```\n"))


class Cases(unittest.TestCase):
    def test_an_entry_names_no_places_of_one_machine(self):
        self.assertEqual(train_gpu.without_paths(["--cases", "a,b", "--partita", "/x", "--json=/y", "--only", "ours",
                                                  "--append", "/z"]), ["--cases", "a,b", "--only", "ours"])

    def test_a_case_gives_each_key_once(self):
        for case in gpu_cases.CASES:
            keys = [word.split("=")[0] for word in case.our_arguments() if word.startswith("--")]
            self.assertEqual(len(keys), len(set(keys)), case.name)
        ours = gpu_cases.select(["llama-7b-pipeline2-zbv"], 2)[0].our_arguments()
        self.assertIn("--train.micro_batch=1", ours)  # not the 4 of the model's shape

    def test_peers_of_layouts(self):
        case = gpu_cases.select(["llama-7b-tensor2"], 2)[0]
        self.assertEqual(case.peer_arguments()[:4], ["parallel_peer.py", "--model", "llama-7b", "--tp"])
        self.assertIsNone(gpu_cases.select(["gpt2-1.5b-tensor2"], 2)[0].peer_arguments())

    def test_selection(self):
        self.assertTrue(all(case.cards == 1 for case in gpu_cases.select([], 1)))
        self.assertEqual(len(gpu_cases.select([], 2)), len(gpu_cases.CASES))
        self.assertEqual([c.name for c in gpu_cases.select(["llama-7b", "gpt2-124m"], 1)], ["llama-7b", "gpt2-124m"])
        with self.assertRaisesRegex(ValueError, "no case gpt3"):
            gpu_cases.select(["gpt3"], 1)
        with self.assertRaisesRegex(ValueError, "llama-7b-full: needs more GPUs than the 1"):
            gpu_cases.select(["llama-7b-full"], 1)

    def test_names_are_unique_and_steps_enough(self):
        self.assertEqual(len({case.name for case in gpu_cases.CASES}), len(gpu_cases.CASES))
        self.assertTrue(all(case.steps >= 10 and case.warmup >= 3 for case in gpu_cases.CASES))

    def test_the_program_knows_every_option(self):
        program = os.environ.get("PARTITA")
        if not program:
            self.skipTest("PARTITA names no program")
        text = "".join(subprocess.run([program, *command, "--help"], capture_output=True, text=True, check=True).stdout
                       for command in (["bench", "step"], ["train"]))
        for case in gpu_cases.CASES:
            for word in case.our_arguments():
                if word.startswith("--"):
                    self.assertIn(word.split("=")[0].removeprefix("--"), text, case.name)


class WholeRun(unittest.TestCase):
    """Programs of the same names that print: nvidia-smi, Partita, Python."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        self.program("nvidia-smi", 'case "$*" in *-lms*) while :; do echo "1500, 690.5, 60"; sleep 0.02; done;; '
                                   '*driver*) echo 580.1; echo 580.1;; *power.limit*) echo "NVIDIA H100, 700";; '
                                   '*) echo H100; echo H100;; esac')
        self.program("partita", f"sleep 0.3; [ \"${{RANK:-0}}\" = 0 ] && echo '{json.dumps(OURS)}'; exit 0")
        self.program("python", 'case "$*" in *version*) echo 2.11.0;; *fsdp*) echo boom >&2; exit 3;; '
                               """*) echo '{"tokens_per_s": 500, "ms": 10, "steps": 2}';; esac""")

    def program(self, name, body):
        (self.path / name).write_text(f"#!/bin/bash\n{body}\n")
        (self.path / name).chmod(0o755)

    def bench(self, *options):
        env = dict(os.environ, PATH=f"{self.path}:{os.environ['PATH']}")
        return subprocess.run([sys.executable, str(ROOT / "bench/train_gpu.py"), "--partita", str(self.path / "partita"),
                               "--python", str(self.path / "python"), "--version", "0.1", *options], env=env,
                              capture_output=True, text=True)

    def test_one_card(self):
        page, figures = self.path / "page.md", self.path / "result.json"
        page.write_text("before\n")
        done = self.bench("--cases", "llama-1.1b,llama-1.1b-fp8", "--append", str(page), "--json", str(figures))
        self.assertEqual(done.returncode, 0, done.stderr)
        cases = json.loads(figures.read_text())["cases"]
        self.assertEqual([c["case"] for c in cases], ["llama-1.1b", "llama-1.1b-fp8"])
        self.assertEqual([r["who"] for r in cases[0]["runs"]], ["Partita", "PyTorch", "Partita"])
        self.assertEqual(cases[0]["ratio"], 2.0)
        self.assertEqual(cases[0]["runs"][0]["clock_mhz"], 1500)
        text = page.read_text()
        self.assertTrue(text.startswith("before\n\n### 20"))
        self.assertIn("driver 580.1, partita 0.1, torch 2.11.0.", text)
        self.assertEqual(text.count("bench/peer/torch_peer.py llama-1.1b --cold"), 1)

    def test_several_cards_and_a_peer_that_fails(self):
        done = self.bench("--cases", "llama-7b-full")
        self.assertEqual(done.returncode, 1)
        self.assertIn("codes [3, 3]: boom / boom", done.stdout)
        self.assertIn("runs failed in llama-7b-full", done.stderr)
        self.assertEqual(done.stdout.count("| 1000 |"), 2)

    def test_ranks_do_not_wait_for_one_that_failed(self):
        self.program("partita", 'if [ "$RANK" = 1 ]; then echo "no memory" >&2; exit 4; fi; exec sleep 60')
        done = self.bench("--cases", "llama-7b-full", "--only", "ours")
        self.assertIn("codes [-9, 4]: no memory", done.stdout)

    def test_a_run_that_hangs_is_ended_and_time_is_kept(self):
        self.program("partita", "exec sleep 60")
        done = self.bench("--cases", "llama-1.1b,gpt2-124m", "--only", "ours", "--limit", "0.5", "--time-budget", "0.1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("codes [-9]", done.stdout)
        self.assertIn("| gpt2-124m | not begun", done.stdout)

    def test_wrong_usage(self):
        self.assertIn("no case gpt3", self.bench("--cases", "gpt3").stderr)
        (self.path / "partita").unlink()
        self.assertIn("partita is missing", self.bench().stderr)


if __name__ == "__main__":
    unittest.main()
