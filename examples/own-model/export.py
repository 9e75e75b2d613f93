#!/usr/bin/env python3
"""Writes segmenter.pt2 and segmenter.sample.npz: examples/own-model/export.py [FOLDER]. Needs PyTorch 2.4 or newer."""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python")]

import adjoin  # noqa: E402
import torch  # noqa: E402

from segmenter import Segmenter  # noqa: E402

torch.manual_seed(1)
example = torch.randn(2, 1, 24, 24, 24)
adjoin.export(Segmenter().eval(), example, pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else HERE) / "segmenter.pt2")
