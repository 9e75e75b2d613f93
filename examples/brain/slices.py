#!/usr/bin/python3
"""Draws slices of a volume with one or several label volumes over it, side by side.

    examples/brain/slices.py T1 LABELS [LABELS ...] OUT.png [--at X,Y,Z]

Each column is one LABELS file over T1, in files of equal extents; the rows are the axial, the coronal and the sagittal slice
through the cell X,Y,Z (absent: a place in the right hemisphere that shows all classes of the example). The head is seen from
above, from behind and from its right side: left is left. White lines stand where the axial slice is cut by the others. Needs
numpy.
"""
import argparse
import struct
import sys
import zlib

import numpy

import nifti

COLORS = numpy.array([[0, 0, 0], [230, 75, 60], [70, 140, 240], [60, 190, 110]], dtype=float)  # by class
OPACITY = 0.45
ZOOM = 2
GAP = 6
DEFAULT_PLACE = (98, 98, 70)  # x, y, z of a cell


def png(path, pixels):
    """`pixels`: uint8 [height, width, 3]."""
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    height, width, _ = pixels.shape
    rows = numpy.concatenate([numpy.zeros((height, 1), numpy.uint8), pixels.reshape(height, 3 * width)], axis=1)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                   chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)) + chunk(b"IEND", b""))


def planes(cells, place):
    """The three slices, top of the head or its front above."""
    x, y, z = place
    return cells[z, ::-1, :], cells[::-1, y, :], cells[::-1, :, x]


def panel(t1, labels, place):
    """The three slices below each other, colored: [height, width, 3]."""
    drawn = []
    for grey, classes in zip(planes(t1, place), planes(labels, place)):
        image = numpy.repeat(grey[:, :, None].astype(float), 3, axis=2)
        over = (classes > 0) & (classes < len(COLORS))
        image[over] = (1 - OPACITY) * image[over] + OPACITY * COLORS[classes[over]]
        drawn.append(image)
    x, y, _ = place
    axial = drawn[0]
    axial[::4, x] = axial[t1.shape[1] - 1 - y, ::4] = 255
    width = max(image.shape[1] for image in drawn)
    padded = [numpy.pad(image, ((0, GAP), (0, width - image.shape[1] + GAP), (0, 0))) for image in drawn]
    return numpy.concatenate(padded)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("t1")
    parser.add_argument("labels", nargs="+")
    parser.add_argument("out")
    parser.add_argument("--at", default=",".join(map(str, DEFAULT_PLACE)))
    arguments = parser.parse_args()
    t1 = nifti.read(arguments.t1).cells
    try:
        place = tuple(int(number) for number in arguments.at.split(","))
        inside = len(place) == 3 and all(0 <= p < e for p, e in zip(place, t1.shape[::-1]))
    except ValueError:
        inside = False
    if not inside:
        sys.exit(f"slices.py: --at {arguments.at} is no cell X,Y,Z of {arguments.t1}, of {t1.shape[::-1]} cells")
    t1 = numpy.clip(t1 * (255.0 / max(1.0, numpy.percentile(t1, 99.5))), 0, 255)
    columns = []
    for path in arguments.labels:
        labels = nifti.read(path).cells
        if labels.shape != t1.shape:
            sys.exit(f"slices.py: {path} has {labels.shape[::-1]} cells, {arguments.t1} {t1.shape[::-1]}")
        columns.append(panel(t1, labels, place))
    pixels = numpy.concatenate(columns, axis=1).round().astype(numpy.uint8)
    png(arguments.out, pixels.repeat(ZOOM, axis=0).repeat(ZOOM, axis=1))
    print(f"{arguments.out}: {len(columns)} columns; axial, coronal and sagittal slice through cell {arguments.at}")


if __name__ == "__main__":
    main()
