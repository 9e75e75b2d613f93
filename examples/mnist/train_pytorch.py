#!/usr/bin/env python3
"""The serial reference of the jobs in this folder: the same LeNet-5 on the same files, in plain PyTorch.

    train_pytorch.py                          trains and prints the loss of each epoch and the test accuracy
    train_pytorch.py --evaluate WEIGHTS       prints how many test images the weights of a job's .safetensors file,
                                              loaded into the PyTorch network, get right

Runs with Debian's python3-torch: /usr/bin/python3 train_pytorch.py. The initial weights and the order of samples are
PyTorch's own, so the accuracy differs from a job's in the last digits; the network and the arithmetic are the same.
"""
import argparse
import gzip
import json
import math
import pathlib
import struct
import time

import numpy
import torch

_DTYPES = {"F64": torch.float64, "F32": torch.float32}


def read_idx(path):
    content = gzip.decompress(path.read_bytes())
    dims = content[3]
    shape = struct.unpack_from(f">{dims}I", content, 4)
    return numpy.frombuffer(content, numpy.uint8, math.prod(shape), 4 + 4 * dims).reshape(shape)


def read_samples(folder, name):
    """Images [N, 1, 28, 28], normalised as in the job specs, and labels [N]."""
    images = torch.from_numpy(read_idx(folder / f"{name}-images.idx.gz").astype(numpy.float32))
    labels = torch.from_numpy(read_idx(folder / f"{name}-labels.idx.gz").astype(numpy.int64))
    return (images.reshape(-1, 1, 28, 28) * (1 / 255) - 0.1307) / 0.3081, labels


def read_safetensors(path):
    """A safetensors file: header length (8 bytes, little endian), JSON header, data."""
    content = pathlib.Path(path).read_bytes()
    length = struct.unpack_from("<Q", content)[0]
    header = json.loads(content[8:8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        data = bytearray(content[8 + length + begin:8 + length + end])
        tensors[name] = torch.frombuffer(data, dtype=_DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors


class LeNet5(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = torch.nn.Conv2d(6, 16, 5)
        self.fc1 = torch.nn.Linear(16 * 5 * 5, 120)
        self.fc2 = torch.nn.Linear(120, 84)
        self.fc3 = torch.nn.Linear(84, 10)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = torch.max_pool2d(torch.relu(self.conv2(x)), 2)
        x = torch.relu(self.fc1(torch.flatten(x, 1)))
        return self.fc3(torch.relu(self.fc2(x)))


def train(model, images, labels, epochs=8, batch=64):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for epoch in range(epochs):
        begin, losses = time.monotonic(), []
        for picked in torch.randperm(len(images)).split(batch):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(images[picked]), labels[picked])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(f"epoch {epoch + 1}: loss {sum(losses) / len(losses):.4f}, {time.monotonic() - begin:.1f} s", flush=True)


def count_right(model, images, labels):
    with torch.no_grad():
        return (model(images).argmax(1) == labels).sum().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluate", metavar="WEIGHTS")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = LeNet5()
    if args.evaluate:
        tensors = read_safetensors(args.evaluate)
        model.to(next(iter(tensors.values())).dtype).load_state_dict(tensors)
    else:
        train(model, *read_samples(args.data, "train"))
    images, labels = read_samples(args.data, "test")
    right = count_right(model, images.to(model.fc1.weight.dtype), labels)
    print(f"test accuracy: {right} of {len(labels)} right, {100 * right / len(labels):.2f}%")


if __name__ == "__main__":
    main()
