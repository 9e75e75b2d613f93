#!/usr/bin/env python3
"""Writes how the networks of this folder's archives train: NAME.losses.npy, beside NAME.pt2, and of some a sample
with gradients, NAME.gradients.npz.

    python3 training_losses.py [FOLDER [NAME ...]]

Four steps of torch.optim.SGD on the archive's input, in float64 and in train() without dropout, towards the archive's
own output with the samples of the batch in reverse order. The file has the mean squared error before each step, and
after the last one that in eval(), to which running statistics contribute. The sample has loss and gradients in eval(),
of the archive's weights. Needs PyTorch 2.4 to 2.6 and torchvision.
"""
import io
import os
import sys
import zipfile

import numpy
import torch
from torch import nn
from torch.nn import functional as F

import make_fixtures
import module_fixtures
import published_models
import sgd_losses
import weight_fixtures

WITH_GRADIENTS = {"sequential": "input", "mixed": "x"}  # and what forward's argument is called


def networks():
    yield "lenet", make_fixtures.lenet()
    yield "resnet", make_fixtures.resnet()
    yield "unet3d", make_fixtures.unet3d()
    yield "mixed", make_fixtures.Mixed()
    yield "transformer", make_fixtures.Transformer()
    yield "slices", make_fixtures.Slices()
    yield "sequential", make_fixtures.sequential()
    for name, (model, _) in published_models.small_models().items():
        yield name, model
    for name, model, _ in module_fixtures.networks():
        yield name, model
    for name, model, _, _ in weight_fixtures.networks():
        yield name, model


def without_dropout(model):
    for module in model.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = 0.0
        if isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0
        if type(module).__name__ == "StochasticDepth":  # torchvision's; an archive of eval() has none
            module.p = 0.0
    return model


def losses_of(model, inputs, targets):
    return sgd_losses.losses_of(without_dropout(model.double()), inputs, targets)


def sample_with_gradients(model, argument, x, target):
    model = model.double().eval()
    y = model(x)
    loss = F.mse_loss(y, target)
    loss.backward()
    arrays = {f"input.{argument}": x, "input.target0": target, "output": y, "loss": loss}
    arrays.update({f"grad.{name}": parameter.grad for name, parameter in model.named_parameters()})
    return {name: tensor.detach().numpy() for name, tensor in arrays.items()}


def weights_of(path):
    with zipfile.ZipFile(path) as archive:
        name = next(n for n in archive.namelist() if n.endswith("serialized_state_dict.pt"))
        return torch.load(io.BytesIO(archive.read(name)), weights_only=True)


def read(path, kind):
    names = [f"{path}.{kind}.npy"] if os.path.exists(f"{path}.{kind}.npy") else [
        f"{path}.{kind}.{i}.npy" for i in range(9) if os.path.exists(f"{path}.{kind}.{i}.npy")]
    tensors = [torch.from_numpy(numpy.load(name)) for name in names]
    return [tensor.double() if tensor.is_floating_point() else tensor for tensor in tensors]


def main():
    folder, names = sys.argv[1] if len(sys.argv) > 1 else ".", sys.argv[2:]
    for name, model in networks():
        path = f"{folder}/{name}"
        if (names and name not in names) or not os.path.exists(path + ".pt2"):
            continue
        model.double().load_state_dict(weights_of(path + ".pt2"))  # some archives have float64
        targets = [output.flip(0) for output in read(path, "output")]
        if name in WITH_GRADIENTS:
            numpy.savez(path + ".gradients.npz",
                        **sample_with_gradients(model, WITH_GRADIENTS[name], *read(path, "input"), *targets))
        numpy.save(path + ".losses.npy", losses_of(model, read(path, "input"), targets))


if __name__ == "__main__":
    main()
