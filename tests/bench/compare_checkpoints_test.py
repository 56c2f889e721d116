#!/usr/bin/env python3
"""bench/compare_checkpoints.py: ratios, a run with programs that only print, and a tiny one of partita bench
checkpoint."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import compare_checkpoints


def ours(gb_per_s, extra_ms):
    return {"ms": 400, "checkpoint_bytes": 2e9, "at_once": {"gb_per_s": gb_per_s},
            "background": {"gb_per_s": 1.5, "waited_ms": 3, "extra_ms": extra_ms}}


def theirs(gb_per_s, staged_ms):
    return {"bytes": 2e9, "at_once_gb_per_s": gb_per_s, "async_gb_per_s": 1, "async_call_ms": 6,
            "async_staged_ms": staged_ms}


class Figures(unittest.TestCase):
    def test_ratios_are_medians_over_rounds(self):
        rounds = [(ours(4, 10), theirs(2, 100)), (ours(3, 20), theirs(3, 100)), (ours(9, 30), theirs(3, 50))]
        lines = compare_checkpoints.rows(rounds)
        self.assertEqual(lines[0], "2.00 GB, a step of 400 ms")
        self.assertEqual(lines[4:], ["| at once, GB/s | 4.00 | 3.00 | 2.000 |",
                                     "| background, until on disk, GB/s | 1.50 | 1.00 | 1.500 |",
                                     "| background, waited / call, ms | 3.00 | 6.00 | 0.500 |",
                                     "| background, extra / with copy, ms | 20.00 | 100.00 | 0.200 |"])


class Programs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        self.script("ours", f"echo \"$@\" >> {self.path}/said; echo '{json.dumps(ours(4, 10))}'")
        self.script("python", f"echo \"$@\" >> {self.path}/said; echo a warning; echo '{json.dumps(theirs(2, 100))}'")

    def script(self, name, body):
        (self.path / name).write_text(f"#!/bin/bash\n{body}\n")
        (self.path / name).chmod(0o755)

    def compare(self, *options):
        command = [sys.executable, str(ROOT / "bench/compare_checkpoints.py"), "--program", str(self.path / "ours"),
                   "--python", str(self.path / "python"), "--folder", str(self.path), "--rounds", "2", *options]
        return subprocess.run(command, capture_output=True, text=True)

    def test_a_table_and_figures(self):
        done = self.compare("--json", str(self.path / "figures.json"), "--", "--model.layers=3")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| at once, GB/s | 4.00 | 2.00 | 2.000 |", done.stdout)
        self.assertEqual(len(json.loads((self.path / "figures.json").read_text())), 2)
        said = (self.path / "said").read_text()
        self.assertIn("bench checkpoint --train.device=cpu --model.layers=3", said)
        self.assertIn("--bytes 2000000000.0 --device cpu", said)
        self.assertEqual([p.name for p in self.path.iterdir() if p.name.startswith("compare-")], [])

    def test_a_program_that_fails(self):
        self.script("python", "echo no torch here >&2; exit 3")
        done = self.compare()
        self.assertEqual(done.returncode, 1)
        self.assertIn("no torch here", done.stderr)
        self.assertEqual([p.name for p in self.path.iterdir() if p.name.startswith("compare-")], [])


@unittest.skipUnless("PARTITA" in os.environ, "needs the program")
class Partita(unittest.TestCase):
    def test_bench_checkpoint(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([os.environ["PARTITA"], "bench", "checkpoint", "--model.layers=2",
                                   "--model.hidden_size=64", "--model.heads=2", "--train.sequence_length=32",
                                   "--model.vocab_size=500", "--train.micro_batch=1", "--steps", "3", "--warmup", "1",
                                   "--saves", "2", "--folder", f"{folder}/saves"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            line = json.loads([text for text in done.stdout.splitlines() if text.startswith("{")][-1])
            parameters = 500 * 64 + 32 * 64 + 2 * (12 * 64 * 64 + 13 * 64) + 2 * 64
            self.assertTrue(12 * parameters <= line["checkpoint_bytes"] <= 12 * parameters + 20000, line)
            self.assertGreater(line["background"]["gb_per_s"], 0)
            self.assertGreater(line["at_once"]["gb_per_s"], 0)
            self.assertGreaterEqual(line["background"]["waited_ms"], 0)
            self.assertFalse(pathlib.Path(folder, "saves").exists())


if __name__ == "__main__":
    unittest.main()
