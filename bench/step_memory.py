#!/usr/bin/env python3
"""Memory of a training step: what the tensors of a rank take at most, beside its share of one rank's and beside serial PyTorch.

    bazel build //bench:cut_job //coordinator:adjoin-coordinator //worker:adjoin-worker //worker:adjoin-rank //cli:adjoin
    /usr/bin/python3 bench/step_memory.py [--extents 96,128,128] [--steps 2] [JOB.textproto ...]

First a 3-D U-Net of three levels (8, 16 and 32 channels; convolutions with batch norm and ReLU, max pooling, trilinear upsampling), one
volume of --extents, whole, with its height cut in two, and with height and width cut in two; without and with `recompute` on all layers. Serial
PyTorch trains the same network. Then the jobs given (absent: examples of volumes and images), uncut and with one dim of space in 2 and 4 parts.

Each line is a job that runs for --steps steps on this machine. `tensors` is the largest `peak_tensor_bytes` of its ranks, which counts what
LibTorch's allocator gives out: parameters, optimizer, data that are read ahead, and the step. `of its share` is that times the ranks, over one
rank's. PyTorch's is the same count, by its profiler.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import auto_layouts  # noqa: E402

CHANNELS, CLASSES = 8, 3
# (ranks, partition of the volumes)
CUTS = [(1, "[1, 1, 1, 1, 1]"), (2, "[1, 1, 1, 2, 1]"), (4, "[1, 1, 1, 2, 2]")]
# (example, the dim of space that is cut)
EXAMPLES = [("unet/unet3d", 2), ("residual-unet/residual-unet", 2), ("unet/unet2d", 2), ("resnet18/resnet18", 2),
            ("swin3d/swin3d", 2), ("wavenet/wavenet", 2)]


def unet_job(extents, ranks, partition, recompute, steps):
    """The text of the job."""
    layers, last = [], "volume"

    def add(name, inputs, op):
        nonlocal last
        layers.append(f'layer {{ name: "{name}" input: [{", ".join(json.dumps(i) for i in inputs)}] '
                      f'{"" if layers else "x: " + json.dumps("grid")} {"recompute: true" if recompute else ""} {op} }}')
        last = name

    def block(name, channels):
        for part in "12":
            add(f"{name}.conv{part}", [last],
                f"conv {{ out_channels: {channels} bias: false window {{ kernel: 3 pad_lo: 1 }} }}")
            add(f"{name}.bn{part}", [last], 'norm { kind: "batch" }')
            add(f"{name}.relu{part}", [last], 'activation { fn: "relu" }')
        return last

    pool, up = 'pool { mode: "max" window { kernel: 2 } }', 'upsample { mode: "trilinear" scale: 2 }'
    first = block("down1", CHANNELS)
    add("pool1", [last], pool)
    second = block("down2", 2 * CHANNELS)
    add("pool2", [last], pool)
    block("bottom", 4 * CHANNELS)
    add("up2", [last], up)
    add("skip2", [second, last], "concat { arg: 1 }")
    block("left2", 2 * CHANNELS)
    add("up1", [last], up)
    add("skip1", [first, last], "concat { arg: 1 }")
    block("left1", CHANNELS)
    add("head", [last], f"conv {{ out_channels: {CLASSES} bias: false window {{ kernel: 1 }} }}")
    shape = ", ".join(map(str, extents))
    return "\n".join([
        f'name: "unet" kind: TRAIN ranks: {ranks} layout {{ name: "grid" partition: {partition} }}', *layers,
        'loss { kind: "cross_entropy" input: "head" target: "label" }',
        f'dataset {{ name: "data" field {{ name: "volume" shape: [1, {shape}] synthetic {{ kind: "normal" samples: {steps} }} }}',
        f'  field {{ name: "label" dtype: "int64" shape: [{shape}]',
        f'    synthetic {{ kind: "index" low: 0 high: {CLASSES} samples: {steps} }} }} }}',
        f'train {{ dataset: "data" batch: 1 steps: {steps} optimizer {{ sgd {{ lr: 0.1 }} }} }}'])


def pytorch_peak(extents, steps):
    """Bytes of tensors at the worst moment of training the same network."""
    import torch
    from torch import nn

    class Block(nn.Sequential):
        def __init__(self, inputs, channels):
            super().__init__(*[layer for i in (inputs, channels) for layer in
                               (nn.Conv3d(i, channels, 3, padding=1, bias=False), nn.BatchNorm3d(channels), nn.ReLU())])

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            c = CHANNELS
            self.down1, self.down2, self.bottom = Block(1, c), Block(c, 2 * c), Block(2 * c, 4 * c)
            self.left2, self.left1 = Block(6 * c, 2 * c), Block(3 * c, c)
            self.pool, self.up = nn.MaxPool3d(2), nn.Upsample(scale_factor=2, mode="trilinear")
            self.head = nn.Conv3d(c, CLASSES, 1, bias=False)

        def forward(self, x):
            first = self.down1(x)
            second = self.down2(self.pool(first))
            x = self.left2(torch.cat([second, self.up(self.bottom(self.pool(second)))], 1))
            return self.head(self.left1(torch.cat([first, self.up(x)], 1)))

    torch.set_num_threads(1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        network = UNet()
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        for _ in range(steps):
            volume, label = torch.randn(1, 1, *extents), torch.randint(CLASSES, (1, *extents))
            optimizer.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(network(volume), label).backward()
            optimizer.step()
    now = peak = 0
    # Newer PyTorch counts in nanoseconds.
    when = lambda event: event.start_ns() if hasattr(event, "start_ns") else event.start_us()
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    for event in sorted(events, key=when):
        now += event.nbytes()
        peak = max(peak, now)
    if peak == 0:
        raise SystemExit("PyTorch's profiler told of no memory")
    return peak


class Cluster(auto_layouts.Cluster):
    def tensor_bytes(self, spec, name):
        """(measured, predicted) of the rank that needs most."""
        environment = {**os.environ, "ADJOIN_COORDINATOR": self.address}

        def adjoin(*arguments):
            done = subprocess.run([self.bin / "cli/adjoin", *arguments], text=True, capture_output=True, timeout=1200,
                                  env=environment)
            if done.returncode != 0:
                raise SystemExit(f"adjoin {' '.join(map(str, arguments))} failed:\n{done.stdout}{done.stderr}")
            return done.stdout

        job = adjoin("submit", "--set", f"output_dir={name}", spec).split()[0]
        adjoin("follow", job)
        described = json.loads(adjoin("describe", "-o", "json", job))
        measured = max(int(rank["progress"]["peak_tensor_bytes"]) for rank in described["rank"])
        return measured, int(described["predicted"]["tensor_bytes"])


def rows(cluster, folder, name, variants):
    """Prints a line for each of (what, ranks, text), the first of which is one rank."""
    whole = None
    for what, ranks, text in variants:
        label = f"{name}-{what}-{ranks}".replace(" ", "-").replace(",", "")
        spec = folder / f"{label}.textproto"
        spec.write_text(text)
        measured, predicted = cluster.tensor_bytes(spec, label)
        whole = whole or measured
        print(f"| {name} | {what} | {ranks} | {measured / 2**20:.1f} | {predicted / 2**20:.1f} | {measured * ranks / whole:.3f} |",
              flush=True)
    return whole


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extents", type=lambda text: [int(n) for n in text.split(",")], default=[96, 128, 128])
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--bin", help="where the programs are; absent: bazel's bazel-bin")
    parser.add_argument("job", nargs="*")
    options = parser.parse_args()
    bin_folder = options.bin or subprocess.run(["bazel", "info", "bazel-bin"], cwd=ROOT, check=True, text=True,
                                               capture_output=True).stdout.strip()
    programs = auto_layouts.Programs(bin_folder)
    print("| network | cut | ranks | tensors, MiB | predicted | of its share |\n|---|---|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as temporary, Cluster(temporary, bin_folder) as cluster:
        folder = pathlib.Path(temporary)
        if not options.job:
            for recompute in (False, True):
                whole = rows(cluster, folder, "U-Net, recomputed" if recompute else "U-Net",
                             [(f"{ranks} parts" if ranks > 1 else "whole", ranks,
                               unet_job(options.extents, ranks, partition, recompute, options.steps))
                              for ranks, partition in CUTS])
                if not recompute:
                    pytorch = pytorch_peak(options.extents, options.steps)
                    print(f"| U-Net | serial PyTorch | 1 | {pytorch / 2**20:.1f} | | {pytorch / whole:.3f} |", flush=True)
        jobs = [(pathlib.Path(job), 2) for job in options.job] or \
            [(ROOT / "examples" / f"{job}.textproto", dim) for job, dim in EXAMPLES]
        for path, dim in jobs:
            variants = [("whole", 1, programs.cut_job(path, "none", 0, options.steps))]
            for ranks in (2, 4):
                try:
                    variants.append((f"dim {dim}", ranks, programs.cut_job(path, dim, ranks, options.steps)))
                except RuntimeError as error:
                    print(f"{path.stem} on {ranks} ranks: {error}", file=sys.stderr)
            rows(cluster, folder, path.stem, variants)


if __name__ == "__main__":
    main()
