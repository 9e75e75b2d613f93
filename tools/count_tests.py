"""Prints "N passed, N failed[, N skipped]" for the tests of one `bazel test`.

    count_tests.py EVENTS    EVENTS: the file that --build_event_json_file wrote

Counts test cases, as the tests' XML reports name them. A test that failed without saying in which case (it crashed, ran
too long, did not build) counts as one failed case.
"""
import json
import sys
import urllib.parse
import urllib.request
import xml.etree.ElementTree

_NOT_RUN_BY_DEFAULT = {"long", "manual"}  # As .bazelrc's --test_tag_filters.


def read_events(path):
    """(last attempt's result of each run of each test, labels of tests that were not built)"""
    results, unbuilt = {}, {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            event = json.loads(line)
            (kind, name), = event["id"].items() if len(event["id"]) == 1 else [("", {})]
            if kind == "targetConfigured" and "testSize" in event.get("configured", {}):
                if not _NOT_RUN_BY_DEFAULT & set(event["configured"].get("tag", [])):
                    unbuilt[name["label"]] = True
            elif kind == "targetCompleted" and event.get("completed", {}).get("success"):
                unbuilt.pop(name["label"], None)
            elif kind == "testResult":
                key = (name["label"], name.get("run", 1), name.get("shard", 1))
                if name.get("attempt", 1) >= results.get(key, (0, None))[0]:
                    results[key] = (name.get("attempt", 1), event["testResult"])
    return [result for _, result in results.values()], list(unbuilt)


def cases_of(report):
    """Passed, failed and skipped cases of an XML report; none if there is no such file or it is cut off."""
    passed = failed = skipped = 0
    try:
        root = xml.etree.ElementTree.parse(report).getroot()
    except (OSError, xml.etree.ElementTree.ParseError):
        return 0, 0, 0
    for case in root.iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def cases(result):
    """Passed, failed and skipped cases that the XML reports of one test name."""
    reports = [urllib.request.url2pathname(urllib.parse.urlparse(output["uri"]).path)
               for output in result.get("testActionOutput", []) if output["name"] == "test.xml"]
    return [sum(counts) for counts in zip((0, 0, 0), *map(cases_of, reports))]


def main():
    results, unbuilt = read_events(sys.argv[1])
    passed, failed, skipped = 0, len(unbuilt), 0
    for result in results:
        case_counts = cases(result)
        passed += case_counts[0]
        failed += case_counts[1]
        skipped += case_counts[2]
        if result["status"] in ("PASSED", "FLAKY"):
            passed += 1 if sum(case_counts) == 0 else 0
        elif case_counts[1] == 0:
            failed += 1
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))


if __name__ == "__main__":
    main()
