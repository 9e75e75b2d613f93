"""What the checks have in common that run the built programs by hand: tests/slurm, tests/kubernetes, tests/upgrade."""

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback

PROGRAMS = {"adjoin": "cli", "adjoin-coordinator": "coordinator", "adjoin-worker": "worker", "adjoin-rank": "worker"}


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def wait_until(condition, seconds, what):
    """Returns the first true value of `condition`. `what`, a text or what makes one, is told after the time."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what() if callable(what) else what}: not after {seconds} s")
        time.sleep(0.1)


def processes_with(text):
    """The command lines, by process, that contain the text."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                line = file.read().replace(b"\0", b" ").decode(errors="replace")
            if text in line and int(pid) != os.getpid():
                found[int(pid)] = line
    return found


def programs_in(folder):
    """The path of each program: `folder` is bazel-bin, or has the programs itself. Ends the process where one is missing."""
    found = {}
    for program, package in PROGRAMS.items():
        paths = [path for path in (f"{folder}/{package}/{program}", f"{folder}/{program}") if os.path.isfile(path)]
        if not paths:
            sys.exit(f"{sys.argv[0]}: {folder} has no program {program}: bazel build //{package}:{program}")
        found[program] = paths[0]
    return found


def copy_programs(source, target):
    """Copies the programs of `source`, as programs_in says, so that a build meanwhile does not replace them."""
    found = programs_in(source)
    os.makedirs(target)
    for program, path in found.items():
        shutil.copy(path, target)
        os.chmod(f"{target}/{program}", 0o755)


@contextlib.contextmanager
def temporary_folder(prefix):
    """A folder that goes with what is in it; where KEEP is in the environment, it stays when a check has failed."""
    folder = tempfile.mkdtemp(prefix=prefix, dir="/tmp")
    os.chmod(folder, 0o755)
    kept = []
    try:
        yield folder, kept
    finally:
        if kept and os.environ.get("KEEP"):
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def run_checks(checks, names, kept):
    """Calls the methods check_* of `checks`, or those whose name contains one of `names`. Prints each, and last
    "N passed, N failed"; returns the exit code. Appends to `kept` where one fails."""
    passed, failed = 0, 0
    for name in [name for name in dir(checks) if name.startswith("check_")]:
        if names and not any(wanted in name for wanted in names):
            continue
        began = time.monotonic()
        try:
            getattr(checks, name)()
            passed += 1
            print(f"PASSED {name[6:]} ({time.monotonic() - began:.0f} s)", flush=True)
        except Exception:  # the others are run all the same
            failed += 1
            kept.append(name)
            traceback.print_exc()
            print(f"FAILED {name[6:]} ({time.monotonic() - began:.0f} s)", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 0 if passed > 0 and failed == 0 else 1


def end_in_good_order_at_sigterm():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
