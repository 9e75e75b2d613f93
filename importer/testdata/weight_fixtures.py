#!/usr/bin/env python3
"""Writes archives of networks that compute with their weights, with norms, or with attention written in other ways.

    python3 weight_fixtures.py [FOLDER [NAME ...]]

Files as those of module_fixtures.py. Needs PyTorch 2.4 to 2.6 and torchvision (Debian 13's python3-torchvision).
"""
import math
import sys

import torch
from torch import nn
from torch.nn import functional as F

import module_fixtures


class Conv1D(nn.Module):
    """As Hugging Face's transformers have it: the weight is [in, out]."""

    def __init__(self, outputs, inputs):
        super().__init__()
        self.nf = outputs
        self.weight = nn.Parameter(torch.empty(inputs, outputs).normal_(std=0.02))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        size = x.size()[:-1] + (self.nf,)
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(size)


class HfAttention(nn.Module):
    def __init__(self, features, heads, length):
        super().__init__()
        self.features, self.heads = features, heads
        mask = torch.tril(torch.ones((length, length), dtype=torch.bool)).view(1, 1, length, length)
        self.register_buffer("bias", mask, persistent=False)
        self.c_attn, self.c_proj = Conv1D(3 * features, features), Conv1D(features, features)
        self.attn_dropout, self.resid_dropout = nn.Dropout(0.1), nn.Dropout(0.1)

    def forward(self, x):
        shape = (*x.shape[:-1], -1, self.features // self.heads)
        q, k, v = (t.view(shape).transpose(1, 2) for t in self.c_attn(x).split(self.features, dim=2))
        weights = torch.matmul(q, k.transpose(-1, -2))
        weights = weights / torch.full([], v.size(-1)**0.5, dtype=weights.dtype, device=weights.device)
        mask = self.bias[:, :, k.size(-2) - q.size(-2):k.size(-2), :k.size(-2)]
        least = torch.full([], torch.finfo(weights.dtype).min, dtype=weights.dtype, device=weights.device)
        weights = torch.where(mask, weights.to(weights.dtype), least)
        weights = self.attn_dropout(F.softmax(weights, dim=-1).type(v.dtype))
        y = torch.matmul(weights, v).transpose(1, 2)
        y = y.reshape(*x.shape[:-1], -1).contiguous()
        return self.resid_dropout(self.c_proj(y))


class HfBlock(nn.Module):
    class Mlp(nn.Module):
        def __init__(self, features):
            super().__init__()
            self.c_fc, self.c_proj = Conv1D(4 * features, features), Conv1D(features, 4 * features)
            self.dropout = nn.Dropout(0.1)

        def forward(self, x):
            x = self.c_fc(x)
            x = 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))
            return self.dropout(self.c_proj(x))

    def __init__(self, features, heads, length):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(features), nn.LayerNorm(features)
        self.attn = HfAttention(features, heads, length)
        self.mlp = HfBlock.Mlp(features)

    def forward(self, x):
        x = self.attn(self.ln_1(x)) + x
        return x + self.mlp(self.ln_2(x))


class HfGpt2(nn.Module):
    """GPT2LMHeadModel."""

    def __init__(self, words=13, length=10, features=12, heads=3, blocks=2):
        super().__init__()

        class Transformer(nn.Module):
            def __init__(self):
                super().__init__()
                self.wte, self.wpe = nn.Embedding(words, features), nn.Embedding(length, features)
                self.drop = nn.Dropout(0.1)
                self.h = nn.ModuleList([HfBlock(features, heads, length) for _ in range(blocks)])
                self.ln_f = nn.LayerNorm(features)

            def forward(self, input_ids):
                input_ids = input_ids.view(-1, input_ids.size(-1))
                positions = torch.arange(0, input_ids.size(-1), dtype=torch.long).unsqueeze(0)
                x = self.drop(self.wte(input_ids) + self.wpe(positions))
                for block in self.h:
                    x = block(x)
                return self.ln_f(x)

        self.transformer = Transformer()
        self.lm_head = nn.Linear(features, words, bias=False)
        self.lm_head.weight = self.transformer.wte.weight

    def forward(self, input_ids):
        return self.lm_head(self.transformer(input_ids))


class Tied(nn.Module):
    """One matrix in both directions, and another over a dim in the middle."""

    def __init__(self):
        super().__init__()
        self.code = nn.Parameter(torch.randn(6, 3))
        self.back = nn.Parameter(torch.zeros(6))
        self.mix = nn.Parameter(torch.randn(5, 4))

    def forward(self, x):
        x = torch.einsum("blf,lm->bmf", x, self.mix)
        return torch.tanh(x @ self.code) @ self.code.t() + self.back


class Norms(nn.Module):
    """Norms and deviations, of rows that are all zeros or all alike, too."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 8, bias=False)
        self.out = nn.Linear(8, 3)
        self.scale = nn.Parameter(torch.ones(()) * 0.5)

    def forward(self, x):
        h = self.fc(x)
        unit = F.normalize(h, dim=-1)
        spread = h.std(-1, keepdim=True) + h.norm(dim=-1, keepdim=True) + torch.linalg.vector_norm(h, dim=(1, 2), keepdim=True)
        return self.out(unit * self.scale.exp() + torch.relu(h) * spread) + h.std((1, 2), unbiased=False)[:, None, None]


class Functions(nn.Module):
    """Weights that are scaled, normalised and standardised; a temperature; a matrix from the left; relative biases."""

    def __init__(self, length=6, features=8, heads=2):
        super().__init__()
        self.heads = heads
        self.weight, self.bias = nn.Parameter(torch.randn(features, 5)), nn.Parameter(torch.randn(features))
        self.gain = nn.Parameter(torch.randn(features, 1))
        self.direction, self.length = nn.Parameter(torch.randn(features, features)), nn.Parameter(torch.rand(features, 1))
        self.qkv = nn.Linear(features, 3 * features, bias=False)
        self.q_bias, self.v_bias = nn.Parameter(torch.randn(features)), nn.Parameter(torch.randn(features))
        self.logit_scale = nn.Parameter(torch.full((heads, 1, 1), 0.7))
        self.positions = nn.Sequential(nn.Linear(1, 7), nn.ReLU(), nn.Linear(7, heads, bias=False))
        self.register_buffer("distances", torch.linspace(-1, 1, 2 * length - 1)[:, None])
        places = torch.arange(length)
        self.register_buffer("index", (places[:, None] - places[None] + length - 1).flatten(), persistent=False)
        self.mix = nn.Parameter(torch.randn(length, length))
        self.shift = nn.Parameter(torch.randn(length, features))
        self.head = nn.Parameter(torch.randn(3, features))

    def forward(self, x):
        batch, length, _ = x.shape
        x = F.linear(x, self.weight * self.gain, self.bias * 2)
        x = F.linear(torch.tanh(x), self.direction * (self.length / self.direction.norm(dim=1, keepdim=True)))
        bias = torch.cat((self.q_bias, torch.zeros_like(self.q_bias), self.v_bias))
        q, k, v = F.linear(x, self.qkv.weight, bias).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        scores = scores * self.logit_scale.clamp(max=math.log(100.0)).exp()
        relative = self.positions(self.distances)[self.index].view(length, length, -1).permute(2, 0, 1)
        scores = scores + 4 * torch.sigmoid(relative).unsqueeze(0)
        x = x + (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, -1)
        x = torch.softmax(self.mix, -1) @ x - self.shift
        centred = self.head - self.head.mean(1, keepdim=True)
        return x @ (centred / torch.sqrt(self.head.var(1, keepdim=True) + 1e-5)).t() / self.length.sum()


class EinsumAttention(nn.Module):
    """Attention as einops users write it, in two orders of dims."""

    def __init__(self, features=8, heads=2):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.Linear(features, 3 * features), nn.Linear(features, 3 * features)
        self.out = nn.Linear(features, features)

    def parts(self, layer, x):
        return (t.unflatten(-1, (self.heads, -1)) for t in layer(x).chunk(3, -1))

    def forward(self, x):
        q, k, v = self.parts(self.first, x)
        weights = torch.softmax(torch.einsum("bihd,bjhd->bhij", q, k) * q.shape[-1]**-0.5, dim=-1)
        x = x + torch.einsum("bhij,bjhd->bihd", weights, v).flatten(2)
        q, k, v = (t.transpose(1, 2) for t in self.parts(self.second, x))
        scores = torch.einsum("b h i d, b h j d -> b h i j", q, k) / math.sqrt(q.shape[-1])
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        weights = scores.masked_fill(mask, float("-inf")).softmax(-1)
        return self.out(torch.einsum("b h i j, b h j d -> b h i d", weights, v).transpose(1, 2).flatten(2))


class ElementWise(nn.Module):
    """Functions of torch and torch.special with one argument that no other network has."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(5, 4), nn.Linear(4, 3)

    def forward(self, x):
        x = self.first(x)
        within, unit, positive = 0.9 * torch.tanh(x), 0.8 * torch.sigmoid(x) + 0.1, 0.3 + x * x
        a = torch.tan(within) + torch.asin(within) + torch.arccos(within) + torch.atanh(within) + torch.erfinv(within)
        b = torch.atan(x) + torch.sinh(within) * torch.cosh(x / 4) - torch.asinh(x) + torch.sinc(x) + torch.exp2(within)
        c = torch.special.expit(x) + torch.special.erfc(x) * torch.frac(x) - torch.special.logit(unit)
        d = torch.lgamma(positive) + torch.digamma(1 + positive) + torch.log2(positive) * torch.log10(positive)
        return self.last(a + b + c + d + torch.acosh(1 + positive))


def networks():
    """Name, model, arguments, whether the program leaves the batch open."""
    from torchvision.models import SwinTransformer
    from torchvision.models.swin_transformer import SwinTransformerBlockV2

    def normal(*shape):
        return torch.randn(*shape).double()

    def swin(**more):
        return SwinTransformer(patch_size=[2, 2], embed_dim=8, depths=[2], num_heads=[2], window_size=[4, 4],
                               stochastic_depth_prob=0.0, num_classes=5, **more)

    zeros = normal(3, 4, 6)
    zeros[1] = 0
    zeros[2, 1] = 0
    yield "hf_gpt2", HfGpt2(), (torch.randint(0, 13, (2, 8)),), False
    yield "tied", Tied(), (normal(3, 5, 6),), False
    yield "norms", Norms(), (zeros,), False
    yield "functions", Functions(), (normal(3, 6, 5),), False
    yield "element_wise", ElementWise(), (normal(3, 6, 5),), False
    yield "einsum_attention", EinsumAttention(), (normal(2, 6, 8),), False
    yield "swin_any_batch", swin(), (normal(2, 3, 16, 16),), True
    yield "swin_v2", swin(block=SwinTransformerBlockV2), (normal(2, 3, 16, 16),), False


def main():
    folder, names = sys.argv[1] if len(sys.argv) > 1 else ".", sys.argv[2:]
    export = getattr(torch.export, "export_for_training", torch.export.export)
    for name, model, inputs, any_batch in networks():
        torch.manual_seed(20241001)
        if names and name not in names:
            continue
        model = model.double().eval()
        with torch.no_grad():
            module_fixtures.randomize(model)
            outputs = module_fixtures.flat(model(*inputs))
        batch = torch.export.Dim("batch", min=2, max=64)
        shapes = tuple({0: batch} for _ in inputs) if any_batch else None
        torch.export.save(export(model, inputs, dynamic_shapes=shapes), f"{folder}/{name}.pt2")
        module_fixtures.write(f"{folder}/{name}.input", inputs)
        module_fixtures.write(f"{folder}/{name}.output", outputs)


if __name__ == "__main__":
    main()
