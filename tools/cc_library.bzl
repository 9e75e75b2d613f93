"""A cc_library whose sources are compiled several at a time.

Four fifths of the time that a source takes is its headers: protobuf's, gRPC's, LibTorch's. So the sources of a library are put
together, up to sixteen to a file, which reads each header once. Messages and debuggers name the sources themselves.

`--define=grouped=no` compiles each source alone, which shows that each includes what it needs. --config=clang does so, and with
it tools/fuzz.

Names in unnamed namespaces must differ within a library.
"""

load("@rules_cc//cc:defs.bzl", _cc_library = "cc_library")

_MOST_IN_A_GROUP = 16

# The text of the sources instead of an #include of each: what a source includes is an input of all that depends on its library.
_PUT_TOGETHER = '''
out=$1
shift
for source in "$@"; do
  printf '#line 1 "%s"\\n' "$source"
  cat "$source"
done > "$out"
'''

def _source_group_impl(ctx):
    ctx.actions.run_shell(
        outputs = [ctx.outputs.out],
        inputs = ctx.files.sources,
        command = _PUT_TOGETHER,
        arguments = [ctx.outputs.out.path] + [source.path for source in ctx.files.sources],
    )

_source_group = rule(
    implementation = _source_group_impl,
    attrs = {
        "out": attr.output(mandatory = True),
        "sources": attr.label_list(allow_files = [".cc"]),
    },
)

# g++ warns of types of unnamed namespaces in a file that is not the one it was given, and takes #line's word for that.
_COPTS = ["-Wno-subobject-linkage"]

def cc_library(name, srcs = [], copts = [], **attributes):
    """As @rules_cc's, with groups of those srcs that end with .cc."""
    sources = [file for file in srcs if file.endswith(".cc")]
    if len(sources) < 2:
        _cc_library(name = name, srcs = srcs, copts = copts, **attributes)
        return
    count = (len(sources) + _MOST_IN_A_GROUP - 1) // _MOST_IN_A_GROUP
    groups = []
    for i in range(count):
        group = "%s_sources_%d" % (name, i + 1)
        groups.append(group + ".cc")
        _source_group(
            name = group,
            out = group + ".cc",
            sources = sources[len(sources) * i // count:len(sources) * (i + 1) // count],
            testonly = attributes.get("testonly", False),
        )
    _cc_library(
        name = name,
        srcs = [file for file in srcs if not file.endswith(".cc")] + select({
            "//tools:sources_alone": sources,
            "//conditions:default": groups,
        }),
        copts = copts + select({
            "//tools:sources_alone": [],
            "//conditions:default": _COPTS,
        }),
        **attributes
    )
