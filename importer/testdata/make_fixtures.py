#!/usr/bin/env python3
"""Writes the .pt2 archives of this folder, with an input and PyTorch's output beside each.

    python3 make_fixtures.py [FOLDER]

Needs PyTorch 2.4 to 2.6 (Debian 13's python3-torch is 2.6). Weights are random, running statistics too.
NAME.pt2           torch.export.export_for_training(model.eval(), (x,))
NAME.new.pt2       of some: the same program and weights, as newer releases of PyTorch arrange an archive
NAME.input.npy     x, in the archive's type
NAME.output.npy    model(x), computed in the archive's type
"""
import io
import json
import sys
import zipfile

import numpy
import torch
from torch import nn
from torch.nn import functional as F

import small_networks


def lenet():
    return small_networks.LeNet(kernel=5, features=8, hidden=32)


def resnet():
    return small_networks.ResNet(features=8)


def unet3d():
    return small_networks.UNet3d(first=4, second=8, outputs=3)


class Mixed(nn.Module):
    """One of each layer that the other networks lack."""

    def __init__(self):
        super().__init__()
        self.pad = nn.ZeroPad2d((1, 2, 0, 1))
        self.conv = nn.Conv2d(2, 8, 3, padding="same", groups=2, padding_mode="zeros")
        self.norm = nn.GroupNorm(4, 8)
        self.act = nn.SiLU()
        self.prelu = nn.PReLU(8)
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.pool = nn.AvgPool2d(2, ceil_mode=True, count_include_pad=False)
        self.gate = nn.Conv2d(8, 8, 1)
        self.shuffle = nn.PixelShuffle(2)
        self.ln = nn.LayerNorm(2)
        self.mlp = nn.Sequential(nn.Linear(2, 6), nn.GELU(approximate="tanh"), nn.Identity(), nn.Linear(6, 3))

    def forward(self, x):
        x = self.prelu(self.act(self.norm(self.conv(self.pad(x)))))
        x = self.pool(F.hardtanh(self.up(x), -0.9, 0.8))
        x = x * torch.sigmoid(self.gate(x)) + x
        x = self.shuffle(F.interpolate(x, size=(6, 5), mode="nearest"))
        x = self.mlp(self.ln(x.permute(0, 2, 3, 1)))
        x = F.softmax(x, dim=-1).flatten(1, 2).transpose(1, 2)
        return F.elu(x.mean(-1, keepdim=True) if False else x, 0.7)


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 8)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True, activation="gelu")
        self.attend = nn.MultiheadAttention(8, 4, batch_first=True)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 20, bias=False)

    def forward(self, x):
        x = self.block(self.words(x))
        return self.head(self.norm(x + self.attend(x, x, x, need_weights=False)[0]))


class Slices(nn.Module):
    """Parts of tensors, and a dropout that works in place."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 12, 3, padding=1)
        self.drop = nn.Dropout(0.3, inplace=True)
        self.fc = nn.Linear(10, 5)

    def forward(self, x):
        x = self.drop(self.conv(x))
        a, b, c = x.split(4, dim=1)
        d, e = c.chunk(2, dim=1)
        x = a[:, :, 1:-1] * torch.sigmoid(b[:, :, 2:]) + torch.cat((d, e), 1)[:, :, :-2]
        first, *_, last = x.unbind(1)
        y = x[:, :, ::2, 1:9:3] + x.narrow(2, 0, 4)[..., :3]
        z = self.fc(first + last.unsqueeze(1).expand(-1, 3, -1, -1).select(1, 2))
        return z[:, None, :4, :3] * y.repeat(1, 1, 1, 2)[:, :, :, -3:]


def sequential():
    """Modules without names of their own."""
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Sequential(nn.BatchNorm2d(4), nn.Tanh()),
                         nn.Flatten(), nn.Linear(4 * 6 * 5, 3))


class Refused(nn.Module):
    """Operators that have no layer, twice in one module and once in another."""

    class Part(nn.Module):
        def forward(self, x):
            return torch.cumsum(torch.cumsum(x, 1), 1)

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.part = Refused.Part()

    def forward(self, x):
        return torch.matmul(self.part(self.fc(x)), x.transpose(1, 2))


def randomize(model):
    for module in model.modules():
        if getattr(module, "running_mean", None) is not None:
            module.running_mean.normal_(0, 0.3)
            module.running_var.uniform_(0.5, 1.5)
            module.num_batches_tracked.fill_(3)
        if isinstance(module, (nn.GroupNorm, nn.LayerNorm, nn.InstanceNorm3d, nn.BatchNorm2d)):
            module.weight.uniform_(0.5, 1.5)
            module.bias.normal_(0, 0.3)


def rearrange(path, new_path, model):
    """Writes the archive as PyTorch 2.9 does: raw weights beside an index."""
    with zipfile.ZipFile(path) as old:
        name = next(n for n in old.namelist() if n.endswith("serialized_exported_program.json"))
        program = old.read(name)
    index, raw = {}, {}
    code = {torch.float32: 7, torch.float64: 8, torch.int64: 5}
    for i, (key, tensor) in enumerate(model.state_dict().items()):
        raw[f"weight_{i}"] = tensor.contiguous().numpy().tobytes()
        index[key] = {"path_name": f"weight_{i}", "is_param": key in dict(model.named_parameters()),
                      "use_pickle": False,
                      "tensor_meta": {"dtype": code[tensor.dtype], "sizes": [{"as_int": n} for n in tensor.shape],
                                      "requires_grad": False, "device": {"type": "cpu", "index": None},
                                      "strides": [{"as_int": n} for n in tensor.stride()],
                                      "storage_offset": {"as_int": 0}, "layout": 7}}
    with zipfile.ZipFile(new_path, "w") as new:
        def put(entry, content):
            new.writestr(zipfile.ZipInfo("model/" + entry), content)
        put("archive_format", "pt2")
        put("byteorder", "little")
        put("archive_version", "0")
        put("models/model.json", program)
        put("data/weights/model_weights_config.json", json.dumps({"config": index}))
        put("data/constants/model_constants_config.json", json.dumps({"config": {}}))
        for entry, content in raw.items():
            put("data/weights/" + entry, content)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "."
    torch.manual_seed(20240501)
    networks = [("lenet", lenet(), torch.randn(2, 1, 28, 28), True),
                ("resnet", resnet().double(), torch.randn(2, 3, 40, 36).double(), False),
                ("unet3d", unet3d().double(), torch.randn(2, 1, 8, 12, 8).double(), True),
                ("mixed", Mixed().double(), torch.randn(3, 2, 9, 8).double(), False),
                ("transformer", Transformer().double(), torch.randint(0, 20, (3, 7)), False),
                ("slices", Slices().double(), torch.randn(2, 2, 10, 10).double(), False),
                ("sequential", sequential().double(), torch.randn(2, 1, 6, 5).double(), False),
                ("refused", Refused(), torch.randn(2, 3, 4), False)]
    for name, model, x, newer in networks:
        model.eval()
        with torch.no_grad():
            randomize(model)
            y = model(x)
        path = f"{folder}/{name}.pt2"
        export = getattr(torch.export, "export_for_training", torch.export.export)
        torch.export.save(export(model, (x,)), path)
        if newer:
            rearrange(path, f"{folder}/{name}.new.pt2", model)
        if name == "refused":
            continue
        numpy.save(f"{folder}/{name}.input.npy", x.numpy())
        numpy.save(f"{folder}/{name}.output.npy", y.numpy())


if __name__ == "__main__":
    main()
