#!/usr/bin/python3
"""A Poisson problem with a solution in closed form, and what is known of it.

    examples/deep-prior/make_data.py [FOLDER]     (absent: the script's own)

writes, float64, always the same:

    solution.npy   u at the midpoints of 16x16x16 cells of the unit cube: what is to be found
    source.npy     h^2 times f = u_xx + u_yy + u_zz in all cells but the outermost
    measured.npy   the mean of u over 2x2x2 cells at each of 4x4x4 places
    latent.npy     four waves of random direction and phase: what the network makes its field of

The source says nothing of what is harmonic in u, since no value on the boundary is given: that is known from the measured
places only. Needs numpy.
"""
import pathlib
import sys

import numpy

CELLS = 16
PLACES_APART = 4
LATENT_CHANNELS = 4


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent
    folder.mkdir(parents=True, exist_ok=True)
    h = 1 / CELLS
    middle = (numpy.arange(CELLS) + 0.5) * h
    z, y, x = numpy.meshgrid(middle, middle, middle, indexing="ij")
    wave = numpy.sin(numpy.pi * x) * numpy.sin(2 * numpy.pi * y) * numpy.cos(numpy.pi * z)
    solution = wave + 0.5 * x * y - 0.3 * z
    source = h * h * -6 * numpy.pi ** 2 * wave

    pairs = sum(numpy.arange(begin, CELLS - 1, PLACES_APART)[:, None] == numpy.arange(CELLS) for begin in (0, 1)) / 2
    measured = numpy.einsum("ai,bj,ck,ijk->abc", pairs, pairs, pairs, solution)
    random = numpy.random.RandomState(1)
    latent = numpy.stack([numpy.cos(sum(wave_number * axis for wave_number, axis in zip(random.uniform(-4, 4, 3), (x, y, z))) +
                                    random.uniform(0, 2 * numpy.pi)) for _ in range(LATENT_CHANNELS)])
    for name, values in (("solution", solution[None]), ("source", source[None, 1:-1, 1:-1, 1:-1]),
                         ("measured", measured[None]), ("latent", latent)):
        numpy.save(folder / f"{name}.npy", numpy.ascontiguousarray(values[None]))
        print(f"{folder}/{name}.npy: {'x'.join(map(str, values.shape))}, rms {numpy.sqrt((values ** 2).mean()):.4f}")


if __name__ == "__main__":
    main()
