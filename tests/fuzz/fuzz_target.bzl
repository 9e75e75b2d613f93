"""Fuzz targets, and the test that runs each on its corpus."""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_test")
load("//tools:cc_library.bzl", "cc_library")

def fuzz_target(name, srcs, deps, mutator = None, size = "small"):
    """LLVMFuzzerTestOneInput in `srcs`: NAME_corpus_test replays corpus/NAME; NAME_fuzz is for --config=fuzz (tools/fuzz).

    `mutator`: a source with LLVMFuzzerCustomMutator, which only the fuzzer calls.
    """
    cc_library(
        name = name,
        testonly = True,
        srcs = srcs,
        deps = deps,
        alwayslink = True,
    )
    cc_binary(
        name = name + "_fuzz",
        testonly = True,
        srcs = [mutator] if mutator else [],
        # libFuzzer brings main().
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = [":" + name] + (deps if mutator else []),
    )
    cc_test(
        name = name + "_corpus_test",
        size = size,
        args = ["tests/fuzz/corpus/" + name],
        data = native.glob(["corpus/" + name + "/**"]),
        deps = [
            ":" + name,
            ":replay_main",
        ],
    )
