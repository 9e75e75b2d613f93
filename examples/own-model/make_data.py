#!/usr/bin/python3
"""Volumes of noise with bright ellipsoids, and which cells are within one: always the same bytes. Needs NumPy.

    examples/own-model/make_data.py [FOLDER]     (absent: the script's own)

writes {train,held-out}-{volumes,labels}.npy, of 16 and 4 samples.
"""
import pathlib
import sys

import numpy

EXTENT = 24


def samples(count, seed):
    random = numpy.random.RandomState(seed)
    volumes = random.normal(scale=0.8, size=(count, 1, EXTENT, EXTENT, EXTENT)).astype(numpy.float32)
    labels = numpy.zeros((count, EXTENT, EXTENT, EXTENT), numpy.int64)
    for volume, label in zip(volumes, labels):
        for _ in range(3):
            center, radii = random.uniform(5, EXTENT - 5, 3), random.uniform(2.5, 6, 3)
            places = numpy.indices(label.shape).reshape(3, -1).T
            label.reshape(-1)[(((places - center) / radii)**2).sum(1) <= 1] = 1
        volume[0][label == 1] += 1
    return volumes, labels


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__)
    folder = folder if len(sys.argv) > 1 else folder.resolve().parent
    for name, count, seed in (("train", 16, 1), ("held-out", 4, 2)):
        volumes, labels = samples(count, seed)
        numpy.save(folder / f"{name}-volumes.npy", volumes)
        numpy.save(folder / f"{name}-labels.npy", labels)


if __name__ == "__main__":
    main()
