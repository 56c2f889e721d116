#!/usr/bin/env python3
"""bench/compare_modules.py: commands, ratios, a run with programs that only print, and tiny runs of module_speed."""
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import compare_modules


def run(who, ms, loss=4.0):
    return {"who": who, "stage": 3, "ms": ms, "tokens_per_s": 1000 / ms, "loss_first": loss, "loss_last": 3.5}


FAILED = {"who": "FSDP2", "stage": 3, "error": "out of memory"}


class Figures(unittest.TestCase):
    alone = run(compare_modules.ALONE, 8.0)
    rounds = [[run("Partita", 10.0), run("FSDP2", 15.0), run("Partita", 20.0), alone],
              [run("Partita", 10.0), run("FSDP2", 20.0), run("Partita", 10.0), alone],
              [run("Partita", 10.0), run("FSDP2", 50.0), run("Partita", 10.0), alone]]
    failed = [run("Partita", 1.0), FAILED, run("Partita", 1.0), alone]

    def test_ratio_is_the_median_of_whole_rounds(self):
        self.assertEqual(compare_modules.ratio(self.rounds), 2.0)
        self.assertEqual(compare_modules.ratio([*self.rounds[:2], self.failed]), 1.5)
        self.assertIsNone(compare_modules.ratio([self.failed]))

    def test_other_losses_are_another_model(self):
        def check(loss, precision):
            return compare_modules.check_losses([[run("Partita", 1.0, 4.0), run("FSDP2", 1.0, loss), run("Partita", 1.0)]],
                                                precision)

        self.assertEqual(check(4.0002, "fp32"), "")
        self.assertIn("4.000000, the peer's 4.001000", check(4.001, "fp32"))
        self.assertEqual(check(4.001, "bf16"), "")

    def test_table(self):
        lines = compare_modules.rows(3, [*self.rounds, self.failed])
        self.assertEqual({line.count("|") for line in lines}, {8})
        self.assertIn("| 3 | Partita | 10.0 20.0 10.0 10.0 10.0 10.0 1.0 1.0 | 100 | - | 4.0000 3.5000 | 2.000 |", lines)
        self.assertIn("| 3 | FSDP2 | out of memory |", lines[2])
        self.assertIn(f"| 3 | {compare_modules.ALONE} | 8.0 8.0 8.0 8.0 | 125 | - | 4.0000 3.5000 | 2.500 |", lines[3])

    def test_alone_is_the_most_that_can_be_reached(self):
        self.assertEqual(compare_modules.ratio(self.rounds, of=[3]), 2.5)


class Commands(unittest.TestCase):
    def test_both_sides_train_the_same(self):
        args = compare_modules.arguments(["--shape", "2,4,64,32,8,100", "--precision", "bf16", "--ours",
                                          "--unit-elements 5"])
        ours, peer = compare_modules.our_command(args, 2), compare_modules.peer_command(args, 2)
        shared = ["--layers", "2", "--heads", "4", "--width", "64", "--length", "32", "--batch", "8", "--vocabulary",
                  "100", "--precision", "bf16", "--device", "cpu", "--steps", "10", "--warmup", "3"]
        self.assertEqual(ours[1:], [*shared, "--stage", "2", "--unit-elements", "5"])
        self.assertEqual(peer[4:], [*shared, "--stage", "2"])
        self.assertEqual(compare_modules.our_command(args, None)[1:], [*shared, "--alone", "--unit-elements", "5"])
        for own in (True, False):
            self.assertEqual(compare_modules.environment(args, own)["OMP_NUM_THREADS"], "1")

    def test_wrong_usage(self):
        for words, message in [(["--shape", "1,2,3"], "expected six numbers"), (["--shape", "1,3,4,1,1,9"], "3 heads"),
                               (["--stages", "2,4"], "some of 0, 1, 2, 3")]:
            errors = io.StringIO()
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(errors):
                compare_modules.arguments(words)
            self.assertIn(message, errors.getvalue())


class Programs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        self.script("ours", 'echo \'{"tokens_per_s_rank": 20, "ms": 5, "loss_first": 4, "loss_last": 3}\'')
        self.script("python", 'case "$*" in *version*) echo 2.11.0;; *"--stage 2"*) echo boom >&2; exit 3;; *) '
                              'echo \'{"tokens_per_s_rank": 10, "ms": 10, "loss_first": \'${LOSS:-4}\', "loss_last": 3}\';; '
                              "esac")

    def script(self, name, body):
        (self.path / name).write_text(f"#!/bin/bash\n{body}\n")
        (self.path / name).chmod(0o755)

    def compare(self, *options, **variables):
        command = [sys.executable, str(ROOT / "bench/compare_modules.py"), "--program", str(self.path / "ours"),
                   "--python", str(self.path / "python"), "--rounds", "1", *options]
        return subprocess.run(command, env=dict(os.environ, **variables), capture_output=True, text=True)

    def test_a_table_and_figures(self):
        figures = self.path / "figures.json"
        done = self.compare("--stages", "0,3", "--json", str(figures))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| 3 | Partita | 5.0 5.0 | 20 | - | 4.0000 3.0000 | 2.000 |", done.stdout)
        self.assertEqual([(s["stage"], s["ratio"]) for s in json.loads(figures.read_text())["stages"]], [(0, 2.0), (3, 2.0)])

    def test_a_peer_that_fails_or_trains_something_else(self):
        done = self.compare("--stages", "2,1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("codes [3, 3]: boom / boom", done.stdout)
        self.assertIn("runs of stage 2 failed", done.stderr)
        self.assertIn("stage 3: first losses differ", self.compare("--stages", "3", LOSS="5").stderr)

    def test_a_missing_program(self):
        (self.path / "ours").unlink()
        self.assertIn("ninja -C build module_speed", self.compare().stderr)


class ModuleSpeed(unittest.TestCase):
    """The program itself, as the script starts it; MODULE_SPEED names it."""

    def test_every_stage_trains_the_same(self):
        program = os.environ.get("MODULE_SPEED")
        if not program or not pathlib.Path(program).exists():
            self.skipTest("MODULE_SPEED names no program")
        warnings.simplefilter("ignore", ResourceWarning)  # pipes of jobs that have ended
        args = compare_modules.arguments(["--shape", "2,2,16,8,2,32", "--steps", "3", "--warmup", "1", "--program", program,
                                          "--ours", "--unit-elements 1000"])
        runs = [compare_modules.ours(args, stage) for stage in range(4)]
        args.launcher = "mpirun"
        runs.append(compare_modules.ours(args, 3))
        self.assertEqual([run.get("error") for run in runs], [None] * 5)
        self.assertEqual({run["loss_last"] for run in runs}, {runs[0]["loss_last"]})  # two summands: bit for bit
        self.assertNotEqual(runs[0]["loss_first"], runs[0]["loss_last"])
        self.assertTrue(all(run["tokens_per_s"] > 0 and run["steps"] == 3 for run in runs))


if __name__ == "__main__":
    unittest.main()
