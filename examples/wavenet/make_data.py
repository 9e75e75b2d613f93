#!/usr/bin/env python3
"""Waves to try the WaveNet on: each a sum of three tones that swell and fade, with a little noise, in 64 steps of height.

    examples/wavenet/make_data.py [FOLDER]     (absent: the script's own)

writes {train,test}-{waves,next}.idx.gz, the same on every machine: heights 0 to 63, and for each sample the height of the
next one. Standard library only.
"""
import gzip
import math
import pathlib
import random
import struct
import sys

LENGTH = 1600
HEIGHTS = 64
COUNTS = {"train": 256, "test": 64}


def wave(generator):
    """LENGTH + 1 heights."""
    tones = [(generator.uniform(8, 200), generator.uniform(300, 1200), generator.uniform(0, 2 * math.pi)) for _ in range(3)]
    heights = bytearray()
    for t in range(LENGTH + 1):
        value = sum(math.sin(2 * math.pi * t / period + phase) * (1 + math.sin(2 * math.pi * t / swell))
                    for period, swell, phase in tones) / 6
        value += generator.gauss(0, 0.005)
        heights.append(max(0, min(HEIGHTS - 1, int((value + 1) * HEIGHTS / 2))))
    return bytes(heights)


def write(path, shape, samples):
    with open(path, "wb") as file, gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as idx:
        idx.write(struct.pack(">BBBB", 0, 0, 8, 1 + len(shape)))
        idx.write(struct.pack(f">{1 + len(shape)}I", len(samples), *shape))
        for values in samples:
            idx.write(values)


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, count) in enumerate(COUNTS.items()):
        generator = random.Random(seed)
        waves = [wave(generator) for _ in range(count)]
        write(folder / f"{name}-waves.idx.gz", [1, LENGTH], [heights[:-1] for heights in waves])
        write(folder / f"{name}-next.idx.gz", [LENGTH], [heights[1:] for heights in waves])
        print(f"{folder}/{name}-*.idx.gz: {count} waves of {LENGTH} samples")


if __name__ == "__main__":
    main()
