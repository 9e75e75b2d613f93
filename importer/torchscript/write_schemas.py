#!/usr/bin/env python3
"""Writes aten_schemas.inc: the arguments of the operators that the importer has a rule for, by their places.

    /usr/bin/python3 write_schemas.py > aten_schemas.inc

Needs PyTorch 1.13 (Debian 12's python3-torch). An operator that is new to layers/ or constants/ gets its lines by
running this again.
"""
import glob
import os
import re

import torch

IMPORTER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
# Not in traces, or of arguments that no trace has.
LEFT_OUT = re.compile(r"[dD]imname|names|^out|_out|generator|sublist|Dict|prim_|sizes$|hacked|complex|dim_m[ai]")
LATER = [  # of PyTorch 2
    "rms_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
    "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0., "
    "bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
    "squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)",
]


def names():
    words = set()
    for path in (glob.glob(f"{IMPORTER}/layers/*.cc") + glob.glob(f"{IMPORTER}/constants/*.cc")):
        with open(path) as source:
            words |= set(re.findall(r'"([a-zA-Z_0-9]+)"', source.read()))
    return words


def line(schema):
    schema = re.sub(r"\([a-z]!?( -> \*)?\)", "", schema.replace("SymInt", "int"))
    head, arguments, results = re.match(r"([\w.]+)\((.*)\) -> (.*)$", schema).groups()
    name, _, overload = head.partition(".")
    shown = []
    for argument in re.split(r", (?![^\[]*\])", arguments):
        kind, _, rest = argument.partition(" ")
        argument_name, default, _ = rest.partition("=")
        shown.append(f"{kind} {argument_name}{default}" if rest else kind)
    count = 0 if results == "Tensor[]" else results.count("Tensor")
    return f'{{"{name}", "{overload or "default"}", "{", ".join(shown)}", {count}}},'


def main():
    known = names()
    schemas = set(LATER)
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        text = str(schema)[len("aten::"):]
        if namespace != "aten" or name not in known or LEFT_OUT.search(schema.overload_name):
            continue
        if re.search(r"-> \(?Tensor", text) and not re.search(r"\bt\[\]", text) and "Generator" not in text.split("(")[0]:
            schemas.add(text)
    print("// Written by write_schemas.py from PyTorch 1.13. A \"=\" behind an argument: it has a default.")
    print("\n".join(sorted(line(schema) for schema in schemas)))


if __name__ == "__main__":
    main()
