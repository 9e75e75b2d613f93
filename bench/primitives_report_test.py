#!/usr/bin/python3
import unittest

from primitives_report import Report


def report_of(*lines):
    report = Report()
    for line in lines:
        report.add(line)
    return report


class ReportTest(unittest.TestCase):
    def test_a_row_compares_with_the_better_of_the_others(self):
        report = report_of("adjoin,broadcast,4,1024,13.00,12", "openmpi,broadcast,4,1024,10.0,9",
                           "gloo,broadcast,4,1024,500,400")
        self.assertIn("| broadcast | 4 | 1 KiB | 13.0 | 10.0 | 500 | 1.30 | met |", report.table())

    def test_above_eight_kib_equal_is_not_enough(self):
        report = report_of("adjoin,halo,2,65536,10,9", "openmpi,halo,2,65536,10,9")
        self.assertIn("| halo | 2 | 64 KiB | 10.0 | 10.0 | missing | 1.00 | **missed** |", report.table())
        self.assertIn("above 8 KiB faster than the better of the two: **missed**, met by 0 of 1", report.verdicts())

    def test_what_others_lack_is_missing_and_decides_nothing(self):
        report = report_of("adjoin,reduce_scatter,2,1048576,60.5,60", "gloo,reduce_scatter,2,1048576,missing,missing")
        self.assertIn("| reduce_scatter | 2 | 1 MiB | 60.5 | missing | missing |  |  |", report.table())
        self.assertEqual("", report.verdicts())

    def test_repeated_runs_count_by_their_median(self):
        report = report_of(*(f"adjoin,halo,2,1024,{time},1" for time in (9, 1, 2)), "openmpi,halo,2,1024,4,4")
        self.assertEqual(0.5, report.ratio(("halo", 2, 1024)))

    def test_large_sums_are_to_be_twice_as_fast(self):
        report = report_of("adjoin,all_sum_reduce,4,67108864,39000,1", "openmpi,all_sum_reduce,4,67108864,78000,1",
                           "adjoin,broadcast,4,67108864,40000,1", "openmpi,broadcast,4,67108864,78000,1")
        self.assertIn("all_sum_reduce of 64 MiB on 4 ranks at least twice as fast: met, 2.00 times", report.verdicts())
        self.assertIn("broadcast of 64 MiB on 4 ranks at least twice as fast: **missed**, 1.95", report.verdicts())

    def test_halos_have_their_own_goals(self):
        report = report_of("adjoin,image_halo,2,16384,70,1", "ucx,image_edges,2,16384,1.00,1",
                           "ucx,image_halo,2,16384,80,1", "adjoin,image_refresh,2,16384,1.50,1",
                           "adjoin,work_halo,4,8192,461,1", "openmpi,work_halo,4,8192,100,1")
        self.assertIn("image_halo, 70.0 us, no slower than packed by hand over bare UCX, 80.0 us: met (0.88 times)",
                      report.verdicts())
        self.assertIn("image_refresh, 1.50 us, no slower than packed by hand over bare UCX, 1.00 us: **missed** (1.50",
                      report.verdicts())
        self.assertIn("the ideal of 400 us: **missed** (1.153 times)", report.verdicts())
        self.assertIn("| work_halo | 4 | 8 KiB | 461 | 100 | missing | 4.61 |  |", report.table())

    def test_other_lines_are_refused(self):
        with self.assertRaisesRegex(ValueError, "not a line of .*'Segmentation fault'"):
            report_of("Segmentation fault")


if __name__ == "__main__":
    unittest.main()
