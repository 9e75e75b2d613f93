"""Tests that start a coordinator and daemons."""

load("@rules_cc//cc:defs.bzl", "cc_test")

def cluster_test(name, srcs, deps = [], data = [], **kwargs):
    """A cc_test that may use tests/harness/local_cluster.h: the programs and the MNIST subset are among its runfiles."""
    cc_test(
        name = name,
        srcs = srcs,
        data = data + [
            "//cli:adjoin",
            "//coordinator:adjoin-coordinator",
            "//examples/mnist:data",
            "//worker:adjoin-rank",
            "//worker:adjoin-worker",
        ],
        deps = deps + ["//tests/harness:local_cluster"],
        **kwargs
    )
