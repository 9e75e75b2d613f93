"""The losses of a few steps of SGD, which the imported job has to have as well."""
import numpy
import torch
from torch.nn import functional as F

STEPS, RATE, MOMENTUM = 4, 0.05, 0.9  # tests/importer/trained_losses.cc has the same


def flat(results):
    """The tensors of what a model returns: one, a tuple or a dict of them."""
    if isinstance(results, torch.Tensor):
        return [results]
    values = results.values() if isinstance(results, dict) else results
    return [tensor for value in values for tensor in flat(value)]


def losses_of(model, inputs, targets):
    """Of each step before it, and after the last one in eval(). The model has no dropout, or none that draws."""
    model.train()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=RATE, momentum=MOMENTUM)

    def loss_of():
        return sum(F.mse_loss(y, target) for y, target in zip(flat(model(*inputs)), targets))

    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        losses.append(loss_of().item())
    return numpy.array(losses)
