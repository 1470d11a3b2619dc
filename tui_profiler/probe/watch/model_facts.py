"""What is told of a model that its own program made."""

import os

import torch
from msgspec.structs import replace

from tui_profiler.messages import Message, ModelFacts, StageDone, StageStarted
from tui_profiler.probe.measure.ceilings.ceilings import kept_ceilings
from tui_profiler.probe.measure.devices.environment import environment
from tui_profiler.probe.torch_compat.modules import each_parameter
from tui_profiler.probe.trace.trace import Trace, messages
from tui_profiler.probe.trace.tree.growing_tree import class_name
from tui_profiler.probe.watch.viewers import Viewers


def greeting(now: float) -> tuple[Message, ...]:
    """Return what is told before a forward is waited for.

    Args:
        now: seconds since the program is watched.
    """
    return (
        environment(),
        StageDone("worker", 0.0, 0.0, f"attached to pid {os.getpid()}"),
        StageStarted("trace", now, "waiting for the program's next forward"),
    )


def say_tree(
    viewers: Viewers,
    facts: ModelFacts,
    trace: Trace,
    *,
    at: float,
    took: float,
    threads: int,
    inside: str = "",
) -> None:
    """Tell viewers of a tree, and of the ceilings that were measured of what it runs on.

    Args:
        viewers: who are told, and who will be.
        facts: of the model.
        trace: of one of its own forwards.
        at: seconds since the program is watched.
        took: seconds that the forward took.
        threads: inside its operators, on the thread that ran it.
        inside: of what the model is a part, in words.
    """
    viewers.forget([StageStarted])
    if (machine := environment()).threads != threads:  # Of this thread, OpenMP counts another.
        viewers.say(replace(machine, threads=threads))
    viewers.say(facts)
    viewers.say(*messages(trace), under=type(trace.done))
    said = f"{trace.counted}, from one of its own forwards{inside}"
    viewers.say(StageDone("trace", at, took, said))
    found = kept_ceilings(facts.device, threads)
    if found is not None:
        viewers.say(found)


def facts_of(model: torch.nn.Module, trace: Trace, name: str, command: str) -> ModelFacts:
    """Return its facts.

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
        why_no_batch="of a program's own forwards no other size is tried",
    )


def device_name(model: torch.nn.Module) -> str:
    """Return the device of its first parameter; ``cpu`` where it has none."""
    return str(next((parameter.device for parameter in each_parameter(model)), "cpu"))
