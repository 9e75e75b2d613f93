"""Brings the weights that a job has trained back into the module that it was made of."""
from __future__ import annotations

import os
import re
from typing import Dict, List, NamedTuple, Set, Union

import torch
from torch import nn

from .safetensors_file import Entry, SafetensorsFile, shown

MODEL_FILE = "model.safetensors"  # in a job's output folder
_COUNTER = "num_batches_tracked"
_STATISTICS = ("running_mean", "running_var")  # buffers that training changes
# What `adjoin import` computed of no input, such as a mask, and keeps among a job's weights.
_COMPUTED = re.compile(r"computed_constant_[0-9]+")
_SHOWN = 8


class Loaded(NamedTuple):
    """What `load` left alone; both empty where it is strict."""

    missing: List[str]  # names of the module that the file lacks
    unexpected: List[str]  # names of the file that the module lacks


def load(module: nn.Module, path: Union[str, "os.PathLike[str]"], strict: bool = True) -> Loaded:
    """Loads a safetensors file into a module, by its `state_dict` names.

    path: a file as `adjoin export` writes it, or a job's output folder, of which `model.safetensors` is read. Values
    are converted to the module's types, floating point to floating point and whole numbers to whole numbers, and copied
    to its devices.
    strict: every name of the module has to be in the file, and every name of the file in the module. Some differences
    are none: of names that share one parameter, one suffices; a buffer that the file lacks stays as it is, but for
    `running_mean` and `running_var`, which training changes; a `num_batches_tracked` may be a scalar or have one element;
    a `computed_constant_N` of the file, which `adjoin import` made, is left out.

    The module is changed only where everything fits. Raises ValueError, with names, shapes and what would be right;
    OSError where the file cannot be read.
    """
    path = os.fspath(path)
    if os.path.isdir(path):
        path = os.path.join(path, MODEL_FILE)
    own = {name: value for name, value in module.state_dict(keep_vars=True).items() if isinstance(value, torch.Tensor)}
    for name, value in own.items():
        if isinstance(value, (nn.parameter.UninitializedParameter, nn.parameter.UninitializedBuffer)):
            raise ValueError(f"{name} of the module has no shape yet; call the module once on an example, then load")
        if value.is_meta:
            raise ValueError(f"{name} of the module is on the device meta, which holds no values; right would be "
                             "module.to_empty(device='cpu') before")
    with SafetensorsFile(path) as file:
        missing = _missing(own, set(file.entries))
        unexpected = [name for name in file.entries if name not in own and not _COMPUTED.fullmatch(name)]
        if strict and (missing or unexpected):
            raise ValueError(_name_error(path, own, missing, unexpected))
        known = [name for name in file.entries if name in own]
        wrong = [text for text in (_difference(name, file.entries[name], own[name]) for name in known) if text]
        if wrong:
            raise ValueError(f"{path} does not fit the module: {_some(wrong, '; ')}")
        values = {name: file.read(name).reshape(own[name].shape) for name in known}
    # PyTorch sets a counter to 0 that it is not given.
    for name, value in own.items():
        if _is_counter(name) and name not in values:
            values[name] = value.detach().clone()
    module.load_state_dict(values, strict=False)  # what is missing is decided above
    return Loaded(missing, unexpected)


def _is_counter(name: str) -> bool:
    return name.rpartition(".")[2] == _COUNTER


def _missing(own: Dict[str, torch.Tensor], there: Set[str]) -> List[str]:
    """Returns what should be in the file. A job has no use for buffers but for statistics, and may not have them."""
    given = {id(value) for name, value in own.items() if name in there}
    return [name for name, value in own.items() if id(value) not in given and
            (isinstance(value, nn.Parameter) or name.rpartition(".")[2] in _STATISTICS)]


def _difference(name: str, entry: Entry, value: torch.Tensor) -> str:
    if tuple(value.shape) != entry.shape and not (_is_counter(name) and entry.shape in ((), (1,)) and
                                                  value.numel() == 1):
        return f"{name} is {list(entry.shape)} in the file, and {list(value.shape)} in the module"

    def kind(dtype: torch.dtype) -> str:
        return "floating" if dtype.is_floating_point else "bool" if dtype is torch.bool else "whole"

    if value.is_complex() or kind(value.dtype) != kind(entry.torch_dtype):
        return f"{name} is {entry.dtype} in the file, and {value.dtype} in the module"
    return ""


def _some(texts: List[str], separator: str = ", ") -> str:
    more = len(texts) - _SHOWN
    return separator.join(texts[:_SHOWN]) + (f"{separator}and {more} more" if more > 0 else "")


def _name_error(path: str, own: Dict[str, torch.Tensor], missing: List[str], unexpected: List[str]) -> str:
    parts = []
    if missing:
        parts.append(f"the file lacks {len(missing)} of the module's {len(own)}: {_some(missing)}")
    if unexpected:
        names = [name if name.isprintable() and len(name) <= 100 else shown(name) for name in unexpected]
        parts.append(f"the module lacks {len(unexpected)} of the file's: {_some(names)}")
    return (f"{path} does not fit the module: {'; '.join(parts)}{_prefix_hint(own, missing, unexpected)}. "
            "strict=False loads what both have")


def _prefix_hint(own: Dict[str, torch.Tensor], missing: List[str], unexpected: List[str]) -> str:
    """Tells of a prefix, as DataParallel gives names, that all names of one side have."""
    names = set(own)
    for prefix in sorted({name.split(".")[0] + "." for name in missing if "." in name}):
        if unexpected and all(prefix + name in names for name in unexpected):
            return f". The module's names begin with {prefix}; right would be load(module.{prefix[:-1]}, ...)"
    return ""
