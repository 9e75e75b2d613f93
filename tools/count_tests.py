"""Prints "N passed, N failed[, N skipped]" for the tests of one `bazel test`.

    count_tests.py EVENTS               EVENTS: the file that --build_event_json_file wrote
    count_tests.py EVENTS --cut-short   a run that was ended early: what it did not reach is named, and no failure

Counts test cases, as the tests' XML reports name them. A test that failed without saying in which case (it crashed, ran
too long, did not build) counts as one failed case, and so does one of which no case was run: its filter names none.
Names what failed, on lines that begin with "failed: ". Exits with 1 where any failed.
"""
import itertools
import json
import sys
import urllib.parse
import urllib.request
import xml.etree.ElementTree

_NOT_RUN_BY_DEFAULT = {"long", "manual"}  # As .bazelrc's --test_tag_filters.


def read_events(path):
    """(label and last attempt's result of each run of each test, tests that were not built, those of them whose build
    failed, tests built but not run)"""
    results, unbuilt, broken, built = {}, {}, set(), set()
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            event = json.loads(line)
            (kind, name), = event["id"].items() if len(event["id"]) == 1 else [("", {})]
            if kind == "targetConfigured" and "testSize" in event.get("configured", {}):
                if not _NOT_RUN_BY_DEFAULT & set(event["configured"].get("tag", [])):
                    unbuilt[name["label"]] = True
            elif kind == "targetCompleted" and event.get("completed", {}).get("success"):
                if unbuilt.pop(name["label"], None):
                    built.add(name["label"])
            elif kind == "targetCompleted" and "completed" in event:
                broken.add(name["label"])
            elif kind == "testResult" and "testResult" in event:  # Without it, the test was stopped before it began.
                key = (name["label"], name.get("run", 1), name.get("shard", 1))
                if name.get("attempt", 1) >= results.get(key, (0, None))[0]:
                    results[key] = (name.get("attempt", 1), event["testResult"])
    with_result = {label for label, _, _ in results}
    last = [(key[0], result) for key, (_, result) in results.items()]
    return last, set(unbuilt), broken & set(unbuilt), built - with_result


def read_report(path):
    """The root of an XML report; None if there is no such file or it is cut off."""
    try:
        return xml.etree.ElementTree.parse(path).getroot()
    except (OSError, xml.etree.ElementTree.ParseError):
        return None


def count_cases(roots, failed_names):
    """Passed, failed and skipped cases of reports. The names of those that failed are added to `failed_names`."""
    passed = failed = skipped = 0
    for case in itertools.chain.from_iterable(root.iter("testcase") for root in roots):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
            failed_names.append(".".join(filter(None, (case.get("classname"), case.get("name")))))
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def cases_of(report):
    """Passed, failed and skipped cases of an XML report; none if it cannot be read."""
    root = read_report(report)
    return count_cases([] if root is None else [root], [])


def reports_of(result):
    """The roots of the XML reports of one test, of those that can be read."""
    paths = [urllib.request.url2pathname(urllib.parse.urlparse(output["uri"]).path)
             for output in result.get("testActionOutput", []) if output["name"] == "test.xml"]
    return [root for root in map(read_report, paths) if root is not None]


def main():
    cut_short = "--cut-short" in sys.argv[2:]
    results, unbuilt, broken, not_run = read_events(sys.argv[1])
    failures = [f"{label}: it is not built" for label in sorted(broken if cut_short else unbuilt)]
    passed, failed, skipped = 0, len(failures), 0
    cases_by_label = {}  # Of tests with a report; of all their shards together.
    not_passed = set()
    not_reached, reached = [*(unbuilt - broken), *not_run] if cut_short else [], 0
    for label, result in results:
        if cut_short and result["status"] not in ("PASSED", "FLAKY", "FAILED", "TIMEOUT"):
            not_reached.append(label)  # It was stopped while it ran.
            not_passed.add(label)
            continue
        reached += 1
        failed_names = []
        reports = reports_of(result)
        case_counts = count_cases(reports, failed_names)
        failures += [f"{label}: {name}" for name in failed_names]
        passed += case_counts[0]
        failed += case_counts[1]
        skipped += case_counts[2]
        if reports:
            cases_by_label[label] = cases_by_label.get(label, 0) + sum(case_counts)
        if result["status"] in ("PASSED", "FLAKY"):
            passed += 0 if reports else 1
            continue
        not_passed.add(label)
        if case_counts[1] == 0:
            failed += 1
            failures.append(f"{label}: {result['status']}, and no case tells why")
    without_cases = sorted(label for label, count in cases_by_label.items() if count == 0 and label not in not_passed)
    failed += len(without_cases)
    failures += [f"{label}: none of its cases was run" for label in without_cases]
    if not_reached:
        print(f"{len(not_reached)} test programs were not reached in the time given, {reached} were:")
        print("\n".join(f"  {label}" for label in sorted(not_reached)))
    for failure in failures:
        print(f"failed: {failure}")
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
