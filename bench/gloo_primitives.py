#!/usr/bin/env python3
"""Times what primitives.cc times, done by PyTorch's Gloo: the same operators, sizes, batches and lines.

    /usr/bin/python3 bench/gloo_primitives.py 4 broadcast,halo 1024,1048576 300      # ranks operators bytes seconds

An operator that Gloo does not have is a line "gloo,reduce_scatter,4,1024,missing,missing". Buffers are made once;
all-sum-reduce works in place.
"""
import os
import signal
import sys
import tempfile
import time

os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
os.environ["OMP_NUM_THREADS"] = "1"

import torch
import torch.distributed as dist
import torch.multiprocessing

LONGEST_BATCH = 100e3  # us, as in protocol.h


def counts_for(size):
    """Executions per batch, and batches, as in protocol.h."""
    for limit, executions, batches in ((8 << 10, 100, 31), (64 << 10, 50, 31), (1 << 20, 8, 31), (16 << 20, 2, 9)):
        if size <= limit:
            return executions, batches
    return 1, 9


def slowest(value):
    tensor = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(tensor, dist.ReduceOp.MAX)
    return tensor.item()


def measure(size, run, messages):
    executions, batches = counts_for(size)
    times, following = [], 0
    for batch in range(-1, batches):
        dist.barrier()
        start = time.perf_counter()
        for _ in range(executions):
            run(following)
            following += 1
        took = slowest((time.perf_counter() - start) * 1e6 / executions)
        if batch >= 0:
            times.append(took / messages)
        else:
            executions = min(max(int(LONGEST_BATCH / took), 1), executions)
    return sorted(times)


def patch_of(size):
    """Channels and side of a rank's patch of an image, as in protocol.h."""
    for channels in (16, 8, 4):
        side = 8
        while 4 * channels * side * side < size:
            side *= 2
        if 4 * channels * side * side == size:
            return channels, side
    raise SystemExit(f"no patch has {size} bytes")


def halo(rank, ranks, channels, rows, columns):
    """From a patch into a padded copy of it; neighbours' edges and corners as messages."""
    grid = (2, ranks // 2) if ranks % 2 == 0 and ranks >= 4 else (ranks, 1)
    own = torch.full((1, channels, rows, columns), rank + 1.0)
    padded = torch.zeros(1, channels, rows + 2, columns + 2)
    outer = {-1: slice(0, 1), 0: slice(1, -1), 1: slice(-1, None)}
    inner = {-1: slice(0, 1), 0: slice(None), 1: slice(-1, None)}
    edges = []
    for dy in (-1, 0, 1):
        for dx in (-1, 0, 1):
            y, x = rank // grid[1] + dy, rank % grid[1] + dx
            if (dy, dx) != (0, 0) and 0 <= y < grid[0] and 0 <= x < grid[1]:
                source, target = own[:, :, inner[dy], inner[dx]], padded[:, :, outer[dy], outer[dx]]
                tag = (dy + 1) * 3 + dx + 1
                edges.append((y * grid[1] + x, tag, 8 - tag, source, target, torch.empty(source.shape)))

    def run(_):
        waits = [dist.irecv(buffer, peer, tag=tag_in) for peer, _, tag_in, _, _, buffer in edges]
        messages = [source.contiguous() for _, _, _, source, _, _ in edges]
        waits += [dist.isend(message, edge[0], tag=edge[1]) for message, edge in zip(messages, edges)]
        padded[:, :, 1:-1, 1:-1].copy_(own)
        for wait in waits:
            wait.wait()
        for _, _, _, _, target, buffer in edges:
            target.copy_(buffer)

    run(0)
    if not all((target == peer + 1).all() for peer, _, _, _, target, _ in edges):
        raise SystemExit("the halo is wrong")
    return run


def work():
    end = time.thread_time_ns() + 200_000
    while time.thread_time_ns() < end:
        pass


def make(op, rank, ranks, size):
    """The function that executes `op` for the i-th time."""
    if op in ("halo", "work_halo"):
        channels, side = patch_of(size)
        exchange = halo(rank, ranks, channels, side, side)
        if op == "halo":
            return exchange

        def work_halo(i):
            work()
            exchange(i)
        return work_halo
    if op == "image_halo":
        return halo(rank, ranks, 8, 512 // ranks, 512)
    a, b = torch.zeros(size // 4), torch.zeros(size // 4)
    parts, part = list(b.chunk(ranks)), a[:size // 4 // ranks]

    def ping_pong(_):
        if rank % 2 == 0:
            dist.send(a, rank + 1)
            dist.recv(b, rank + 1)
        else:
            dist.recv(b, rank - 1)
            dist.send(a, rank - 1)

    return {
        "ping_pong": ping_pong,
        "broadcast": lambda i: dist.broadcast(a, i % ranks),
        "sum_reduce": lambda i: dist.reduce(a, i % ranks),
        "all_sum_reduce": lambda i: dist.all_reduce(a),
        "all_gather": lambda i: dist.all_gather(parts, part),
        "reduce_scatter": lambda i: dist.reduce_scatter(part, list(a.chunk(ranks))),
        "all_to_all": lambda i: dist.all_to_all_single(b, a),
    }[op]


def run_rank(rank, ranks, folder, ops, sizes, seconds):
    signal.alarm(seconds)  # ends the process, and with it the others, wherever it waits
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=ranks)
    for op in ops:
        for size in {"image_halo": [16 << 10], "work_halo": [8 << 10]}.get(op, sizes):
            try:
                times = measure(size, make(op, rank, ranks, size), 2 if op == "ping_pong" else 1)
                line = f"{times[len(times) // 2]:.2f},{times[0]:.2f}"
            except RuntimeError as error:
                if "does not support" not in str(error):
                    raise
                line = "missing,missing"
            if rank == 0:
                print(f"gloo,{op},{ranks},{size},{line}", flush=True)
    dist.barrier()


def main():
    if len(sys.argv) != 5:
        raise SystemExit("usage: gloo_primitives.py RANKS OPERATORS BYTES SECONDS")
    ranks, seconds = int(sys.argv[1]), int(sys.argv[4])
    ops, sizes = sys.argv[2].split(","), [int(size) for size in sys.argv[3].split(",")]
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(run_rank, (ranks, folder, ops, sizes, seconds), nprocs=ranks)


if __name__ == "__main__":
    main()
