#!/usr/bin/env python3
"""Writes the traces of this folder, NAME.pt, with an input, PyTorch's output and its losses in training beside each.

    /usr/bin/python3 torchscript_fixtures.py [FOLDER]

Needs PyTorch 1.13 (Debian 12's python3-torch). Weights are random, running statistics too.
NAME.pt            torch.jit.trace(model.eval(), inputs).save("NAME.pt"), without its debug information
NAME.input.npy     the inputs; of several NAME.input.0.npy and so on
NAME.output.npy    model(*inputs), in float64
NAME.losses.npy    as sgd_losses.py says
traced_scripted.pt is scripted, and refused; traced_refused.pt has an operator without a layer.
"""
import copy
import math
import sys
import zipfile

import numpy
import torch
from torch import nn
from torch.nn import functional as F

from sgd_losses import flat, losses_of
from small_networks import LeNet, ResNet, UNet3d


class Attention(nn.Module):
    """Written by hand, as before PyTorch 2."""

    def __init__(self, features, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(features, features) for _ in range(3))
        self.out = nn.Linear(features, features)

    def forward(self, x):
        batch, length, features = x.shape
        q, k, v = (part(x).view(batch, length, self.heads, features // self.heads).permute(0, 2, 1, 3)
                   for part in (self.query, self.key, self.value))
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(features // self.heads)
        x = torch.matmul(F.softmax(scores, dim=-1), v)
        return self.out(x.permute(0, 2, 1, 3).reshape(batch, length, features))


class EncoderBlock(nn.Module):
    def __init__(self, features, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(features)
        self.attention = Attention(features, heads)
        self.norm2 = nn.LayerNorm(features)
        self.mlp = nn.Sequential(nn.Linear(features, 2 * features), nn.GELU(), nn.Dropout(0.1),
                                 nn.Linear(2 * features, features))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(13, 8)
        self.position = nn.Parameter(torch.zeros(1, 6, 8))
        self.blocks = nn.ModuleList(EncoderBlock(8, 2) for _ in range(2))
        self.head = nn.Linear(8, 3)

    def forward(self, ids):
        x = self.tokens(ids) + self.position[:, :ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(dim=1))


class Twice(nn.Module):
    """A module that is called twice, and one under two names."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, padding=1)
        self.again = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.SiLU())
        self.also = self.again
        self.scale = nn.Parameter(torch.ones(1, 4, 1, 1))
        self.register_buffer("shift", torch.linspace(-1, 1, 4).view(1, 4, 1, 1))

    def forward(self, x):
        x = self.again(self.again(self.first(x)))
        return self.also(x * self.scale + self.shift) * 0.5


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(11, 6)
        self.layer = nn.Linear(6, 6)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids):
        return self.head(torch.tanh(self.layer(self.tokens(ids))))


class Mixed(nn.Module):
    """What the other networks lack: parts, masks, sizes that are computed, two arguments and two results."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 8, 3, padding="same", groups=2)
        self.norm = nn.GroupNorm(4, 8)
        self.prelu = nn.PReLU(8)
        self.gate = nn.Conv2d(4, 4, 1)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.mix = nn.Linear(4, 4)
        self.extra = nn.Linear(3, 4)

    def forward(self, image, row):
        x = self.prelu(self.norm(self.conv(F.pad(image, (1, 1, 0, 0)))))
        a, b = x.chunk(2, dim=1)
        x = torch.cat([a * torch.sigmoid(self.gate(b)), F.avg_pool2d(self.up(b), 2)], dim=1)
        x = x[:, 1:5] - 2 * x[:, 4:].pow(2)
        height, width = x.shape[-2:]
        x = F.interpolate(x, size=(height // 2, width // 2), mode="bilinear", align_corners=False)
        x = x.flatten(2).transpose(1, 2)
        mask = torch.tril(torch.ones(x.size(1), x.size(1), dtype=torch.bool))
        scores = (x @ x.transpose(1, 2)).masked_fill(~mask, float("-inf"))
        x = self.mix(torch.softmax(scores, -1) @ x) + self.extra(row).unsqueeze(1)
        return x.mean(1), torch.stack([row, row.exp()], 1).amax(1)


class Padded(nn.Module):
    """Boundaries that are not zeros: of convolutions' own, before convolutions, and elsewhere."""

    def __init__(self):
        super().__init__()
        self.around = nn.Conv2d(2, 4, (3, 5), padding=(1, 2), padding_mode="circular")
        self.mirrored = nn.Sequential(nn.ReflectionPad2d((2, 1, 0, 3)), nn.Conv2d(4, 4, 3, stride=2, groups=2))
        self.globe = nn.Conv2d(4, 3, 3, padding=(1, 0))

    def forward(self, x):
        x = torch.tanh(self.around(x))
        x = F.avg_pool2d(F.pad(x, (1, 2, 2, 0), mode="replicate"), 2, stride=1) + F.pad(x, (1, 1, 0, 1), mode="reflect")
        # Longitude is circular, latitude is not.
        return self.globe(F.pad(self.mirrored(x), (1, 1, 0, 0), mode="circular"))


class Refused(nn.Module):
    class Part(nn.Module):
        def forward(self, x):
            return torch.cumsum(x, 1)

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.part = Refused.Part()

    def forward(self, x):
        return self.part(self.fc(x)) + 1


class Scripted(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        x = self.fc(x)
        if x.sum() > 0:
            x = -x
        return x


def randomize(model):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() < 2 or "position" in name or "scale" in name:
                parameter.add_(torch.randn_like(parameter) * 0.2)
        for name, buffer in model.named_buffers():
            if name.endswith("running_mean"):
                buffer.normal_(0, 0.3)
            if name.endswith("running_var"):
                buffer.uniform_(0.5, 2)
    return model


def without_dropout(model):
    for module in model.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = 0.0
    return model


def save_arrays(path, kind, tensors):
    for i, tensor in enumerate(tensors):
        numpy.save(f"{path}.{kind}.npy" if len(tensors) == 1 else f"{path}.{kind}.{i}.npy", tensor.detach().numpy())


def save(program, path):
    """Without the *.debug_pkl entries, which name the files of this machine."""
    program.save(path)
    with zipfile.ZipFile(path) as archive:
        kept = [(info, archive.read(info)) for info in archive.infolist() if not info.filename.endswith(".debug_pkl")]
    with zipfile.ZipFile(path, "w") as archive:
        for info, content in kept:
            archive.writestr(info, content)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "."
    torch.manual_seed(0)
    networks = [("lenet", lambda: LeNet(kernel=3, features=6, hidden=16), [torch.randn(2, 1, 16, 16)]),
                ("resnet", lambda: ResNet(features=4), [torch.randn(2, 3, 32, 28)]),
                ("unet3d", lambda: UNet3d(first=3, second=4, outputs=2), [torch.randn(2, 1, 4, 8, 8)]),
                ("encoder", Encoder, [torch.randint(0, 13, (3, 6))]),
                ("twice", Twice, [torch.randn(2, 2, 6, 6)]),
                ("tied", Tied, [torch.randint(0, 11, (3, 4))]),
                ("mixed", Mixed, [torch.randn(2, 2, 6, 8), torch.randn(2, 3)]),
                ("padded", Padded, [torch.randn(2, 2, 8, 9)])]
    for name, network, inputs in networks:
        path = f"{folder}/traced_{name}"
        model = randomize(network()).double().eval()
        inputs = [x.double() if x.is_floating_point() else x for x in inputs]
        save(torch.jit.trace(model, tuple(inputs)), path + ".pt")
        outputs = flat(model(*inputs))
        save_arrays(path, "input", inputs)
        save_arrays(path, "output", outputs)
        targets = [output.detach().flip(0) for output in outputs]
        numpy.save(path + ".losses.npy", losses_of(without_dropout(copy.deepcopy(model)), inputs, targets))
    save(torch.jit.trace(Refused().eval(), torch.randn(2, 3, 4)), f"{folder}/traced_refused.pt")
    save(torch.jit.script(Scripted().eval()), f"{folder}/traced_scripted.pt")


if __name__ == "__main__":
    main()
