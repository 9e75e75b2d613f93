#!/usr/bin/env python3
"""Writes archives of networks with parameters of their own, masks and positions, and small ones of torchvision's.

    python3 module_fixtures.py [FOLDER [NAME ...]]

NAME.pt2, NAME.input.npy and NAME.output.npy as make_fixtures.py; of several arguments or results NAME.input.<i>.npy and
NAME.output.<i>.npy. In float64, with random weights, also where PyTorch begins with zeros or ones. Needs PyTorch 2.4 to
2.6 and torchvision (Debian 13's python3-torchvision).
"""
import math
import sys

import numpy
import torch
from torch import nn
from torch.nn import functional as F

from sgd_losses import flat

class Parameters(nn.Module):
    """A layer's scale, a class token, positions, a shift that is a buffer."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, stride=4)
        self.layer_scale = nn.Parameter(torch.ones(8, 1, 1) * 1e-2)
        self.mix = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.class_token = nn.Parameter(torch.zeros(1, 1, 8))
        self.pos_embedding = nn.Parameter(torch.empty(1, 10, 8).normal_(std=0.02))
        self.register_buffer("shift", torch.linspace(-1, 1, 8))
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = self.patches(x)
        x = x + self.layer_scale * self.mix(x)
        x = x.flatten(2).transpose(1, 2)
        x = torch.cat((self.class_token.expand(x.shape[0], -1, -1), x), 1) + self.pos_embedding
        x = self.norm(x + self.shift)
        return self.head(x[:, 0] * 0.5 + x[:, 1:].mean(1))


def rotated(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class Rotary(nn.Module):
    """Attention with rotary positions, of tables that are computed in forward, and a mask that is."""

    def __init__(self, features=16, heads=2, length=7):
        super().__init__()
        self.heads = heads
        self.words = nn.Embedding(11, features)
        self.qkv = nn.Linear(features, 3 * features, bias=False)
        self.out = nn.Linear(features, features, bias=False)
        self.norm = nn.RMSNorm(features, eps=1e-6)
        self.head = nn.Linear(features, 11)

    def forward(self, tokens):
        batch, length = tokens.shape
        x = self.words(tokens)
        q, k, v = self.qkv(self.norm(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        features = q.shape[-1]
        frequencies = 1.0 / (10000 ** (torch.arange(0, features, 2, dtype=torch.float64) / features))
        angles = torch.outer(torch.arange(length, dtype=torch.float64), frequencies)
        angles = torch.cat((angles, angles), -1)
        q, k = rotated(q, angles.cos(), angles.sin()), rotated(k, angles.cos(), angles.sin())
        mask = torch.full((length, length), float("-inf"), dtype=torch.float64).triu(1)
        weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(features) + mask, -1)
        return self.head(x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, -1)))


class GptBlock(nn.Module):
    def __init__(self, features, heads, length, by_hand):
        super().__init__()
        self.heads, self.by_hand = heads, by_hand
        self.ln_1, self.ln_2 = nn.LayerNorm(features), nn.LayerNorm(features)
        self.c_attn, self.c_proj = nn.Linear(features, 3 * features), nn.Linear(features, features)
        self.c_fc, self.c_out = nn.Linear(features, 4 * features), nn.Linear(4 * features, features)
        if by_hand:
            self.register_buffer("bias", torch.tril(torch.ones(length, length)).view(1, 1, length, length))

    def attention(self, x):
        batch, length, features = x.size()
        q, k, v = self.c_attn(x).split(features, dim=2)
        q, k, v = (t.view(batch, length, self.heads, features // self.heads).transpose(1, 2) for t in (q, k, v))
        if self.by_hand:
            weights = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            weights = weights.masked_fill(self.bias[:, :, :length, :length] == 0, float("-inf"))
            y = F.softmax(weights, dim=-1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(batch, length, features))

    def forward(self, x):
        x = x + self.attention(self.ln_1(x))
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    """As nanoGPT writes GPT-2: the head has the words' weights."""

    def __init__(self, by_hand, words=13, length=8, features=12, heads=3, blocks=2):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(words, features), nn.Embedding(length, features)
        self.drop = nn.Dropout(0.1)
        self.h = nn.ModuleList([GptBlock(features, heads, length, by_hand) for _ in range(blocks)])
        self.ln_f = nn.LayerNorm(features)
        self.lm_head = nn.Linear(features, words, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, tokens):
        positions = torch.arange(0, tokens.size(1), dtype=torch.long, device=tokens.device)
        x = self.drop(self.wte(tokens) + self.wpe(positions))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


class Encoder(nn.Module):
    """torch.nn.TransformerEncoder with a causal mask."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        mask = torch.triu(torch.full((x.size(1), x.size(1)), float("-inf"), dtype=x.dtype), diagonal=1)
        return self.head(self.encoder(x, mask=mask, is_causal=True))


class FrozenNorm(nn.Module):
    """Batch norm whose weights need no gradient, in front of a convolution that needs none."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(2, 6, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(6)
        self.conv = nn.Conv2d(6, 6, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(6)
        self.fc = nn.Linear(6, 3)
        self.bn1.requires_grad_(False)
        self.conv.requires_grad_(False)

    def forward(self, x):
        x = torch.relu(self.bn1(self.stem(x)))
        x = torch.relu(self.bn2(self.conv(x)))
        return self.fc(x.mean((2, 3)))


class Several(nn.Module):
    """Two arguments, one of whole numbers, and two results."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(9, 6)
        self.image = nn.Linear(5, 6)
        self.left, self.right = nn.Linear(6, 4), nn.Linear(6, 2)

    def forward(self, image, label):
        x = torch.tanh(self.image(image) + self.words(label))
        return self.left(x), {"right": self.right(x * 0.5)}


class Translator(nn.Module):
    """torch.nn.Transformer of words: a decoder with a mask, whose attention reads the encoder's output."""

    def __init__(self, words=11, features=8):
        super().__init__()
        self.words = nn.Embedding(words, features)
        self.transformer = nn.Transformer(features, 2, 1, 2, 12, dropout=0.1, batch_first=True)
        self.head = nn.Linear(features, words)

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], dtype=self.words.weight.dtype)
        return self.head(self.transformer(self.words(source), self.words(target), tgt_mask=mask, tgt_is_causal=True))


class Perceiver(nn.Module):
    """Learned queries, the same for all samples, that read an image: Jaegle et al., "Perceiver" (2021), one block."""

    def __init__(self, features=8, queries=5, classes=3):
        super().__init__()
        self.backbone = nn.Conv2d(3, features, 4, stride=4)
        self.pos = nn.Parameter(torch.rand(1, 12, features))
        self.latents = nn.Parameter(torch.rand(1, queries, features))
        self.norm_q, self.norm_kv, self.norm = nn.LayerNorm(features), nn.LayerNorm(features), nn.LayerNorm(features)
        self.cross = nn.MultiheadAttention(features, 2, batch_first=True)
        self.attention = nn.MultiheadAttention(features, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(features, 12), nn.GELU(), nn.Linear(12, features))
        self.head = nn.Linear(features, classes)

    def forward(self, x):
        x = self.backbone(x).flatten(2).transpose(1, 2) + self.pos
        latents = self.latents.expand(x.shape[0], -1, -1)
        x = self.norm_kv(x)
        latents = latents + self.cross(self.norm_q(latents), x, x)[0]
        y = self.norm(latents)
        latents = latents + self.attention(y, y, y, need_weights=False)[0]
        return self.head((latents + self.mlp(latents)).mean(1))


class Grid(nn.Module):
    """Windows, then a grid of the same image, as in Tu et al., "MaxViT" (2022): one reshape divides dims as no other does."""

    def __init__(self, features=6):
        super().__init__()
        self.backbone = nn.Conv2d(3, features, 3, padding=1)
        self.grid = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(features)
        self.head = nn.Conv2d(features, 3, 1)

    def forward(self, x):
        x = self.backbone(x)
        n, c, h, w = x.shape
        x = x.reshape(n, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 3, 5, 1).reshape(n, h * w // 4, 4, c)
        x = self.norm(x)
        x = x.reshape(n, h // 2, w // 2, 2, 2, c).permute(0, 5, 1, 3, 2, 4).reshape(n, c, h, w)
        x = x.reshape(n, c, 2, h // 2, 2, w // 2).permute(0, 3, 5, 2, 4, 1).reshape(n, h * w // 4, 4, c)
        x = self.grid(x.swapaxes(-2, -1)).swapaxes(-2, -1)
        x = x.reshape(n, h // 2, w // 2, 2, 2, c).permute(0, 5, 3, 1, 4, 2).reshape(n, c, h, w)
        return self.head(x)


def networks():
    from torchvision.models import ConvNeXt, SwinTransformer, VisionTransformer
    from torchvision.models.convnext import CNBlockConfig

    def normal(*shape):
        return torch.randn(*shape).double()

    yield "parameters", Parameters(), (normal(2, 3, 12, 12),)
    yield "rotary", Rotary(), (torch.randint(0, 11, (2, 7)),)
    yield "gpt2_sdpa", Gpt(False), (torch.randint(0, 13, (2, 8)),)
    yield "gpt2_by_hand", Gpt(True), (torch.randint(0, 13, (2, 8)),)
    yield "encoder", Encoder(), (normal(2, 6, 8),)
    yield "frozen_norm", FrozenNorm(), (normal(4, 2, 6, 8),)
    yield "several", Several(), (normal(3, 5), torch.randint(0, 9, (3,)))
    yield "vit", VisionTransformer(image_size=16, patch_size=8, num_layers=2, num_heads=2, hidden_dim=12, mlp_dim=20,
                                   num_classes=5), (normal(2, 3, 16, 16),)
    yield "swin", SwinTransformer(patch_size=[2, 2], embed_dim=8, depths=[2, 2], num_heads=[2, 4], window_size=[4, 4],
                                  stochastic_depth_prob=0.0, num_classes=5), (normal(2, 3, 16, 16),)
    yield "convnext", ConvNeXt([CNBlockConfig(8, 12, 1), CNBlockConfig(12, None, 2)], stochastic_depth_prob=0.0,
                               num_classes=5), (normal(2, 3, 32, 32),)
    yield "translator", Translator(), (torch.randint(0, 11, (2, 6)), torch.randint(0, 11, (2, 5)))
    yield "perceiver", Perceiver(), (normal(2, 3, 16, 12),)
    yield "grid", Grid(), (normal(2, 3, 6, 12),)


def randomize(model):
    """What begins with zeros or ones, or close to zeros, proves nothing: heads, biases, norms, tokens."""
    for parameter in {id(p): p for p in model.parameters()}.values():
        if parameter.unique().numel() == 1 and parameter.numel() > 1:
            parameter.normal_(float(parameter.flatten()[0]), 0.3)
        elif parameter.dim() > 1 and parameter.std() < 0.1:
            parameter.mul_(0.3 / parameter.std())
    for module in model.modules():
        if getattr(module, "running_mean", None) is not None:
            module.running_mean.normal_(0, 0.3)
            module.running_var.uniform_(0.5, 1.5)
            module.num_batches_tracked.fill_(3)


def write(path, tensors):
    for i, tensor in enumerate(tensors):
        numpy.save(f"{path}.npy" if len(tensors) == 1 else f"{path}.{i}.npy", tensor.numpy())


def main():
    folder, names = sys.argv[1] if len(sys.argv) > 1 else ".", sys.argv[2:]
    torch.manual_seed(20240801)
    export = getattr(torch.export, "export_for_training", torch.export.export)
    for name, model, inputs in networks():
        model = model.double().eval()
        with torch.no_grad():
            randomize(model)
            outputs = flat(model(*inputs))
        if names and name not in names:
            continue
        torch.export.save(export(model, inputs), f"{folder}/{name}.pt2")
        write(f"{folder}/{name}.input", inputs)
        write(f"{folder}/{name}.output", outputs)


if __name__ == "__main__":
    main()
