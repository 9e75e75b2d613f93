"""UNETR with the architecture, the operators and the names that its authors published in MONAI.

Source: Hatamizadeh et al., "UNETR: Transformers for 3D Medical Image Segmentation" (arXiv:2103.10504): a ViT-B of
patches of 16 voxels, whose blocks 3, 6, 9 and 12 feed a convolutional decoder.
"""
import torch
from torch import nn


class PatchEmbedding(nn.Module):
    def __init__(self, inputs, patches, patch, hidden):
        super().__init__()
        self.patch_embeddings = nn.Conv3d(inputs, hidden, patch, patch)
        self.position_embeddings = nn.Parameter(torch.empty(1, patches, hidden).normal_(std=0.02))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        x = self.patch_embeddings(x).flatten(2).transpose(-1, -2)
        return self.dropout(x + self.position_embeddings)


class SelfAttention(nn.Module):
    """MONAI's SABlock; einops' "b h (qkv l d) -> qkv b l h d" is written as what it does."""

    def __init__(self, hidden, heads):
        super().__init__()
        self.heads, self.scale = heads, (hidden // heads)**-0.5
        self.out_proj = nn.Linear(hidden, hidden)
        self.qkv = nn.Linear(hidden, 3 * hidden, bias=False)
        self.drop_output, self.drop_weights = nn.Dropout(0.1), nn.Dropout(0.1)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        weights = (torch.einsum("blxd,blyd->blxy", q, k) * self.scale).softmax(dim=-1)
        x = torch.einsum("bhxy,bhyd->bhxd", self.drop_weights(weights), v)
        x = x.permute(0, 2, 1, 3).reshape(b, n, c)
        return self.drop_output(self.out_proj(x))


class Mlp(nn.Module):
    def __init__(self, hidden, mlp):
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(hidden, mlp), nn.Linear(mlp, hidden)
        self.fn = nn.GELU()
        self.drop1, self.drop2 = nn.Dropout(0.1), nn.Dropout(0.1)

    def forward(self, x):
        return self.drop2(self.linear2(self.drop1(self.fn(self.linear1(x)))))


class TransformerBlock(nn.Module):
    def __init__(self, hidden, mlp, heads):
        super().__init__()
        self.mlp = Mlp(hidden, mlp)
        self.norm1 = nn.LayerNorm(hidden)
        self.attn = SelfAttention(hidden, heads)
        self.norm2 = nn.LayerNorm(hidden)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Vit(nn.Module):
    def __init__(self, inputs, patches, patch, hidden, mlp, blocks, heads):
        super().__init__()
        self.patch_embedding = PatchEmbedding(inputs, patches, patch, hidden)
        self.blocks = nn.ModuleList([TransformerBlock(hidden, mlp, heads) for _ in range(blocks)])
        self.norm = nn.LayerNorm(hidden)

    def forward(self, x):
        x = self.patch_embedding(x)
        hidden = []
        for block in self.blocks:
            x = block(x)
            hidden.append(x)
        return self.norm(x), hidden


class ResBlock(nn.Module):
    """UnetResBlock, of instance norm without weights."""

    def __init__(self, i, o):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv3d(i, o, 3, 1, 1, bias=False), nn.Conv3d(o, o, 3, 1, 1, bias=False)
        self.lrelu = nn.LeakyReLU(negative_slope=0.01, inplace=True)
        self.norm1, self.norm2 = nn.InstanceNorm3d(o), nn.InstanceNorm3d(o)
        self.downsample = i != o
        if self.downsample:
            self.conv3, self.norm3 = nn.Conv3d(i, o, 1, bias=False), nn.InstanceNorm3d(o)

    def forward(self, x):
        residual = x
        x = self.norm2(self.conv2(self.lrelu(self.norm1(self.conv1(x)))))
        if self.downsample:
            residual = self.norm3(self.conv3(residual))
        x += residual
        return self.lrelu(x)


def up(i, o):
    return nn.ConvTranspose3d(i, o, 2, 2, bias=False)


class PrUpBlock(nn.Module):
    def __init__(self, i, o, layers):
        super().__init__()
        self.transp_conv_init = up(i, o)
        self.blocks = nn.ModuleList([nn.Sequential(up(o, o), ResBlock(o, o)) for _ in range(layers)])

    def forward(self, x):
        x = self.transp_conv_init(x)
        for block in self.blocks:
            x = block(x)
        return x


class UpBlock(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.transp_conv, self.conv_block = up(i, o), ResBlock(2 * o, o)

    def forward(self, x, skip):
        return self.conv_block(torch.cat((self.transp_conv(x), skip), dim=1))


class Unetr(nn.Module):
    def __init__(self, extents=(96, 96, 96), inputs=1, outputs=2, features=16, hidden=768, mlp=3072, heads=12,
                 blocks=12, patch=16):
        super().__init__()
        self.hidden, self.taken = hidden, [blocks // 4, blocks // 2, blocks // 4 * 3]
        self.grid = tuple(extent // patch for extent in extents)
        self.vit = Vit(inputs, self.grid[0] * self.grid[1] * self.grid[2], patch, hidden, mlp, blocks, heads)
        self.encoder1 = ResBlock(inputs, features)
        self.encoder2 = PrUpBlock(hidden, 2 * features, 2)
        self.encoder3 = PrUpBlock(hidden, 4 * features, 1)
        self.encoder4 = PrUpBlock(hidden, 8 * features, 0)
        self.decoder5 = UpBlock(hidden, 8 * features)
        self.decoder4 = UpBlock(8 * features, 4 * features)
        self.decoder3 = UpBlock(4 * features, 2 * features)
        self.decoder2 = UpBlock(2 * features, features)
        self.out = nn.Conv3d(features, outputs, 1)

    def proj_feat(self, x):
        return x.view(x.size(0), *self.grid, self.hidden).permute(0, 4, 1, 2, 3).contiguous()

    def forward(self, x):
        last, hidden = self.vit(x)
        encoded = [encoder(self.proj_feat(hidden[i])) for encoder, i in
                   zip((self.encoder2, self.encoder3, self.encoder4), self.taken)]
        y = self.decoder5(self.proj_feat(last), encoded[2])
        y = self.decoder4(y, encoded[1])
        y = self.decoder3(y, encoded[0])
        return self.out(self.decoder2(y, self.encoder1(x)))
