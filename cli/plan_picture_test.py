#!/usr/bin/python3
"""`adjoin plan --svg` and `--html`: whole files or none, errors by name."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

ADJOIN = sys.argv.pop(1)
JOB = "examples/unet/unet3d.textproto"


def plan(*arguments):
    return subprocess.run([ADJOIN, "plan", *map(str, arguments)], capture_output=True, text=True, timeout=60)


class PlanPicture(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def enterContext(self, context):  # of Python 3.11; here for the older one
        self.addCleanup(context.__exit__, None, None, None)
        return context.__enter__()

    def test_writes_one_whole_file_and_prints_nothing(self):
        for option, name in (("--svg", "plan.svg"), ("--html", "plan.html")):
            path = self.folder / name
            done = plan(JOB, option, path)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
            first = path.read_bytes()
            xml.dom.minidom.parseString(first)
            self.assertIn(b"down1.conv1", first)
            self.assertEqual(plan(JOB, option, path).returncode, 0)
            self.assertEqual(path.read_bytes(), first, "equal jobs, equal bytes")
        self.assertEqual(sorted(os.listdir(self.folder)), ["plan.html", "plan.svg"])

    def test_draws_what_auto_chooses(self):
        path = self.folder / "auto.svg"
        done = plan("--auto", "--ranks", 2, JOB, "--svg", path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("on 2 ranks", path.read_text(encoding="utf-8"))

    def test_one_picture_at_a_time(self):
        done = plan(JOB, "--svg", self.folder / "a.svg", "--html", self.folder / "a.html")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--svg and --html", done.stderr)
        self.assertEqual(os.listdir(self.folder), [])

    def test_no_other_output_beside_a_picture(self):
        for more in (["-o", "json"], ["--auto", "--emit"], ["--auto", "--ranks", "1..4"]):
            done = plan(JOB, "--svg", self.folder / "a.svg", *more)
            self.assertEqual(done.returncode, 1, more)
            self.assertEqual(os.listdir(self.folder), [])

    def test_a_file_that_cannot_be_written_is_named(self):
        done = plan(JOB, "--svg", self.folder / "no" / "a.svg")
        self.assertEqual(done.returncode, 1)
        self.assertIn(str(self.folder / "no" / "a.svg"), done.stderr)
        self.assertIn("cannot be written", done.stderr)
        done = plan(JOB, "--html", self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("is a folder", done.stderr)

    def test_a_wrong_job_leaves_the_older_picture(self):
        path = self.folder / "plan.svg"
        path.write_text("older")
        self.assertEqual(plan(JOB, "--set", "ranks=3", "--svg", path).returncode, 1)
        self.assertEqual(path.read_text(), "older")
        self.assertEqual(os.listdir(self.folder), ["plan.svg"])


if __name__ == "__main__":
    unittest.main()
