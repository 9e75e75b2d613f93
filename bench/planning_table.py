#!/usr/bin/env python3
"""The table of docs/planning.md: what `adjoin plan --auto` chooses for the networks of examples/networks, and what it predicts.

    bazel build //cli:adjoin
    /usr/bin/python3 bench/planning_table.py [--ranks 8,64,512] [--memory 64GiB] [JOB.textproto ...]

Nothing is run; only the seconds of the search depend on the machine. They are those of a processor, of the whole command where it
only writes the job (--emit), so that other work on the machine changes them little.
"""
import argparse
import collections
import json
import pathlib
import resource
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADER = ("| network | ranks | step | of it compute | memory of a rank | search | above the bound | layouts (layers) |\n"
          "|---|--:|--:|--:|--:|--:|--:|---|")


def seconds_text(seconds):
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def layouts_text(choices, most=3):
    """The layouts that most layers have: "8x1x1x1 (150), 1x8x1x1 (3)"."""
    counted = collections.Counter(choice["layout"] for choice in choices)
    shown = ", ".join(f"{layout} ({count})" for layout, count in counted.most_common(most))
    return shown + (f", {len(counted) - most} others" if len(counted) > most else "")


def processor_seconds(command):
    """That a command takes which does not fail, and what starting it takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def row(name, ranks, report, seconds):
    search = report["search"]
    time = report.get("time") or {"step_seconds": search["chosen_seconds"]}
    bound, chosen = float(search["lower_bound_seconds"]), float(search["chosen_seconds"])
    gap = "0" if chosen <= bound * (1 + 1e-9) else f"{100 * (chosen / bound - 1):.2g} %" if bound > 0 else "unknown"
    return (f"| {name} | {ranks} | {seconds_text(float(time['step_seconds']))} | "
            f"{seconds_text(float(time['compute_seconds'])) if 'compute_seconds' in time else ''} | {int(report['memory']['bytes']) / 2**30:.3g} GiB | "
            f"{seconds:.2f} s | {gap} | {layouts_text(search['choice'])} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="8,64,512")
    parser.add_argument("--memory", help="of each rank; absent: no limit")
    parser.add_argument("--adjoin", help="the program; absent: bazel's")
    parser.add_argument("job", nargs="*")
    options = parser.parse_args()
    adjoin = options.adjoin or subprocess.run(["bazel", "info", "bazel-bin"], cwd=ROOT, check=True, text=True,
                                              capture_output=True).stdout.strip() + "/cli/adjoin"
    print(HEADER)
    for path in options.job or sorted((ROOT / "examples/networks").glob("*.textproto")):
        for ranks in options.ranks.split(","):
            command = [adjoin, "plan", "--auto", "--ranks", ranks, str(path)]
            command += ["--memory", options.memory] if options.memory else []
            done = subprocess.run([*command, "-o", "json"], text=True, capture_output=True)
            name = pathlib.Path(path).stem
            if done.returncode == 0:
                print(row(name, ranks, json.loads(done.stdout), processor_seconds([*command, "--emit"])), flush=True)
            else:
                print(f"| {name} | {ranks} | {done.stderr.strip().splitlines()[-1]} | | | | | |", flush=True)


if __name__ == "__main__":
    main()
