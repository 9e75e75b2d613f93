#!/usr/bin/python3
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

_PROGRAM = pathlib.Path(__file__).resolve().parent / "configure"


class ConfigureTest(unittest.TestCase):
    def setUp(self):
        # A checkout: the program writes beside its folder.
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "tools").mkdir()
        self.program = self.folder / "tools/configure"
        shutil.copy(_PROGRAM, self.program)
        self.file = self.folder / "configured.bazelrc"

    def configure(self, *arguments):
        return subprocess.run([self.program, *arguments], capture_output=True, text=True, timeout=60)

    def libtorch(self, name="libtorch", lib="lib"):
        prefix = self.folder / name
        headers = prefix / "include/torch/csrc/api/include/torch"
        headers.mkdir(parents=True)
        (headers / "version.h").write_text("#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 6\n"
                                           "#define TORCH_VERSION_PATCH 0\n#define TORCH_VERSION \\\n  \"2.6.0\"\n")
        (prefix / lib).mkdir(parents=True)
        (prefix / lib / "libtorch_cpu.so").touch()
        return prefix

    def ucx(self):
        prefix = self.folder / "ucx"
        (prefix / "include/ucp/api").mkdir(parents=True)
        (prefix / "include/ucp/api/ucp_version.h").write_text("#define UCP_API_MAJOR    1\n#define UCP_API_MINOR    18\n")
        (prefix / "lib/x86_64-linux-gnu").mkdir(parents=True)
        (prefix / "lib/x86_64-linux-gnu/libucp.so").touch()
        return prefix

    def test_both_from_prefixes(self):
        torch, ucx = self.libtorch(), self.ucx()
        result = self.configure("--libtorch", torch, "--ucx", ucx)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, f"tools/configure: LibTorch 2.6.0 in {torch}\ntools/configure: UCX 1.18 in {ucx}\n")
        self.assertEqual(self.file.read_text().splitlines()[1:], [
            "build --copt=-DADJOIN_CONFIGURED_LIBTORCH=2.6.0",
            "build --copt=-DADJOIN_CONFIGURED_UCX=1.18",
            f"build --copt=-isystem{torch}/include",
            f"build --copt=-isystem{torch}/include/torch/csrc/api/include",
            f"build --copt=-isystem{ucx}/include",
            f"build --repo_env=CPLUS_INCLUDE_PATH={torch}/include:{torch}/include/torch/csrc/api/include:{ucx}/include",
            f"build --linkopt=-L{torch}/lib",
            f"build --linkopt=-Wl,-rpath,{torch}/lib",
            f"build --linkopt=-L{ucx}/lib/x86_64-linux-gnu",
            f"build --linkopt=-Wl,-rpath,{ucx}/lib/x86_64-linux-gnu",
        ])

    def test_a_relative_prefix(self):
        torch = self.libtorch(lib="lib64")
        result = subprocess.run([self.program, "--libtorch", "libtorch"], cwd=self.folder, timeout=60)
        self.assertEqual(result.returncode, 0)
        self.assertIn(f"build --linkopt=-L{torch}/lib64\n", self.file.read_text())

    def test_debians_again(self):
        self.configure("--libtorch", self.libtorch())
        self.assertTrue(self.file.exists())
        for _ in range(2):
            self.assertEqual(self.configure().returncode, 0)
            self.assertFalse(self.file.exists())

    def refused(self, *arguments):
        before = self.file.read_text() if self.file.exists() else None
        result = self.configure(*arguments)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertEqual(self.file.read_text() if self.file.exists() else None, before)
        return result.stderr

    def test_what_is_no_prefix_is_refused_and_changes_nothing(self):
        torch = self.libtorch()
        self.configure("--libtorch", torch)
        self.assertIn(f"{self.folder} has no lib/libucp.so or no include/ucp/api/ucp_version.h",
                      self.refused("--libtorch", torch, "--ucx", self.folder))
        self.assertIn("has no lib/libtorch_cpu.so", self.refused("--libtorch", "/nowhere"))

    def test_a_version_that_is_not_told(self):
        torch = self.libtorch()
        (torch / "include/torch/csrc/api/include/torch/version.h").write_bytes(b"\xff\xfe")
        self.assertIn("does not tell the version of LibTorch", self.refused("--libtorch", torch))

    def test_a_path_that_options_do_not_take(self):
        for name in ("lib torch", "lib#1"):
            self.assertIn("use a link without it", self.refused("--libtorch", self.libtorch(name)))

    def test_debians_own(self):
        self.assertIn("UCX in /usr is Debian's: leave it out", self.refused("--ucx", "/usr"))


if __name__ == "__main__":
    unittest.main()
