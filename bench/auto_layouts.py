#!/usr/bin/env python3
"""Layouts that `adjoin plan --auto` chooses, measured beside others of the same network and beside their predictions.

    bazel build //bench:cut_job //coordinator:adjoin-coordinator //worker:adjoin-worker //worker:adjoin-rank //cli:adjoin
    /usr/bin/python3 bench/auto_layouts.py [--ranks 2,4] [--steps 20] [--rounds 5] [JOB.textproto ...]

Of each job (absent: those of examples/ that train): the automatic choice, all cut by batch, all cut in one spatial dim, and the layouts
that the job has where it is for that many ranks. Data are synthetic, of the same shapes. In each round every variant runs
once, the order turned by one; a run's step is the median over its steps but the first tenth (at least one) of what rank 0 computed and waited
for. Ratios are medians over rounds of the ratio within a round, so that what slows the machine for minutes slows both. Run it on an idle machine
of which each rank has a core; predictions are for the machine of the table of rates that `adjoin plan` names.
"""
import argparse
import collections
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import lenet_step  # noqa: E402

JOBS = ["mnist/lenet5-sync-sgd", "mnist/lenet5-spatial", "mnist/lenet5-hybrid", "mnist/lenet5-two-stage", "unet/unet2d",
        "unet/unet3d", "residual-unet/residual-unet", "resnet18/resnet18", "vit/vit", "wavenet/wavenet",
        "swin3d/swin3d", "brain/brain-train", "deep-prior/deep-prior"]
CUTS = {"batch": "0", "dim 2": "2", "dim 3": "3", "dim 4": "4", "as written": "written"}
LIMIT = 1.03  # the automatic choice takes at most so much of the best of the others


def kendall_tau(predicted, measured):
    """Tau-b of two lists; None where one of them has no order."""
    pairs = [(i, j) for i in range(len(predicted)) for j in range(i)]
    sign = lambda values, i, j: (values[i] > values[j]) - (values[i] < values[j])
    score = sum(sign(predicted, i, j) * sign(measured, i, j) for i, j in pairs)
    ordered = [sum(sign(values, i, j) != 0 for i, j in pairs) for values in (predicted, measured)]
    return score / (ordered[0] * ordered[1]) ** 0.5 if all(ordered) else None


class Report:
    """Of one job on one number of ranks."""

    def __init__(self, job, ranks):
        self.job, self.ranks = job, ranks
        self.predicted = {}  # seconds by variant; "auto" first
        self.bytes = {}
        self.impossible = {}
        self.measured = collections.defaultdict(list)  # seconds by variant and round

    def step(self, variant):
        return statistics.median(self.measured[variant])

    def ratio(self, variant, to):
        return statistics.median(a / b for a, b in zip(self.measured[variant], self.measured[to]))

    def rows(self):
        for variant, predicted in self.predicted.items():
            measured = self.step(variant)
            yield (f"| {self.job} | {self.ranks} | {variant} | {1e3 * measured:.2f} | {1e3 * predicted:.2f} | "
                   f"{predicted / measured:.2f} | {self.bytes[variant] / 2**20:.1f} |")
        for variant, why in self.impossible.items():
            yield f"| {self.job} | {self.ranks} | {variant} | | | | {why} |"

    def best_other(self):
        others = [variant for variant in self.predicted if variant != "auto"]
        return min(others, key=self.step) if others else None

    def verdict(self):
        best = self.best_other()
        if "auto" not in self.predicted or best is None:
            return f"{self.job} on {self.ranks}: nothing to compare"
        ratio = self.ratio("auto", best)
        said = self.predicted["auto"] / self.predicted[best]
        errors = [abs(self.predicted[v] / self.step(v) - 1) for v in self.predicted]
        order = list(self.predicted)
        tau = kendall_tau([self.predicted[v] for v in order], [self.step(v) for v in order])
        return (f"{self.job} on {self.ranks}: auto takes {ratio:.3f} of the best other ({best}), predicted {said:.3f}: "
                f"{'met' if ratio <= LIMIT else '**missed**'}; mean error of predictions {100 * statistics.mean(errors):.0f} %, "
                f"Kendall's tau {'none' if tau is None else f'{tau:.2f}'}")


HEADER = ("| job | ranks | layouts | measured ms | predicted ms | predicted / measured | MiB of a rank, predicted |\n"
          "|---|--:|---|--:|--:|--:|--:|")


class Programs:
    def __init__(self, folder):
        self.bin = pathlib.Path(folder)

    def adjoin(self, *arguments):
        return self.output("cli/adjoin", *arguments)

    def cut_job(self, *arguments):
        return self.output("bench/cut_job", *arguments)

    def output(self, program, *arguments):
        """Standard output; RuntimeError with the last line of the errors."""
        done = subprocess.run([self.bin / program, *map(str, arguments)], text=True, capture_output=True, timeout=600)
        if done.returncode != 0:
            raise RuntimeError((done.stderr.strip().splitlines() or ["no reason given"])[-1])
        return done.stdout


class Cluster(lenet_step.Cluster):
    def __init__(self, folder, bin_folder):
        self.folder, self.bin, self.processes = pathlib.Path(folder), pathlib.Path(bin_folder), []

    def step_seconds(self, job, name):
        """Of a short run."""
        done = subprocess.run([self.bin / "cli/adjoin", "submit", "--follow", "--replace", "--set", f"output_dir={name}", job],
                              text=True, capture_output=True, timeout=3600,
                              env={**os.environ, "ADJOIN_COORDINATOR": self.address})
        if done.returncode != 0:
            raise SystemExit(f"{job} failed:\n{done.stdout}{done.stderr}")
        lines = [json.loads(line) for line in (self.folder / name / "metrics.jsonl").read_text().splitlines()]
        steps = [line["t_comp"] + line["t_sync"] for line in lines if line["type"] == "step"]
        return statistics.median(steps[max(1, len(steps) // 10):])


def prepare(programs, path, name, ranks, steps, folder):
    """A report with predictions, and the variants' files."""
    report, files = Report(name, ranks), {}
    none = folder / "none.textproto"
    none.write_text(programs.cut_job(path, "none", 0, steps))
    written = programs.cut_job(path, "written", 0, steps)
    own_ranks = json.loads(programs.adjoin("plan", "-o", "json", path))["ranks"]
    for variant in ["auto", *CUTS]:
        if variant == "as written" and (int(own_ranks) != ranks or "\nlayout {" not in written):
            continue
        file = folder / f"{variant.replace(' ', '')}.textproto"
        try:
            file.write_text(programs.adjoin("plan", "--auto", "--ranks", ranks, "--emit", none) if variant == "auto" else
                            programs.cut_job(path, CUTS[variant], ranks, steps))
            plan = json.loads(programs.adjoin("plan", "-o", "json", file))
        except RuntimeError as error:
            report.impossible[variant] = str(error)
            continue
        if not plan.get("time"):
            raise SystemExit("this adjoin does not predict the time of a step")
        report.predicted[variant] = float(plan["time"]["step_seconds"])
        report.bytes[variant] = int(plan["memory"]["bytes"])
        files[variant] = file
    return report, files


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bin", help="where the programs are; absent: bazel's bazel-bin")
    parser.add_argument("job", nargs="*")
    options = parser.parse_args()
    bin_folder = options.bin or subprocess.run(["bazel", "info", "bazel-bin"], cwd=ROOT, check=True, text=True,
                                               capture_output=True).stdout.strip()
    programs = Programs(bin_folder)
    jobs = options.job or [str(ROOT / "examples" / (job + ".textproto")) for job in JOBS]
    verdicts = []
    print(HEADER)
    with tempfile.TemporaryDirectory() as folder, Cluster(folder, bin_folder) as cluster:
        for path in jobs:
            for ranks in map(int, options.ranks.split(",")):
                name = pathlib.Path(path).stem
                work = pathlib.Path(folder) / f"{name}-{ranks}"
                work.mkdir()
                report, files = prepare(programs, path, name, ranks, options.steps, work)
                order = list(files)
                for turn in range(options.rounds):
                    for variant in order[turn % len(order):] + order[:turn % len(order)]:
                        seconds = cluster.step_seconds(files[variant], f"{name}-{ranks}-{list(files).index(variant)}")
                        report.measured[variant].append(seconds)
                print("\n".join(report.rows()), flush=True)
                verdicts.append(report.verdict())
    print("\n" + "\n".join("- " + verdict for verdict in verdicts))


if __name__ == "__main__":
    main()
