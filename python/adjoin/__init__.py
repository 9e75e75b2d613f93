"""From a PyTorch module to a distributed job, and its weights back.

    adjoin.export(model, example, "model.pt2")        # then: adjoin import model.pt2 -o job.textproto ...
    job = adjoin.submit("job.textproto")
    adjoin.follow(job, lambda state: print(state["progress"]["step"]))
    losses = [line["loss"] for line in adjoin.metrics(job, type="step")]
    adjoin.load(model, "model.safetensors")           # after: adjoin export JOB model.safetensors

docs/python.md explains it.
"""
from .command import CommandError, CommandTimeout, JobFailed, follow, metrics, submit
from .model_export import Exported, export
from .weights import Loaded, load

__all__ = [
    "CommandError",
    "CommandTimeout",
    "Exported",
    "JobFailed",
    "Loaded",
    "export",
    "follow",
    "load",
    "metrics",
    "submit",
]
