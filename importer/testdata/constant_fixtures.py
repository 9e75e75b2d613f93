#!/usr/bin/env python3
"""Writes constants.pt2, of a module that returns what it computes of no input, and constants.safetensors beside it.

    python3 constant_fixtures.py [FOLDER]

The n-th tensor of the archive's outputs is the tensor "n" of constants.safetensors, as PyTorch computed it. Needs
PyTorch 2.4 to 2.6.
"""
import json
import math
import struct
import sys

import torch
from torch import nn
from torch.nn import functional as F

TYPES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
         torch.int32: "I32", torch.uint8: "U8", torch.bool: "BOOL"}


class Constants(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.randn(6, 5))
        self.register_buffer("small", torch.randn(3, 4).half())
        self.register_buffer("words", torch.randint(-4, 4, (2, 3)))
        self.scale = nn.Parameter(torch.randn(3))

    def masks(self, length):
        causal = torch.triu(torch.full((length, length), float("-inf")), diagonal=1)
        lower = torch.tril(torch.ones(length, length, dtype=torch.bool))
        positions = torch.arange(length)
        window = (positions[:, None] - positions[None, :]).abs() <= 2
        yield from (causal, lower, window & lower, lower.logical_not() | window, torch.logical_xor(window, lower))
        yield lower.float().masked_fill(lower == 0, float("-inf")).masked_fill(lower, 0.0)
        yield torch.where(window, 0.0, -1e4).view(1, 1, length, length).expand(2, 3, -1, -1)
        yield ~lower

    def windows(self):
        """As Swin writes its masks: parts of a tensor, filled in place."""
        image = torch.zeros(8, 8)
        count = 0
        for rows in (slice(0, -4), slice(-4, -2), slice(-2, None)):
            for columns in (slice(0, -4), slice(-4, -2), slice(-2, None)):
                image[rows, columns] = count
                count += 1
        image = image.view(2, 4, 2, 4).permute(0, 2, 1, 3).reshape(4, 16)
        mask = image.unsqueeze(1) - image.unsqueeze(2)
        yield mask.masked_fill(mask != 0, -100.0).masked_fill(mask == 0, 0.0)
        coordinates = torch.stack(torch.meshgrid(torch.arange(3), torch.arange(4), indexing="ij")).flatten(1)
        relative = (coordinates[:, :, None] - coordinates[:, None, :]).permute(1, 2, 0).contiguous()
        relative[:, :, 0] += 2
        relative[:, :, 1] += 3
        relative[:, :, 0] *= 7
        yield relative.sum(-1)

    def rotary(self, length, features):
        frequencies = 1.0 / (10000 ** (torch.arange(0, features, 2).float() / features))
        angles = torch.outer(torch.arange(length).float(), frequencies)
        yield from (frequencies, angles, torch.cat((angles, angles), -1).cos(), angles.sin().repeat_interleave(2, -1))
        yield torch.einsum("i,j->ij", torch.arange(length, dtype=torch.float64), frequencies.double())
        yield angles.to(torch.bfloat16) * torch.tensor(1.1, dtype=torch.bfloat16)
        # Vaswani's table.
        table = torch.zeros(length, features)
        steps = torch.exp(torch.arange(0, features, 2) * (-math.log(10000.0) / features))
        table[:, 0::2] = torch.sin(torch.arange(length).unsqueeze(1) * steps)
        table[:, 1::2] = torch.cos(torch.arange(length).unsqueeze(1) * steps)
        yield table.unsqueeze(0)

    def arithmetic(self):
        a, b = torch.arange(-7, 8), torch.full((15,), 3)
        yield from (a // b, a % b, a // -b, a % -b, torch.fmod(a, b), a / b, a * 2.5 - 1, 7 - a, a ** 2, -a, a.abs())
        yield from (torch.div(a, b, rounding_mode="trunc"), torch.sub(a, b, alpha=3), a.to(torch.int32) * 100000000)
        yield from ((a * 17).to(torch.uint8), a.sign(), a.clamp(-2, 5), torch.maximum(a, b - 1), a.cumsum(0))
        x = torch.linspace(-2.3, 2.9, 15)
        yield from (x.floor(), x.ceil(), x.round(), x.trunc(), x // 0.7, x % 0.7, x % -0.7, x.to(torch.int64), x * 0.1)
        yield from (x.exp(), x.tanh(), x.sigmoid(), x.square().sqrt(), x.abs().log1p(), x.reciprocal())
        yield from (x.relu(), x > 0.7)
        yield from (x.clamp(min=0), x.bfloat16() + 0.3, x.half() * 3.3, x.bfloat16().float(), (x * 1000).half(), x == x)
        yield from (a + x, a.bool(), (a > 2) * 3, a.eq(x.round()), a.lt(2) & x.gt(-1), a.ne(0).logical_not(), x.neg())
        yield torch.eye(3, 4) * torch.linspace(0, 1, 4, dtype=torch.float64)

    def shapes(self):
        x = torch.arange(24).view(2, 3, 4)
        yield from (x.transpose(0, 2), x.permute(2, 0, 1).reshape(4, 6), x[:, 1], x[:, :, 1:4:2], x.flip(0, 2))
        yield from (x.roll((1, -2), (1, 2)), x.repeat(2, 1, 3), x.unbind(1)[2], x.split((1, 3), 2)[1], x.chunk(2, 2)[0])
        yield from (torch.cat((x, x + 1), 1), torch.stack((x, -x), 3), x.sum(1), x.float().mean((0, 2)), x.amax(2))
        yield from (x.sum(), x.narrow(2, 1, 2), x.squeeze(), x[None, ..., None], x.reshape(6, 4).t(), (x > 22).any(2))
        yield from (x.repeat_interleave(3, 1), x.float() @ x.float().transpose(1, 2), x[1].float() @ torch.ones(4))
        yield from torch.meshgrid(torch.arange(3), torch.arange(2), indexing="xy")

    def buffers(self):
        words = self.words
        yield from (self.table[words], self.table[:, words], self.table[words, torch.tensor([0, 2, 4])], self.small * 2)
        yield from (self.table.index_select(1, torch.tensor([3, 3, 0])), F.embedding(words.abs(), self.table))
        yield self.table.gather(1, torch.tensor([[0, 4], [1, 2]]))
        copy = self.table.clone()
        copy[1:3].mul_(2).add_(words[0, 0])
        copy[:, 0].fill_(7)
        yield copy

    def forward(self, x):
        constants = [*self.masks(6), *self.windows(), *self.rotary(9, 8), *self.arithmetic(), *self.shapes(),
                     *self.buffers()]
        return (x * self.scale, *constants)


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        tensor = tensor.contiguous()
        raw = (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy().tobytes()
        header[name] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "."
    torch.manual_seed(20240701)
    model, x = Constants().eval(), torch.randn(2, 3)
    with torch.no_grad():
        _, *constants = model(x)
    export = getattr(torch.export, "export_for_training", torch.export.export)
    torch.export.save(export(model, (x,)), f"{folder}/constants.pt2")
    write_safetensors(f"{folder}/constants.safetensors", {str(i + 1): c for i, c in enumerate(constants)})


if __name__ == "__main__":
    main()
