#!/usr/bin/env python3
"""bench/compare_scratch.py: commands, ratios, a run with programs that only print, and a tiny run of scratch_speed."""
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
import compare_scratch


def speeds(read, write, both):
    return {"read": read, "write": write, "both": both}


class Figures(unittest.TestCase):
    def test_ratio_is_the_median_over_rounds(self):
        rounds = [(speeds(1, 3, 2), speeds(1, 2, 4), speeds(3, 3, 2)), (speeds(1, 2, 3), speeds(1, 2, 3), speeds(1, 2, 3)),
                  (speeds(9, 1, 2), speeds(1, 2, 2), speeds(9, 1, 2))]
        self.assertEqual([compare_scratch.ratio(rounds, kind) for kind in compare_scratch.KINDS], [2, 1, 1])
        lines = compare_scratch.rows(rounds)
        self.assertEqual({line.count("|") for line in lines}, {6})
        self.assertEqual(lines[2], "| read | 2.00 | 1.00 | 2.000 | 1.00 to 9.00 |")
        self.assertEqual(lines[4], "| both | 2.00 | 3.00 | 1.000 | 0.50 to 1.00 |")

    def test_fio_counts_what_is_read_and_written(self):
        text = json.dumps({"jobs": [{"read": {"bw_bytes": 1.5e9}, "write": {"bw_bytes": 2e9}}]})
        self.assertEqual(compare_scratch.fio_speed("fio: a note\n" + text), 3.5)


class Commands(unittest.TestCase):
    def test_threads_of_fio_share_the_file(self):
        args = compare_scratch.arguments(["--mib", "1024"])
        command = compare_scratch.fio_command(args, "/x/fio", "both")
        for word in ("--filename=/x/fio", "--rw=rw", "--bs=4m", "--direct=1", "--numjobs=8", "--size=128m",
                     "--offset_increment=128m", "--iomem_align=2m"):
            self.assertIn(word, command)
        args.small_pages = True
        self.assertNotIn("--iomem_align=2m", compare_scratch.fio_command(args, "/x/fio", "both"))

    def test_wrong_usage(self):
        for words in (["--mib", "100"], ["--mib", "64"]):  # no multiple of 32, less than a unit
            errors = io.StringIO()
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(errors):
                compare_scratch.arguments(words)
            self.assertIn("expected a multiple of 32, at least --unit-mib", errors.getvalue())


class Programs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        self.script("fio", 'echo \'{"jobs": [{"read": {"bw_bytes": 1e9}, "write": {"bw_bytes": 1e9}}]}\'')
        self.script("ours", 'echo \'{"read": [1], "write": [2], "both": [3], "direct": true}\'')

    def script(self, name, body):
        (self.path / name).write_text(f"#!/bin/bash\n{body}\n")
        (self.path / name).chmod(0o755)

    def compare(self, *options):
        command = [sys.executable, str(ROOT / "bench/compare_scratch.py"), "--program", str(self.path / "ours"), "--fio",
                   str(self.path / "fio"), "--folder", str(self.path), "--rounds", "2", *options]
        return subprocess.run(command, capture_output=True, text=True)

    def test_a_table_and_figures(self):
        figures = self.path / "figures.json"
        done = self.compare("--json", str(figures))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| write | 2.00 | 2.00 | 1.000 | 1.00 to 1.00 |", done.stdout)
        self.assertEqual(json.loads(figures.read_text())["ratios"], speeds(0.5, 1, 1.5))
        self.assertEqual(sorted(path.name for path in self.path.iterdir()), ["figures.json", "fio", "ours"])

    def test_programs_that_fail(self):
        self.script("ours", 'echo \'{"read": [1], "write": [2], "both": [3], "direct": false}\'')
        self.assertIn("has no direct access", self.compare().stderr)
        self.script("ours", "echo boom >&2; exit 3")
        self.assertIn("failed: boom", self.compare().stderr)
        (self.path / "fio").unlink()
        done = self.compare()
        self.assertEqual(done.returncode, 1)
        self.assertIn("Debian's package fio", done.stderr)


class ScratchSpeed(unittest.TestCase):
    """The program itself; SCRATCH_SPEED names it."""

    def test_measures_every_kind(self):
        program = os.environ.get("SCRATCH_SPEED")
        if not program or not pathlib.Path(program).exists():
            self.skipTest("SCRATCH_SPEED names no program")
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([program, "--folder", folder, "--mib", "20", "--unit-mib", "5", "--rounds", "2"],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            result = json.loads(done.stdout)
            self.assertEqual(result["bytes"], 20 << 20)
            for kind in compare_scratch.KINDS:
                self.assertEqual(len(result[kind]), 2)
                self.assertGreater(min(result[kind]), 0)
            self.assertEqual(list(pathlib.Path(folder).iterdir()), [])
        done = subprocess.run([program, "--folder", "/proc/nowhere"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("/proc/nowhere: the folder for scratch data cannot be created", done.stderr)


if __name__ == "__main__":
    unittest.main()
