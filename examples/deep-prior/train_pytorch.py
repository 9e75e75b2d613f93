#!/usr/bin/python3
"""The serial reference of deep-prior.textproto: the same network, losses and optimizer in plain PyTorch, in float64.

    examples/deep-prior/train_pytorch.py [--data FOLDER] [--steps N] [--output FOLDER]

prints the loss and the error against the solution. With --output it writes there, as a job does, model.safetensors and the
losses in metrics.jsonl, and also the weights that it began with, init.safetensors: a job that has them as weights.init_from
trains to the same weights. Runs with Debian's python3-torch.
"""
import argparse
import json
import math
import pathlib
import struct

import numpy
import torch
from torch import nn
from torch.nn import functional

STEPS = 400  # of the schedule, whatever --steps says
_TYPES = {torch.float64: "F64", torch.int64: "I64"}


class DoubleConv(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv1 = nn.Conv3d(inputs, outputs, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm3d(outputs)
        self.conv2 = nn.Conv3d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm3d(outputs)

    def forward(self, x):
        return functional.silu(self.bn2(self.conv2(functional.silu(self.bn1(self.conv1(x))))))


class DeepPrior(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1 = DoubleConv(4, 8)
        self.down2 = DoubleConv(8, 16)
        self.bottom = DoubleConv(16, 32)
        self.left2 = DoubleConv(48, 16)
        self.left1 = DoubleConv(24, 8)
        self.field = nn.Conv3d(8, 1, 1)
        self.laplace = nn.Conv3d(1, 1, 3, bias=False)
        stencil = torch.zeros(3, 3, 3)
        stencil[1, 1, :] = stencil[1, :, 1] = stencil[:, 1, 1] = 1
        stencil[1, 1, 1] = -6
        self.laplace.weight = nn.Parameter(stencil[None, None], requires_grad=False)

    def forward(self, latent):
        def up(x):
            return functional.interpolate(x, scale_factor=2, mode="trilinear")
        top = self.down1(latent)
        middle = self.down2(functional.avg_pool3d(top, 2))
        x = up(self.bottom(functional.avg_pool3d(middle, 2)))
        x = up(self.left2(torch.cat([middle, x], 1)))
        return self.field(self.left1(torch.cat([top, x], 1)))


def write_safetensors(path, state):
    header, data = {}, b""
    for name, tensor in state.items():
        content = tensor.detach().contiguous().numpy().tobytes()
        header[name] = {"dtype": _TYPES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(args.seed)
    latent, source, measured, solution = (torch.from_numpy(numpy.load(args.data / f"{name}.npy"))
                                          for name in ("latent", "source", "measured", "solution"))
    model = DeepPrior()
    if args.output:
        args.output.mkdir(parents=True, exist_ok=True)
        write_safetensors(args.output / "init.safetensors", model.state_dict())
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (1 + math.cos(math.pi * step / STEPS)) / 2)
    lines = []
    for step in range(args.steps):
        optimizer.zero_grad()
        field = model(latent)
        loss = (500 * functional.mse_loss(model.laplace(field), source) +
                300 * functional.mse_loss(functional.avg_pool3d(field, 2, 4), measured))
        loss.backward()
        optimizer.step()
        lines.append(json.dumps({"type": "step", "step": step + 1, "loss": loss.item(), "lr": schedule.get_last_lr()[0]}))
        schedule.step()
        if step % 50 == 0:
            print(f"step {step + 1}: loss {loss.item():.6f}", flush=True)
    model.eval()
    with torch.no_grad():
        error = functional.mse_loss(model(latent), solution).item()
    print(f"after {args.steps} steps: loss {loss.item():.6f}, mean squared error {error:.6g}, "
          f"{100 * math.sqrt(error / solution.square().mean().item()):.1f}% of the solution's rms")
    if args.output:
        write_safetensors(args.output / "model.safetensors", model.state_dict())
        (args.output / "metrics.jsonl").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
