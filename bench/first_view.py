#!/usr/bin/python3
"""How soon a browser shows the list of jobs, under load.

    bazel build //bench:control_plane && /usr/bin/python3 bench/first_view.py [ARGUMENTS OF control_plane]

Runs bench/control_plane, passes on what it prints, and, while it has its pages open, opens the page in headless Chromium
(Debian's package) again and again, each time with an empty cache: the time from the navigation until the first job stands
in the table. Browser, coordinator, simulated workers and simulated pages share the machine.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [f"{ROOT}/tests/page"]

from browser import Browser, BrowserError  # noqa: E402

OPENED = 15
# Milliseconds since the navigation.
SHOWN = """new Promise((done) => {
  const look = () => document.querySelector('tbody tr td a') === null ? requestAnimationFrame(look) : done(performance.now());
  look(); })"""


def shown_after(browser):
    while True:  # as often as the page that was there before is asked; the browser has its own limit of time
        try:
            return browser.evaluate(SHOWN)
        except BrowserError as error:
            if "navigat" not in str(error) and "context" not in str(error):
                raise


def main():
    program = f"{ROOT}/bazel-bin/bench/control_plane"
    if not os.path.exists(program):
        sys.exit(f"{sys.argv[0]}: there is no {program}: bazel build //bench:control_plane")
    times = []
    with Browser() as browser, \
            subprocess.Popen([program, "--seconds", "20", *sys.argv[1:]], stderr=subprocess.PIPE, text=True) as plane:
        # Nothing it says later may fill the pipe.
        found = re.compile(r"pages are open at (http://\S+)")
        address = None
        for line in plane.stderr:
            match = found.search(line)
            if match:
                address = match.group(1)
                break
            sys.stderr.write(line)
        rest = threading.Thread(target=lambda: [sys.stderr.write(line) for line in plane.stderr])
        rest.start()
        if address is not None:
            browser.show_as(1280, 900, False)
            for _ in range(OPENED):
                browser.clear_cache()
                browser.go_to(address)
                times.append(shown_after(browser))
                browser.open("about:blank")
        rest.join()
    if address is None or plane.returncode != 0:
        return 1
    print(f"\nin Chromium the first view is there after {statistics.median(times):.0f} ms (median of {len(times)}), "
          f"{max(times):.0f} ms at most; on the console: {json.dumps(browser.complaints)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
