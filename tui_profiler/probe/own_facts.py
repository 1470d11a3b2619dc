"""What is told of a model that its own program made."""

from __future__ import annotations

import os

import torch

from tui_profiler.messages import Message, ModelFacts, StageDone, StageStarted
from tui_profiler.probe.environment import environment
from tui_profiler.probe.modules import each_parameter
from tui_profiler.probe.trace.places import class_name
from tui_profiler.probe.trace.trace import Trace


def greeting(now: float) -> tuple[Message, ...]:
    """Give what is told before a forward is waited for.

    Args:
        now: seconds since the program is watched.
    """
    return (
        environment(),
        StageDone("worker", 0.0, 0.0, f"attached to pid {os.getpid()}"),
        StageStarted("trace", now, "waits for the program's next forward"),
    )


def facts_of(model: torch.nn.Module, trace: Trace, name: str, command: str) -> ModelFacts:
    """Give its facts.

    Args:
        model: as it is now.
        trace: of one of its own forwards.
        name: what the program calls it; empty for its class.
        command: of the program.
    """
    return ModelFacts(
        name=name or class_name(model),
        type=class_name(model),
        source=f"{command}, pid {os.getpid()}",
        weights="its own",
        inputs=trace.inputs.specs,
        batch=None,
        device=device_name(model),
        training=model.training,
    )


def device_name(model: torch.nn.Module) -> str:
    """Give the device of its first parameter; ``cpu`` where it has none."""
    return str(next((parameter.device for parameter in each_parameter(model)), "cpu"))
