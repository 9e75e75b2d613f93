"""Takes the steps that optimizer_test.cc wrote down with torch.optim, and ends with 1 where they differ."""
import json
import math  # for the schedulers' expressions
import sys

import torch
from torch.optim import SGD, Adagrad, Adam, AdamW, RMSprop
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LinearLR, MultiStepLR, SequentialLR, StepLR

TOLERANCE = 1e-12


def differences(case):
    """What differs, as texts."""
    shapes = [(3, 4), (5,), (2, 2)]
    parameters = [torch.tensor(v, dtype=torch.float64).reshape(s) for v, s in zip(case["before"], shapes)]
    p = [parameters[0].requires_grad_(), parameters[1].requires_grad_()]
    o = eval(case["optimizer"])
    scheduler = eval(case["scheduler"]) if case["scheduler"] else None
    clipped = 0
    for step, taken in enumerate(case["steps"]):
        rate = o.param_groups[0]["lr"]
        if abs(rate - taken["lr"]) > TOLERANCE:
            yield f"step {step}: lr {taken['lr']}, torch.optim has {rate}"
        for parameter, gradient in zip(p, taken["gradients"]):
            parameter.grad = torch.tensor(gradient, dtype=torch.float64).reshape(parameter.shape)
        if case["clip_norm"]:
            norm = torch.nn.utils.clip_grad_norm_(p, case["clip_norm"]).item()
            clipped += norm > case["clip_norm"]
            if abs(norm - taken["norm"]) > TOLERANCE * norm:
                yield f"step {step}: norm {taken['norm']}, PyTorch has {norm}"
        o.step()
        if scheduler is not None:
            scheduler.step()
        for i, parameter in enumerate(parameters):
            after = torch.tensor(taken["after"][i], dtype=torch.float64).reshape(parameter.shape)
            off = (after - parameter.detach()).abs().max().item()
            if not off <= TOLERANCE:
                yield f"step {step}: parameter {i} is off by {off}"
    if case["clip_norm"] and not 0 < clipped < len(case["steps"]):
        yield f"{clipped} of {len(case['steps'])} steps were clipped; the test wants some of both"


def main():
    failed = False
    for case in json.load(open(sys.argv[1])):
        found = list(differences(case))
        failed = failed or bool(found)
        for text in found[:3]:
            print(case["optimizer"], case["scheduler"], text, sep=": ")
    sys.exit(1 if failed else 0)


main()
