#!/usr/bin/python3
"""Weights in safetensors files, loaded into modules."""
import json
import os
import pathlib
import random
import struct
import sys
import tempfile
import unittest

import numpy
import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import adjoin  # noqa: E402
from adjoin.safetensors_file import SafetensorsFile  # noqa: E402

TYPES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
         torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL"}


def bytes_of(tensor):
    """The bytes of a tensor, element by element; bfloat16 as the upper half of float32."""
    if tensor.dtype == torch.bfloat16:
        words = tensor.float().contiguous().numpy().view(numpy.uint32).reshape(-1)
        return (words >> 16).astype("<u2").tobytes()
    return tensor.contiguous().numpy().tobytes()


def file_bytes(header, data=b"", size=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text + data


def file_of(tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, tensor in tensors.items():
        raw = bytes_of(tensor)
        header[name] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    return file_bytes(header, data)


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3)
        self.norm = nn.BatchNorm2d(3)
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        return self.fc(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embedding.weight


class FileTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, content, name="model.safetensors"):
        path = self.folder / name
        path.write_bytes(content)
        return path


class LoadTest(FileTest):
    def test_a_module_computes_what_the_one_did_that_the_weights_are_of(self):
        torch.manual_seed(1)
        trained, module, x = Net(), Net(), torch.randn(4, 1, 8, 8)
        trained(x), trained(x)  # running statistics
        loaded = adjoin.load(module, self.write(file_of(trained.state_dict())))
        self.assertEqual(loaded, ([], []))
        self.assertTrue(torch.equal(module.eval()(x), trained.eval()(x)))
        self.assertEqual(module.norm.num_batches_tracked.item(), 2)

    def test_each_type_keeps_its_values(self):
        for dtype in TYPES:
            values = torch.tensor([[0, 1, -2.5], [3.25, 100, 7]]).abs().to(dtype)
            path = self.write(file_of({"x": values, "none": torch.zeros(0, 3).to(dtype),
                                       "scalar": torch.tensor(1.0).to(dtype)}))
            with SafetensorsFile(path) as file:
                for name, expected in (("x", values), ("none", torch.zeros(0, 3).to(dtype)),
                                       ("scalar", torch.tensor(1.0).to(dtype))):
                    self.assertEqual(file.read(name).dtype, dtype)
                    self.assertTrue(torch.equal(file.read(name), expected), f"{dtype} {name}")

    def test_bfloat16_goes_into_modules_of_float32_and_of_bfloat16(self):
        torch.manual_seed(2)
        source = nn.Linear(7, 5).bfloat16()
        path = self.write(file_of(source.state_dict()))
        for module in (nn.Linear(7, 5), nn.Linear(7, 5).bfloat16(), nn.Linear(7, 5).double()):
            adjoin.load(module, path)
            self.assertTrue(torch.equal(module.weight.double(), source.weight.double()))

    def test_data_that_are_not_aligned_are_read(self):
        text = json.dumps({"a": entry("U8", [3], [0, 3]), "b": entry("F32", [2], [3, 11])}).encode() + b" "
        for pad in range(4):
            path = self.write(file_bytes(text + b" " * pad, b"\1\2\3" + struct.pack("<2f", 1.5, -2)))
            with SafetensorsFile(path) as file:
                self.assertEqual(file.read("b").tolist(), [1.5, -2])

    def test_a_jobs_output_folder_is_taken_as_its_model(self):
        source, module = nn.Linear(2, 2), nn.Linear(2, 2)
        self.write(file_of(source.state_dict()))
        adjoin.load(module, str(self.folder))
        self.assertTrue(torch.equal(module.weight, source.weight))

    def test_one_of_the_names_that_share_a_parameter_suffices(self):
        weight = torch.arange(20.0).reshape(5, 4)
        for name in ("embedding.weight", "head.weight"):
            module = Tied()
            self.assertEqual(adjoin.load(module, self.write(file_of({name: weight}))), ([], []))
            self.assertTrue(torch.equal(module.head.weight, weight))
            self.assertIs(module.head.weight, module.embedding.weight)

    def test_a_counter_that_the_file_lacks_stays(self):
        module, source = Net(), Net().state_dict()
        module(torch.randn(2, 1, 8, 8))
        del source["norm.num_batches_tracked"]
        adjoin.load(module, self.write(file_of(source)))
        self.assertEqual(module.norm.num_batches_tracked.item(), 1)
        source["norm.num_batches_tracked"] = torch.tensor([9])
        adjoin.load(module, self.write(file_of(source)))
        self.assertEqual(module.norm.num_batches_tracked.item(), 9)

    def test_buffers_that_the_file_lacks_stay_but_for_statistics(self):
        class Masked(Net):
            def __init__(self):
                super().__init__()
                self.register_buffer("index", torch.tensor([3, 1, 2]))
                self.register_buffer("mask", torch.ones(2, 2).tril())
        module, source = Masked(), Net().state_dict()
        self.assertEqual(adjoin.load(module, self.write(file_of(source))), ([], []))
        self.assertEqual(module.index.tolist(), [3, 1, 2])
        self.assertTrue(torch.equal(module.mask, torch.ones(2, 2).tril()))
        source["index"] = torch.tensor([0, 0, 7])
        adjoin.load(module, self.write(file_of(source)))
        self.assertEqual((module.index.tolist(), module.index.dtype), ([0, 0, 7], torch.int64))
        for name in ("norm.running_mean", "norm.running_var"):
            less = {key: value for key, value in source.items() if key != name}
            with self.assertRaisesRegex(ValueError, f"the file lacks 1 of the module's 11: {name}"):
                adjoin.load(module, self.write(file_of(less)))

    def test_constants_that_the_import_computed_are_left_out(self):
        module, source = Net(), Net().state_dict()
        constants = {"computed_constant_0": torch.ones(2), "computed_constant_12": torch.ones(3)}
        self.assertEqual(adjoin.load(module, self.write(file_of({**source, **constants}))), ([], []))
        for name in ("computed_constant_x", "a.computed_constant_0", "computed_constant_0.weight"):
            with self.assertRaisesRegex(ValueError, f"the module lacks 1 of the file's: {name}"):
                adjoin.load(module, self.write(file_of({**source, name: torch.ones(2)})))

    def test_a_module_keeps_its_mode_and_which_parameters_are_trained(self):
        module = Net()
        module.conv.requires_grad_(False)
        module.norm.eval()
        adjoin.load(module, self.write(file_of(Net().state_dict())))
        self.assertEqual([module.training, module.norm.training, module.fc.training], [True, False, True])
        self.assertEqual([module.conv.weight.requires_grad, module.fc.weight.requires_grad], [False, True])
        self.assertIsNone(module.fc.weight.grad_fn)

    def test_names_that_do_not_fit_are_told_and_nothing_is_changed(self):
        module = Net()
        before = {name: value.clone() for name, value in module.state_dict().items()}
        source = Net().state_dict()
        source["fc2.weight"] = source.pop("fc.weight")
        path = self.write(file_of(source))
        with self.assertRaisesRegex(ValueError, r"model.safetensors does not fit the module: the file lacks 1 of the "
                                    r"module's 9: fc.weight; the module lacks 1 of the file's: fc2.weight"):
            adjoin.load(module, path)
        for name, value in module.state_dict().items():
            self.assertTrue(torch.equal(value, before[name]), name)
        self.assertEqual(adjoin.load(module, path, strict=False), (["fc.weight"], ["fc2.weight"]))
        self.assertTrue(torch.equal(module.fc.weight, before["fc.weight"]))
        self.assertTrue(torch.equal(module.conv.weight, source["conv.weight"]))

    def test_names_of_a_file_do_not_control_a_terminal(self):
        path = self.write(file_of({"a\x1b[2J\ud800": torch.zeros(1)}))
        with self.assertRaises(ValueError) as raised:
            adjoin.load(nn.Linear(2, 2), path)
        self.assertTrue(str(raised.exception).isprintable(), repr(raised.exception))

    def test_a_prefix_is_told(self):
        path = self.write(file_of(nn.Sequential(nn.Linear(2, 2)).state_dict()))
        with self.assertRaisesRegex(ValueError, r"begin with module\.; right would be load\(module.module, "):
            adjoin.load(nn.DataParallel(nn.Sequential(nn.Linear(2, 2))), path)

    def test_another_shape_or_kind_is_refused_also_where_not_strict(self):
        for value, text in ((torch.zeros(2, 3), r"weight is \[2, 3\] in the file, and \[2, 2\] in the module"),
                            (torch.zeros(2, 2, dtype=torch.int64), "weight is I64 in the file, and torch.float32")):
            path = self.write(file_of({"weight": value, "bias": torch.ones(2)}))
            module = nn.Linear(2, 2)
            before = module.bias.clone()
            for strict in (True, False):
                with self.assertRaisesRegex(ValueError, text):
                    adjoin.load(module, path, strict=strict)
            self.assertTrue(torch.equal(module.bias, before))

    def test_modules_without_values_are_refused(self):
        path = self.write(file_of(nn.Linear(2, 2).state_dict()))
        with self.assertRaisesRegex(ValueError, "call the module once"):
            adjoin.load(nn.LazyLinear(2), path)
        with self.assertRaisesRegex(ValueError, "device meta"):
            adjoin.load(nn.Linear(2, 2, device="meta"), path)


class HostileFileTest(FileTest):
    def refusal(self, content):
        path = self.write(content)
        with self.assertRaises(ValueError) as raised:
            with SafetensorsFile(path) as file:
                for name in file.entries:
                    file.read(name)
        self.assertIn(str(path), str(raised.exception))
        self.assertLess(len(str(raised.exception)), 1000)
        return str(raised.exception)

    def test_sizes_that_lie(self):
        self.assertIn("0 bytes, where 8", self.refusal(b""))
        self.assertIn("7 bytes, where 8", self.refusal(b"\0" * 7))
        for size in (3, 2**31, 2**63, 2**64 - 1):
            self.assertIn(f"its header would have {size} bytes", self.refusal(file_bytes(b"{}", size=size)))
        self.assertIn("the file has 1 after", self.refusal(file_bytes({}, b"x")))
        self.assertIn("take 8 bytes, the file has 4", self.refusal(file_bytes({"a": entry()}, b"\0" * 4)))
        self.assertIn("take 8 bytes, the file has 9", self.refusal(file_bytes({"a": entry()}, b"\0" * 9)))

    def test_headers_that_are_none(self):
        for header in (b"", b"[]", b"1", b"{", b"\xff\xfe", b"{}{}", b'{"a": NaN}', b"[" * 200000,
                       b'{"a": ' + b"[" * 200000 + b"]" * 200000 + b"}", b'{"a": ' + b"9" * 1000000 + b"}"):
            self.assertIn("bad safetensors header", self.refusal(file_bytes(header)))
        self.assertIn("'a' is there twice", self.refusal(file_bytes(b'{"a": 1, "a": 2}')))

    def test_entries_that_are_none(self):
        for value, text in (
                (5, "is not an object"), ({}, "has no dtype"), (entry(dtype=7), "has no dtype"),
                (entry(dtype="F8_E4M3"), "right would be one of F64, F32"),
                ({"dtype": "F32"}, "has a shape that is not"), (entry(shape=[-1]), "has a shape that is not"),
                (entry(shape=[True]), "has a shape that is not"), (entry(shape=[2.0]), "has a shape that is not"),
                (entry(shape=[2**63]), "has a shape that is not"), (entry(shape=[1] * 33), "33 dims, more than 32"),
                (entry(shape=[2**32, 2**32]), "too large for any file"),
                (entry(shape=[0, 2**62, 2**62], offsets=[0, 0]), "too large for any file"),
                (entry(shape=[2**61]), "too large for any file"),
                (entry(offsets=[0]), "has no data_offsets"), (entry(offsets=[-8, 0]), "has no data_offsets"),
                (entry(offsets=[8, 0]), "but its shape and dtype take 8"),
                (entry(offsets=[0, 7]), "but its shape and dtype take 8"),
                (entry(shape=[2**40], offsets=[0, 2**42]), "take 4398046511104 bytes, the file has 8"),
                (entry(dtype="BF16"), "take 4 bytes")):
            self.assertIn(text, self.refusal(file_bytes({"a": value}, b"\0" * 8)), str(value)[:80])

    def test_data_that_overlap_or_leave_holes(self):
        data = b"\0" * 16
        for a, b in (([0, 8], [0, 8]), ([0, 8], [4, 12]), ([8, 16], [8, 16]), ([0, 8], [9, 17])):
            self.assertIn("begins at", self.refusal(file_bytes({"a": entry(offsets=a), "b": entry(offsets=b)}, data)))

    def test_truth_values_that_are_none(self):
        self.assertIn("neither 0 nor 1", self.refusal(file_bytes({"a": entry("BOOL", [2], [0, 2])}, b"\1\2")))

    def test_files_of_other_kinds(self):
        path = self.folder / "model.pt"
        torch.save(nn.Linear(2, 2).state_dict(), path)
        for legacy in (False, True):
            torch.save(nn.Linear(2, 2).state_dict(), path, _use_new_zipfile_serialization=not legacy)
            self.assertIn("torch.save", self.refusal(path.read_bytes()))
        (self.folder / "empty").mkdir()
        for other in (self.folder / "none", self.folder / "empty"):
            with self.assertRaises(OSError):
                adjoin.load(nn.Linear(2, 2), other)
        with self.assertRaisesRegex(ValueError, "not a regular file"):
            adjoin.load(nn.Linear(2, 2), "/dev/zero")

    def test_any_changed_byte_is_read_or_refused_with_a_ValueError(self):
        right = file_of({"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor([True, False])})
        seed = int(os.environ.get("ADJOIN_TEST_SEED") or random.SystemRandom().randrange(10**6))
        rng = random.Random(seed)
        for _ in range(2000):
            content = bytearray(right[:rng.choice((len(right), rng.randrange(len(right) + 1)))])
            for _ in range(rng.randrange(1, 4)):
                if content:
                    content[rng.randrange(len(content))] = rng.choice(
                        b'\0\1\xff09-{}[]",:e.' + bytes([rng.randrange(256)]))
            path = self.write(bytes(content))
            try:
                with SafetensorsFile(path) as file:
                    for name in file.entries:
                        file.read(name)
            except ValueError:
                pass
            except Exception as error:
                self.fail(f"ADJOIN_TEST_SEED={seed}: {error!r} of {bytes(content)!r}")


if __name__ == "__main__":
    unittest.main()
