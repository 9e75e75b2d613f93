#!/usr/bin/env python3
"""Time of one training step of LeNet-5, batch 64: the example jobs against serial PyTorch, medians in one run.

    bazel build //coordinator:adjoin-coordinator //worker:adjoin-worker //worker:adjoin-rank //cli:adjoin
    /usr/bin/python3 bench/lenet_step.py [--steps 300]

Starts a coordinator and one worker daemon of its own. A job's step takes what its slowest part takes: computing and moving of
rank 0, which waits for the others in every step (metrics.jsonl). The first tenth of the steps is left out. PyTorch runs
with one thread, like every rank.
"""
import argparse
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# (line of the table, example, what is set in it). Stages of ranks work side by side on micro-batches in flight only.
JOBS = [(job, job, []) for job in
        ("lenet5-serial", "lenet5-sync-sgd", "lenet5-spatial", "lenet5-hybrid", "lenet5-two-stage")] + [
            (f"two-stage, {held} of {parts} in flight", "lenet5-two-stage",
             [f"train.microbatches={parts}", f"train.microbatches_in_flight={held}"])
            for parts, held in ((2, 1), (2, 2), (4, 1), (4, 2))]
BATCH = 64


def without_warm_up(values):
    return values[len(values) // 10:]


def serial_pytorch(steps):
    """Seconds of each step."""
    sys.path.insert(0, str(ROOT / "examples/mnist"))
    import torch
    import train_pytorch
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = train_pytorch.LeNet5()
    images, labels = train_pytorch.read_samples(ROOT / "examples/mnist", "train")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    seconds = []
    for step in range(steps):
        first = step * BATCH % (len(images) - BATCH)
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images[first:first + BATCH]), labels[first:first + BATCH])
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
    return seconds


class Cluster:
    """A coordinator and one daemon with four slots; ends them on leaving."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.bin = pathlib.Path(subprocess.run(["bazel", "info", "bazel-bin"], cwd=ROOT, check=True, text=True,
                                               capture_output=True).stdout.strip())
        self.processes = []
        self.runs = 0

    def start(self, name, *arguments):
        log = open(self.folder / f"{name}.log", "w")
        self.processes.append(subprocess.Popen([self.bin / name.split("-")[1] / name, *arguments], stdout=log, stderr=log))

    def __enter__(self):
        try:
            self.start_all()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start_all(self):
        port_file = self.folder / "port"
        self.start("adjoin-coordinator", "--listen", "127.0.0.1:0", "--port-file", port_file, "--state-dir",
                   self.folder / "coordinator")
        deadline = time.monotonic() + 30
        while not port_file.exists():
            if time.monotonic() > deadline or self.processes[0].poll() is not None:
                raise SystemExit((self.folder / "adjoin-coordinator.log").read_text())
            time.sleep(0.05)
        self.address = port_file.read_text().strip()
        self.start("adjoin-worker", "--coordinator", self.address, "--slots", "4", "--data-root", ROOT / "examples",
                   "--output-root", self.folder, "--listen", "127.0.0.1:0", "--state-dir", self.folder / "worker")

    def __exit__(self, *unused):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def run(self, job, settings, steps):
        """Returns the lines of steps in metrics.jsonl."""
        text = (ROOT / f"examples/mnist/{job}.textproto").read_text()
        text = re.sub(r"epochs: *\d+", f"steps: {steps}", text)
        spec = self.folder / f"{job}.textproto"
        spec.write_text(text)
        self.runs += 1
        output = f"run-{self.runs}"
        set_options = [option for setting in [f"output_dir={output}", *settings] for option in ("--set", setting)]
        done = subprocess.run([self.bin / "cli/adjoin", "submit", "--follow", *set_options, spec], text=True,
                              capture_output=True, timeout=600, env={**os.environ, "ADJOIN_COORDINATOR": self.address})
        if done.returncode != 0:
            raise SystemExit(f"{job} failed:\n{done.stdout}{done.stderr}")
        lines = [json.loads(line) for line in (self.folder / output / "metrics.jsonl").read_text().splitlines()]
        return [line for line in lines if line["type"] == "step"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    steps = parser.parse_args().steps
    ruler = statistics.median(without_warm_up(serial_pytorch(steps)))
    print(f"{'':30}{'ms per step':>12}{'of PyTorch':>12}{'T_comp ms':>12}{'T_sync ms':>12}{'KiB sent':>12}")
    print(f"{'serial PyTorch':30}{1e3 * ruler:12.2f}{1:12.2f}")
    with tempfile.TemporaryDirectory() as folder, Cluster(folder) as cluster:
        for line_name, job, settings in JOBS:
            lines = without_warm_up(cluster.run(job, settings, steps))
            step = statistics.median(line["t_comp"] + line["t_sync"] for line in lines)
            computing = statistics.median(line["t_comp"] for line in lines)
            moving = statistics.median(line["t_sync"] for line in lines)
            sent = statistics.median(line["bytes_sent"] for line in lines)
            print(f"{line_name:30}{1e3 * step:12.2f}{step / ruler:12.2f}{1e3 * computing:12.2f}{1e3 * moving:12.2f}"
                  f"{sent / 1024:12.1f}", flush=True)


if __name__ == "__main__":
    main()
