"""Writes array files with NumPy and h5py, and NIfTI-1 by struct, for array_file_test.

    make_array_files.py FOLDER      FOLDER/manifest has a line per array: file, data set, format, type, shape, bytes of
                                    NaN-safe doubles in the file of the last column
"""

import gzip
import os
import struct
import sys
import zlib

import h5py
import numpy

folder = sys.argv[1]
manifest = open(os.path.join(folder, "manifest"), "w")
random = numpy.random.default_rng(7)
TYPES = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64"]


def cells(dtype, shape):
    dtype = numpy.dtype(dtype)
    if dtype.kind == "f":
        values = (random.standard_normal(shape) * 100).astype(dtype)
        if values.size > 4:
            values.flat[:4] = [numpy.inf, -numpy.inf, numpy.nan, 6e-8]  # the last is a float16 without leading one
        return values
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(bool)
    low, high = numpy.iinfo(dtype).min, numpy.iinfo(dtype).max
    return random.integers(low, high, shape, dtype=dtype, endpoint=True)


def expect(name, file_format, values, data_set="-", scaled=None):
    truth = "%s.%s.f64" % (name, data_set.replace("/", "_"))
    numpy.ascontiguousarray(values if scaled is None else scaled).astype("<f8").tofile(os.path.join(folder, truth))
    boolean = "int8" if file_format == "hdf5" else "uint8"
    dtype = boolean if values.dtype.kind == "b" else values.dtype.newbyteorder("=").name
    shape = "x".join(map(str, values.shape)) or "-"
    print(name, data_set, file_format, dtype, shape, truth, file=manifest)


def path(name):
    return os.path.join(folder, name)


def write_npy():
    for dtype in TYPES + ["bool"]:
        for order in "<>":
            for layout in "CF":
                values = numpy.array(cells(dtype, (3, 4, 5)), dtype=numpy.dtype(dtype).newbyteorder(order), order=layout)
                name = "%s_%s_%s.npy" % (dtype, "le" if order == "<" else "be", layout)
                numpy.save(path(name), values)
                expect(name, "npy", values)
    for version in [(1, 0), (2, 0), (3, 0)]:
        values = cells("int16", (6, 7))
        name = "version%d.npy" % version[0]
        with open(path(name), "wb") as file:
            numpy.lib.format.write_array(file, values, version=version)
        expect(name, "npy", values)
    for name, shape in [("scalar", ()), ("line", (9,)), ("nothing", (3, 0, 2)), ("deep", (2, 3, 1, 2, 2, 3)),
                        ("flat_f", (40, 3))]:
        values = numpy.asfortranarray(cells("float32", shape)) if name == "flat_f" else cells("float32", shape)
        numpy.save(path(name + ".npy"), values)
        expect(name + ".npy", "npy", values)
    values = cells("float64", (5, 6))
    with gzip.open(path("inflated.npy.gz"), "wb") as file:
        numpy.save(file, values)
    expect("inflated.npy.gz", "npy", values)
    numpy.save(path("complex.npy"), numpy.zeros(3, complex))
    numpy.save(path("object.npy"), numpy.array([None, {}], dtype=object), allow_pickle=True)
    numpy.save(path("structured.npy"), numpy.zeros(3, [("a", "i4"), ("b", "f4")]))
    numpy.save(path("text.npy"), numpy.array(["a", "bc"]))


NIFTI_CODES = {"uint8": 2, "int16": 4, "int32": 8, "float32": 16, "float64": 64, "int8": 256, "uint16": 512,
               "uint32": 768, "int64": 1024, "uint64": 1280}


def nifti_header(order, shape, dtype, slope, intercept, offset, magic=b"n+1\0"):
    dims = [len(shape)] + list(reversed(shape)) + [1] * (7 - len(shape))
    header = struct.pack(order + "i10s18sihcB", 348, b"", b"", 0, 0, b"r", 0)
    header += struct.pack(order + "8h3f4h", *dims, 0, 0, 0, 0, NIFTI_CODES[dtype], 8 * numpy.dtype(dtype).itemsize, 0)
    header += struct.pack(order + "8f3fhBB", -1, 2, 2.5, 3, 1, 1, 1, 1, offset, slope, intercept, 0, 0, 10)
    header += struct.pack(order + "4f2i80s24s", 0, 0, 0, 0, 0, 0, b"a test", b"")
    header += struct.pack(order + "2h18f16s4s", 1, 2, *range(18), b"", magic)
    assert len(header) == 348
    return header


def write_nifti():
    number = 0
    for dtype in NIFTI_CODES:
        for order in "<>":
            number += 1
            shape = [(4, 5, 6), (2, 4, 5, 3)][number % 2]
            slope, intercept = [(0, 7), (1, 0), (0.5, -3)][number % 3]
            values = numpy.array(cells(dtype, shape), dtype=numpy.dtype(dtype).newbyteorder(order))
            offset = [352, 400][number % 2]
            content = nifti_header(order, shape, dtype, slope, intercept, offset)
            content += b"\0" * (offset - 348) + values.tobytes()
            name = "%s_%s.nii" % (dtype, "le" if order == "<" else "be")
            scaled = values.astype("f8") if slope == 0 else values.astype("f8") * slope + intercept
            for packed in (False, True):
                with (gzip.open if packed else open)(path(name + (".gz" if packed else "")), "wb") as file:
                    file.write(content)
                expect(name + (".gz" if packed else ""), "nifti", values, scaled=scaled)
    with open(path("pair.hdr"), "wb") as file:
        file.write(nifti_header("<", (2, 2), "uint8", 1, 0, 0, b"ni1\0"))
    with open(path("analyze.hdr"), "wb") as file:
        file.write(nifti_header("<", (2, 2), "uint8", 1, 0, 0, b"\0\0\0\0"))
    with open(path("two.nii"), "wb") as file:
        file.write(struct.pack("<i", 540) + b"n+2\0\r\n\x1a\n" + bytes(540))


def write_hdf5():
    with h5py.File(path("many.h5"), "w") as file:
        for dtype in TYPES + ["bool"]:
            for order in "<>" if dtype != "bool" else "<":
                kind = "le" if order == "<" else "be"
                values = numpy.array(cells(dtype, (5, 6, 7)), dtype=numpy.dtype(dtype).newbyteorder(order))
                file.create_dataset("plain/%s_%s" % (dtype, kind), data=values)
                expect("many.h5", "hdf5", values, "plain/%s_%s" % (dtype, kind))
                chunked = file.create_dataset("packed/%s_%s" % (dtype, kind), data=values, chunks=(2, 3, 4),
                                              compression="gzip", shuffle=True, fletcher32=True)
                expect("many.h5", "hdf5", values, chunked.name)
        file["scalar"] = 2.5
        expect("many.h5", "hdf5", numpy.array(2.5), "scalar")
        unwritten = file.create_dataset("unwritten", (4, 5), "f4", fillvalue=1.5)
        expect("many.h5", "hdf5", unwritten[()], "unwritten")
        partly = file.create_dataset("partly", (4, 5), "i2", chunks=(2, 2), fillvalue=-3)
        partly[0, 0] = 9
        expect("many.h5", "hdf5", partly[()], "partly")
        compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        compact.set_layout(h5py.h5d.COMPACT)
        values = cells("int16", (3, 4))
        h5py.h5d.create(file.id, b"compact", h5py.h5t.STD_I16BE, h5py.h5s.create_simple((3, 4)), compact)
        file["compact"][...] = values
        expect("many.h5", "hdf5", values, "compact")
        file["text"] = "abc"
        file["complex"] = numpy.zeros(3, complex)
        file["lzf"] = h5py.Empty("f4")
        file.create_dataset("lzf_packed", data=numpy.zeros((8, 8)), chunks=(4, 4), compression="lzf")
        file["elsewhere"] = h5py.ExternalLink("other.h5", "secret")
        file.create_dataset("outside", (4,), "u1", external=[(path("manifest"), 0, 4)])
        layout = h5py.VirtualLayout(shape=(4,), dtype="f8")
        layout[:] = h5py.VirtualSource(path("other.h5"), "secret", shape=(4,))
        file.create_virtual_dataset("virtual", layout)
    with h5py.File(path("other.h5"), "w") as file:
        file["secret"] = numpy.arange(4.0)
    expect("other.h5", "hdf5", numpy.arange(4.0), "secret")
    with h5py.File(path("block.h5"), "w", userblock_size=512) as file:
        file["cells"] = numpy.arange(12, dtype="i4").reshape(3, 4)
    expect("block.h5", "hdf5", numpy.arange(12, dtype="i4").reshape(3, 4), "cells")
    with h5py.File(path("big.h5"), "w") as file:
        values = random.integers(0, 1000, (64, 64, 64)).astype("i4")
        file.create_dataset("plain", data=values)
        file.create_dataset("chunked", data=values, chunks=(16, 16, 16))
    with h5py.File(path("claims.h5"), "w") as file:
        file.create_dataset("one_row", (1, 2048, 2048, 2048), "u1", chunks=(1, 64, 64, 64), compression="gzip")
        file.create_dataset("many", (1 << 40,), "u1", chunks=(1,))
        file.create_dataset("wide", (1, 1 << 60), "u1", chunks=(1, 1 << 20), compression="gzip")
    with h5py.File(path("unpacked.h5"), "w") as file:
        options = dict(chunks=(1024,), compression="gzip", shuffle=True, fletcher32=False)
        for name, size in [("more", 1 << 28), ("less", 1000), ("right", 1024)]:
            lying = file.create_dataset(name, (2048,), "u1", **options)
            lying.id.write_direct_chunk((1024,), zlib.compress(bytes(size)))
        raw = file.create_dataset("not_packed", (2048,), "u1", **options)
        raw.id.write_direct_chunk((1024,), bytes(1024), filter_mask=3)
        raw = file.create_dataset("not_packed_more", (2048,), "u1", **options)
        raw.id.write_direct_chunk((1024,), bytes(1025), filter_mask=3)
    with h5py.File(path("checked.h5"), "w") as file:
        values = random.integers(0, 256, 1 << 16).astype("u1")
        file.create_dataset("cells", data=values, chunks=(1 << 13,), fletcher32=True)


write_npy()
write_nifti()
write_hdf5()
manifest.close()
