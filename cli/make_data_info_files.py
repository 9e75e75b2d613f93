"""Writes what data_info_test shows, with NumPy and h5py: make_data_info_files.py FOLDER"""

import gzip
import os
import sys

import h5py
import numpy

folder = sys.argv[1]
labels = numpy.zeros((2, 10, 10), "u1")
labels[0] = 3
labels[1, :2] = 1
numpy.save(os.path.join(folder, "labels.npy"), labels)
values = numpy.arange(64.0).reshape(4, 16) / 2
values[1, 2] = numpy.nan
values[3, 3] = numpy.inf
with gzip.open(os.path.join(folder, "values.npy.gz"), "wb") as file:
    numpy.save(file, values)
with h5py.File(os.path.join(folder, "set.h5"), "w") as file:
    file["train/images"] = numpy.ones((3, 4), "f4")
    file["name"] = "a text"
