"""A sample: a batch of input, and what PyTorch computes of it, for `adjoin verify JOB --against SAMPLE.npz`."""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

import numpy
import torch
from torch import nn


def flat_outputs(result: Any) -> List[torch.Tensor]:
    """Returns the tensors of what a forward returns, in the order in which torch.export has them.

    Raises ValueError where it is anything but a tensor, or tuples, lists and dicts of them.
    """
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, (tuple, list)):
        return [tensor for value in result for tensor in flat_outputs(value)]
    if isinstance(result, dict):
        return [tensor for value in result.values() for tensor in flat_outputs(value)]
    raise ValueError(f"forward returns a {type(result).__name__}; right would be a tensor, or a tuple, list or dict of "
                     "tensors")


def run(model: nn.Module, example: Tuple[torch.Tensor, ...]) -> List[torch.Tensor]:
    """Returns what the model returns, without gradients; `example` stays as it is where the model works in place."""
    with torch.no_grad():
        return [tensor.detach().clone() for tensor in flat_outputs(model(*(tensor.clone() for tensor in example)))]


def sample_arrays(names: Sequence[str], example: Sequence[torch.Tensor],
                  outputs: Sequence[torch.Tensor]) -> Dict[str, numpy.ndarray]:
    """Returns the arrays of a sample: `input.NAME`, and `output`, or `output.0`, `output.1`, ... of several.

    Raises ValueError for what a sample cannot hold: numbers of 16 bits, values that are not finite.
    """
    arrays = {f"input.{name}": _array(f"argument {name}", tensor) for name, tensor in zip(names, example)}
    for i, tensor in enumerate(outputs):
        arrays["output" if len(outputs) == 1 else f"output.{i}"] = _array(f"output {i}", tensor)
    return arrays


def loss_arrays(model: nn.Module, example: Sequence[torch.Tensor], loss: Callable[..., torch.Tensor],
                targets: Mapping[str, torch.Tensor], names: Sequence[str]) -> Dict[str, numpy.ndarray]:
    """Returns `loss`, `grad.NAME` for each parameter that has a gradient, and `input.NAME` for each target.

    The model's mode and its own gradients stay as they are. Raises ValueError for a loss that is no number, targets
    that are called like an argument of forward (`names`), and as sample_arrays.
    """
    arrays = {}
    for name, target in targets.items():
        if name in names:
            raise ValueError(f"target {name} is called like an argument of forward; right would be another name")
        if not isinstance(target, torch.Tensor) or target.dim() == 0 or target.shape[0] != example[0].shape[0]:
            raise ValueError(f"target {name} is no tensor with the example's batch, {example[0].shape[0]}, as its dim 0")
        arrays[f"input.{name}"] = _array(f"target {name}", target)
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    with torch.enable_grad():
        result = model(*(tensor.clone() for tensor in example))
        value = loss(result, *(target.clone() for target in targets.values()))
        if not isinstance(value, torch.Tensor) or value.numel() != 1 or not value.is_floating_point():
            raise ValueError(f"loss returns {_described(value)}; right would be one number, as of reduction='mean'")
        if not value.requires_grad:
            raise ValueError("loss does not depend on the model's parameters; right would be one of its outputs")
        gradients = torch.autograd.grad(value, list(trained.values()), allow_unused=True)
    arrays["loss"] = _array("the loss", value.detach().reshape(()))
    for (name, _), gradient in zip(trained.items(), gradients):
        if gradient is not None:
            arrays[f"grad.{name}"] = _array(f"the gradient of {name}", gradient)
    return arrays


def _described(value: Any) -> str:
    return f"a tensor {list(value.shape)} of {value.dtype}" if isinstance(value, torch.Tensor) else (
        f"a {type(value).__name__}")


def _array(what: str, tensor: torch.Tensor) -> numpy.ndarray:
    if tensor.dtype in (torch.bfloat16, torch.float16) or tensor.is_complex():
        raise ValueError(f"{what} is {tensor.dtype}, in which no model can be compared; right would be model.float(), "
                         "or sample=False")
    if tensor.is_floating_point() and not torch.isfinite(tensor).all():
        raise ValueError(f"{what} has a NaN or an infinity, with which nothing can be compared; right would be finite "
                         "values, or sample=False")
    return tensor.detach().cpu().contiguous().numpy()
