#!/usr/bin/python3
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

_PROGRAM = pathlib.Path(__file__).resolve().parent / "count_tests.py"


def configured(label, tags=()):
    return {"id": {"targetConfigured": {"label": label}}, "configured": {"testSize": "SMALL", "tag": list(tags)}}


def built(label):
    return {"id": {"targetCompleted": {"label": label}}, "completed": {"success": True}}


class CountTestsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def ran(self, label, status, report=None, shard=1):
        result = {"status": status, "testActionOutput": []}
        if report is not None:
            path = self.folder / (label.strip("/").replace(":", "_") + f"{shard}.xml")
            path.write_text(report)
            result["testActionOutput"] = [{"name": "test.xml", "uri": path.as_uri()}]
        return {"id": {"testResult": {"label": label, "run": 1, "shard": shard, "attempt": 1}}, "testResult": result}

    def count(self, events, *arguments):
        path = self.folder / "events.json"
        path.write_text("".join(json.dumps(event) + "\n" for event in events))
        ended = subprocess.run([sys.executable, str(_PROGRAM), str(path), *arguments], stdout=subprocess.PIPE,
                               text=True, timeout=60, check=False)
        return ended.returncode, ended.stdout.splitlines()

    def test_cases_are_counted_and_a_crash_is_one_failed_case(self):
        report = ("<testsuites><testcase name='a'/><testcase name='b'><failure/></testcase>"
                  "<testcase name='c' status='notrun'/></testsuites>")
        events = [configured("//a:a"), built("//a:a"), self.ran("//a:a", "FAILED", report),
                  configured("//b:b"), built("//b:b"), self.ran("//b:b", "FAILED"),
                  configured("//c:c"), built("//c:c"), self.ran("//c:c", "PASSED")]
        self.assertEqual(self.count(events),
                         (1, ["failed: //a:a: b", "failed: //b:b: FAILED, and no case tells why",
                              "2 passed, 2 failed, 1 skipped"]))

    def test_where_no_case_was_run_that_is_a_failure(self):
        none, one = "<testsuites tests='0'/>", "<testsuites><testcase name='a'/></testsuites>"
        events = [configured("//a:a"), built("//a:a"), self.ran("//a:a", "PASSED", none),
                  configured("//b:b"), built("//b:b"), self.ran("//b:b", "PASSED", none, shard=1),
                  self.ran("//b:b", "PASSED", one, shard=2),
                  configured("//c:c"), built("//c:c"), self.ran("//c:c", "PASSED", "<testsuites"),
                  configured("//d:d"), built("//d:d"), self.ran("//d:d", "PASSED", none, shard=1),
                  self.ran("//d:d", "TIMEOUT", shard=2)]
        self.assertEqual(self.count(events),
                         (1, ["failed: //d:d: TIMEOUT, and no case tells why",
                              "failed: //a:a: none of its cases was run", "2 passed, 2 failed"]))

    def test_what_was_not_built_failed(self):
        events = [configured("//a:a"), configured("//b:slow", ["long"])]
        self.assertEqual(self.count(events), (1, ["failed: //a:a: it is not built", "0 passed, 1 failed"]))

    def test_a_run_that_was_cut_short_names_what_it_did_not_reach(self):
        events = [configured("//a:a"), built("//a:a"), self.ran("//a:a", "PASSED"),
                  configured("//b:b"), built("//b:b"), self.ran("//b:b", "INCOMPLETE"),
                  configured("//c:c"), built("//c:c"), configured("//d:d")]
        self.assertEqual(self.count(events, "--cut-short"),
                         (0, ["3 test programs were not reached in the time given, 1 were:", "  //b:b", "  //c:c",
                              "  //d:d", "1 passed, 0 failed"]))

    def test_a_test_that_was_stopped_before_it_began_was_not_reached(self):
        stopped = {"id": {"testResult": {"label": "//a:a", "run": 1, "shard": 1, "attempt": 1}},
                   "aborted": {"reason": "USER_INTERRUPTED"}}
        events = [configured("//a:a"), built("//a:a"), stopped]
        self.assertEqual(self.count(events, "--cut-short"),
                         (0, ["1 test programs were not reached in the time given, 0 were:", "  //a:a",
                              "0 passed, 0 failed"]))

    def test_what_does_not_compile_is_a_failure_also_before_a_cut(self):
        def ended(label, how):
            return {"id": {"targetCompleted": {"label": label}}, **how}

        events = [configured("//a:a"), ended("//a:a", {"completed": {"testSize": "SMALL"}}),
                  configured("//b:b"), ended("//b:b", {"aborted": {"reason": "USER_INTERRUPTED"}})]
        code, lines = self.count(events, "--cut-short")
        self.assertEqual((code, lines[1:]), (1, ["  //b:b", "failed: //a:a: it is not built", "0 passed, 1 failed"]))

    def test_a_failure_before_the_cut_is_a_failure(self):
        events = [configured("//a:a"), built("//a:a"), self.ran("//a:a", "TIMEOUT"), configured("//d:d")]
        code, lines = self.count(events, "--cut-short")
        self.assertEqual((code, lines[-1]), (1, "0 passed, 1 failed"))


if __name__ == "__main__":
    unittest.main()
