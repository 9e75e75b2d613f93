"""Writes a module as the archive that `adjoin import` reads, and a sample of what it computes."""
from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import re
import secrets
from typing import Any, Callable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import numpy
import torch
from torch import nn

from . import sample_file

Example = Union[torch.Tensor, Tuple[torch.Tensor, ...]]


@dataclasses.dataclass(frozen=True)
class Exported:
    """The files that `export` wrote."""

    model: pathlib.Path  # for `adjoin import MODEL`
    sample: Optional[pathlib.Path]  # for `adjoin verify JOB --against SAMPLE`; None: without


def export(model: nn.Module, example_input: Example, path: Union[str, "os.PathLike[str]"], sample: bool = True, *,
           loss: Optional[Callable[..., torch.Tensor]] = None,
           targets: Optional[Mapping[str, torch.Tensor]] = None) -> Exported:
    """Writes `path`, an archive of torch.export, and beside it PATH's stem + ".sample.npz".

    model: in `eval()`; where it runs, and its values, stay.
    example_input: forward's argument, or a tuple of its arguments. Dim 0 of each is the batch, of two samples or more;
    all other extents are those that the job trains with.
    sample: also writes the sample, `input.NAME` with the names of forward's arguments and `output`, or `output.0`,
    `output.1`, ... of several, as PyTorch computes them.
    loss: called with what forward returns and the targets in their order, as loss(output, label). The sample then has
    `loss`, and `grad.NAME` for each parameter that has a gradient, both in `eval()`; and the targets as `input.NAME`.
    targets: by the names of the job's fields: {"label": torch.tensor([3, 5])}. Dim 0 is the batch.

    Files that are there are replaced. They appear when they are whole; where anything fails, the old ones stay.
    Raises RuntimeError where PyTorch is older than 2.4; ValueError for what cannot be exported, with what would be
    right; OSError for a file that cannot be written; and what torch.export raises about a model that it cannot trace.
    """
    check_release(str(torch.__version__))
    archive = pathlib.Path(path)
    example = check_model(model, example_input)
    if loss is None and targets is not None:
        raise ValueError("targets are given, and no loss; right would be loss=torch.nn.CrossEntropyLoss(), for instance")
    if loss is not None and not sample:
        raise ValueError("loss is given with sample=False; right would be a sample, which holds what it gives")
    outputs = check_batch(model, example)
    check_repeats(model, example, outputs)
    program = _trace(model, example)
    arrays = None
    if sample:
        names = _argument_names(program, example)
        arrays = sample_file.sample_arrays(names, example, outputs)
        if loss is not None:
            arrays.update(sample_file.loss_arrays(model, example, loss, targets or {}, names))
    samples = archive.with_name(archive.stem + ".sample.npz") if sample else None
    if samples == archive:
        raise ValueError(f"{archive} is what the sample would be called; right would be a name such as model.pt2")
    with contextlib.ExitStack() as files:
        written = files.enter_context(_replacing(archive))
        torch.export.save(program, written)
        if arrays is not None and samples is not None:
            with open(files.enter_context(_replacing(samples)), "wb") as file:
                numpy.savez(file, **arrays)  # type: ignore[arg-type]
    return Exported(archive, samples)


def check_release(release: str) -> None:
    """Raises RuntimeError where this release of PyTorch ("2.6.0+cpu") has no torch.export as it is needed."""
    numbers = re.match(r"(\d+)\.(\d+)", release)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < (2, 4):
        raise RuntimeError(f"adjoin.export needs PyTorch 2.4 or newer, and this is {release}; right would be an "
                           "environment with torch>=2.4, or a trace, torch.jit.trace(model.eval(), "
                           "example).save(\"model.pt\"), which `adjoin import --example-shape` reads. Everything else "
                           "of adjoin works here")


def check_model(model: nn.Module, example_input: Example) -> Tuple[torch.Tensor, ...]:
    """Returns the example as a tuple. Raises ValueError where model or example are not what `export` takes."""
    if isinstance(model, torch.jit.ScriptModule):
        raise ValueError("the model is a ScriptModule, of which torch.export makes nothing; right would be the "
                         "torch.nn.Module that it was made of")
    if not isinstance(model, nn.Module):
        raise ValueError(f"the model is a {type(model).__name__}; right would be a torch.nn.Module")
    training = [name for name, module in model.named_modules() if module.training]
    if training:
        where = "the model" if training[0] == "" else f"its module {training[0]}"
        raise ValueError(f"{where} is in train(); right would be model.eval() before: batch norm then keeps its "
                         "running statistics. The job trains with them, and with dropout, all the same")
    example = (example_input,) if isinstance(example_input, torch.Tensor) else example_input
    if not isinstance(example, tuple) or not example:
        raise ValueError(f"the example is a {type(example_input).__name__}; right would be a tensor, or a tuple of "
                         "forward's arguments")
    for i, tensor in enumerate(example):
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"argument {i} of the example is a {type(tensor).__name__}; right would be a tensor")
        if tensor.dim() == 0 or tensor.shape[0] != example[0].shape[0]:
            raise ValueError(f"argument {i} of the example is {list(tensor.shape)}, the first is "
                             f"{list(example[0].shape)}; right would be the same batch as dim 0 of all")
    if example[0].shape[0] < 2:
        raise ValueError(f"the example has {example[0].shape[0]} samples; right would be two or more, which show where "
                         "the batch goes")
    return example


def check_batch(model: nn.Module, example: Tuple[torch.Tensor, ...]) -> List[torch.Tensor]:
    """Returns what the model computes of the example. Raises ValueError where dim 0 is not the batch.

    Each output has the example's batch as its dim 0, and its last sample is what the model computes of the last sample
    alone, but for rounding. (The first one of a recurrence does not depend on the others.)
    """
    outputs = sample_file.run(model, example)
    batch = example[0].shape[0]
    for i, output in enumerate(outputs):
        if output.dim() == 0 or output.shape[0] != batch:
            raise ValueError(f"output {i} is {list(output.shape)} of a batch of {batch}; right would be the batch as "
                             "its dim 0. Losses and sums over the batch belong to the job")
    try:
        alone = sample_file.run(model, tuple(tensor[-1:] for tensor in example))
    except Exception as error:
        raise ValueError(f"the model takes a batch of {batch}, but not one of 1 ({error}); right would be a forward "
                         "that takes any batch as dim 0") from error
    for i, (output, last) in enumerate(zip(outputs, alone)):
        if last.shape != output[-1:].shape or not _close(last, output[-1:]):
            raise ValueError(f"output {i} of the last sample changes with the samples beside it; right would be a "
                             "model that computes each sample of dim 0 by itself, as with batch_first=True")
    return outputs


def check_repeats(model: nn.Module, example: Tuple[torch.Tensor, ...], outputs: Sequence[torch.Tensor]) -> None:
    """Raises ValueError where the model does not compute the same of the same example again.

    A job draws no numbers in evaluation but those of its own layers, and has no state but running statistics.
    """
    for i, (output, again) in enumerate(zip(outputs, sample_file.run(model, example))):
        if again.shape != output.shape or not _close(again, output, 1e-3):
            raise ValueError(f"output {i} changes from one call to the next; right would be a model that draws no "
                             "random numbers in eval(), and keeps nothing from call to call")


def _close(a: torch.Tensor, b: torch.Tensor, tolerance: float = 0.02) -> bool:
    if not a.is_floating_point():
        return True  # classes may change with the last bit
    a, b = a.double(), b.double()
    finite = torch.isfinite(a) & torch.isfinite(b)
    if not finite.any():
        return True
    # Kernels differ between batches by rounding, far less than what another sample contributes.
    scale = b[finite].abs().max()
    return bool((a - b)[finite].abs().max() <= tolerance * scale)


def _trace(model: nn.Module, example: Tuple[torch.Tensor, ...]) -> Any:
    # Keeps the operators that a training job needs; newer releases do so in torch.export.export.
    trace = getattr(torch.export, "export_for_training", None) or torch.export.export
    return trace(model, tuple(tensor.clone() for tensor in example))


def _argument_names(program: Any, example: Sequence[torch.Tensor]) -> List[str]:
    """Returns forward's arguments as the program, and so `adjoin import`, calls them."""
    names = [str(name) for name in program.graph_signature.user_inputs]
    if len(names) != len(example):
        raise ValueError(f"forward has {len(names)} tensor arguments ({', '.join(names)}), the example {len(example)}")
    return names


@contextlib.contextmanager
def _replacing(path: pathlib.Path) -> Iterator[str]:
    """Yields the name of a file that takes `path`'s place where no exception comes, and else is removed."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path.parent}: no such folder, for {path.name}")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; right would be a file's name, such as {path / 'model.pt2'}")
    temporary = path.with_name(f".{path.stem}.{secrets.token_hex(8)}{path.suffix}")
    try:
        yield str(temporary)
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
