"""Writes a pack: all that `device-test run` needs on a machine with a GPU.

The pack is a folder with the sources, messages' code made by protoc, static libraries and headers of this machine, UCX's
source, and a description of what is compiled and linked, which is made from Bazel. --ucx-source takes a release of UCX as
its project publishes it (ucx-X.Y.Z.tar.gz from github.com/openucx/ucx/releases), or a folder of its repository after
./autogen.sh has been run there. With CUDA 13 take UCX 1.20 or newer.
"""
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import tarfile
import tempfile

from device_test import libraries
from device_test.error import Error
from device_test.libraries import LIBRARIES
from device_test.targets import Targets, path_of

_COMPILER = "g++"
_TOOLS = ("device-test", "count_tests.py", "device_test")  # of tools/, which a pack carries


def add_arguments(parser):
    parser.add_argument("folder", metavar="FOLDER", type=pathlib.Path, help="written anew")
    parser.add_argument("--ucx-source", metavar="FOLDER|TARBALL", type=pathlib.Path,
                        help="UCX, with its configure script; without it `run` needs --ucx-prefix")
    parser.add_argument("--ucx-built", metavar="ARCHIVE", type=pathlib.Path,
                        help="UCX as `run --save-ucx` wrote it on a machine of the same kind: `run` then builds none")


def read_programs(path):
    """[{label, environment, arguments}] of a list like programs.txt."""
    programs = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        words = shlex.split(line, comments=True)
        if not words:
            continue
        environment = {}
        while words and "=" in words[0] and not words[0].startswith("//"):
            name, _, value = words.pop(0).partition("=")
            environment[name] = value
        if not words or not words[0].startswith("//") or ":" not in words[0]:
            raise Error(f"{path}:{number}: expected [NAME=VALUE ...] //package:target [argument ...]")
        programs.append({"label": words[0], "environment": environment, "arguments": words[1:]})
    return programs


def describe(targets, programs):
    """What `run` compiles, links and runs."""
    objects, linked, used = {}, [], []
    for label, rule in targets.programs.items():
        names = targets.libraries(label)
        used += names
        outputs = []
        for owner, source in targets.compiled(label):
            output = f"{path_of(owner.label)}/{pathlib.PurePath(source).name}.o"
            outputs.append(output)
            if output not in objects:
                defines = targets.values(owner.label, "defines") + owner.get("local_defines")
                objects[output] = {"source": source, "flags": [f"-D{define}" for define in defines] + owner.get("copts"),
                                   "libraries": libraries.with_needs(targets.libraries(owner.label))}
        linked.append({"program": path_of(label), "objects": outputs, "libraries": libraries.with_needs(names),
                       "flags": targets.values(label, "linkopts"), "shared": "true" in rule.get("linkshared")})
    return {
        "libraries": {name: _describe_library(targets, name) for name in libraries.with_needs(dict.fromkeys(used))},
        "objects": objects,
        "programs": linked,
        "runs": [{"program": path_of(one["label"]), "is_test": targets.programs[one["label"]].kind == "cc_test",
                  "environment": one["environment"], "arguments": targets.programs[one["label"]].get("args") +
                  one["arguments"]} for one in programs],
    }


def _describe_library(targets, name):
    library, rule = LIBRARIES[name], targets.third_party(name)
    defines = rule.get("defines") if library.defines is None else library.defines
    flags = rule.get("linkopts") if library.libraries is None else [f"-l{one}" for one in library.libraries]
    return {"origin": library.origin, "defines": list(defines), "link": list(flags), "probe": library.probe,
            "package": library.package}


def _pack_files(archive, files):
    """Writes `files`, pairs of a path and a name in the archive."""
    with tarfile.open(archive, "w:xz", preset=6) as tar:
        for path, name in files:
            tar.add(path, name)


def _library_files(description):
    folders = libraries.header_folders(_COMPILER)
    for name, library in description["libraries"].items():
        if library["origin"] != "carried":
            continue
        for header in LIBRARIES[name].headers:
            folder = next((one for one in folders if os.path.exists(f"{one}/{header}")), None)
            if folder is None:
                raise Error(f"there is no <{header}> on this machine: tools/setup installs Debian's packages")
            yield f"{folder}/{header}", f"{name}/include/{header}"
        for flag in library["link"]:
            if flag.startswith("-l"):
                path = os.path.realpath(libraries.static_library(_COMPILER, flag[2:]))
                yield path, f"{name}/lib/lib{flag[2:]}.a"


def _pack_ucx(source, archive):
    with tempfile.TemporaryDirectory() as unpacked:
        if source.is_file():
            with tarfile.open(source) as tar:
                tar.extractall(unpacked)  # Keeps times: make would otherwise want automake there.
            folders = list(pathlib.Path(unpacked).iterdir())
            source = folders[0] if len(folders) == 1 else pathlib.Path(unpacked)
        if not (source / "configure").is_file():
            raise Error(f"{source} has no configure script: run ./autogen.sh there, or take a release's ucx-X.Y.Z.tar.gz")
        with tarfile.open(archive, "w:xz", preset=6) as tar:
            tar.add(source, "ucx", filter=lambda one: None if one.name in ("ucx/.git", "ucx/autom4te.cache") else one)


def _made_by_bazel(labels):
    """(path on this machine, path in the pack) of generated files, up to date."""
    if not labels:
        return []
    subprocess.run(["bazel", "build", "--noshow_progress", *sorted(labels)], check=True)
    folder = subprocess.run(["bazel", "info", "--noshow_progress", "bazel-bin"], check=True, capture_output=True,
                            text=True).stdout.strip()
    return [(f"{folder}/{path_of(label)}", path_of(label)) for label in sorted(labels)]


def _describe(programs):
    targets = Targets(list(dict.fromkeys(one["label"] for one in programs)))
    return targets, describe(targets, programs)


def check(here):
    """Says whether a pack could be made of what BUILD files and programs.txt name, within seconds and without building."""
    programs = read_programs(here / "device_test" / "programs.txt")
    os.chdir(here.parent)
    _, description = _describe(programs)
    print(f"device-test: a pack has {len(description['objects'])} files to compile, {len(description['programs'])} programs")
    return 0


def main(options, here):
    repository = here.parent
    if not (repository / "WORKSPACE").is_file():
        raise Error("`pack` is run from a checkout, as tools/device-test pack FOLDER")
    programs = read_programs(here / "device_test" / "programs.txt")
    folder = options.folder.resolve()
    if folder.exists() and any(folder.iterdir()) and not (folder / "pack.json").is_file():
        raise Error(f"{folder} is not empty and holds no pack: give another folder")
    for name in ("ucx_source", "ucx_built"):
        path = getattr(options, name)
        if path is not None and not path.exists():
            raise Error(f"--{name.replace('_', '-')}: there is no {path}")
        setattr(options, name, path and path.resolve())
    os.chdir(repository)
    targets, description = _describe(programs)
    description["commit"] = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True,
                                           text=True).stdout.strip()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as generated:
        if targets.messages:
            subprocess.run(["protoc", "-I.", f"--cpp_out={generated}", *sorted(targets.messages)], check=True)
        made = sorted(path for path in pathlib.Path(generated).rglob("*") if path.is_file())
        _pack_files(folder / "sources.tar.xz", [(path, path) for path in sorted(targets.sources)] +
                    [(path, path.relative_to(generated)) for path in made] + _made_by_bazel(targets.made))
    _pack_files(folder / "libraries.tar.xz", _library_files(description))
    if options.ucx_source is not None:
        _pack_ucx(options.ucx_source, folder / "ucx.tar.xz")
    if options.ucx_built is not None:
        shutil.copyfile(options.ucx_built, folder / "ucx-built.tar.gz")
    for name in _TOOLS:
        if (here / name).is_dir():
            shutil.copytree(here / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(here / name, folder / name)
    (folder / "pack.json").write_text(json.dumps(description, indent=1) + "\n", encoding="utf-8")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}: {len(description['objects'])} files to compile, {len(description['programs'])} programs, "
          f"{size / 2**20:.1f} MiB")
    return 0
