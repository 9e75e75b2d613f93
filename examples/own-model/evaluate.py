#!/usr/bin/env python3
"""Loads what was trained into the module, and measures it on the held-out volumes, without Adjoin's programs.

    examples/own-model/evaluate.py WEIGHTS.safetensors [DATA_FOLDER]

Prints the cross-entropy and the Dice coefficient. Needs PyTorch of any release, and NumPy.
"""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python")]

import adjoin  # noqa: E402
import numpy  # noqa: E402
import torch  # noqa: E402

from segmenter import Segmenter  # noqa: E402

folder = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else HERE
volumes = torch.from_numpy(numpy.load(folder / "held-out-volumes.npy"))
labels = torch.from_numpy(numpy.load(folder / "held-out-labels.npy"))
model = Segmenter().eval()
adjoin.load(model, sys.argv[1])
with torch.no_grad():
    scores = model(volumes)
inside = scores.argmax(1) == 1
dice = 2 * (inside & (labels == 1)).sum() / (inside.sum() + (labels == 1).sum())
print(f"loss {torch.nn.functional.cross_entropy(scores.double(), labels).item():.6f} dice {dice.item():.4f}")
