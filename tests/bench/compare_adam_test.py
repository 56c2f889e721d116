#!/usr/bin/env python3
"""bench/compare_adam.py: commands, ratios, a run with programs that only print, and a tiny run of adam_speed."""
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import compare_adam


def run(fp32, bf16, copy=10.0, check=0.25):
    return {"copy_gb_s": copy, "check": check, "fp32": {"16": fp32}, "bf16": {"16": bf16}}


def one_round(ours, torch, deepspeed):
    return {"ours": ours, "peers": {"torch": torch, "deepspeed": deepspeed}}


class Figures(unittest.TestCase):
    rounds = [one_round([run(10, 20), run(30, 20)], run(40, 30), run(50, 25)),  # ratios 2, 1.25
              one_round([run(10, 20), run(10, 20)], run(30, 30), run(15, 50)),  # 1.5, 1.5
              one_round([run(10, 20), run(10, 20)], run(90, 90), run(90, 90))]  # 9, 4.5

    def test_ratio_is_to_the_better_peer_and_the_median_over_rounds(self):
        self.assertEqual(compare_adam.ratio(self.rounds, "fp32", 16), 2)
        self.assertEqual(compare_adam.ratio(self.rounds, "bf16", 16), 1.5)

    def test_rate_counts_every_operand_once(self):
        self.assertAlmostEqual(compare_adam.rate("fp32", 16, 10), 28 * 2**24 / 1e7)
        self.assertAlmostEqual(compare_adam.rate("bf16", 16, 20), 30 * 2**24 / 2e7)
        self.assertAlmostEqual(compare_adam.of_copy(self.rounds, "bf16", 16), 30 * 2**24 / 2e7 / 10)

    def test_table(self):
        lines = [*compare_adam.head(["torch", "deepspeed"]), *compare_adam.rows(2, self.rounds, [16])]
        self.assertEqual({line.count("|") for line in lines}, {11})
        self.assertEqual(lines[2], "| 2 | fp32 | 16 | 10.00 | 40.00 | 50.00 | 2.00 | 1.50 to 9.00 | 47.0 | 4.70 |")

    def test_all_compute_the_same(self):
        good = run(1, 1)
        compare_adam.check(one_round([good, good], run(1, 1, check=0.25 + 1e-7), good))
        with self.assertRaises(SystemExit) as error:
            compare_adam.check(one_round([good, good], good, run(1, 1, check=0.25 + 1e-6)))
        self.assertIn("DeepSpeed computes something else: a mean weight of 0.250001, ours 0.25", str(error.exception))


class Commands(unittest.TestCase):
    def test_peers_have_the_same_sizes_and_threads(self):
        args = compare_adam.arguments(["--mi", "1,16", "--seconds", "2", "--python-path", "/x"])
        self.assertEqual(compare_adam.peer_command(args, "deepspeed")[-6:],
                         ["--peer", "deepspeed", "--mi", "1,16", "--seconds", "2.0"])
        self.assertEqual(compare_adam.peer_variables(args, 2),
                         {"OMP_NUM_THREADS": "2", "PYTHONPATH": "/x", "DS_ACCELERATOR": "cpu"})
        args.small_pages = True
        self.assertEqual(compare_adam.peer_command(args, "torch")[-1], "--small-pages")

    def test_wrong_usage(self):
        for words, message in [(["--peers", "torch,apex"], "--peers apex: expected some of torch, deepspeed"),
                               (["--mi", "0"], "expected positive --mi"),
                               (["--rounds", "0"], "expected positive --mi")]:
            errors = io.StringIO()
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(errors):
                compare_adam.arguments(words)
            self.assertIn(message, errors.getvalue())


class Programs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        self.script("ours", f"echo '{json.dumps(run(2, 4))}'")
        self.script("python", f"echo a warning; echo '{json.dumps(run(3, 8))}'")

    def script(self, name, body):
        (self.path / name).write_text(f"#!/bin/bash\n{body}\n")
        (self.path / name).chmod(0o755)

    def compare(self, *options):
        command = [sys.executable, str(ROOT / "bench/compare_adam.py"), "--program", str(self.path / "ours"),
                   "--python", str(self.path / "python"), "--mi", "16", "--threads", "1,2", "--rounds", "2", *options]
        return subprocess.run(command, capture_output=True, text=True)

    def test_a_table_and_figures(self):
        figures = self.path / "figures.json"
        done = self.compare("--json", str(figures))
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in ("| 1 | fp32 | 16 | 2.00 | 3.00 | 3.00 | 1.50 | 1.50 to 1.50 | 234.9 | 23.49 |",
                     "| 2 | bf16 | 16 | 4.00 | 8.00 | 8.00 | 2.00 | 2.00 to 2.00 | 125.8 | 12.58 |",
                     "copy, 2 threads: 10.0 GB/s", "load average"):
            self.assertIn(line, done.stdout)
        self.assertEqual(sorted(json.loads(figures.read_text())), ["1", "2"])

    def test_programs_that_fail(self):
        self.script("python", "echo boom >&2; exit 3")
        done = self.compare()
        self.assertEqual(done.returncode, 1)
        self.assertIn("scripts/setup.sh --peer`; --peers chooses others): boom", done.stderr)
        (self.path / "ours").unlink()
        self.assertIn("ours is missing: it needs `ninja -C build adam_speed`", self.compare().stderr)


class AdamSpeed(unittest.TestCase):
    """The program itself; ADAM_SPEED names it."""

    def test_measures_every_size(self):
        program = os.environ.get("ADAM_SPEED")
        if not program or not pathlib.Path(program).exists():
            self.skipTest("ADAM_SPEED names no program")
        done = subprocess.run([program, "--mi", "1,2", "--seconds", "0"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        self.assertGreater(result["copy_gb_s"], 0)
        for kind in compare_adam.BYTES:
            self.assertEqual(sorted(result[kind]), ["1", "2"])
            self.assertGreater(min(result[kind].values()), 0)
        # The mean magnitude of (0..4095) / 4096 - 0.5 is 0.25; three steps of 1e-3 with decay change it by little.
        self.assertAlmostEqual(result["check"], 0.24995, places=4)
        self.assertNotEqual(subprocess.run([program, "--mi", "0"], capture_output=True).returncode, 0)


if __name__ == "__main__":
    unittest.main()
