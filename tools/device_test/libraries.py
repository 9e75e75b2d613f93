"""The libraries of //third_party as a pack takes them to another machine.

`carried`   headers and static libraries of this machine travel in the pack
`torch`     PyTorch's LibTorch, which is there
`ucx`       built there from the pack's source, or an existing prefix
`machine`   a development package that must be there
"""
import dataclasses
import re
import subprocess

from device_test.error import Error


@dataclasses.dataclass(frozen=True)
class Library:
    origin: str
    headers: tuple = ()  # carried: files and folders below a folder of system headers
    needs: tuple = ()
    defines: tuple = None  # instead of those of //third_party
    libraries: tuple = None  # instead of those of //third_party; names as for -l
    probe: str = ""  # machine: a header
    package: str = ""  # machine: Debian's and Ubuntu's package with that header


LIBRARIES = {
    "absl": Library("carried", headers=("absl",)),
    "cli11": Library("carried", headers=("CLI",)),
    "gtest": Library("carried", headers=("gtest", "gmock")),
    "gtest_main": Library("carried", needs=("gtest",)),
    "hdf5": Library("machine", probe="hdf5/serial/hdf5.h", package="libhdf5-dev"),
    "nlohmann_json": Library("carried", headers=("nlohmann",)),
    # PyTorch's packages have headers of another protobuf, so its own must be found first.
    "protobuf": Library("carried", headers=("google/protobuf",)),
    # Debian has no static spdlog and fmt: their headers alone.
    "spdlog": Library("carried", headers=("spdlog", "fmt"), defines=("SPDLOG_FMT_EXTERNAL", "FMT_HEADER_ONLY"),
                      libraries=()),
    "torch": Library("torch"),
    "ucx": Library("ucx"),
    "xxhash": Library("carried", headers=("xxhash.h", "xxh3.h")),
    "zlib": Library("carried", headers=("zlib.h", "zconf.h")),
}


def with_needs(names):
    """`names` and what they need, those that need others first."""
    result = []
    for name in names:
        for one in [name, *LIBRARIES[name].needs]:
            if one not in result:
                result.append(one)
    return result


def header_folders(compiler):
    """The folders of system headers that `compiler` searches."""
    text = subprocess.run([compiler, "-xc++", "-E", "-v", "/dev/null"], capture_output=True, text=True, check=True).stderr
    listed = re.search(r"#include <\.\.\.> search starts here:\n(.*?)End of search list", text, re.DOTALL)
    return [line.strip() for line in listed.group(1).splitlines()]


def static_library(compiler, name):
    """The path of lib`name`.a."""
    path = subprocess.run([compiler, f"-print-file-name=lib{name}.a"], capture_output=True, text=True,
                          check=True).stdout.strip()
    if "/" not in path:
        raise Error(f"there is no lib{name}.a on this machine: tools/setup installs Debian's packages that have them")
    return path
