#!/usr/bin/python3
"""The T1 brain volume of Debian's package mricron-data at 1 mm, and a class for each of its cells.

    examples/brain/make_data.py [FOLDER]     (absent: the script's own)

writes, always the same bytes, as NIfTI with the header of the volume and places in the same space:

    t1.nii.gz, labels.nii.gz       the head, cropped
    position.nii.gz                where each cell is, three channels: z, y, and how far it is from the plane between the
                                   hemispheres, so that places that mirror each other have the same
    train-{t1,labels,position}.nii.gz   the left half of each, to train on
    held-out-labels.nii.gz         the labels, but IGNORED in the left half: what to measure a prediction on

Classes: 0 all that is no brain; 1 cortex; 2 what is inside it: white matter, deep grey nuclei, ventricles, brain stem;
3 cerebellum. Needs numpy.
"""
import pathlib
import sys

import numpy

import nifti

TEMPLATES = pathlib.Path("/usr/share/mricron/templates")
CLASSES = ["no brain", "cortex", "inner brain", "cerebellum"]
IGNORED = 255
# The crop, [z, y, x]: it holds the whole brain, and can be halved twice in four quarters of height and depth. The plane
# x = 0 mm between the hemispheres is its middle.
BEGIN = (8, 16, 14)
EXTENTS = (152, 184, 152)
HALF = EXTENTS[2] // 2


def resample(source, target):
    """The cells of `source` nearest to each cell of `target`; 0 outside."""
    to_source = numpy.linalg.inv(source.affine) @ target.affine
    z, y, x = numpy.ogrid[tuple(slice(0, extent) for extent in target.cells.shape)]
    inside = numpy.ones(target.cells.shape, dtype=bool)
    index = []
    for row, extent in zip((2, 1, 0), source.cells.shape):  # rows of the matrix are x, y, z
        place = to_source[row, 0] * x + to_source[row, 1] * y + to_source[row, 2] * z + to_source[row, 3]
        nearest = numpy.floor(place + 0.5).astype(numpy.int32)
        inside &= (nearest >= 0) & (nearest < extent)
        index.append(numpy.clip(nearest, 0, extent - 1))
    return numpy.where(inside, source.cells[tuple(index)], 0).astype(source.cells.dtype)


def classes(t1, brain, atlas):
    """Merges the 116 regions of the atlas AAL; `brain` is the volume without its skull."""
    region = resample(atlas, t1)
    labels = numpy.where(resample(brain, t1) > 0, 2, 0).astype(numpy.uint8)
    labels[(region >= 1) & (region <= 90)] = 1
    labels[(region >= 71) & (region <= 78)] = 2  # caudate, putamen, pallidum, thalamus
    labels[region >= 91] = 3
    return labels


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent
    for name in ("ch2", "ch2bet", "aal"):
        if not (TEMPLATES / f"{name}.nii.gz").exists():
            sys.exit(f"make_data.py: {TEMPLATES}/{name}.nii.gz is missing; it is in Debian's package mricron-data "
                     "(tools/setup installs it)")
    folder.mkdir(parents=True, exist_ok=True)
    whole = nifti.read(TEMPLATES / "ch2.nii.gz")
    labels = classes(whole, nifti.read(TEMPLATES / "ch2bet.nii.gz"), nifti.read(TEMPLATES / "aal.nii.gz"))
    t1 = whole.crop(BEGIN, EXTENTS)
    labels = whole.with_cells(labels).crop(BEGIN, EXTENTS)

    z, y, x = numpy.indices(EXTENTS)
    position = whole.with_cells(numpy.stack([z, y, abs(2 * x + 1 - EXTENTS[2]) // 2]).astype(numpy.uint8))
    position.affine = t1.affine

    left = ((0, 0, 0), (EXTENTS[0], EXTENTS[1], HALF))
    held_out = labels.cells.copy()
    held_out[:, :, :HALF] = IGNORED
    volumes = {"t1": t1, "labels": labels, "position": position}
    volumes.update({f"train-{name}": volume.crop(*left) for name, volume in volumes.items()})
    volumes["held-out-labels"] = labels.with_cells(held_out)
    for name, volume in volumes.items():
        nifti.write(folder / f"{name}.nii.gz", volume)
        print(f"{folder}/{name}.nii.gz: {'x'.join(map(str, volume.cells.shape[::-1]))}")
    share = numpy.bincount(labels.cells[:, :, HALF:].ravel(), minlength=len(CLASSES)) / labels.cells[:, :, HALF:].size
    print("held-out half: " + ", ".join(f"{name} {100 * s:.1f}%" for name, s in zip(CLASSES, share)))


if __name__ == "__main__":
    main()
