"""Tests of clusters in which something goes wrong."""

load("//tests/harness:cluster_test.bzl", "cluster_test")

def fault_test(name, srcs = None, size = "medium", deps = [], data = [], fake_ranks = True, real_ranks = None, **kwargs):
    """A cluster_test, of NAME.cc where `srcs` names no source.

    fake_ranks: jobs are those of tests/fault/fake_jobs.h, whose ranks do what the job's name demands. Without them jobs are
        those of examples/mnist.
    real_ranks: also adjoin-rank, and so LibTorch. By default only where there are no fake ranks.
    """
    cluster_test(
        name = name,
        srcs = srcs or [name + ".cc"],
        size = size,
        real_ranks = not fake_ranks if real_ranks == None else real_ranks,
        data = data + (["//worker/testing:fake-rank"] if fake_ranks else ["//examples/mnist:jobs"]),
        deps = deps + (["//tests/fault:fake_jobs"] if fake_ranks else []) + [
            "//base:deadline",
            "//proto:coordinator",
            "//third_party:absl",
            "//third_party:gtest_main",
        ],
        **kwargs
    )
