"""Tests that start a coordinator and daemons."""

load("@rules_cc//cc:defs.bzl", "cc_test")

def cluster_test(name, srcs, deps = [], data = [], real_ranks = True, **kwargs):
    """A cc_test that may use tests/harness/local_cluster.h: the programs and the MNIST subset are among its runfiles.

    real_ranks: with adjoin-rank, and so LibTorch. Tests of the control plane alone name another program in
    LocalClusterOptions.rank_binary; the sanitizers then build no LibTorch code for them.
    """
    cc_test(
        name = name,
        srcs = srcs,
        data = data + [
            "//cli:adjoin",
            "//coordinator:adjoin-coordinator",
            "//examples/mnist:data",
            "//worker:adjoin-worker",
        ] + (["//worker:adjoin-rank"] if real_ranks else []),
        deps = deps + ["//tests/harness:local_cluster"],
        **kwargs
    )
