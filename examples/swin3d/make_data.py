#!/usr/bin/python3
"""Volumes of one body each, in noise: a ball (class 0), a box (1), or a shell (2).

    examples/swin3d/make_data.py [FOLDER]     (absent: the script's own)

writes train-volume.npy, float32 [384, 1, 16, 16, 12], and train-label.npy, int64 [384], and 96 others as test-*.npy, always
the same. Needs numpy.
"""
import pathlib
import sys

import numpy

SAMPLES = {"train": 384, "test": 96}
SHAPE = (16, 16, 12)
NOISE = 0.1


def body(kind, random):
    at = numpy.stack(numpy.meshgrid(*[numpy.arange(n) for n in SHAPE], indexing="ij"), axis=-1)
    radius = random.uniform(2.5, 4.5)
    middle = [random.uniform(radius, n - 1 - radius) for n in SHAPE]
    away = numpy.abs(at - middle)
    distance = numpy.sqrt((away ** 2).sum(axis=-1))
    if kind == 0:
        return distance <= radius
    if kind == 1:
        return (away <= 0.8 * radius).all(axis=-1)
    return (distance <= radius) & (distance >= radius - 1.5)


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent
    folder.mkdir(parents=True, exist_ok=True)
    random = numpy.random.RandomState(7)
    for name, samples in SAMPLES.items():
        label = numpy.arange(samples) % 3
        volume = numpy.stack([body(kind, random) for kind in label]).astype(numpy.float32)
        volume += NOISE * random.standard_normal(volume.shape).astype(numpy.float32)
        numpy.save(folder / f"{name}-volume.npy", volume[:, None])
        numpy.save(folder / f"{name}-label.npy", label.astype(numpy.int64))
    print(f"{folder}/train-*.npy: {SAMPLES['train']} volumes, {folder}/test-*.npy: {SAMPLES['test']}")


if __name__ == "__main__":
    main()
