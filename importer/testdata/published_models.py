"""Networks of medical imaging with the architecture and the parameters' order that their authors published.

    python3 published_models.py FOLDER [NAME ...]

writes NAME.pt2, NAME.input.npy and NAME.output.npy, in float64 with random weights, of small ones, which are fixtures.
Of these networks and torchvision's at the size that was published it writes NAME.losses.npy as well, as
training_losses.py does, and the same archive in float32 as NAME.float32.pt2. All of them need 10 GB of disk and of
memory. Needs PyTorch 2.4 to 2.6 and torchvision (Debian 13's python3-torch and python3-torchvision).

    python3 published_models.py --load FOLDER [NAME ...]

loads each NAME.trained.safetensors, which a job wrote, into the module, by adjoin.load and by load_state_dict with
strict=True, and prints the difference from the loss in eval() of the module that PyTorch trained.

Sources: Isensee et al., "nnU-Net", Nature Methods 18 (2021), and its residual encoders (arXiv:2404.09556); MONAI's UNet
(Kerfoot et al., 2018), DynUNet, and SegResNet (Myronenko, arXiv:1810.11654); UNETR (published_unetr.py).
"""
import gc
import os
import sys
import time
import warnings

import numpy
import torch
from torch import nn


def conv_norm(i, o, k=3, s=1):
    pad = [(a - 1) // 2 for a in (k if isinstance(k, (list, tuple)) else (k,) * 3)]
    return nn.Sequential(nn.Conv3d(i, o, k, s, pad, bias=True), nn.InstanceNorm3d(o, eps=1e-5, affine=True),
                         nn.LeakyReLU(0.01, inplace=True))


class PlainConvUNet(nn.Module):
    def __init__(self, inputs=1, classes=3, features=(8, 16, 32), strides=(1, 2, (1, 2, 2)), residual=False,
                 blocks=None, decoder_convs=2):
        super().__init__()
        blocks = blocks or (2,) * len(features)
        self.stages = nn.ModuleList()
        before = inputs
        if residual:
            self.stem = conv_norm(inputs, features[0])
            before = features[0]
        else:
            self.stem = nn.Identity()
        for f, s, n in zip(features, strides, blocks):
            if residual:
                self.stages.append(nn.Sequential(Residual(before, f, s), *[Residual(f, f, 1) for _ in range(n - 1)]))
            else:
                self.stages.append(nn.Sequential(conv_norm(before, f, 3, s), *[conv_norm(f, f) for _ in range(n - 1)]))
            before = f
        self.ups, self.decoders = nn.ModuleList(), nn.ModuleList()
        for i in range(len(features) - 1, 0, -1):
            self.ups.append(nn.ConvTranspose3d(features[i], features[i - 1], strides[i], strides[i]))
            self.decoders.append(nn.Sequential(*[conv_norm((1 if n else 2) * features[i - 1], features[i - 1])
                                                 for n in range(decoder_convs)]))
        self.seg = nn.Conv3d(features[0], classes, 1)

    def forward(self, x):
        x = self.stem(x)
        skips = []
        for stage in self.stages:
            x = stage(x)
            skips.append(x)
        for i, (up, decoder) in enumerate(zip(self.ups, self.decoders)):
            x = decoder(torch.cat((up(x), skips[-2 - i]), 1))
        return self.seg(x)


class Residual(nn.Module):
    def __init__(self, i, o, s):
        super().__init__()
        self.conv1 = conv_norm(i, o, 3, s)
        self.conv2 = nn.Sequential(nn.Conv3d(o, o, 3, 1, 1), nn.InstanceNorm3d(o, affine=True))
        parts = []
        if s != 1:
            parts.append(nn.AvgPool3d(s, s))
        if i != o:
            parts += [nn.Conv3d(i, o, 1, bias=False), nn.InstanceNorm3d(o, affine=True)]
        self.skip = nn.Sequential(*parts)
        self.nonlin = nn.LeakyReLU(0.01, inplace=True)

    def forward(self, x):
        return self.nonlin(self.conv2(self.conv1(x)) + self.skip(x))


class ADN(nn.Sequential):
    def __init__(self, c):
        super().__init__()
        self.add_module("N", nn.InstanceNorm3d(c))
        self.add_module("D", nn.Dropout(0.0))
        self.add_module("A", nn.PReLU())


class ResidualUnit(nn.Module):
    def __init__(self, i, o, s, units=2, last_conv_only=False):
        super().__init__()
        self.conv = nn.Sequential()
        a, st = i, s
        for u in range(units):
            unit = nn.Sequential()
            unit.add_module("conv", nn.Conv3d(a, o, 3, st, 1))
            if not (last_conv_only and u == units - 1):
                unit.add_module("adn", ADN(o))
            self.conv.add_module(f"unit{u}", unit)
            a, st = o, 1
        self.residual = nn.Identity()
        if s != 1 or i != o:
            self.residual = nn.Conv3d(i, o, 3 if s != 1 else 1, s, 1 if s != 1 else 0)

    def forward(self, x):
        return self.conv(x) + self.residual(x)


class Skip(nn.Module):
    def __init__(self, sub):
        super().__init__()
        self.submodule = sub

    def forward(self, x):
        return torch.cat([x, self.submodule(x)], 1)


class MonaiUNet(nn.Module):
    def __init__(self, channels=(8, 16, 32), strides=(2, 2), i=1, o=2):
        super().__init__()

        def up(a, b, s, top):
            conv = nn.Sequential(nn.ConvTranspose3d(a, b, 3, s, 1, s - 1))
            conv.add_module("adn", ADN(b))
            return nn.Sequential(conv, ResidualUnit(b, b, 1, 1, last_conv_only=top))

        def block(i, o, channels, strides, top):
            c, s = channels[0], strides[0]
            if len(channels) > 2:
                sub, upc = block(c, c, channels[1:], strides[1:], False), c * 2
            else:
                sub, upc = ResidualUnit(c, channels[1], 1), c + channels[1]
            return nn.Sequential(ResidualUnit(i, c, s), Skip(sub), up(upc, o, s, top))

        self.model = block(i, o, channels, strides, True)

    def forward(self, x):
        return self.model(x)


class DynUNet(nn.Module):
    def __init__(self, filters=(8, 16, 32), strides=(1, 2, 2)):
        super().__init__()

        class Basic(nn.Module):
            def __init__(self, i, o, s):
                super().__init__()
                self.conv1 = nn.Conv3d(i, o, 3, s, 1, bias=False)
                self.conv2 = nn.Conv3d(o, o, 3, 1, 1, bias=False)
                self.lrelu = nn.LeakyReLU(0.01, inplace=True)
                self.norm1 = nn.InstanceNorm3d(o, affine=True)
                self.norm2 = nn.InstanceNorm3d(o, affine=True)

            def forward(self, x):
                x = self.lrelu(self.norm1(self.conv1(x)))
                return self.lrelu(self.norm2(self.conv2(x)))

        levels = range(len(filters) - 2, -1, -1)
        self.input_block = Basic(1, filters[0], strides[0])
        self.downsamples = nn.ModuleList([Basic(filters[i - 1], filters[i], strides[i])
                                          for i in range(1, len(filters) - 1)])
        self.bottleneck = Basic(filters[-2], filters[-1], strides[-1])
        self.up = nn.ModuleList([nn.ConvTranspose3d(filters[i + 1], filters[i], strides[i + 1], strides[i + 1],
                                                    bias=False) for i in levels])
        self.upconv = nn.ModuleList([Basic(2 * filters[i], filters[i], 1) for i in levels])
        self.output_block = nn.Conv3d(filters[0], 3, 1)

    def forward(self, x):
        skips = [self.input_block(x)]
        for down in self.downsamples:
            skips.append(down(skips[-1]))
        x = self.bottleneck(skips[-1])
        for up, conv, skip in zip(self.up, self.upconv, reversed(skips)):
            x = conv(torch.cat((up(x), skip), 1))
        return self.output_block(x)


class ResBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, c), nn.GroupNorm(8, c)
        self.act = nn.ReLU(inplace=True)
        self.conv1, self.conv2 = nn.Conv3d(c, c, 3, 1, 1, bias=False), nn.Conv3d(c, c, 3, 1, 1, bias=False)

    def forward(self, x):
        identity = x
        x = self.conv1(self.act(self.norm1(x)))
        x = self.conv2(self.act(self.norm2(x)))
        x += identity
        return x


class SegResNet(nn.Module):
    def __init__(self, init=8, down=(1, 2), up=(1,)):
        super().__init__()
        self.convInit = nn.Conv3d(1, init, 3, 1, 1, bias=False)
        self.down_layers = nn.ModuleList()
        for i, n in enumerate(down):
            c = init * 2**i
            pre = nn.Conv3d(c // 2, c, 3, 2, 1, bias=False) if i else nn.Identity()
            self.down_layers.append(nn.Sequential(pre, *[ResBlock(c) for _ in range(n)]))
        self.up_samples, self.up_layers = nn.ModuleList(), nn.ModuleList()
        c = init * 2**(len(down) - 1)
        for n in up:
            self.up_samples.append(nn.Sequential(nn.Conv3d(c, c // 2, 1, bias=False),
                                                 nn.Upsample(scale_factor=2, mode="trilinear", align_corners=False)))
            self.up_layers.append(nn.Sequential(*[ResBlock(c // 2) for _ in range(n)]))
            c //= 2
        self.conv_final = nn.Sequential(nn.GroupNorm(8, c), nn.ReLU(inplace=True), nn.Conv3d(c, 2, 1))
        self.drop = nn.Dropout(0.2)

    def forward(self, x):
        x = self.drop(self.convInit(x))
        downs = []
        for d in self.down_layers:
            x = d(x)
            downs.append(x)
        downs.reverse()
        for i, (up, upl) in enumerate(zip(self.up_samples, self.up_layers)):
            x = up(x) + downs[i + 1]
            x = upl(x)
        return self.conv_final(x)


def small_models():
    """Those that are small enough for fixtures: name -> (model, input)."""
    def volume(*extents):
        return torch.randn(2, 1, *extents).double()

    return {"nnunet": (PlainConvUNet(features=(4, 8, 8)), volume(8, 16, 16)),
            "nnunet_resenc": (PlainConvUNet(features=(4, 8), strides=(1, 2), residual=True), volume(8, 16, 12)),
            "monai_unet": (MonaiUNet(channels=(4, 8, 8)), volume(16, 8, 16)),
            "dynunet": (DynUNet(filters=(4, 8, 8)), volume(8, 16, 16)),
            "segresnet": (SegResNet(down=(1, 1)), volume(8, 12, 12))}


def large_models():
    """Of the size that was published, on small inputs: name -> function that returns (model, input)."""
    from torchvision import models

    from module_fixtures import Gpt
    from published_unetr import Unetr

    def image(extent):
        return torch.randn(2, 3, extent, extent).double()

    def volume(*extents):
        return torch.randn(2, 1, *extents).double()

    def gpt2():
        model = Gpt(False, words=50257, length=1024, features=768, heads=12, blocks=12)
        for module in model.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
        return model, torch.randint(0, 50257, (2, 16))

    features, strides = (32, 64, 128, 256, 320, 320), (1, (1, 2, 2), 2, 2, 2, (1, 2, 2))
    return {"resnet18": lambda: (models.resnet18(), image(64)), "resnet50": lambda: (models.resnet50(), image(64)),
            "densenet121": lambda: (models.densenet121(), image(64)),
            "deeplabv3_resnet50": lambda: (models.segmentation.deeplabv3_resnet50(
                weights=None, weights_backbone=None), image(96)),
            "convnext_tiny": lambda: (models.convnext_tiny(), image(64)),
            "efficientnet_b0": lambda: (models.efficientnet_b0(), image(64)),
            "vit_b_16": lambda: (models.vit_b_16(image_size=64), image(64)),
            "swin_t": lambda: (models.swin_t(), image(128)),
            "r3d_18": lambda: (models.video.r3d_18(), torch.randn(2, 3, 8, 48, 48).double()),
            "nnunet_6_stages": lambda: (PlainConvUNet(features=features, strides=strides), volume(16, 32, 32)),
            "nnunet_resenc_m": lambda: (PlainConvUNet(features=features, strides=strides, residual=True,
                                                      blocks=(1, 3, 4, 6, 6, 6), decoder_convs=1), volume(16, 32, 64)),
            "monai_unet_5_levels": lambda: (MonaiUNet((16, 32, 64, 128, 256), (2,) * 4), volume(32, 32, 32)),
            "dynunet_6_levels": lambda: (DynUNet(features, strides), volume(16, 32, 32)),
            "segresnet_4_levels": lambda: (SegResNet(16, (1, 2, 2, 4), (1, 1, 1)), volume(16, 32, 32)),
            "unetr": lambda: (Unetr(extents=(32, 32, 48)), volume(32, 32, 48)),
            "gpt2": gpt2}


def randomize(model):
    # Heads that begin with zeros, as ViT's, prove nothing.
    for parameter in model.parameters():
        if parameter.numel() > 1 and not parameter.any():
            parameter.normal_(0, 0.3)
    for module in model.modules():
        if getattr(module, "running_mean", None) is not None:
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
        if isinstance(module, (nn.GroupNorm, nn.InstanceNorm3d)) and module.weight is not None:
            module.weight.uniform_(0.5, 1.5)
            module.bias.normal_(0, 0.3)


def randomize_constants(model):
    # Nor do norms of ones, or ConvNeXt's blocks times 1e-6.
    for parameter in model.parameters():
        if parameter.numel() > 1 and parameter.eq(parameter.flatten()[0]).all():
            parameter.normal_(float(parameter.flatten()[0]), 0.3)


def calm_residuals(model):
    # As zero_init_residual of torchvision does, but not to 0. Otherwise SGD at this rate diverges, and with it each rounding.
    for module in model.modules():
        if type(module).__name__ == "Bottleneck":
            module.bn3.weight.mul_(0.2)


def output_of(model, x):
    y = model(x)
    return y["out"] if isinstance(y, dict) else y


def write(folder, name, model, x):
    with torch.no_grad():
        y = output_of(model, x)
    export = getattr(torch.export, "export_for_training", torch.export.export)
    torch.export.save(export(model, (x,)), f"{folder}/{name}.pt2")
    numpy.save(f"{folder}/{name}.input.npy", x.numpy())
    numpy.save(f"{folder}/{name}.output.npy", y.numpy())
    return y


def write_large(folder, name, model, x):
    import training_losses

    with torch.no_grad():
        randomize_constants(model)
        randomize(model)
        calm_residuals(model)
    # The values have both types.
    x = x.float().double() if x.is_floating_point() else x
    y = write(folder, name, model.float().double().eval(), x)
    write(folder, name + ".float32", model.float(), x.float() if x.is_floating_point() else x)
    numpy.save(f"{folder}/{name}.losses.npy", training_losses.losses_of(model, [x], [y.flip(0)]))


def load(folder, name, model):
    """Returns in words how what a job trained loads, and what the module computes then."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python"))
    import adjoin
    from adjoin.safetensors_file import SafetensorsFile

    path = f"{folder}/{name}.trained.safetensors"
    model = model.double().eval()
    adjoin.load(model, path, strict=True)
    x = torch.from_numpy(numpy.load(f"{folder}/{name}.input.npy"))
    target = torch.from_numpy(numpy.load(f"{folder}/{name}.output.npy")).flip(0)
    with torch.no_grad():
        loss = nn.functional.mse_loss(output_of(model, x), target).item()
    right = numpy.load(f"{folder}/{name}.losses.npy")[-1]
    try:
        with SafetensorsFile(path) as file:
            model.load_state_dict({key: file.read(key) for key in file.entries}, strict=True)
        plain = "load_state_dict(strict=True) as well"
    except RuntimeError as error:
        plain = "load_state_dict alone: " + " ".join(str(error).split())
    return f"adjoin.load(strict=True), loss differs by {abs(loss - right) / right:.1e}; {plain}"


def main():
    loads = sys.argv[1:2] == ["--load"]
    arguments = sys.argv[2:] if loads else sys.argv[1:]
    if not arguments:
        sys.exit(__doc__)
    folder, names = arguments[0], arguments[1:]
    warnings.filterwarnings("ignore")
    torch.manual_seed(20240601)
    for name, (model, x) in small_models().items():
        if not loads and (not names or name in names):
            model = model.double().eval()
            with torch.no_grad():
                randomize(model)
            write(folder, name, model, x)
    for name, make in large_models().items():
        if names and name not in names:
            continue
        started = time.monotonic()
        if not loads:
            write_large(folder, name, *make())
            print(f"{name}: written in {time.monotonic() - started:.0f} s", flush=True)
        elif os.path.exists(f"{folder}/{name}.trained.safetensors"):
            print(f"{name}: {load(folder, name, make()[0])}", flush=True)
        gc.collect()


if __name__ == "__main__":
    main()
