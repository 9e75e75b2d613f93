#!/usr/bin/python3
"""Adjoin's operators on tensors against Open MPI and Gloo: one Markdown table and a verdict for each goal.

    bazel build //bench/...
    /usr/bin/python3 bench/primitives.py
    /usr/bin/python3 bench/primitives.py --ops broadcast,halo --ranks 4 --bytes 1024,1048576 --repeat 3

Each operator, on each number of ranks, is measured for all three one right after the other, on this machine, which
should have nothing else to do. An implementation that is not installed is "missing" in the table; what installs it on
Debian is said on stderr. --results FILE keeps the programs' lines, and the table is of all lines in it: a measurement
can be made in parts. protocol.h has the numbers of executions.
"""
import argparse
import contextlib
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from primitives_report import EXTRA, NOTES, OPERATORS, Report

ROOT = pathlib.Path(__file__).resolve().parent.parent
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]


def run(command, seconds):
    """Standard output. SystemExit if the command fails, or takes longer: then it and what it started are ended."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
                               start_new_session=True)
    try:
        output, errors = process.communicate(timeout=seconds)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise SystemExit(f"{shlex.join(map(str, command))}: took longer than {seconds} s") from None
        raise
    if process.returncode != 0:
        raise SystemExit(f"{shlex.join(map(str, command))} ended with {process.returncode}:\n{output}{errors}")
    return output


@contextlib.contextmanager
def on_cores(number):
    """What is started within has so many cores of those that this process has."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:number])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Programs:
    """The programs that measure, each as a command; those of missing libraries are absent."""

    def __init__(self, folder, options):
        self.folder, self.timeout = folder, options.timeout
        self.bin = pathlib.Path(options.bin or run(["bazel", "info", "bazel-bin"], 300).strip()) / "bench"
        if not (self.bin / "primitives").exists():
            raise SystemExit(f"{self.bin}/primitives is not there: bazel build //bench/...")
        self.mpi = self.compile_mpi()
        has_gloo = "import torch.distributed as d; assert d.is_gloo_available()"
        self.gloo = subprocess.run(["/usr/bin/python3", "-c", has_gloo], capture_output=True,
                                   timeout=300).returncode == 0
        if not self.gloo:
            print("Gloo is missing: apt-get install python3-torch", file=sys.stderr)

    def compile_mpi(self):
        compiler, launcher = shutil.which("mpicxx"), shutil.which("mpirun")
        if not compiler or not launcher or "Open MPI" not in run(["mpirun", "--version"], 60):
            print("Open MPI is missing: apt-get install openmpi-bin libopenmpi-dev", file=sys.stderr)
            return None
        program = f"{self.folder}/mpi_primitives"
        run([compiler, "-std=c++17", "-O3", "-march=native", "-DOMPI_SKIP_MPICXX", f"-I{ROOT}", "-o", program,
             str(ROOT / "bench/mpi_primitives.cc")], 300)
        return program

    def core_latency(self):
        return float(run([self.bin / "core_latency"], 60))

    @staticmethod
    def busy():
        """The percentage of this machine's processor time that others take now."""
        def times():
            fields = [int(field) for field in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
            return sum(fields), fields[3] + fields[4]  # all; idle and waiting for files

        before = times()
        time.sleep(0.3)
        total, idle = (after - start for after, start in zip(times(), before))
        return 100 * (1 - idle / total)

    def lines(self, op, ranks, sizes):
        """What all programs print for one operator on one number of ranks, after two lines "machine,NS,PERCENT": how
        long a cache line took between the cores, and what others took of them, before and after.

        The cores of a virtual machine are nearer or farther by turns, which changes small messages' times several-fold:
        what is compared is measured again, twice at most, where that changed in between. Gloo's sockets hide it.
        """
        sizes = ",".join(map(str, sizes))
        for _ in range(3):
            before = self.core_latency(), self.busy()
            output = self.sensitive_lines(op, ranks, sizes)
            after = self.core_latency(), self.busy()
            if max(before[0], after[0]) <= 2 * min(before[0], after[0]):
                break
        else:
            print(f"{op} on {ranks} ranks: the cores' distance changed in each of three attempts", file=sys.stderr)
        if self.gloo and op != "image_refresh":
            output += run(["/usr/bin/python3", str(ROOT / "bench/gloo_primitives.py"), str(ranks), op, sizes,
                           str(self.timeout)], self.timeout + 10)
        return [f"machine,{latency:.0f},{busy:.0f}" for latency, busy in (before, after)] + output.splitlines()

    def sensitive_lines(self, op, ranks, sizes):
        seconds = str(self.timeout)
        output = run([self.bin / "primitives", "--ops", op, "--ranks", str(ranks), "--bytes", sizes,
                      "--timeout", seconds], self.timeout + 10)
        if self.mpi and op != "image_refresh":
            output += run([*MPIRUN, "-n", str(ranks), self.mpi, "openmpi", op, sizes, seconds], self.timeout + 10)
        if op in ("image_halo", "image_refresh"):
            output += run([self.bin / "ucx_edges", seconds], self.timeout + 10)
        return output


def measure(options):
    with tempfile.TemporaryDirectory() as folder:
        programs = Programs(folder, options)
        for _ in range(options.repeat):
            # The image's halos are those of two ranks, work_halo of four, whatever --ranks says.
            pairs = [(op, ranks) for ranks in options.ranks for op in options.ops if op not in EXTRA]
            pairs += [(op, {"image_halo": 2, "image_refresh": 2, "work_halo": 4}[op]) for op in options.ops if op in EXTRA]
            for op, ranks in pairs:
                with on_cores(2) if op == "work_halo" else contextlib.nullcontext():
                    yield from programs.lines(op, ranks, options.bytes)


def main():
    def numbers(text):
        return [int(number) for number in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", type=lambda text: text.split(","), default=OPERATORS + EXTRA, metavar="NAME,...",
                        help=f"of {', '.join(OPERATORS + EXTRA)}; default: all")
    parser.add_argument("--ranks", type=numbers, default=[2, 4], metavar="N,...", help="default: 2,4")
    parser.add_argument("--bytes", type=numbers, default=[1 << 10, 8 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20],
                        metavar="N,...", help="default: 1 KiB to 64 MiB")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="the table then has the medians of N runs")
    parser.add_argument("--results", metavar="FILE", help="append the programs' lines to it; the table is of all in it")
    parser.add_argument("--print", action="store_true", help="measure nothing: the table of what --results has")
    parser.add_argument("--bin", metavar="DIR", help="where Bazel put what it built; default: bazel info bazel-bin")
    parser.add_argument("--timeout", type=int, default=300, metavar="S", help="seconds for one program; default: 300")
    options = parser.parse_args()
    unknown = [op for op in options.ops if op not in OPERATORS + EXTRA]
    if unknown:
        parser.error(f"no operator '{unknown[0]}'; there are {', '.join(OPERATORS + EXTRA)}")

    results = pathlib.Path(options.results) if options.results else None
    lines = results.read_text().splitlines() if results and results.exists() else []
    if options.print and not lines:
        parser.error("--print needs --results with a FILE that has lines")
    for line in [] if options.print else measure(options):
        lines.append(line)
        print(line, file=sys.stderr, flush=True)
        if results:
            with results.open("a") as file:
                file.write(line + "\n")

    report, machine = Report(), []
    for line in lines:
        if line.startswith("machine,"):
            machine.append([int(field) for field in line.split(",")[1:]])
        else:
            report.add(line)
    latencies, busy = zip(*machine)
    print(report.table(), NOTES, report.verdicts(), sep="\n\n")
    print(f"\n{os.cpu_count()} cores; between measurements a cache line took {min(latencies)} to {max(latencies)} ns "
          f"from one to the other, and other processes at most {max(busy)}% of the cores.")


if __name__ == "__main__":
    main()
