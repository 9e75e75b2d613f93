#!/usr/bin/env python3
"""The rows that planning_table.py makes of a report."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import planning_table  # noqa: E402

choices = [{"layout": "8x1x1x1"}] * 5 + [{"layout": "1x8x1x1"}] * 2 + [{"layout": "2x4"}] + [{"layout": "8x1"}]
assert planning_table.layouts_text(choices) == "8x1x1x1 (5), 1x8x1x1 (2), 2x4 (1), 1 others"
report = {"time": {"step_seconds": 0.25, "compute_seconds": 0.125}, "memory": {"bytes": str(3 << 29)},
          "search": {"lower_bound_seconds": 0.2, "chosen_seconds": 0.25, "choice": choices[:5]}}
assert planning_table.row("net", 8, report, 0.031) == \
    "| net | 8 | 250 ms | 125 ms | 1.5 GiB | 0.03 s | 25 % | 8x1x1x1 (5) |", planning_table.row("net", 8, report, 0.031)
report["search"]["lower_bound_seconds"] = 0.25
assert "| 0.03 s | 0 |" in planning_table.row("net", 8, report, 0.031)
assert planning_table.seconds_text(12.345) == "12.3 s"
assert 0 < planning_table.processor_seconds([sys.executable, "-c", "sum(range(10**6))"]) < 60
