#!/usr/bin/python3
import os
import pathlib
import tempfile
import unittest

from device_test import libraries, machine, ninja_file, pack
from device_test.error import Error


def programs_of(text):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "programs.txt"
        path.write_text(text)
        return pack.read_programs(path)


class ProgramsTest(unittest.TestCase):
    def test_a_line_is_read_as_a_shell_would(self):
        self.assertEqual(programs_of("# a comment\n\nUCX_TLS=cuda_ipc,sm //bench:primitives --ops 'a b'  # why\n"),
                         [{"label": "//bench:primitives", "environment": {"UCX_TLS": "cuda_ipc,sm"},
                           "arguments": ["--ops", "a b"]}])

    def test_what_is_no_label_is_refused_by_its_line(self):
        for line in ("bench/primitives", "//bench", "A=1"):
            with self.assertRaisesRegex(Error, "programs.txt:2: expected"):
                programs_of(f"//bench:layers\n{line}\n")

    def test_the_list_in_use_can_be_read(self):
        self.assertGreater(len(pack.read_programs(pathlib.Path(pack.__file__).parent / "programs.txt")), 1)


class LibrariesTest(unittest.TestCase):
    def test_what_needs_another_library_is_linked_before_it(self):
        self.assertEqual(libraries.with_needs(["absl", "gtest_main", "gtest"]), ["absl", "gtest_main", "gtest"])
        self.assertEqual(libraries.with_needs(["gtest_main"]), ["gtest_main", "gtest"])


class NinjaFileTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.build = pathlib.Path(self.folder.name)
        self.description = {
            "libraries": {name: {"origin": origin, "defines": [f"D_{name}"], "link": [f"-l{name}"]}
                          for name, origin in (("protobuf", "carried"), ("torch", "torch"), ("hdf5", "machine"))},
            "objects": {"a/t/t.cc.o": {"source": "a/t.cc", "libraries": ["torch", "protobuf"], "flags": ['-DX="y z"']}}}
        self.program = {"program": "a/t", "objects": ["a/t/t.cc.o"], "libraries": ["torch", "protobuf", "hdf5"],
                        "flags": ["-lrt"], "shared": False}

    def written(self):
        torch = machine.Prefix(["/torch/include"], str(self.build))
        ninja_file.write(self.build, self.description, [self.program], "g++", torch, None)
        return (self.build / "build.ninja").read_text()

    def test_carried_headers_come_before_those_of_torch(self):
        text = self.written()
        self.assertLess(text.index("libraries/protobuf/include"), text.index("/torch/include"))
        self.assertIn("'-DX=\"y z\"'", text)

    def test_the_cuda_half_of_torch_is_linked_where_there_is_one(self):
        self.assertNotIn("-ltorch_cuda", self.written())
        (self.build / "libtorch_cuda.so").touch()
        self.assertIn("-ltorch_cuda", self.written())

    def test_a_shared_library_is_linked_as_one(self):
        self.assertIn("kind = -pie", self.written())
        self.program["shared"] = True
        self.assertIn("kind = -shared", self.written())

    def test_what_did_not_change_is_not_written_again(self):
        self.written()
        os.utime(self.build / "build.ninja", (1, 1))
        self.written()
        self.assertEqual((self.build / "build.ninja").stat().st_mtime, 1)


if __name__ == "__main__":
    unittest.main()
