"""Our multiply-accumulates and parameters beside what torchvision publishes and torch counts.

``python benchmarks/published.py [NAME]...`` prints one line a model: published GMACs
(``weights.meta["_ops"]``), ours, FlopCounterMode's halved, parameters, and what a trace took.
Models are in evaluation mode, without gradients, fused paths on, batch 1 at the crop size of their
weights' transforms; their values are never initialised, as no count depends on them.
"""

from __future__ import annotations

import sys
import time
import warnings
from dataclasses import dataclass

import torch
import torchvision
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode

from tui_profiler.messages import InputSpec
from tui_profiler.probe.inputs import Inputs
from tui_profiler.probe.trace.trace import Trace, trace

NAMES = (
    "resnet18",
    "resnet50",
    "resnet152",
    "vgg16",
    "mobilenet_v2",
    "mobilenet_v3_large",
    "mobilenet_v3_small",
    "efficientnet_b0",
    "efficientnet_b4",
    "densenet121",
    "convnext_tiny",
    "vit_b_16",
    "swin_t",
    "maxvit_t",
    "regnet_y_400mf",
)


class SkipInitialisation(TorchFunctionMode):
    """Leaves new parameters as they were allocated: filling them takes longer than tracing."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if getattr(func, "__module__", "") == "torch.nn.init":
            return kwargs["tensor"] if kwargs and "tensor" in kwargs else args[0]
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True)
class Published:
    """A model with what torchvision says of it."""

    model: torch.nn.Module
    inputs: Inputs
    gmacs: float
    parameters: int


def build(name: str) -> Published:
    """Build a torchvision model without values, with the figures of its default weights."""
    weights = torchvision.models.get_model_weights(name).DEFAULT
    transforms = weights.transforms()
    crop = transforms.crop_size
    size = crop[0] if isinstance(crop, list | tuple) else crop
    with SkipInitialisation(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = torchvision.models.get_model(name, weights=None).eval()
    shape = (1, 3, size, size)
    spec = InputSpec("x", shape, "float32", "its transforms")
    return Published(
        model=model,
        inputs=Inputs((torch.zeros(shape),), {}, (spec,), 1),
        gmacs=weights.meta["_ops"],
        parameters=weights.meta["num_params"],
    )


def torch_gmacs(published: Published) -> float:
    """Give FlopCounterMode's count of a real run, halved."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        published.model(*published.inputs.args)
    return counter.get_total_flops() / 2e9


def gmacs(made: Trace) -> float:
    """Give ours."""
    return made.costs[0].macs / 1e9


def main() -> int:
    """Print the table; 1 where a figure is not the published one."""
    print(f"{'model':20} {'published':>9} {'ours':>9} {'torch/2':>9} {'parameters':>12}", end="")
    print(f" {'equal':>6} {'CPU s':>6} {'uncosted':>8} {'bounded':>7}")
    failed = False
    for name in sys.argv[1:] or NAMES:
        published = build(name)
        started = time.process_time()
        made = trace(published.model, (published.inputs,))
        seconds = time.process_time() - started
        equal = (
            f"{gmacs(made):.3f}" == f"{published.gmacs:.3f}"
            and made.costs[0].parameters == published.parameters
        )
        failed |= not equal
        print(
            f"{name:20} {published.gmacs:9.3f} {gmacs(made):9.3f} {torch_gmacs(published):9.3f}"
            f" {made.costs[0].parameters:12,} {'yes' if equal else 'NO':>6} {seconds:6.2f}"
            f" {len(made.done.uncosted):8} {len(made.done.bounded):7}",
            flush=True,
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
