#!/usr/bin/env python3
"""What bench/time_accuracy.py does with the rounds that were measured."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import time_accuracy  # noqa: E402

ROUNDS = [["LeNet\t[1, 1]\t0.002\t0", "LeNet\t[2, 1]\t0.0015\t0.0001"], ["LeNet\t[1, 1]\t0.0025\t0", "LeNet\t[2, 1]\t0.0012\t0.0002"]]

# Writes what a round of bench/step_time writes, or says what it was given.
FAKE = """#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in
    --results) results="$2" ;;
    --report-only) report=1 ;;
  esac
  shift
done
if [ -n "$report" ]; then cat "$results"; else printf 'LeNet\\t[1, 1]\\t0.00%s\\t0\\n' "$(echo "$results" | tail -c 2)" >> "$results"; fi
"""


class TimeAccuracyTest(unittest.TestCase):
    def test_of_each_cut_the_least_counts(self):
        self.assertEqual(time_accuracy.least_of(ROUNDS), "LeNet\t[1, 1]\t0.002\t0\nLeNet\t[2, 1]\t0.0012\t0.0002\n")

    def test_the_spread_tells_how_busy_the_machine_was(self):
        self.assertAlmostEqual(time_accuracy.spread(ROUNDS), 0.25)
        self.assertIsNone(time_accuracy.spread(ROUNDS[:1]))

    def run_with(self, folder, *options):
        for name in time_accuracy.PROGRAMS.values():
            program = pathlib.Path(folder) / "bin" / name
            program.parent.mkdir(parents=True, exist_ok=True)
            program.write_text(FAKE)
            program.chmod(0o755)
        script = pathlib.Path(time_accuracy.__file__).resolve()
        return subprocess.run([sys.executable, script, "--bin", pathlib.Path(folder) / "bin", "--rates", "table", *options],
                              text=True, capture_output=True)

    def test_the_report_is_of_all_rounds(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.run_with(folder, "--rounds", "3")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("round 3: 1 cuts", done.stdout)
            self.assertTrue(done.stdout.endswith("LeNet\t[1, 1]\t0.001\t0\n"), done.stdout)

    def test_what_is_wrong_is_said(self):
        with tempfile.TemporaryDirectory() as folder:
            kept = pathlib.Path(folder) / "kept"
            kept.mkdir()
            (kept / "file").write_text("")
            done = self.run_with(folder, "--keep", str(kept))
            self.assertEqual(done.returncode, 1)
            self.assertIn("is not empty", done.stderr)
            done = self.run_with(folder, "--rounds", "0")
            self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    unittest.main()
