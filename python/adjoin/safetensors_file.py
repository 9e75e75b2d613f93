"""Reads safetensors files: 8 bytes with the header's size, the header as JSON, then the tensors' data.

    with SafetensorsFile("model.safetensors") as file:
        weight = file.read("conv1.weight")            # a torch.Tensor on the CPU

A file is data from outside. Nothing is read before the header is checked against the file's size: each tensor's bytes
are those of its shape and type, and the data have neither overlap nor hole. The format is described at
https://github.com/huggingface/safetensors.
"""
from __future__ import annotations

import dataclasses
import json
import os
import stat
import sys
from typing import Any, BinaryIO, Dict, List, Tuple, Union

import numpy
import torch

MAX_HEADER_BYTES = 100_000_000
MAX_DIMS = 32  # of NumPy before 2.0
_MAX_SIZE = 2**63 - 1
_MAX_DIGITS = 19  # of a number up to _MAX_SIZE

# The NumPy type that is read, and the PyTorch type that its bits are.
_TYPES: Dict[str, Tuple[str, torch.dtype]] = {
    "F64": ("<f8", torch.float64),
    "F32": ("<f4", torch.float32),
    "F16": ("<f2", torch.float16),
    "BF16": ("<i2", torch.bfloat16),  # NumPy has no such type
    "I64": ("<i8", torch.int64),
    "I32": ("<i4", torch.int32),
    "I16": ("<i2", torch.int16),
    "I8": ("|i1", torch.int8),
    "U8": ("|u1", torch.uint8),
    "BOOL": ("|u1", torch.bool),  # checked to be 0 or 1
}


@dataclasses.dataclass(frozen=True)
class Entry:
    """Where a tensor is."""

    dtype: str  # "F32"
    shape: Tuple[int, ...]
    begin: int  # bytes, from where the data begin
    end: int

    @property
    def torch_dtype(self) -> torch.dtype:
        return _TYPES[self.dtype][1]


class SafetensorsFile:
    """An open file whose header is checked.

    Raises ValueError, with file, tensor and what would be right, where it is no whole safetensors file; OSError where
    it cannot be read.
    """

    def __init__(self, path: Union[str, "os.PathLike[str]"]) -> None:
        self.path = os.fspath(path)
        # Without O_NONBLOCK a pipe that nobody writes to would be waited for.
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        self._file: BinaryIO = os.fdopen(descriptor, "rb", buffering=0)
        try:
            info = os.fstat(descriptor)
            if not stat.S_ISREG(info.st_mode):
                raise ValueError(f"{self.path}: not a regular file")
            self._data_begin, self.entries = self._header(info.st_size)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> "SafetensorsFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, name: str) -> torch.Tensor:
        """Returns a tensor of `entries`, in the file's type. Errors: ValueError where the file has changed since."""
        entry = self.entries[name]
        kind, dtype = _TYPES[entry.dtype]
        array = numpy.empty(entry.shape, dtype=kind)
        self._read_at(self._data_begin + entry.begin, memoryview(array.reshape(-1).view(numpy.uint8)))
        if dtype is torch.bool and array.size > 0 and array.max() > 1:
            raise ValueError(f"{self.path}: tensor {shown(name)} is BOOL and has a byte that is neither 0 nor 1")
        if sys.byteorder == "big":
            array = array.astype(array.dtype.newbyteorder("="))
        tensor = torch.from_numpy(array)
        return tensor if tensor.dtype == dtype else tensor.view(dtype)

    def _read_at(self, offset: int, into: memoryview) -> None:
        self._file.seek(offset)
        done = 0
        while done < len(into):
            got = self._file.readinto(into[done:done + (1 << 30)])  # type: ignore[attr-defined]
            if not got:
                raise ValueError(f"{self.path}: became shorter while it was read")
            done += got

    def _header(self, file_bytes: int) -> Tuple[int, Dict[str, Entry]]:
        if file_bytes < 8:
            raise ValueError(f"{self.path}: not a safetensors file: {file_bytes} bytes, where 8 are the least")
        first = bytearray(8)
        self._read_at(0, memoryview(first))
        size = int.from_bytes(first, "little")
        if size > file_bytes - 8 or size > MAX_HEADER_BYTES:
            other = _other_format(bytes(first))
            if other:
                raise ValueError(f"{self.path}: not a safetensors file but {other}")
            raise ValueError(f"{self.path}: truncated, or not a safetensors file: its header would have {size} bytes, "
                             f"the file has {file_bytes}; at most {MAX_HEADER_BYTES} are read")
        text = bytearray(size)
        self._read_at(8, memoryview(text))
        try:
            return 8 + size, _entries(text, file_bytes - 8 - size)
        except ValueError as error:
            raise ValueError(f"{self.path}: bad safetensors header: {error}") from None


def _other_format(first: bytes) -> str:
    if first.startswith(b"PK\x03\x04") or (first[0] == 0x80 and 2 <= first[1] <= 5):
        return ("what torch.save writes, which can hold any program; "
                "module.load_state_dict(torch.load(FILE, weights_only=True)) reads it without running one")
    if first.startswith(b"\x89HDF\r\n"):
        return "an HDF5 file"
    return ""


def shown(name: Any) -> str:
    """Returns what a file has as a name, short, and without what would control a terminal."""
    text = repr(name)
    return text if len(text) <= 100 else text[:97] + "..."


def _unique(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"{shown(name)} is there twice")
            seen.add(name)
    return value


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS + 1:  # converting takes time that grows with the square
        raise ValueError(f"a number has {len(digits)} digits")
    return int(digits)


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _entries(text: bytearray, data_bytes: int) -> Dict[str, Entry]:
    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=_unique, parse_int=_integer,
                            parse_constant=_constant)
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON: {error}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"no UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(header, dict):
        raise ValueError("not a JSON object")
    entries = {}
    for name, value in header.items():
        if name == "__metadata__":
            continue
        try:
            entries[name] = _entry(value)
        except ValueError as error:
            raise ValueError(f"tensor {shown(name)} {error}") from None
    expected = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != expected:
            raise ValueError(f"tensor {shown(name)} begins at {entry.begin}, where {expected} would be right: data "
                             "without overlap or hole")
        expected = entry.end
    if expected != data_bytes:
        raise ValueError(f"its tensors take {expected} bytes, the file has {data_bytes} after the header")
    return entries


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MAX_SIZE  # True is an int, too


def _entry(value: Any) -> Entry:
    if not isinstance(value, dict):
        raise ValueError("is not an object")
    dtype, shape, offsets = value.get("dtype"), value.get("shape"), value.get("data_offsets")
    if not isinstance(dtype, str):
        raise ValueError("has no dtype")
    if dtype not in _TYPES:
        raise ValueError(f"has dtype {shown(dtype)}; right would be one of {', '.join(_TYPES)}")
    if not isinstance(shape, list) or not all(map(_is_size, shape)):
        raise ValueError("has a shape that is not a list of sizes")
    if len(shape) > MAX_DIMS:
        raise ValueError(f"has {len(shape)} dims, more than {MAX_DIMS}")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_size, offsets)):
        raise ValueError("has no data_offsets of two positions")
    size = numpy.dtype(_TYPES[dtype][0]).itemsize
    # PyTorch computes strides of an empty tensor as well, so its other extents must not overflow either.
    for extent in shape:
        size *= max(extent, 1)
        if size > _MAX_SIZE:
            raise ValueError("has a shape too large for any file")
    if 0 in shape:
        size = 0
    begin, end = offsets
    if end - begin != size:
        raise ValueError(f"has data_offsets [{begin}, {end}), but its shape and dtype take {size} bytes")
    return Entry(dtype, tuple(shape), begin, end)
