"""Finds what a machine with a GPU has: compiler, LibTorch, CUDA, UCX."""
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess

from device_test.error import Error

_ASK_TORCH = """
import json, torch
gpu = torch.cuda.is_available()
print(json.dumps({"prefix": torch.__path__[0], "version": torch.__version__, "cuda": torch.version.cuda,
                  "cxx11": torch._C._GLIBCXX_USE_CXX11_ABI, "gpu": torch.cuda.get_device_name() if gpu else ""}))
"""


@dataclasses.dataclass(frozen=True)
class Prefix:
    """An installed library."""
    include: list
    lib: str
    protobuf: str = ""  # LibTorch's, where it is a shared library; PyTorch's own packages have it within them


def require(program, package):
    if shutil.which(program) is None:
        raise Error(f"{program} is not installed: `apt install {package}`, or set PATH")
    return program


def _folder_of(root, pattern):
    found = sorted(pathlib.Path(root).glob(pattern))
    return str(found[0].parent) if found else None


def _searched(folders):
    """Without the compiler's own: named before the C++ library's, it would hide C headers from it."""
    return [folder for folder in folders if folder != "/usr/include"]


def find_torch(prefix, python):
    """PyTorch's LibTorch, or the one in `prefix`; a line that says which."""
    if prefix is None:
        result = subprocess.run([python, "-c", _ASK_TORCH], capture_output=True, text=True)
        if result.returncode != 0:
            raise Error(f"`{python} -c 'import torch'` failed: activate the environment that has PyTorch, or give --python "
                        f"or --libtorch\n{result.stderr.strip()}")
        torch = json.loads(result.stdout.splitlines()[-1])
        if not torch["cxx11"]:
            raise Error(f"PyTorch {torch['version']} has the C++ ABI before C++11: a package of PyTorch 2.7 or newer has "
                        "the new one")
        prefix = torch["prefix"]
        text = f"PyTorch {torch['version']} in {prefix}, " + (
            torch["gpu"] or "no GPU seen: what needs one is skipped or fails")
    else:
        text = f"LibTorch in {prefix}"
    lib = next((one for one in (_folder_of(prefix, f"{folder}/libtorch_cpu.so") for folder in ("lib", "lib64", "lib/*"))
                if one is not None), None)
    headers = pathlib.Path(prefix) / "include"
    if lib is None or not (headers / "torch/csrc/api/include/torch/torch.h").is_file():
        raise Error(f"{prefix} has no lib/libtorch_cpu.so or no include/torch: expected LibTorch, or PyTorch's package")
    needed = subprocess.run(["readelf", "-d", f"{lib}/libtorch_cpu.so"], capture_output=True, text=True, check=True).stdout
    protobuf = re.search(r"\[(libprotobuf\.so[.\d]*)\]", needed)
    return Prefix(_searched([str(headers), str(headers / "torch/csrc/api/include")]), lib,
                  protobuf.group(1) if protobuf else ""), text


def find_cuda(prefix):
    """The folder of CUDA's toolkit."""
    nvcc = shutil.which("nvcc")
    guesses = [prefix, os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"),
               str(pathlib.Path(nvcc).resolve().parent.parent) if nvcc else None, "/usr/local/cuda"]
    for guess in filter(None, guesses):
        if (pathlib.Path(guess) / "include" / "cuda.h").is_file():
            return guess
        if guess == prefix:
            break
    raise Error(f"no include/cuda.h in {', '.join(filter(None, guesses))}: install CUDA's toolkit, and give its folder by "
                "--cuda or CUDA_HOME, or nvcc in PATH")


def find_ucx(prefix):
    """UCX in `prefix`, or None where there is none yet."""
    lib = _folder_of(prefix, "lib/libucp.so") or _folder_of(prefix, "lib/*/libucp.so")
    if lib is None or not (pathlib.Path(prefix) / "include/ucp/api/ucp.h").is_file():
        return None
    return Prefix(_searched([str(pathlib.Path(prefix) / "include")]), lib)


def ucx_text(prefix, ucx):
    version = (pathlib.Path(prefix) / "include/ucp/api/ucp_version.h").read_text()
    numbers = [re.search(rf"#define UCP_API_{part}\s+(\d+)", version) for part in ("MAJOR", "MINOR")]
    cuda = "with CUDA" if list(pathlib.Path(ucx.lib).glob("ucx/libuct_cuda.so*")) else "WITHOUT CUDA"
    return f"UCX {'.'.join(number.group(1) for number in numbers if number)} {cuda} in {prefix}"


def require_headers(compiler, libraries):
    for name, library in libraries.items():
        if library["origin"] != "machine":
            continue
        result = subprocess.run([compiler, "-xc++", "-E", "-o", "/dev/null", "-"], input=f"#include <{library['probe']}>\n",
                                capture_output=True, text=True)
        if result.returncode != 0:
            raise Error(f"there is no <{library['probe']}>: `apt install {library['package']}`")
