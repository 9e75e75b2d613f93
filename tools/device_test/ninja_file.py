"""Writes build.ninja for the programs of a pack.

    BUILD/adjoin/       the sources; each program at its package's path, where it finds its data and other programs
    BUILD/libraries/    NAME/include and NAME/lib of each carried library
    BUILD/objects/
"""
import glob
import os
import shlex

# Abseil 20220623 leaves <cstdint> to other headers, which in g++ 13 no longer include it.
_RULES = """\
rule compile
  command = {compiler} -std=c++17 -O2 -fPIC -include cstdint -MMD -MF $out.d $flags -c $in -o $out
  depfile = $out.d
  deps = gcc
  description = $in
rule link
  command = {compiler} $kind -o $out @$out.objects $flags
  rspfile = $out.objects
  rspfile_content = $in
  description = $out
"""

# PyTorch's packages have a protobuf of their own within them: no symbol of ours may replace one of theirs.
_HIDDEN = "{ local: *google*protobuf*; *4absl*; };\n"


def _quote(text):
    return text.replace("$", "$$").replace(" ", "$ ").replace(":", "$:")


def _command(words):
    return shlex.join(words).replace("$", "$$")


class _Flags:
    def __init__(self, build, libraries, torch, ucx):
        self._build, self._libraries = build, libraries
        self._prefixes = {"torch": torch, "ucx": ucx}

    def compile(self, names):
        """Carried headers first: PyTorch's folder of headers has other versions of some."""
        flags, later = ["-I" + str(self._build / "adjoin")], []
        for name in names:
            library = self._libraries[name]
            flags += [f"-D{define}" for define in library["defines"]]
            if library["origin"] == "carried":
                flags += ["-isystem", str(self._build / "libraries" / name / "include")]
            elif library["origin"] in self._prefixes:
                for folder in self._prefixes[library["origin"]].include:
                    later += ["-isystem", folder]
        return flags + later

    def link(self, names):
        static, shared, paths = [], [], []
        for name in names:
            library = self._libraries[name]
            prefix = self._prefixes.get(library["origin"])
            if name == "protobuf" and "torch" in names and self._prefixes["torch"].protobuf:
                shared += [f"-l:{self._prefixes['torch'].protobuf}"]
            elif library["origin"] == "carried":
                folder = self._build / "libraries" / name / "lib"
                static += [str(folder / f"lib{flag[2:]}.a") if flag.startswith("-l") else flag for flag in library["link"]]
            elif prefix is None:
                shared += library["link"]
            else:
                shared += [f"-L{prefix.lib}", *library["link"]]
                paths += [f"-Wl,-rpath,{prefix.lib}"]
                if library["origin"] == "torch":
                    shared += [f"-l{one}" for one in ("torch_cuda", "c10_cuda")
                               if os.path.exists(f"{prefix.lib}/lib{one}.so")]
        # Nothing names a symbol of libtorch_cuda: it registers its kernels when it is loaded. A shared library finds
        # its own dependencies when the program starts.
        # The C++ library comes first: PyTorch's libraries have some of std::filesystem within them, of another version.
        return (["-Wl,--start-group", *static, "-Wl,--end-group", "-Wl,--no-as-needed", "-lstdc++", *shared] + paths +
                ["-Wl,--disable-new-dtags", "-Wl,--allow-shlib-undefined",
                 f"-Wl,--version-script={self._build / 'hidden.map'}", "-ldl", "-pthread"])


def write(build, description, programs, compiler, torch, ucx):
    flags = _Flags(build, description["libraries"], torch, ucx)
    (build / "hidden.map").write_text(_HIDDEN)
    lines = [_RULES.format(compiler=compiler)]
    for output in dict.fromkeys(output for one in programs for output in one["objects"]):
        one = description["objects"][output]
        lines += [f"build objects/{_quote(output)}: compile adjoin/{_quote(one['source'])}",
                  "  flags = " + _command(flags.compile(one["libraries"]) + one["flags"])]
    for one in programs:
        objects = " ".join(f"objects/{_quote(output)}" for output in one["objects"])
        archives = " ".join(_quote(path) for name in one["libraries"]
                            for path in sorted(glob.glob(f"{build}/libraries/{name}/lib/*.a")))
        lines += [f"build adjoin/{_quote(one['program'])}: link {objects} | {archives}",
                  "  kind = " + ("-shared" if one["shared"] else "-pie"),
                  "  flags = " + _command(flags.link(one["libraries"]) + one["flags"])]
    path = build / "build.ninja"
    text = "\n".join(lines) + "\n"
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)
