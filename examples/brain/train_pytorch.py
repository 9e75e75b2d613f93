#!/usr/bin/python3
"""The serial reference of brain-train.textproto: the same network, blocks, loss and optimizer in plain PyTorch.

    examples/brain/train_pytorch.py [--data FOLDER] [--seed N]

prints Dice per class on both halves. Weights and blocks are drawn by PyTorch, so the result differs from the job's as that of
another seed does. Runs with Debian's python3-torch.
"""
import argparse
import math
import pathlib
import time

import numpy
import torch
from torch import nn
from torch.nn import functional

import nifti
from dice import dice_per_class
from make_data import CLASSES, EXTENTS, HALF

BLOCK = 32
BATCH = 8
STEPS = 160
LEARNING_RATE = 0.01
CLASS_WEIGHT = [0.6, 0.8, 1.2, 2.0]


class DoubleConv(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv1 = nn.Conv3d(inputs, outputs, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm3d(outputs)
        self.conv2 = nn.Conv3d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm3d(outputs)

    def forward(self, x):
        return torch.relu(self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x))))))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1 = DoubleConv(1, 8)
        self.down2 = DoubleConv(8, 16)
        self.bottom = DoubleConv(16, 32)
        self.up2 = nn.ConvTranspose3d(32, 16, 2, 2)
        self.left2 = DoubleConv(32, 16)
        self.up1 = nn.ConvTranspose3d(16, 8, 2, 2)
        self.left1 = DoubleConv(16, 8)
        self.mix = nn.Conv3d(11, 16, 1)
        self.head = nn.Conv3d(16, len(CLASSES), 1)

    def forward(self, x, position):
        top = self.down1(x)
        middle = self.down2(functional.max_pool3d(top, 2))
        x = self.up2(self.bottom(functional.max_pool3d(middle, 2)))
        x = self.up1(self.left2(torch.cat([middle, x], 1)))
        x = self.left1(torch.cat([top, x], 1))
        return self.head(torch.relu(self.mix(torch.cat([x, position], 1))))


def random_batch(t1, position, labels, generator):
    """Blocks from anywhere, each mirrored from left to right in one of two cases."""
    samples = []
    for _ in range(BATCH):
        place = tuple(slice(begin, begin + BLOCK) for begin in
                      (int(torch.randint(extent - BLOCK + 1, (1,), generator=generator)) for extent in t1.shape))
        sample = [t1[(None, *place)], position[(slice(None), *place)], labels[place]]
        mirrored = torch.rand(1, generator=generator) < 0.5
        samples.append([field.flip(-1) for field in sample] if mirrored else sample)
    return [torch.stack(fields) for fields in zip(*samples)]


def train(model, t1, position, labels, generator):
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (1 + math.cos(math.pi * step / STEPS)) / 2)
    weight = torch.tensor(CLASS_WEIGHT)
    begin = time.monotonic()
    for step in range(1, STEPS + 1):
        blocks, places, targets = random_batch(t1, position, labels, generator)
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(blocks, places), targets, weight=weight)
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 20 == 0:
            print(f"step {step}: loss {loss.item():.4f}, {time.monotonic() - begin:.0f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    def cells(name, dtype):
        return torch.from_numpy(nifti.read(args.data / f"{name}.nii.gz").cells.astype(dtype))
    z, y, x = torch.meshgrid(*(torch.arange(extent, dtype=torch.float32) for extent in EXTENTS), indexing="ij")
    position = torch.stack([z / 75.5 - 1, y / 91.5 - 1, torch.div(abs(2 * x + 1 - EXTENTS[2]), 2, rounding_mode="floor") / 75.5])
    t1 = (cells("t1", numpy.float32) / 255 - 0.25) / 0.2
    labels = cells("labels", numpy.int64)
    model = UNet()
    train(model, t1[:, :, :HALF], position[..., :HALF], labels[:, :, :HALF], torch.Generator().manual_seed(args.seed))
    model.eval()
    with torch.no_grad():
        predicted = model(t1[None, None], position[None])[0].argmax(0).numpy()
    for name, half in (("left", slice(0, HALF)), ("held-out right", slice(HALF, None))):
        dice = dice_per_class(predicted[:, :, half], labels[:, :, half].numpy())
        print(f"{name} half: " + ", ".join(f"{c} {d:.4f}" for c, d in zip(CLASSES, dice)) + f"; mean {numpy.mean(dice):.4f}")


if __name__ == "__main__":
    main()
