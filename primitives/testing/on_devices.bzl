"""Tests that are written for the host's memory, once more in a device's."""

# (end of the test's name, environment). Staged copies are what most of the waits are for.
ON_DEVICES = [
    ("", {}),
    ("_on_device", {"ADJOIN_TEST_TRANSPORT": "DeviceStaged"}),
]
