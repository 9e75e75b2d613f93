#!/usr/bin/env python3
"""How good the predicted time of a step is: calibrates this machine, measures real steps, and compares, in one go.

    bazel build //worker:adjoin-worker //worker:adjoin-rank //bench:step_time
    /usr/bin/python3 bench/time_accuracy.py [--calibrate-seconds 60] [--rounds 3] [--seconds 0.4] [--minutes 10] [--keep FOLDER]

Measures the machine's rates (adjoin-worker --calibrate), then in each round every cut of the sixteen networks of bench/step_time on 1, 2
and 4 ranks; of the rounds, each cut's least counts, since what else runs on the machine only adds. Then the prediction of every cut by these
rates, and for each network the mean error and Kendall's tau of its cuts. Rounds that would take longer than --minutes in all are left out.
It wants a machine that does nothing else, and says how busy it was. --keep leaves rates.textproto and the measured times in FOLDER.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = {"worker": "worker/adjoin-worker", "step_time": "bench/step_time"}
BUSY = 0.3  # load from which a machine does something else as well


def run(arguments, seconds):
    """Standard output; SystemExit with what was said where it fails."""
    try:
        done = subprocess.run([str(argument) for argument in arguments], text=True, capture_output=True, timeout=max(1, seconds))
    except subprocess.TimeoutExpired:
        raise SystemExit(f"{pathlib.Path(arguments[0]).name} did not end within {seconds:.0f} seconds; give it more --minutes")
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, arguments))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def least_of(rounds):
    """Lines of the results file (network, cut, seconds, seconds in movements): of each cut those of the least time."""
    least = {}
    for lines in rounds:
        for line in lines:
            network, cut, seconds, moving = line.split("\t")
            known = least.get((network, cut))
            if known is None or float(seconds) < known[0]:
                least[(network, cut)] = (float(seconds), moving)
    return "".join(f"{network}\t{cut}\t{seconds:.9g}\t{moving}\n" for (network, cut), (seconds, moving) in least.items())


def spread(rounds):
    """The median over cuts of how much the slowest round is above the fastest; None of one round."""
    times = {}
    for lines in rounds:
        for line in lines:
            network, cut, seconds, _ = line.split("\t")
            times.setdefault((network, cut), []).append(float(seconds))
    above = sorted(max(of) / min(of) - 1 for of in times.values() if len(of) > 1)
    return above[len(above) // 2] if above else None


def measure(programs, options, folder, until):
    """The rounds' lines."""
    rounds, longest = [], 0.0
    while len(rounds) < options.rounds and (not rounds or time.monotonic() + 1.1 * longest < until):
        results, began = folder / f"round-{len(rounds) + 1}", time.monotonic()
        only = ["--only", options.only] if options.only else []
        run([programs["step_time"], "--seconds", options.seconds, "--results", results, *only], until - began)
        longest = max(longest, time.monotonic() - began)
        rounds.append(results.read_text().splitlines())
        print(f"round {len(rounds)}: {len(rounds[-1])} cuts in {time.monotonic() - began:.0f} s", flush=True)
    return rounds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calibrate-seconds", type=int, default=60)
    parser.add_argument("--rates", type=pathlib.Path, help="a table of rates instead of a calibration")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.4, help="for each cut and round")
    parser.add_argument("--minutes", type=float, default=10, help="at most, for all together")
    parser.add_argument("--only", default="", help="networks whose names have this")
    parser.add_argument("--layers", action="store_true", help="prints the prediction of each layer")
    parser.add_argument("--bin", type=pathlib.Path, help="where the programs are; absent: bazel-bin")
    parser.add_argument("--keep", type=pathlib.Path, help="an empty or new folder for what was measured")
    options = parser.parse_args()
    if options.rounds < 1 or options.minutes <= 0:
        parser.error("--rounds must be at least 1, and --minutes above 0")
    programs = {name: (options.bin or ROOT / "bazel-bin") / path for name, path in PROGRAMS.items()}
    for program in programs.values():
        if not program.exists():
            raise SystemExit(f"{program} is not there; the first lines of --help say how it is built")
    until = time.monotonic() + 60 * options.minutes
    load = os.getloadavg()[0]
    print(f"load before: {load:.2f}" + ("; the machine does something else as well, so the figures say little" if load > BUSY else ""))
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise SystemExit(f"{folder} is not empty; name another folder")
        rates = options.rates
        if rates is None:
            run([programs["worker"], "--calibrate", "--calibrate-seconds", options.calibrate_seconds, "--state-dir", folder / "state"],
                until - time.monotonic())
            rates = folder / "state" / "rates.textproto"
            print(f"calibrated: {60 * options.minutes - (until - time.monotonic()):.0f} s so far", flush=True)
        rounds = measure(programs, options, folder, until)
        if len(rounds) < options.rounds:
            print(f"{len(rounds)} of {options.rounds} rounds: no time was left for more")
        above = spread(rounds)
        if above is not None:
            print(f"a cut's slowest round is {100 * above:.1f} % above its fastest, in the middle")
        (folder / "least").write_text(least_of(rounds))
        layers = ["--layers"] if options.layers else []
        only = ["--only", options.only] if options.only else []
        sys.stdout.write(run([programs["step_time"], "--report-only", "--results", folder / "least", "--rates", rates, *only, *layers], 60))


if __name__ == "__main__":
    main()
