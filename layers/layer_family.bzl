"""The targets of a family of layers: one folder, whose files' names tell what they are."""

load("@rules_cc//cc:defs.bzl", "cc_test")
load("//tools:cc_library.bzl", "cc_library")

_RULE_DEPS = [
    "//base:status_macros",
    "//layers/rules",
    "//primitives/geometry",
    "//proto:job",
    "//proto:plan",
    "//third_party:absl",
]

_LAYER_DEPS = _RULE_DEPS + [
    ":rules",
    "//layers:layer",
    "//layers:placed_random",
    "//primitives:operators",
    "//primitives:status_exception",
    "//primitives:to_device",
    "//primitives:torch_dtype",
    "//primitives/random:philox",
    "//third_party:torch",
]

_RULE_TEST_DEPS = _RULE_DEPS + [
    ":rules",
    "//base/testing:test_seed",
    "//layers/builtin:builtin_rules",
    "//layers/builtin:rule_fixture",
    "//planner/plan",
    "//planner/spec",
    "//planner/spec:spec_fixtures",
    "//third_party:gtest_main",
    "//third_party:protobuf",
]

_LAYER_TEST_DEPS = _LAYER_DEPS + [
    ":layers",
    "//base/testing:test_seed",
    "//layers/builtin:builtin_layers",
    "//layers/builtin:builtin_rules",
    "//layers/network",
    "//planner/plan",
    "//planner/spec",
    "//primitives/comm:communicator",
    "//primitives/transport",
    "//primitives/transport:transport_ranks",
    "//tests/vs_serial",
    "//third_party:gtest_main",
    "//third_party:protobuf",
]

def layer_family(rule_sources = [], separate = [], rule_deps = [], layer_deps = [], serial_deps = [], test_deps = [], tests = {}):
    """Libraries `rules`, `layers` and `serial`, and a test of each *_test.cc.

    *_rule.{h,cc}, *_roles.h and `rule_sources` (names without ending) are rules; serial_*.{h,cc} are serial functions; other sources are
    layers. Tests named *_rule_test.cc or *_rules_test.cc link no LibTorch.

    separate: names of sources that have targets of their own in the BUILD file.
    tests: attributes of single tests by name, such as {"attention_test": {"shard_count": 2}}; None: no test is made of the file.
    """
    own = [name + ending for name in separate for ending in [".cc", ".h"]]
    rules = native.glob(["*_rule.cc", "*_rule.h", "*_roles.h"]) + native.glob([name + ending for name in rule_sources for ending in [".cc", ".h"]])
    serial = native.glob(["serial_*.cc", "serial_*.h"])
    layers = native.glob(["*.cc", "*.h"], exclude = rules + serial + own + ["*_test.cc"])
    cc_library(
        name = "rules",
        srcs = [file for file in rules if file.endswith(".cc")],
        hdrs = [file for file in rules if file.endswith(".h")],
        deps = _RULE_DEPS + rule_deps,
    )
    cc_library(
        name = "layers",
        srcs = [file for file in layers if file.endswith(".cc")],
        hdrs = [file for file in layers if file.endswith(".h")],
        deps = _LAYER_DEPS + layer_deps,
    )
    cc_library(
        name = "serial",
        srcs = [file for file in serial if file.endswith(".cc")],
        hdrs = [file for file in serial if file.endswith(".h")],
        deps = [
            "//layers:serial_functions",
            "//primitives:operators",
            "//primitives/random:philox",
            "//proto:job",
            "//third_party:torch",
        ] + serial_deps,
    )
    native.filegroup(
        name = "test_sources",
        srcs = native.glob(["*_test.cc"]),
    )
    for file in native.glob(["*_test.cc"], exclude = own):
        name = file[:-len(".cc")]
        attributes = tests.get(name, {})
        if attributes == None:
            continue
        is_rule_test = name.endswith("_rule_test") or name.endswith("_rules_test") or name in [source + "_test" for source in rule_sources]
        cc_test(
            name = name,
            size = "small" if is_rule_test else "medium",
            srcs = [file],
            deps = (_RULE_TEST_DEPS if is_rule_test else _LAYER_TEST_DEPS) + test_deps,
            **attributes
        )
