#!/usr/bin/python3
"""Models go to PyTorch and back: weights that PyTorch wrote give Adjoin the same outputs, and what Adjoin trained gives PyTorch
those that Adjoin predicts. LeNet-5, ResNet-18 and a U-Net, as the example jobs have them, on four ranks.

Knows nothing of Adjoin but its files: reads and writes safetensors and IDX itself."""

import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

import numpy
import torch
from torch import nn
from torch.nn import functional as F

TORCH_TYPES = {"F64": torch.float64, "F32": torch.float32, "I64": torch.int64}


def write_safetensors(path, tensors):
    header, blobs, begin = {}, [], 0
    names = {dtype: name for name, dtype in TORCH_TYPES.items()}
    for name, tensor in tensors.items():
        blob = tensor.detach().contiguous().numpy().tobytes()
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, begin + len(blob)]}
        blobs.append(blob)
        begin += len(blob)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def read_safetensors(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        dtype = {"F64": "<f8", "F32": "<f4", "I64": "<i8"}[entry["dtype"]]
        array = numpy.frombuffer(data[begin:end], dtype).reshape(entry["shape"])
        tensors[name] = torch.from_numpy(array.copy())
    return tensors


def write_idx(path, array):
    with open(path, "wb") as file:
        file.write(bytes([0, 0, 8, array.ndim]) + struct.pack(">%dI" % array.ndim, *array.shape) + array.astype(numpy.uint8).tobytes())


class LeNet5(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = F.max_pool2d(torch.relu(self.conv2(x)), 2).flatten(1)
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x)))))


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        if stride != 1:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (self.downsample(x) if hasattr(self, "downsample") else x))


class ResNet18(nn.Module):
    """As torchvision has it."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        inputs = 64
        for stage, outputs in enumerate([64, 128, 256, 512], start=1):
            blocks = nn.Sequential(Block(inputs, outputs, 1 if stage == 1 else 2), Block(outputs, outputs, 1))
            setattr(self, "layer%d" % stage, blocks)
            inputs = outputs
        self.fc = nn.Linear(512, 1000)

    def forward(self, x):
        x = F.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class TwoConvolutions(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)

    def forward(self, x):
        return torch.relu(self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x))))))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2, self.bottom = TwoConvolutions(1, 16), TwoConvolutions(16, 32), TwoConvolutions(32, 64)
        self.up2 = nn.ConvTranspose2d(64, 32, 2, 2)
        self.left2 = TwoConvolutions(64, 32)
        self.up1 = nn.ConvTranspose2d(32, 16, 2, 2)
        self.left1 = TwoConvolutions(32, 16)
        self.head = nn.Conv2d(16, 3, 1)

    def forward(self, x):
        first = self.down1(x)
        second = self.down2(F.max_pool2d(first, 2))
        bottom = self.bottom(F.max_pool2d(second, 2))
        x = self.left2(torch.cat([second, self.up2(bottom)], 1))
        return self.head(self.left1(torch.cat([first, self.up1(x)], 1)))


def draw_statistics(model):
    """Running statistics as after some training."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.2)
            module.running_var.uniform_(0.6, 1.4)
            module.num_batches_tracked.fill_(7)


class Job:
    """An example job's layers, on data of its own."""

    def __init__(self, example, output, image, label, classes, samples):
        with open(example) as file:
            text = file.read()
        self.layers = text[text.index("layout {"):text.index("dataset {")]
        self.output, self.image, self.label, self.classes, self.samples = output, image, label, classes, samples
        self.folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        images = numpy.random.RandomState(3).randint(0, 256, [samples] + image)
        write_idx(os.path.join(self.folder, "images"), images)
        write_idx(os.path.join(self.folder, "labels"), numpy.random.RandomState(4).randint(0, min(classes, 256), [samples] + label))
        self.inputs = torch.from_numpy(images / 255.0)

    def run(self, kind, name, rest):
        spec = '''name: "%s" kind: %s ranks: 4 seed: 1
%s
dataset { name: "set"
  field { name: "image" idx { path: "images" } shape: %s scale: %.17g }
  field { name: "label" idx { path: "labels" } %s dtype: "int64" } }
%s
output_dir: "%s"
''' % (name, kind, self.layers, self.image, 1 / 255, "shape: %s" % self.label if self.label else "", rest, name)
        path = os.path.join(self.folder, name + ".textproto")
        with open(path, "w") as file:
            file.write(spec)
        done = subprocess.run([RUN_JOB, path, self.folder, self.folder, "set=%d" % self.samples], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stdout)

    def predict(self, name, weights):
        self.run("PREDICT", name, 'predict { dataset: "set" input: "%s" format: "npy" batch: 2 } weights { %s }' %
                 (self.output, weights))
        return torch.from_numpy(numpy.load(os.path.join(self.folder, name, self.output + ".npy")))


class PyTorchModelsTest(unittest.TestCase):
    def compare(self, job, model):
        torch.manual_seed(5)
        draw_statistics(model)
        model.eval()
        with torch.no_grad():
            expected = model(job.inputs.float())
            write_safetensors(os.path.join(job.folder, "w.safetensors"), model.state_dict())
            self.assert_close(job.predict("predicted", 'init_from: "w.safetensors"'), expected)

            job.run("TRAIN", "trained", 'train { dataset: "set" batch: 4 steps: 2 optimizer { sgd { lr: 0.02 momentum: 0.9 } } }'
                    ' weights { init_from: "w.safetensors" }')
            trained = read_safetensors(os.path.join(job.folder, "trained", "model.safetensors"))
            before = model.state_dict()
            first = next(name for name in before if name.endswith("weight"))
            self.assertGreater((trained[first] - before[first]).abs().max(), 0, "nothing was trained")
            self.assertEqual(sorted(trained), sorted(before))
            model.load_state_dict(trained, strict=True)
            model.eval()
            self.assert_close(job.predict("again", 'from_output: "trained/model.safetensors"'), model(job.inputs.float()))

    def assert_close(self, found, expected):
        self.assertEqual(found.dtype, torch.float32)
        self.assertEqual(found.shape, expected.shape)
        scale = max(1.0, expected.abs().max().item())
        self.assertLessEqual((found - expected).abs().max().item() / scale, 1e-6)

    def test_lenet5(self):
        self.compare(Job(LENET, "fc3", [1, 28, 28], [], 10, 5), LeNet5())

    def test_resnet18(self):
        self.compare(Job(RESNET, "fc", [3, 64, 64], [], 1000, 5), ResNet18())

    def test_unet(self):
        self.compare(Job(UNET, "head", [1, 32, 32], [32, 32], 3, 5), UNet())


if __name__ == "__main__":
    RUN_JOB, LENET, RESNET, UNET = (os.path.abspath(path) for path in sys.argv[1:5])
    torch.set_num_threads(1)
    unittest.main(argv=sys.argv[:1])
