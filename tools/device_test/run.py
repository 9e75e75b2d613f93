"""Builds the programs of a pack on a machine with a GPU, and runs them.

Needs g++, ninja, make, CUDA's toolkit, and PyTorch in `python3` (or LibTorch in --libtorch); nothing is downloaded. UCX
with CUDA is built once into --ucx-prefix. A prefix that has UCX is used as it is: keep the one that was built, it may
lie in another folder or on another machine of the same kind. Prints a line for each program, and what failing
programs printed is in BUILD/logs. Ends with `N passed, N failed[, N skipped]`, which counts test cases. The exit code is
0 if all passed.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import tarfile
import tempfile
import time

import count_tests
from device_test import machine, ninja_file
from device_test.error import Error

_LAST_LINES = 30  # of a failing build step


def add_arguments(parser):
    parser.add_argument("folder", metavar="FOLDER", nargs="?", type=pathlib.Path,
                        help="the pack; by default the one that has this command")
    parser.add_argument("--build", metavar="BUILD", type=pathlib.Path, default=pathlib.Path("device-test-build"),
                        help="folder for all that is made; kept, so that a second run compiles only what changed "
                             "(default: %(default)s)")
    parser.add_argument("--logs", type=pathlib.Path, help="folder for logs (default: BUILD/logs)")
    parser.add_argument("--ucx-prefix", metavar="PREFIX", type=pathlib.Path, default=os.environ.get("ADJOIN_UCX"),
                        help="where UCX is, or is installed to (default: $ADJOIN_UCX, else BUILD/ucx)")
    parser.add_argument("--save-ucx", metavar="ARCHIVE", type=pathlib.Path,
                        help="writes that prefix as ARCHIVE (.tar.gz), which `pack --ucx-built` takes")
    parser.add_argument("--libtorch", metavar="PREFIX", default=os.environ.get("ADJOIN_LIBTORCH"),
                        help="LibTorch, instead of PyTorch's package (default: $ADJOIN_LIBTORCH)")
    parser.add_argument("--python", default="python3", help="that has PyTorch (default: %(default)s)")
    parser.add_argument("--cuda", metavar="FOLDER", help="CUDA's toolkit (default: $CUDA_HOME, else nvcc's)")
    parser.add_argument("--compiler", default=os.environ.get("CXX", "g++"), help="(default: $CXX, else g++)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="compilers at a time (default: %(default)s)")
    parser.add_argument("--at-a-time", metavar="N", type=int, default=max(1, os.cpu_count() // 4),
                        help="programs that run at a time (default: %(default)s)")
    parser.add_argument("--timeout", metavar="SECONDS", type=float, default=300, help="of a program (default: %(default)g)")
    parser.add_argument("--only", metavar="REGEX", help="builds and runs only programs whose path has it, as in adjoint|conv")
    parser.add_argument("--stop-after", choices=["ucx", "build"], help="builds UCX, or all, and runs nothing")


def _unpack(archive, folder):
    """Makes `folder` have the files of `archive`; keeps the time of a file that is the same, so that ninja does too."""
    listing = folder.with_name(folder.name + ".files")
    before = set(listing.read_text().splitlines()) if listing.is_file() else set()
    names = set()
    with tarfile.open(archive) as tar:
        for member in tar:
            if not member.isfile():
                continue
            names.add(member.name)
            path, content = folder / member.name, tar.extractfile(member).read()
            if path.is_file() and path.read_bytes() == content:
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            path.chmod(member.mode)
    for name in before - names:
        (folder / name).unlink(missing_ok=True)
    listing.write_text("".join(f"{name}\n" for name in sorted(names)))


def _step(name, command, log, cwd, environment=None):
    """Runs a step of a build; its output goes to `log`."""
    start = time.monotonic()
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "w", encoding="utf-8") as output:
        output.write(f"$ {shlex.join(map(str, command))}\n")
        output.flush()
        status = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, cwd=cwd,
                                env=os.environ | (environment or {})).returncode
    if status != 0:
        last = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:])
        raise Error(f"{name} failed with exit code {status}; {log} ends with\n{last}")
    print(f"{name}: {time.monotonic() - start:.0f} s", flush=True)


def _ucx(options, pack):
    prefix = options.ucx_prefix.resolve()
    found = machine.find_ucx(prefix)
    if found is None and (pack / "ucx-built.tar.gz").is_file():
        prefix.mkdir(parents=True, exist_ok=True)
        with tarfile.open(pack / "ucx-built.tar.gz") as tar:
            tar.extractall(prefix)
        found = machine.find_ucx(prefix)
    if found is None:
        source = pack / "ucx.tar.xz"
        if not source.is_file():
            raise Error(f"no UCX in {prefix} (no lib/libucp.so or include/ucp/api/ucp.h), and the pack has no source of it: "
                        "give --ucx-prefix, or pack with --ucx-source")
        cuda = machine.find_cuda(options.cuda)
        machine.require("make", "make")
        with tempfile.TemporaryDirectory(dir=options.build) as made:
            with tarfile.open(source) as tar:
                tar.extractall(made)  # Keeps times: make would otherwise want automake.
            folder = pathlib.Path(made) / "ucx"
            build = folder / "build"
            build.mkdir()
            # No device code is wanted: with an nvcc, configure would compile kernels for all kinds of GPU.
            _step("configure UCX", [folder / "contrib/configure-release", f"--prefix={prefix}", f"--with-cuda={cuda}",
                                    "--disable-static", "--disable-doxygen-doc", "--without-go", "--without-java",
                                    "--without-rocm", "--without-ze", "--without-gdrcopy",
                                    # One node only; and GPU-initiated InfiniBand has sources in a repository of its own.
                                    "--without-verbs", "--without-mlx5", "--without-rdmacm"],
                  options.logs / "ucx-configure.log", build, {"ac_cv_path_NVCC": ""})
            _step("build UCX", ["make", f"-j{options.jobs}", "install-strip"], options.logs / "ucx-make.log", build)
        found = machine.find_ucx(prefix)
        if found is None:
            raise Error(f"UCX was built, but {prefix} has no lib/libucp.so: see {options.logs / 'ucx-make.log'}")
    print(machine.ucx_text(prefix, found), flush=True)
    if options.save_ucx is not None:
        options.save_ucx.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(options.save_ucx, "w:gz") as tar:
            tar.add(prefix, ".")
    return found


def _compile(ninja, options, programs):
    """Compiles and links; returns the programs that could not be made, which does not keep the others from running."""
    log, start = options.logs / "build.log", time.monotonic()
    command = [ninja, "-C", str(options.build), f"-j{options.jobs}", "-k0"]
    with open(log, "w", encoding="utf-8") as output:
        status = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT).returncode
    print(f"compile and link: {time.monotonic() - start:.0f} s", flush=True)
    if status == 0:
        return []
    print(f"ninja failed with exit code {status}; {log} has", flush=True)
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    print("\n".join([line for line in lines if "error" in line.lower() or line.startswith("FAILED")][:_LAST_LINES]), flush=True)
    return [one["program"] for one in programs if "no work to do" not in subprocess.run(
        [ninja, "-C", str(options.build), "-n", f"adjoin/{one['program']}"], capture_output=True, text=True).stdout]


def _ends_within(pid, seconds):
    """Waits for the end of a child, which stays to be reaped: until then its process group is no other's."""
    deadline = time.monotonic() + seconds
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _run_one(run, options, environment):
    """(status, seconds, path of the log, path of the XML report)"""
    name = run["program"].replace("/", "-") + (f"-{run['number']}" if run["number"] else "")
    log, report = options.logs / f"{name}.log", options.build / "reports" / f"{name}.xml"
    report.unlink(missing_ok=True)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch, open(log, "wb") as output:
        process = subprocess.Popen(
            [options.build / "adjoin" / run["program"], *run["arguments"]], stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, cwd=options.build / "adjoin", start_new_session=True,
            env=environment | {"TEST_TMPDIR": scratch, "GTEST_OUTPUT": f"xml:{report}"} | run["environment"])
        ended = _ends_within(process.pid, options.timeout)
        os.killpg(process.pid, signal.SIGKILL)  # It, or what it left running.
        status = process.wait()
        if not ended:
            status = f"no end within {options.timeout:g} s"
    return status, time.monotonic() - start, log, report


def _report(run, result):
    """Prints the program's line; returns its passed, failed and skipped cases."""
    status, seconds, log, report = result
    passed, failed, skipped = count_tests.cases_of(report) if run["is_test"] else (0, 0, 0)
    if status == 0 and not passed + failed + skipped:
        passed = 1
    elif status != 0 and not failed:
        failed = 1
    text = f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else "")
    if status not in (0, 1):
        text += f"; {signal.Signals(-status).name if isinstance(status, int) and status < 0 else status}"
    print(f"{'FAILED' if failed else 'passed'}  {run['program']:45} {seconds:6.1f} s  {text}"
          f"{f'; see {log}' if failed else ''}", flush=True)
    if not failed and not run["is_test"]:
        print(log.read_text(encoding="utf-8", errors="replace"), end="", flush=True)
    return passed, failed, skipped


def _select(description, regex):
    """Leaves only what the matching runs need."""
    runs = [run for run in description["runs"] if re.search(regex or "", run["program"])]
    if not runs:
        raise Error(f"no program matches {regex}: there are {', '.join(run['program'] for run in description['runs'])}")
    for index, run in enumerate(runs):
        run["number"] = sum(other["program"] == run["program"] for other in runs[:index])
    listed = {run["program"] for run in description["runs"]}
    wanted = {run["program"] for run in runs}
    # Programs that are not listed are data of others.
    programs = [one for one in description["programs"] if one["program"] in wanted or one["program"] not in listed]
    return runs, programs


def main(options, here):
    pack = (options.folder or here).resolve()
    if not (pack / "pack.json").is_file():
        raise Error(f"{pack} is not a pack (no pack.json): tools/device-test pack makes one")
    description = json.loads((pack / "pack.json").read_text(encoding="utf-8"))
    options.build = options.build.resolve()
    options.logs = (options.logs or options.build / "logs").resolve()
    options.ucx_prefix = pathlib.Path(options.ucx_prefix or options.build / "ucx")
    for folder in (options.logs, options.build / "reports"):
        folder.mkdir(parents=True, exist_ok=True)
    runs, programs = _select(description, options.only)
    machine.require(options.compiler, "g++")
    ninja = machine.require("ninja", "ninja-build")
    machine.require_headers(options.compiler, description["libraries"])
    torch, text = machine.find_torch(options.libtorch, options.python)
    print(f"sources of {description['commit']}\n{text}", flush=True)
    ucx = _ucx(options, pack)
    if options.stop_after == "ucx":
        return 0
    _unpack(pack / "sources.tar.xz", options.build / "adjoin")
    _unpack(pack / "libraries.tar.xz", options.build / "libraries")
    ninja_file.write(options.build, description, programs, options.compiler, torch, ucx)
    unbuilt = _compile(ninja, options, programs)
    if options.stop_after == "build":
        return 1 if unbuilt else 0
    environment = os.environ | {"TEST_SRCDIR": str(options.build), "TEST_WORKSPACE": "adjoin"}
    totals = [0, 0, 0]
    for program in unbuilt:
        print(f"FAILED  {program:45} not built; see {options.logs / 'build.log'}", flush=True)
    totals[1] += sum(run["program"] in unbuilt for run in runs)
    with concurrent.futures.ThreadPoolExecutor(options.at_a_time) as pool:
        waiting = {pool.submit(_run_one, run, options, environment): run for run in runs
                   if run["program"] not in unbuilt}
        for done in concurrent.futures.as_completed(waiting):
            totals = [sum(pair) for pair in zip(totals, _report(waiting[done], done.result()))]
    passed, failed, skipped = totals
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0
