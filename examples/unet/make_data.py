#!/usr/bin/env python3
"""Images to try the 2-D U-Net on: noisy discs and rings; class 1 and 2 of a label are their pixels.

    examples/unet/make_data.py [FOLDER]     (absent: the script's own)

writes {train,test}-{images,labels}.idx.gz, the same on every machine. Standard library only.
"""
import gzip
import pathlib
import random
import struct
import sys

SIDE = 64
COUNTS = {"train": 256, "test": 64}


def sample(generator):
    """An image and its label, as bytes in row-major order."""
    image = bytearray(max(0, min(255, int(generator.gauss(60, 25)))) for _ in range(SIDE * SIDE))
    label = bytearray(SIDE * SIDE)
    for shape in (1, 2, 1, 2):
        y, x, radius = generator.uniform(8, 56), generator.uniform(8, 56), generator.uniform(5, 12)
        inner = 0 if shape == 1 else 0.6 * radius
        for row in range(SIDE):
            for column in range(SIDE):
                distance = ((row - y) ** 2 + (column - x) ** 2) ** 0.5
                if inner <= distance <= radius:
                    image[row * SIDE + column] = max(0, min(255, int(generator.gauss(160, 35))))
                    label[row * SIDE + column] = shape
    return bytes(image), bytes(label)


def write(path, samples):
    with open(path, "wb") as file, gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as idx:
        idx.write(struct.pack(">BBBBIII", 0, 0, 8, 3, len(samples), SIDE, SIDE))
        for values in samples:
            idx.write(values)


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, count) in enumerate(COUNTS.items()):
        generator = random.Random(seed)
        samples = [sample(generator) for _ in range(count)]
        write(folder / f"{name}-images.idx.gz", [image for image, _ in samples])
        write(folder / f"{name}-labels.idx.gz", [label for _, label in samples])
        print(f"{folder}/{name}-*.idx.gz: {count} images of {SIDE}x{SIDE}")


if __name__ == "__main__":
    main()
