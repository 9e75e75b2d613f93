#!/usr/bin/python3
"""The alerts name what the coordinator serves, and docs/operations.md tells what to do about each."""
import os
import pathlib
import re
import shutil
import subprocess
import unittest

_ROOT = pathlib.Path(os.environ["TEST_SRCDIR"]) / os.environ["TEST_WORKSPACE"]
_ALERTS = _ROOT / "deploy/prometheus/adjoin-alerts.yml"
_CASES = _ROOT / "deploy/prometheus/adjoin-alerts-test.yml"


def alerts():
    return set(re.findall(r"alert: (\w+)", _ALERTS.read_text()))


class AlertsTest(unittest.TestCase):
    def test_each_metric_is_one_that_the_coordinator_serves(self):
        served = set(re.findall(r'"(adjoin_\w+)"', (_ROOT / "coordinator/services/metrics.cc").read_text()))
        for path in (_ALERTS, _CASES):
            named = set(re.findall(r"adjoin_\w+", path.read_text()))
            self.assertEqual({re.sub("_bucket$", "", name) for name in named} - served, set(), path.name)
        self.assertGreater(len(alerts()), 5)

    def test_each_alert_has_cases_and_a_row_of_the_manual(self):
        manual = (_ROOT / "docs/operations.md").read_text()
        for alert in alerts():
            self.assertIn(f"`{alert}`", manual)
            self.assertGreaterEqual(_CASES.read_text().count(alert), 2, f"{alert}: one where it fires, one where not")

    @unittest.skipUnless(shutil.which("promtool"), "promtool is not installed (Debian's package prometheus)")
    def test_promtool_finds_each_alert_right(self):
        for arguments in (["check", "rules", _ALERTS], ["test", "rules", _CASES]):
            ended = subprocess.run(["promtool", *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, timeout=60, check=False, cwd=_CASES.parent)
            self.assertEqual(ended.returncode, 0, ended.stdout)


if __name__ == "__main__":
    unittest.main()
