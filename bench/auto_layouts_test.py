#!/usr/bin/env python3
"""The numbers that auto_layouts.py derives from measurements."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import auto_layouts  # noqa: E402

assert auto_layouts.kendall_tau([1, 2, 3], [10, 20, 30]) == 1
assert auto_layouts.kendall_tau([1, 2, 3], [30, 20, 10]) == -1
assert auto_layouts.kendall_tau([1, 2, 3], [10, 30, 20]) == (2 - 1) / 3
assert auto_layouts.kendall_tau([1, 1], [10, 20]) is None
assert auto_layouts.kendall_tau([1], [10]) is None

report = auto_layouts.Report("net", 4)
report.predicted = {"auto": 0.9, "batch": 1.0, "dim 2": 2.0}
report.bytes = {"auto": 2**20, "batch": 2**21, "dim 2": 2**22}
# The machine is twice as slow in the second round; auto and batch swap places in the third.
report.measured.update({"auto": [1.0, 2.0, 1.2], "batch": [1.1, 2.2, 1.1], "dim 2": [1.5, 3.0, 1.5]})
assert report.best_other() == "batch"
assert abs(report.ratio("auto", "batch") - 1 / 1.1) < 1e-12
assert "auto takes 0.909 of the best other (batch), predicted 0.900: met" in report.verdict(), report.verdict()
assert list(report.rows())[0] == "| net | 4 | auto | 1200.00 | 900.00 | 0.75 | 1.0 |", list(report.rows())
report.measured["auto"] = [1.2, 2.4, 1.2]
assert "**missed**" in report.verdict()
report.impossible["dim 3"] = "too short"
assert list(report.rows())[-1] == "| net | 4 | dim 3 | | | | too short |"
assert "nothing to compare" in auto_layouts.Report("net", 2).verdict()
