#!/usr/bin/env python3
"""Time of single layers, forward and backward, in one run: cut over two ranks, whole on one, in plain LibTorch, and in halves.

    bazel build //bench:layers
    /usr/bin/python3 bench/layers.py [--cases conv2d_8x512_k3,linear] [--rounds 3]

For every layer, in turns:
  ranks   two ranks with one thread each
  rank    one rank with one thread
  serial  plain LibTorch with two threads (torch.nn as a user runs it)
  halves  two processes of plain LibTorch with one thread each, on half of the work each, that exchange nothing: what this machine
          can give at most
A line has medians of milliseconds over rounds, ratios of them, and the memory that a process took for the layer at most. A goal is
met where two ranks take no longer than halves / 0.95 and, for the cases marked *, no longer than serial.
"""
import argparse
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CASES = ["conv2d_8x512_k3", "conv2d_8x512_k5", "conv2d_16x2048_k3", "conv2d_16x2048_k5", "conv3d_8x128_k3", "linear",
         "batch_norm"]
LARGE = {"conv2d_16x2048_k3", "conv2d_16x2048_k5", "conv3d_8x128_k3", "linear", "batch_norm"}
MODES = {"ranks": ["--mode", "ranks"], "halves": ["--mode", "halves"], "rank": ["--mode", "rank"],
         "serial": ["--mode", "serial", "--threads", "2"]}


def run(program, case, mode):
    """Median milliseconds, and MiB."""
    done = subprocess.run([program, "--case", case, *MODES[mode]], text=True, capture_output=True)
    if done.returncode != 0:
        raise SystemExit(f"{case}, {mode}:\n{done.stderr}")
    _, _, median, _, mib = done.stdout.strip().split(",")
    return float(median), float(mib)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES), help="with commas between")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bin", type=pathlib.Path, help="the folder that holds bench/layers; absent: bazel-bin")
    flags = parser.parse_args()
    cases = flags.cases.split(",")
    unknown = set(cases) - set(CASES)
    if unknown or flags.rounds < 1:
        parser.error(f"unknown cases {sorted(unknown)}; known: {CASES}" if unknown else "--rounds must be at least 1")
    program = (flags.bin or ROOT / "bazel-bin") / "bench/layers"
    if not program.exists():
        raise SystemExit(f"{program} is not there; run: bazel build //bench:layers")
    print("| layer | 2 ranks ms | halves ms | 1 rank ms | LibTorch ms, 2 threads | of the ceiling | of 1 rank | of LibTorch "
          "| MiB of 2 ranks | MiB of LibTorch | goal |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|")
    for case in cases:
        times = {mode: [] for mode in MODES}
        mib = {}
        for _ in range(flags.rounds):
            for mode in MODES:
                median, mib[mode] = run(program, case, mode)
                times[mode].append(median)
        ms = {mode: statistics.median(values) for mode, values in times.items()}
        ceiling = ms["halves"] / ms["ranks"]
        met = ceiling >= 0.95 and (case not in LARGE or ms["ranks"] <= ms["serial"])
        print(f"| {case}{'*' if case in LARGE else ''} | {ms['ranks']:.2f} | {ms['halves']:.2f} | {ms['rank']:.2f} "
              f"| {ms['serial']:.2f} | {ceiling:.2f} | {ms['ranks'] / ms['rank']:.2f} | {ms['ranks'] / ms['serial']:.2f} "
              f"| {mib['ranks']:.0f} | {mib['serial']:.0f} | {'met' if met else '**missed**'} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
