"""A sample: a batch of input, and what PyTorch computes of it, for `adjoin verify JOB --against SAMPLE.npz`."""
from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

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


def _array(what: str, tensor: torch.Tensor) -> numpy.ndarray:
    if tensor.dtype in (torch.bfloat16, torch.float16) or tensor.is_complex():
        raise ValueError(f"{what} is {tensor.dtype}, in which no model can be compared; right would be model.float(), "
                         "or sample=False")
    if tensor.is_floating_point() and not torch.isfinite(tensor).all():
        raise ValueError(f"{what} has a NaN or an infinity, with which nothing can be compared; right would be finite "
                         "values, or sample=False")
    return tensor.detach().cpu().contiguous().numpy()
