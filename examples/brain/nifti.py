"""Reads and writes NIfTI-1 volumes (.nii, .nii.gz); numpy only.

    volume = nifti.read("t1.nii.gz")
    volume.cells                 # [z, y, x], as they lie in the file
    volume.affine                # 4x4: (x, y, z, 1) of a cell to millimetres
    nifti.write("part.nii.gz", volume.crop((0, 10, 0), (64, 64, 64)))

Reads 3-D volumes without scaling, anything else is an error; writes also several channels, [c, z, y, x]. A volume keeps its
header: what is written differs from what was read in extents, type and place only.
"""
import dataclasses
import gzip
import pathlib
import struct

import numpy

_TYPES = {2: "u1", 4: "i2", 8: "i4", 16: "f4", 64: "f8", 256: "i1", 512: "u2", 768: "u4"}
_HEADER_BYTES = 348
_DATA_BEGIN = 352  # the header and four bytes that say that no extension follows


class NiftiError(Exception):
    pass


@dataclasses.dataclass
class Volume:
    cells: numpy.ndarray   # [z, y, x] or [c, z, y, x]
    affine: numpy.ndarray  # of (x, y, z, 1)
    header: bytes          # as read, little-endian

    def crop(self, begin, extents):
        """The part of these extents [z, y, x] that begins there, in its place."""
        inner = (Ellipsis, *(slice(b, b + e) for b, e in zip(begin, extents)))
        affine = self.affine.copy()
        affine[:3, 3] += self.affine[:3, :3] @ numpy.array(begin[::-1], dtype=float)
        return Volume(self.cells[inner], affine, self.header)

    def with_cells(self, cells):
        return Volume(cells, self.affine, self.header)


def _quaternion_affine(header):
    """Method 2 of the format: a rotation, and pixdim for the lengths."""
    b, c, d, *offset = struct.unpack_from("<6f", header, 256)
    sign, *lengths = struct.unpack_from("<4f", header, 76)
    a = max(0.0, 1 - b * b - c * c - d * d) ** 0.5
    rotation = numpy.array([
        [a * a + b * b - c * c - d * d, 2 * (b * c - a * d), 2 * (b * d + a * c)],
        [2 * (b * c + a * d), a * a + c * c - b * b - d * d, 2 * (c * d - a * b)],
        [2 * (b * d - a * c), 2 * (c * d + a * b), a * a + d * d - b * b - c * c]])
    lengths[2] *= -1 if sign < 0 else 1
    affine = numpy.eye(4)
    affine[:3, :3] = rotation * lengths
    affine[:3, 3] = offset
    return affine


def _affine(header, path):
    quaternion_code, matrix_code = struct.unpack_from("<2h", header, 252)
    if matrix_code > 0:
        affine = numpy.eye(4)
        affine[:3] = numpy.frombuffer(header, "<f4", 12, 280).reshape(3, 4)
        return affine
    if quaternion_code > 0:
        return _quaternion_affine(header)
    raise NiftiError(f"{path}: neither qform_code nor sform_code is set, so where its cells lie is not known")


def read(path):
    content = pathlib.Path(path).read_bytes()
    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    if len(content) < _DATA_BEGIN or content[344:347] != b"n+1" or struct.unpack_from("<i", content)[0] != _HEADER_BYTES:
        raise NiftiError(f"{path}: not a little-endian NIfTI-1 file")
    header = content[:_HEADER_BYTES]
    dims, *extents = struct.unpack_from("<8h", header, 40)
    extents = extents[:dims]
    code = struct.unpack_from("<h", header, 70)[0]
    begin, slope, intercept = struct.unpack_from("<3f", header, 108)
    if dims < 3 or any(extent != 1 for extent in extents[3:]):
        raise NiftiError(f"{path}: a volume of {extents}; three dimensions are read")
    if code not in _TYPES:
        raise NiftiError(f"{path}: data type {code} is not read")
    if (slope, intercept) not in ((1, 0), (0, 0)):
        raise NiftiError(f"{path}: cells scaled by {slope} and shifted by {intercept} are not read")
    kind = numpy.dtype("<" + _TYPES[code])
    count = extents[0] * extents[1] * extents[2]
    if len(content) < int(begin) + count * kind.itemsize:
        raise NiftiError(f"{path}: shorter than its header says")
    cells = numpy.frombuffer(content, kind, count, int(begin)).reshape(extents[2], extents[1], extents[0])
    return Volume(cells, _affine(header, path), header)


def write(path, volume):
    """Whole or not at all; the same bytes on every machine. Gzip where the name ends so."""
    path = pathlib.Path(path)
    header = bytearray(volume.header)
    cells = numpy.ascontiguousarray(volume.cells)
    code = next(code for code, kind in _TYPES.items() if numpy.dtype("<" + kind) == cells.dtype)
    struct.pack_into("<8h", header, 40, cells.ndim, *cells.shape[::-1], *(1,) * (7 - cells.ndim))
    struct.pack_into("<2h", header, 70, code, 8 * cells.dtype.itemsize)
    struct.pack_into("<3f", header, 108, _DATA_BEGIN, 1, 0)
    struct.pack_into("<2f", header, 124, 0, 0)                    # cal_max, cal_min: the shown range is the viewer's
    struct.pack_into("<2h", header, 252, 0, 4)                    # the matrix counts, in the atlas's space
    header[280:328] = volume.affine[:3].astype("<f4").tobytes()
    content = bytes(header) + bytes(_DATA_BEGIN - _HEADER_BYTES) + cells.tobytes()
    if path.suffix == ".gz":
        content = gzip.compress(content, compresslevel=6, mtime=0)
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(content)
    partial.replace(path)
