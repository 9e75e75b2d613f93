"""Tests that are written for the host's memory, once more in a device's."""

load("@rules_cc//cc:defs.bzl", "cc_test")

def cc_test_on_devices(name, **attributes):
    """A cc_test, and the same as NAME_on_device: staged copies are what most of the waits are for."""
    cc_test(name = name, **attributes)
    cc_test(name = name + "_on_device", env = {"ADJOIN_TEST_TRANSPORT": "DeviceStaged"}, **attributes)
