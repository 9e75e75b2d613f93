#!/usr/bin/env python3
"""Writes archives of modules that are drawn at random from what people write in forward.

    python3 random_modules.py FOLDER [FIRST_SEED [COUNT]]

random_SEED.pt2, random_SEED.input.npy and random_SEED.output.npy, in float64 with random weights. A seed gives the same
module always. Each is to be imported and equal, or refused by an operator and the module that has it. Needs PyTorch 2.4
to 2.6.
"""
import os
import random
import sys
import warnings

import numpy
import torch
from torch import nn
from torch.nn import functional as F


class Step(nn.Module):
    """A function of a tensor, and modules and parameters that it uses."""

    def __init__(self, function, **members):
        super().__init__()
        self.function = function
        for name, member in members.items():
            if isinstance(member, torch.Tensor) and not isinstance(member, nn.Parameter):
                self.register_buffer(name, member)
            else:
                setattr(self, name, member)

    def forward(self, x):
        return self.function(self, x)


def parameter(*shape):
    return nn.Parameter(torch.randn(*shape) * 0.5)


def activation(r):
    return r.choice([nn.ReLU(), nn.ReLU(inplace=True), nn.GELU(), nn.SiLU(), nn.Tanh(), nn.LeakyReLU(0.1), nn.ELU(),
                     nn.Hardswish(), nn.Mish(), nn.Softplus(), nn.Sigmoid(), nn.PReLU(), nn.Softsign(), nn.CELU(0.7),
                     nn.Hardtanh(-0.8, 0.9), nn.Threshold(0.1, 0.2), nn.LogSigmoid(), nn.ReLU6(), nn.GELU("tanh")])


def for_any(r, shape):
    """Steps for a tensor of any shape."""
    last, dim = shape[-1], r.randrange(1, len(shape))
    negative = dim - len(shape)
    extent = shape[dim]
    begin = r.randrange(extent)
    end = r.randrange(begin + 1, extent + 1)
    order = [0] + r.sample(range(1, len(shape)), len(shape) - 1)
    yield activation(r)
    yield nn.Dropout(0.2)
    yield nn.LayerNorm(shape[-r.randrange(1, len(shape)):])
    yield nn.RMSNorm(last, eps=1e-6)
    yield nn.Linear(last, r.randrange(2, 9), bias=r.random() < 0.7)
    yield nn.Softmax(dim=dim)
    yield Step(lambda s, x: x + s.own, own=parameter(*shape[-r.randrange(1, len(shape)):]))
    yield Step(lambda s, x: s.own * x - s.shift, own=parameter(1), shift=torch.randn(last))
    yield Step(lambda s, x: F.normalize(x, dim=negative))
    yield Step(lambda s, x: x / x.norm(dim=dim, keepdim=True).clamp(min=0.1))
    yield Step(lambda s, x: (x - x.mean(dim, keepdim=True)) / (x.std(dim, keepdim=True) + 1) if extent > 1 else x)
    yield Step(lambda s, x: x.narrow(dim, begin, end - begin))
    yield Step(lambda s, x: torch.cat((x, x.flip(dim) * 2), dim))
    yield Step(lambda s, x: x.roll(1, dim) + x)
    yield Step(lambda s, x: x.permute(order))
    yield Step(lambda s, x: x * torch.sigmoid(x.mean(dim, keepdim=True)))
    yield Step(lambda s, x: x.unsqueeze(dim).squeeze(dim) * 0.5 + 0.25)
    yield Step(lambda s, x: x.masked_fill(s.mask, -0.5), mask=torch.rand(last) < 0.3)
    yield Step(lambda s, x: x.index_select(dim, s.places), places=torch.tensor(r.sample(range(extent), extent)))
    yield Step(lambda s, x: torch.where(s.mask, x, torch.zeros_like(x)), mask=torch.rand(extent, *shape[dim + 1:]) < 0.5)
    yield Step(lambda s, x: (x.clone().mul_(1.5).add_(1).abs() + 1).log())
    yield Step(lambda s, x: x.amax(dim, keepdim=True) - x)
    yield Step(lambda s, x: x ** 2 + x.clamp(-1, 0.5) - 1 / (2 + x.abs()))
    yield Step(lambda s, x: x.reshape(x.shape[0], -1).view(x.shape))
    yield Step(lambda s, x: x @ s.own, own=parameter(last, r.randrange(2, 7)))
    yield Step(lambda s, x: F.linear(x, s.own * s.gain, s.bias.exp()), own=parameter(4, last), gain=parameter(4, 1),
               bias=parameter(4))
    yield Step(lambda s, x: x * s.own.softmax(0)[0] + s.own.sum(), own=parameter(3, last))
    yield Step(lambda s, x: torch.stack((x, x * 2), dim).flatten(dim, dim + 1) if x.dim() < 5 else x)
    yield Step(lambda s, x: x.cumsum(dim))
    yield Step(lambda s, x: x[..., ::2] if last > 1 else x)
    yield Step(lambda s, x: x.chunk(2, dim)[0].contiguous() if extent > 1 else x)
    yield Step(lambda s, x: s.act(x.transpose(dim, -1)).transpose(dim, -1), act=activation(r))


def for_images(r, shape):
    channels, rows, columns = shape[1:]
    outputs = r.choice([4, 6, 8])
    kernel = r.choice([1, 3, 3, 5])
    mode = r.choice(["zeros", "zeros", "reflect", "circular", "replicate"])
    yield nn.Conv2d(channels, outputs, kernel, padding=kernel // 2, stride=r.choice([1, 1, 2]),
                    bias=r.random() < 0.5, padding_mode=mode if kernel // 2 < min(rows, columns) else "zeros")
    yield nn.Conv2d(channels, 2 * channels, 3, padding="same", groups=channels)
    yield nn.ConvTranspose2d(channels, outputs, 2, stride=2)
    yield nn.ConvTranspose2d(channels, outputs, 3, stride=2, padding=1, output_padding=1)
    yield nn.BatchNorm2d(channels)
    yield nn.InstanceNorm2d(channels, affine=r.random() < 0.5)
    yield nn.GroupNorm(1, channels)
    if rows > 3 and columns > 3:
        yield nn.MaxPool2d(r.choice([2, 3]), stride=r.choice([1, 2]), padding=1)
        yield nn.AvgPool2d(2, ceil_mode=r.random() < 0.5)
        yield nn.AdaptiveAvgPool2d((r.randrange(1, 4), r.randrange(1, 4)))
        yield nn.AdaptiveMaxPool2d(r.randrange(1, 4))
        yield nn.ReflectionPad2d(1)
        yield Step(lambda s, x: x[:, :, 1:-1, ::2])
    if rows * columns < 200:
        yield nn.Upsample(scale_factor=2, mode=r.choice(["nearest", "bilinear", "bicubic"]))
        yield Step(lambda s, x: F.interpolate(x, size=(7, 5), mode="bilinear", align_corners=True))
    yield nn.Dropout2d(0.2)
    yield nn.ZeroPad2d((1, 0, 2, 1))
    yield Step(lambda s, x: x * torch.sigmoid(s.up(F.relu(s.down(F.adaptive_avg_pool2d(x, 1))))),
               down=nn.Conv2d(channels, 3, 1), up=nn.Conv2d(3, channels, 1))
    yield Step(lambda s, x: x * torch.sigmoid(s.fc(x.mean((2, 3))))[:, :, None, None], fc=nn.Linear(channels, channels))
    yield Step(lambda s, x: x + s.conv(x), conv=nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1),
                                                              nn.BatchNorm2d(channels), nn.ReLU(inplace=True)))
    yield Step(lambda s, x: torch.cat((x, s.conv(x)), 1), conv=nn.Conv2d(channels, 4, 1))
    yield Step(lambda s, x: s.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2), norm=nn.LayerNorm(channels))
    yield Step(lambda s, x: x * s.scale.view(1, -1, 1, 1), scale=parameter(channels))
    yield Step(lambda s, x: F.conv2d(x, s.kernel.expand(channels, 1, 3, 3), padding=1, groups=channels),
               kernel=torch.randn(1, 1, 3, 3))
    yield Step(lambda s, x: F.conv2d(x, (s.w - s.w.mean((1, 2, 3), keepdim=True)), s.b, padding=1),
               w=parameter(4, channels, 3, 3), b=parameter(4))
    if channels % 4 == 0:
        yield nn.PixelShuffle(2)
        yield Step(lambda s, x: x.reshape(x.shape[0], 4, -1, *x.shape[2:]).transpose(1, 2).flatten(1, 2))
    if rows % 2 == 0 and columns % 2 == 0:
        yield nn.PixelUnshuffle(2)
        yield Step(lambda s, x: x.unflatten(2, (-1, 2)).unflatten(4, (-1, 2)).mean((3, 5)))
    yield Step(lambda s, x: x.flatten(2).transpose(1, 2))
    yield Step(lambda s, x: x.mean((2, 3)))


def heads_of(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def for_sequences(r, shape):
    length, features = shape[1:]
    heads = r.choice([h for h in (1, 2, 3, 4) if features % h == 0])
    causal = r.random() < 0.5

    def attend(s, x):
        q, k, v = (heads_of(t, heads) for t in s.qkv(x).chunk(3, -1))
        return s.out(F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).flatten(2))

    def by_hand(s, x):
        q, k, v = s.qkv(x).reshape(x.shape[0], length, 3, heads, -1).permute(2, 0, 3, 1, 4)
        weights = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1) + s.bias
        return s.out((weights.softmax(-1) @ v).transpose(1, 2).reshape(x.shape[0], length, -1))

    def by_einsum(s, x):
        q, k, v = (t.unflatten(-1, (heads, -1)) for t in s.qkv(x).chunk(3, -1))
        weights = torch.einsum("bqhd,bkhd->bhqk", q, k).softmax(-1)
        return s.out(torch.einsum("bhqk,bkhd->bqhd", weights, v).flatten(2))

    projections = {"qkv": nn.Linear(features, 3 * features), "out": nn.Linear(features, features)}
    yield Step(attend, **projections)
    yield Step(by_hand, bias=parameter(heads, length, length), **projections)
    yield Step(by_einsum, **projections)
    yield Step(lambda s, x: x + s.attend(x, x, x, need_weights=False)[0],
               attend=nn.MultiheadAttention(features, heads, batch_first=True))
    yield nn.TransformerEncoderLayer(features, heads, 12, batch_first=True, norm_first=r.random() < 0.5, dropout=0.1)
    yield Step(lambda s, x: torch.cat((s.token.expand(x.shape[0], -1, -1), x), 1), token=parameter(1, 1, features))
    yield Step(lambda s, x: x + s.position[:, :length], position=parameter(1, length + 3, features))
    yield Step(lambda s, x: x + s.table(torch.arange(length)), table=nn.Embedding(length + 2, features))
    yield Step(lambda s, x: s.conv(x.transpose(1, 2)).transpose(1, 2), conv=nn.Conv1d(features, 6, 3, padding=1))
    yield Step(lambda s, x: (x.transpose(1, 2) @ s.mix).transpose(1, 2), mix=parameter(length, length))
    yield Step(lambda s, x: s.mix @ x, mix=parameter(length, length))
    yield Step(lambda s, x: torch.einsum("blf,fg->blg", x, s.own), own=parameter(features, 5))
    yield Step(lambda s, x: x @ x.transpose(1, 2))
    yield Step(lambda s, x: torch.bmm(s.fc(x).softmax(1).transpose(1, 2), x), fc=nn.Linear(features, 3))
    yield Step(lambda s, x: torch.addmm(s.b, x.reshape(-1, features), s.w).view(x.shape[0], length, -1),
               w=parameter(features, 7), b=parameter(7))
    yield Step(lambda s, x: s.gate(x).sigmoid() * s.value(x), gate=nn.Linear(features, 5), value=nn.Linear(features, 5))
    yield Step(lambda s, x: F.glu(s.fc(x), -1), fc=nn.Linear(features, 8))
    yield Step(lambda s, x: x[:, 0] + x[:, -1])
    yield Step(lambda s, x: x.mean(1))
    yield Step(lambda s, x: x.amax(1))
    yield Step(lambda s, x: x.unsqueeze(1).expand(-1, 2, -1, -1))


def for_vectors(r, shape):
    features = shape[1]
    yield nn.Sequential(nn.Linear(features, 9), nn.ReLU(), nn.Linear(9, 6))
    yield nn.BatchNorm1d(features)
    yield Step(lambda s, x: x[:, :, None] * x[:, None, :])
    yield Step(lambda s, x: torch.einsum("bi,bj->bij", x, x + 1))
    yield Step(lambda s, x: x * s.temperature.clamp(max=2).exp(), temperature=parameter(()))
    yield Step(lambda s, x: F.normalize(x, dim=1) @ F.normalize(s.centres, dim=1).t(), centres=parameter(5, features))
    yield Step(lambda s, x: x.sum(1, keepdim=True) * x)
    yield Step(lambda s, x: (x * x).sum(1).unsqueeze(1) + x)
    yield Step(lambda s, x: x.repeat(1, 2).view(x.shape[0], 2, -1))


class Network(nn.Module):
    def __init__(self, r):
        super().__init__()
        shape = r.choice([(3, 3, 8, 10), (3, 4, 6, 6), (3, 5, 6), (3, 7, 8), (3, 12)])
        self.example = torch.randn(*shape).double()
        self.steps = nn.ModuleList()
        x = self.example
        for _ in range(r.randrange(3, 9)):
            specific = {2: for_vectors, 3: for_sequences, 4: for_images}.get(x.dim())
            steps = list(for_any(r, x.shape))
            if specific is not None and r.random() < 0.65:
                steps = list(specific(r, x.shape))
            step = r.choice(steps).double().eval()
            with torch.no_grad():
                randomize(step)
                y = step(x.clone())
            if y.numel() > 20000 or y.dim() > 5 or y.abs().max() > 1e4 or not torch.isfinite(y).all() or y.std() < 1e-3:
                continue
            self.steps.append(step)
            x = y

    def forward(self, x):
        for step in self.steps:
            x = step(x)
        return x


def randomize(module):
    for parameter_ in module.parameters():
        if parameter_.numel() > 1 and parameter_.unique().numel() == 1:
            parameter_.normal_(float(parameter_.flatten()[0]), 0.3)
    for part in module.modules():
        if getattr(part, "running_mean", None) is not None:
            part.running_mean.normal_(0, 0.3)
            part.running_var.uniform_(0.5, 1.5)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder = sys.argv[1]
    first, count = int(sys.argv[2]) if len(sys.argv) > 2 else 1, int(sys.argv[3]) if len(sys.argv) > 3 else 100
    warnings.filterwarnings("ignore")
    os.makedirs(folder, exist_ok=True)
    export = getattr(torch.export, "export_for_training", torch.export.export)
    for seed in range(first, first + count):
        torch.manual_seed(seed)
        model = Network(random.Random(seed)).eval()
        path = f"{folder}/random_{seed}"
        with torch.no_grad():
            y = model(model.example.clone())
        torch.export.save(export(model, (model.example,)), path + ".pt2")
        numpy.save(path + ".input.npy", model.example.numpy())
        numpy.save(path + ".output.npy", y.numpy())


if __name__ == "__main__":
    main()
