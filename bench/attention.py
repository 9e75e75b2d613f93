#!/usr/bin/env python3
"""Time of attention, forward and backward, by the length of the sequence: two ranks against plain LibTorch, in one run.

    bazel build //bench:layers
    /usr/bin/python3 bench/attention.py [--lengths 16,32,64,128,256,512,1024,2048,4096,8192] [--rounds 3]

For every length (batch 1, 256 features, 4 heads, float32), in turns, one thread per process:
  ranks   the sequence cut over two ranks: keys and values travel
  rank    one rank
  serial  plain LibTorch: softmax(Q K^T) V, all scores at once
Medians of milliseconds over rounds, and their ratios. The last line is the crossover: the shortest of the lengths from which on two
ranks take less time than LibTorch.
"""
import argparse
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODES = {"ranks": ["--mode", "ranks"], "rank": ["--mode", "rank"], "serial": ["--mode", "serial", "--threads", "1"]}


def run(program, length, mode):
    """Median milliseconds, and MiB."""
    done = subprocess.run([program, "--case", f"attention_{length}", *MODES[mode]], text=True, capture_output=True)
    if done.returncode != 0:
        raise SystemExit(f"length {length}, {mode}:\n{done.stderr}")
    _, _, median, _, mib = done.stdout.strip().split(",")
    return float(median), float(mib)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", default="16,32,64,128,256,512,1024,2048,4096,8192", help="with commas between")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bin", type=pathlib.Path, help="the folder that holds bench/layers; absent: bazel-bin")
    flags = parser.parse_args()
    if flags.rounds < 1:
        parser.error("--rounds must be at least 1")
    program = (flags.bin or ROOT / "bazel-bin") / "bench/layers"
    if not program.exists():
        raise SystemExit(f"{program} is not there; run: bazel build //bench:layers")
    print("| length | 2 ranks ms | 1 rank ms | LibTorch ms | LibTorch / 2 ranks | 1 rank / 2 ranks | MiB of a rank of 2 | MiB of LibTorch |")
    print("|--:|--:|--:|--:|--:|--:|--:|--:|")
    crossover = None
    for length in [int(text) for text in flags.lengths.split(",")]:
        times = {mode: [] for mode in MODES}
        mib = {}
        for _ in range(flags.rounds):
            for mode in MODES:
                median, mib[mode] = run(program, length, mode)
                times[mode].append(median)
        median = {mode: statistics.median(values) for mode, values in times.items()}
        wins = median["ranks"] < median["serial"]
        crossover = (crossover or length) if wins else None
        print(f"| {length} | {median['ranks']:.2f} | {median['rank']:.2f} | {median['serial']:.2f} "
              f"| {median['serial'] / median['ranks']:.2f} | {median['rank'] / median['ranks']:.2f} "
              f"| {mib['ranks']:.0f} | {mib['serial']:.0f} |", flush=True)
    print(f"two ranks win from length {crossover} on" if crossover else "two ranks do not win at the longest length")
    return 0


if __name__ == "__main__":
    sys.exit(main())
