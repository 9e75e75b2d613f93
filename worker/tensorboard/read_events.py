#!/usr/bin/env python3
"""Reads an event file of TensorBoard's by the format's documentation alone, and prints each event as a line of JSON.

    read_events.py FILE

TFRecord: the length (8 bytes), its masked CRC-32C (4), the content, its masked CRC-32C (4), in little endian. The content
is a protobuf message Event: wall_time = 1 (double), step = 2 (int64), file_version = 3 (string), summary = 5 (message
with repeated value = 1, each with tag = 1 (string) and simple_value = 2 (float)). Any checksum or length that is wrong, and
any other field, ends the program with an error.
"""

import json
import math
import struct
import sys


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    at = 0
    while at < len(data):
        length_bytes = data[at:at + 8]
        (length,) = struct.unpack("<Q", length_bytes)
        (length_crc,) = struct.unpack("<I", data[at + 8:at + 12])
        assert masked(length_bytes) == length_crc, f"the length at byte {at} has a wrong checksum"
        content = data[at + 12:at + 12 + length]
        assert len(content) == length, f"the record at byte {at} is cut off"
        (content_crc,) = struct.unpack("<I", data[at + 12 + length:at + 16 + length])
        assert masked(content) == content_crc, f"the content at byte {at} has a wrong checksum"
        yield content
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = varint(data, at)
        elif wire == 1:
            value, at = data[at:at + 8], at + 8
        elif wire == 5:
            value, at = data[at:at + 4], at + 4
        else:
            assert wire == 2, f"wire type {wire}"
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
            assert len(value) == size
        yield number, wire, value


def event(data):
    shown = {"wall_time": 0.0, "step": 0}
    for number, wire, value in fields(data):
        if (number, wire) == (1, 1):
            (shown["wall_time"],) = struct.unpack("<d", value)
        elif (number, wire) == (2, 0):
            shown["step"] = value
        elif (number, wire) == (3, 2):
            shown["file_version"] = value.decode()
        else:
            assert (number, wire) == (5, 2), f"field {number} of an event"
            shown["values"] = {}
            for inner, inner_wire, each in fields(value):
                assert (inner, inner_wire) == (1, 2), f"field {inner} of a summary"
                parts = {key: part for key, _, part in fields(each)}
                assert set(parts) == {1, 2}, f"fields {sorted(parts)} of a value"
                (number,) = struct.unpack("<f", parts[2])
                tag = parts[1].decode()
                assert tag not in shown["values"], f"{tag} is there twice"
                shown["values"][tag] = None if math.isnan(number) else number
    return shown


with open(sys.argv[1], "rb") as file:
    for record in records(file.read()):
        print(json.dumps(event(record)))
