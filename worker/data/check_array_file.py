"""Compares a written array file with what array_writer_test wrote: cell i is (i * 7) % 23 in row-major order.

    check_array_file.py FILE FORMAT DTYPE EXTENT...
"""

import struct
import sys

import h5py
import numpy

name, file_format, dtype = sys.argv[1:4]
shape = tuple(map(int, sys.argv[4:]))


def read_nifti(content):
    size, = struct.unpack_from("<i", content, 0)
    dims = struct.unpack_from("<8h", content, 40)
    code, bits = struct.unpack_from("<2h", content, 70)
    offset, slope, intercept = struct.unpack_from("<3f", content, 108)
    assert size == 348 and content[344:348] == b"n+1\0" and content[348:352] == bytes(4)
    assert (offset, slope, intercept) == (352, 1, 0)
    codes = {2: "u1", 4: "i2", 8: "i4", 16: "f4", 64: "f8", 256: "i1", 512: "u2", 768: "u4", 1024: "i8", 1280: "u8"}
    cell = numpy.dtype("<" + codes[code])
    assert bits == 8 * cell.itemsize
    # As the format has it: the first dim's neighbours are neighbours.
    fortran = numpy.frombuffer(content[352:], cell).reshape(dims[1:1 + dims[0]], order="F")
    return fortran.transpose()


if file_format == "npy":
    array = numpy.load(name)
elif file_format == "hdf5":
    with h5py.File(name) as file:
        assert file["data"].chunks is None
        array = file["data"][()]
else:
    with open(name, "rb") as file:
        array = read_nifti(file.read())
expected = (numpy.arange(int(numpy.prod(shape))) * 7 % 23).reshape(shape).astype(dtype)
assert array.dtype == numpy.dtype(dtype), array.dtype
assert array.shape == shape, array.shape
assert (array == expected).all()
