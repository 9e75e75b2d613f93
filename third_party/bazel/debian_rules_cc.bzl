"""Debian's rules_cc 0.0.4, made to load under Bazel 4.2.3.

Two of its files load `use_cpp_toolchain`, a symbol that @bazel_tools of Bazel 4.2.3 does not have. The tree is
copied and the symbol replaced by what it would return.
"""

_SOURCE = "/usr/share/bazel/rules/cc"
_PATCHED = [
    "cc/private/rules_impl/cc_flags_supplier.bzl",
    "cc/private/rules_impl/compiler_flag.bzl",
]

def _debian_rules_cc_impl(repository_ctx):
    copied = repository_ctx.execute(["cp", "-rL", _SOURCE + "/.", "."])
    if copied.return_code != 0:
        fail("cannot copy %s (is the package bazel-rules-cc installed?): %s" % (_SOURCE, copied.stderr))
    for path in _PATCHED:
        text = repository_ctx.read(path)
        text = text.replace("\"find_cpp_toolchain\", \"use_cpp_toolchain\"", "\"find_cpp_toolchain\"")
        text = text.replace("use_cpp_toolchain()", "[\"@bazel_tools//tools/cpp:toolchain_type\"]")
        repository_ctx.file(path, text)

debian_rules_cc = repository_rule(
    implementation = _debian_rules_cc_impl,
    local = True,
)
