#!/usr/bin/env python3
"""bench/loss_curves.py: how curves are smoothed, compared and written, and a run with a program that only writes."""
import csv
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import loss_curves

# Writes metrics.jsonl as `partita train` does: 10 / step, in bf16 a share more, in fp8 far more.
PROGRAM = r"""#!/usr/bin/env python3
import pathlib, sys
options = dict(word[2:].split("=", 1) for word in sys.argv if word.startswith("--"))
run = pathlib.Path(options["run.directory"])
run.mkdir(parents=True)
factor = 1.03 if "precision.fp8" in options else 1.004 if options["precision.compute"] == "bf16" else 1
factor += 5e-5 * (options["train.device"] == "cpu")
with open(run / "metrics.jsonl", "w") as file:
    for step in range(1, int(options["train.steps"]) + 1):
        file.write('{"step":%d,"loss":%r}\n' % (step, 10 / step * factor))
"""


class Arithmetic(unittest.TestCase):
    def test_losses(self):
        self.assertEqual(loss_curves.read_losses('{"step":1,"loss":8.5}\n{"step":2,"loss":8}\n'), [8.5, 8])
        self.assertTrue(math.isnan(loss_curves.read_losses('{"step":1,"loss":null}')[0]))
        with self.assertRaisesRegex(ValueError, "line 2 is of step 3"):
            loss_curves.read_losses('{"step":1,"loss":8.5}\n{"step":3,"loss":8}\n')

    def test_smoothing(self):
        self.assertEqual(loss_curves.smoothed([1, 2, 3, 6], 2), [1.5, 2.5, 4.5])
        self.assertEqual(loss_curves.smoothed([1, 2, 3], 20), [2])
        self.assertEqual(loss_curves.smoothed([], 20), [])

    def test_largest_difference(self):
        self.assertEqual(loss_curves.largest_difference([2, 4, 6.6, 100], [2, 5, 6]), (0.2, 1))
        self.assertEqual(loss_curves.largest_difference([1, math.nan], [1, 1]), (math.inf, 1))
        self.assertEqual(loss_curves.largest_difference([1, 1], [1, 1]), (0.0, 0))

    def test_verdicts(self):
        reference = [10 / step for step in range(1, 101)]
        curves = {"fp32": reference, "bf16": [x * 1.004 for x in reference], "fp8-current": [x * 1.02 for x in reference],
                  "fp32-short": reference[:40],
                  "cpu-fp32": [x * (1 + 2e-4 * (i >= 30)) for i, x in enumerate(reference[:40])]}
        verdicts = {name: (difference, step, difference <= tolerance)
                    for name, difference, step, tolerance in loss_curves.compare(curves)}
        self.assertEqual(list(verdicts), ["bf16", "fp8-current", "cpu-fp32"])
        self.assertTrue(verdicts["bf16"][2])
        self.assertAlmostEqual(verdicts["fp8-current"][0], 0.02)
        self.assertFalse(verdicts["fp8-current"][2])
        self.assertGreaterEqual(verdicts["cpu-fp32"][1], 31)
        self.assertFalse(verdicts["cpu-fp32"][2])


class WholeRun(unittest.TestCase):
    def run_with(self, *options):
        program = self.folder / "partita"
        program.write_text(PROGRAM)
        program.chmod(0o755)
        for suffix in ("bin", "idx"):
            (self.folder / f"tokens.{suffix}").touch()
        return subprocess.run([sys.executable, str(ROOT / "bench/loss_curves.py"), "--partita", str(program), "--tokens",
                               str(self.folder / "tokens"), "--output", str(self.folder / "out"), "--models", "llama",
                               "--steps", "60", *options], capture_output=True, text=True, env=dict(os.environ))

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def test_curves_that_agree(self):
        done = self.run_with("--variants", "bf16,bf16-states", "--cpu", "30")
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assertTrue(done.stdout.endswith("3 passed, 0 failed\n"), done.stdout)
        with (self.folder / "out/curves.csv").open() as file:
            lines = list(csv.reader(file))
        self.assertEqual(lines[0], ["step", "llama fp32", "llama bf16", "llama bf16-states", "llama fp32-short",
                                    "llama cpu-fp32"])
        self.assertEqual(len(lines), 61)
        self.assertEqual(lines[30][5] != "", True)
        self.assertEqual(lines[31][5], "")
        self.assertIn("$curves index 4", (self.folder / "out/curves-llama.gp").read_text())

    def test_a_curve_that_leaves_its_tolerance_fails(self):
        done = self.run_with("--variants", "fp8-current,bf16")
        self.assertEqual(done.returncode, 1)
        self.assertIn("FAILED: llama fp8-current to fp32: at most 3.00e-02", done.stdout)
        self.assertTrue(done.stdout.endswith("1 passed, 1 failed\n"))

    def test_wrong_usage(self):
        self.assertIn("expected some of fp32", self.run_with("--variants", "fp4").stderr)
        done = subprocess.run([sys.executable, str(ROOT / "bench/loss_curves.py"), "--tokens", "nowhere/x"],
                              capture_output=True, text=True)
        self.assertIn("there is no nowhere/x.idx", done.stderr)


if __name__ == "__main__":
    unittest.main()
