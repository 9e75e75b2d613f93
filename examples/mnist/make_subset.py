#!/usr/bin/env python3
"""Makes this folder's data files from the full MNIST set: the first 10,000 training and 2,000 test samples.

    make_subset.py FULL_SET_FOLDER [OUTPUT_FOLDER]

FULL_SET_FOLDER holds train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and
t10k-labels-idx1-ubyte, plain or with .gz. The same input gives the same bytes (no time in the gzip header).
"""
import gzip
import math
import pathlib
import struct
import sys

_FILES = [  # (in the full set, here, samples kept)
    ("train-images-idx3-ubyte", "train-images.idx.gz", 10_000),
    ("train-labels-idx1-ubyte", "train-labels.idx.gz", 10_000),
    ("t10k-images-idx3-ubyte", "test-images.idx.gz", 2_000),
    ("t10k-labels-idx1-ubyte", "test-labels.idx.gz", 2_000),
]
_UNSIGNED_BYTE = 0x08


def read_full(folder, name):
    for path in (folder / name, folder / (name + ".gz")):
        if path.exists():
            content = path.read_bytes()
            return gzip.decompress(content) if path.suffix == ".gz" else content
    sys.exit(f"make_subset.py: neither {name} nor {name}.gz is in {folder}")


def first_samples(content, count, name):
    """The IDX file `content` cut down to its first `count` samples."""
    zero, kind, dims = struct.unpack_from(">HBB", content)
    if zero != 0 or kind != _UNSIGNED_BYTE or dims < 1:
        sys.exit(f"make_subset.py: {name} is not an IDX file of unsigned bytes")
    shape = struct.unpack_from(f">{dims}I", content, 4)
    header = 4 + 4 * dims
    if len(content) != header + math.prod(shape):
        sys.exit(f"make_subset.py: {name} has {len(content)} bytes, its header promises {header + math.prod(shape)}")
    if shape[0] < count:
        sys.exit(f"make_subset.py: {name} has {shape[0]} samples, {count} are needed")
    data = content[header:header + count * math.prod(shape[1:])]
    return struct.pack(f">HBB{dims}I", 0, kind, dims, count, *shape[1:]) + data


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    source = pathlib.Path(sys.argv[1])
    target = pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else pathlib.Path(__file__).resolve().parent
    for full_name, name, count in _FILES:
        subset = first_samples(read_full(source, full_name), count, full_name)
        (target / name).write_bytes(gzip.compress(subset, compresslevel=9, mtime=0))
        print(f"{name}: {count} samples, {(target / name).stat().st_size} bytes")


if __name__ == "__main__":
    main()
