#!/usr/bin/python3
"""Compares the classes of two volumes, cell by cell: Dice = 2 |A and B| / (|A| + |B|) of each class.

    examples/brain/dice.py PREDICTED LABELS

Cells that are 255 in LABELS do not count. Prints a line for each class and their mean. Needs numpy.
"""
import sys

import numpy

import nifti
from make_data import CLASSES, IGNORED


def dice_per_class(predicted, labels):
    counted = labels != IGNORED
    result = []
    for index in range(len(CLASSES)):
        a, b = (predicted == index) & counted, (labels == index) & counted
        total = int(a.sum()) + int(b.sum())
        result.append(2 * int((a & b).sum()) / total if total > 0 else float("nan"))
    return result


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    predicted, labels = (nifti.read(path) for path in sys.argv[1:])
    if predicted.cells.shape != labels.cells.shape or not numpy.allclose(predicted.affine, labels.affine):
        sys.exit(f"dice.py: {sys.argv[1]} and {sys.argv[2]} do not lie in the same place: {predicted.cells.shape[::-1]} and "
                 f"{labels.cells.shape[::-1]} cells, at\n{predicted.affine}\nand\n{labels.affine}")
    values = dice_per_class(predicted.cells, labels.cells)
    for name, value in zip(CLASSES, values):
        print(f"{value:.17g} {name}")
    print(f"{numpy.nanmean(values):.17g} mean")


if __name__ == "__main__":
    main()
