#!/usr/bin/python3
import importlib.machinery
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

_PROGRAM = pathlib.Path(__file__).resolve().parent / "trim-cache"
_BLOCK = 4096
_DAY_S = 24 * 3600


def load_program():
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("trim_cache", str(_PROGRAM))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("trim_cache", loader))
    loader.exec_module(module)
    return module


class TrimCacheTest(unittest.TestCase):
    """On a disk of 100 blocks."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)
        self.program = load_program()
        self.program.free_bytes = lambda home: (100 - self.blocks()) * _BLOCK

    def blocks(self):
        return sum(path.stat().st_size for path in self.home.rglob("*") if path.is_file()) // _BLOCK

    def cached(self, name, blocks, days, cache="adjoin-bazel"):
        """A file that was written 30 days ago and read so many days ago."""
        path = self.home / ".cache" / cache / "cas" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * blocks * _BLOCK)
        os.utime(path, (time.time() - days * _DAY_S, time.time() - 30 * _DAY_S))
        return path

    def folder_of(self, checkout, blocks, age_s=2 * 3600):
        """What Bazel keeps for a checkout whose last command was so long ago."""
        base = self.home / ".cache/bazel/_bazel_user" / checkout.name
        output = base / "execroot/bin"
        output.mkdir(parents=True)
        (output / "program").write_bytes(b"x" * blocks * _BLOCK)
        for name, text in (("DO_NOT_BUILD_HERE", str(checkout)), ("command.log", "")):
            (base / name).write_text(text)
            os.utime(base / name, (time.time() - age_s,) * 2)
        output.chmod(0o555)
        self.addCleanup(lambda: output.exists() and output.chmod(0o755))
        return base

    def trim(self, free_blocks):
        return self.program.trim(self.home, free_blocks * _BLOCK)

    def test_deletes_nothing_where_enough_is_free(self):
        old = self.cached("old", 10, days=20)
        base = self.folder_of(self.home / "gone", 5)
        self.assertEqual(self.trim(85), 0)
        self.assertTrue(old.exists() and base.exists())

    def test_deletes_what_was_read_longest_ago(self):
        new = self.cached("new", 10, days=1)
        old = self.cached("old", 20, days=20)
        middle = self.cached("middle", 10, days=5, cache="adjoin-bazel-clang")
        self.assertEqual(self.trim(85), 30 * _BLOCK)
        self.assertEqual([path.exists() for path in (new, middle, old)], [True, False, False])

    def test_keeps_what_was_written_lately_and_never_read(self):
        written = self.cached("written", 10, days=20)
        os.utime(written, (time.time() - 20 * _DAY_S, time.time()))
        read = self.cached("read", 10, days=2)
        self.trim(90)
        self.assertEqual([path.exists() for path in (written, read)], [True, False])

    def test_deletes_folders_of_checkouts_that_are_gone_before_the_cache(self):
        cached = self.cached("old", 20, days=20)
        gone = self.folder_of(self.home / "gone", 20)
        self.assertGreaterEqual(self.trim(80), 20 * _BLOCK)
        self.assertTrue(cached.exists())
        self.assertFalse(gone.exists())

    def test_keeps_folders_of_checkouts_that_exist_or_were_used_within_the_hour(self):
        (self.home / "here").mkdir()
        here = self.folder_of(self.home / "here", 20)
        building = self.folder_of(self.home / "elsewhere", 20, age_s=60)
        self.assertEqual(self.trim(100), 0)
        self.assertTrue((here / "execroot/bin/program").exists() and (building / "execroot/bin/program").exists())

    def test_touches_no_other_file(self):
        other = self.cached("file", 10, days=20, cache="another-project")
        self.trim(100)
        self.assertTrue(other.exists())

    def test_says_what_is_missing(self):
        self.cached("old", 10, days=20)
        ended = subprocess.run([str(_PROGRAM), "--free", "1e9"], env={**os.environ, "HOME": str(self.home)},
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("deleted 0.0 GB", ended.stdout)
        self.assertIn("1e+09 GB are wanted", ended.stderr)
        self.assertEqual(self.blocks(), 0)


if __name__ == "__main__":
    unittest.main()
