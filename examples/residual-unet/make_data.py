#!/usr/bin/env python3
"""Volumes to try the residual 3-D U-Net on: noisy balls and shells; class 1 and 2 of a label are their voxels.

    examples/residual-unet/make_data.py [FOLDER]     (absent: the script's own)

writes {train,test}-{volumes,labels}.idx.gz, the same on every machine. Standard library only.
"""
import gzip
import pathlib
import random
import struct
import sys

SIDE = 32
COUNTS = {"train": 32, "test": 8}


def sample(generator):
    """A volume and its label, as bytes in row-major order."""
    volume = bytearray(max(0, min(255, int(generator.gauss(60, 25)))) for _ in range(SIDE**3))
    label = bytearray(SIDE**3)
    for shape in (1, 2):
        z, y, x = (generator.uniform(8, SIDE - 8) for _ in range(3))
        radius = generator.uniform(5, 9)
        inner = 0 if shape == 1 else 0.6 * radius
        for at in range(SIDE**3):
            deep, high, wide = at // SIDE**2, at // SIDE % SIDE, at % SIDE
            if inner**2 <= (deep - z) ** 2 + (high - y) ** 2 + (wide - x) ** 2 <= radius**2:
                volume[at] = max(0, min(255, int(generator.gauss(160, 35))))
                label[at] = shape
    return bytes(volume), bytes(label)


def write(path, shape, samples):
    with open(path, "wb") as file, gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as idx:
        idx.write(struct.pack(f">BBBB{1 + len(shape)}I", 0, 0, 8, 1 + len(shape), len(samples), *shape))
        for values in samples:
            idx.write(values)


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, count) in enumerate(COUNTS.items()):
        generator = random.Random(seed)
        samples = [sample(generator) for _ in range(count)]
        write(folder / f"{name}-volumes.idx.gz", [SIDE] * 3, [volume for volume, _ in samples])
        write(folder / f"{name}-labels.idx.gz", [SIDE] * 3, [label for _, label in samples])
        print(f"{folder}/{name}-*.idx.gz: {count} volumes of {SIDE}x{SIDE}x{SIDE}")


if __name__ == "__main__":
    main()
