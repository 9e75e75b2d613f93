"""A network of one's own: a residual encoder and decoder for volumes, with a forward that no table of layers has."""
import torch
from torch import nn
from torch.nn import functional as F


class Residual(nn.Module):
    """Two convolutions around which the input goes, weighed by a learned number for each channel."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.first = nn.Conv3d(inputs, outputs, 3, padding=1)
        self.second = nn.Conv3d(outputs, outputs, 3, padding=1)
        self.norm1, self.norm2 = nn.GroupNorm(4, outputs), nn.GroupNorm(4, outputs)
        self.around = nn.Conv3d(inputs, outputs, 1, bias=False)
        self.gain = nn.Parameter(torch.ones(outputs, 1, 1, 1))

    def forward(self, x):
        y = F.silu(self.norm1(self.first(x)))
        return F.silu(self.norm2(self.second(y)) * self.gain + self.around(x))


class Segmenter(nn.Module):
    """Two classes for each cell of a volume [batch, 1, z, y, x]."""

    def __init__(self, channels=8):
        super().__init__()
        self.down1, self.down2 = Residual(1, channels), Residual(channels, 2 * channels)
        self.up = nn.ConvTranspose3d(2 * channels, channels, 2, stride=2)
        self.left = Residual(2 * channels, channels)
        self.head = nn.Conv3d(channels, 2, 1)

    def forward(self, volume):
        fine = self.down1(volume)
        coarse = self.down2(F.max_pool3d(fine, 2))
        return self.head(self.left(torch.cat((self.up(coarse), fine), dim=1)))
