"""Sessions of real traces of small modules, with times and roofs that are given by hand."""

from __future__ import annotations

from array import array
from collections.abc import Mapping

import torch
from msgspec.structs import replace
from torch import nn

from tests.probe.trace.traced import traced
from tests.queries.sessions import ticked
from tests.small_model import operator_times
from tui_profiler.findings import CHECKS
from tui_profiler.findings.evidence.finding import Finding, Kind
from tui_profiler.messages import (
    Ceiling,
    Ceilings,
    Edges,
    Environment,
    KernelCosts,
    ModelFacts,
    Nodes,
    TraceStarted,
    WindowTimes,
)
from tui_profiler.session import EMPTY, Session, apply

WIDE, BF16, F16, COPY, CALL = 4e11, 1.6e12, 4e11, 2e10, 5e-6
FAULT = 2e-6
KERNELS = KernelCosts(
    page_bytes=4096,
    autograd_seconds=4e-6,
    no_grad_seconds=5e-7,
    int8_call_seconds=1e-5,
    int8_speedup=4.0,
    depthwise_speedup=1.5,
    convolution_speedup=1.25,
)
CEILINGS = Ceilings(
    "cpu",
    2,
    (Ceiling("float32", WIDE), Ceiling("bfloat16", BF16), Ceiling("float16", F16)),
    COPY,
    CALL,
    0.0,
    0.0,
    fault_seconds=FAULT,
    kernels=KERNELS,
)


ENVIRONMENT = Environment("3.11.7", "2.15.0+cpu", "", "", "Some CPU", 4, 4, 2**33)
IMAGE = torch.zeros(1, 3, 8, 8)
ROW = torch.zeros(1, 16)


class Normed(nn.Module):
    """A convolution and a batch norm of its output; the sum, if asked, reads both."""

    def __init__(self, *, read_twice: bool = False) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.read_twice = read_twice

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        z: torch.Tensor = self.norm(y)
        return z + y if self.read_twice else z


def on_paper(
    module: nn.Module,
    *inputs: torch.Tensor,
    device: str = "cpu",
    ceilings: Ceilings | None = CEILINGS,
) -> Session:
    """Return a session as it is after the trace."""
    trace = traced(module, *inputs, name="net")
    specs = trace.inputs.specs
    batch = inputs[0].shape[0] if inputs and inputs[0].dim() else None
    session = apply(EMPTY, ENVIRONMENT)
    facts = ModelFacts("net", "Net", "test", "random", specs, batch, device, False)
    for message in (
        facts,
        TraceStarted(len(trace.nodes), trace.method),
        Nodes(trace.nodes, trace.costs),
        Edges(trace.edges),
        trace.memory,
        trace.done,
    ):
        session = apply(session, message)
    return session if ceilings is None else apply(session, ceilings)


def timed(
    session: Session,
    modules: Mapping[str, float],
    operators: Mapping[str, float] | None = None,
) -> Session:
    """Return it with seconds of a forward by module's path, and of operators by their path."""
    session = ticked(session, modules)
    assert session.tree is not None
    found = {session.tree.find(path): seconds for path, seconds in (operators or {}).items()}
    assert None not in found
    spent = {node: seconds for node, seconds in found.items() if node is not None}
    return apply(session, operator_times(spent)) if spent else session


def with_host(session: Session, python: float, whole: float) -> Session:
    """Return it after a window in which so much of a forward was Python."""
    narrow = (
        array("f", [whole]).tobytes(),
        array("f", [python]).tobytes(),
        array("f", [0]).tobytes(),
    )
    return apply(session, WindowTimes(1.0, array("I", [0]).tobytes(), *narrow))


def all_times(session: Session, seconds: float) -> Session:
    """Return it with so many seconds for every operator that moves anything, and those modules."""
    assert session.tree is not None
    tree = session.tree
    operators = {
        node.path: seconds * bool(tree.costs[at].output_bytes)
        for at, node in enumerate(tree.nodes)
        if node.kind == "op"
    }
    modules = {
        node.path: seconds * max(1, tree.costs[at].ops)
        for at, node in enumerate(tree.nodes)
        if node.kind == "module" and node.calls
    }
    return timed(session, modules, operators)


def found(kind: Kind, session: Session) -> Finding | None:
    return CHECKS[kind](session)


def on_device(session: Session, device: str) -> Session:
    assert session.model is not None
    return replace(session, model=replace(session.model, device=device))


def figure(finding: Finding, what: str) -> float:
    """Return the figure of the evidence whose words begin so."""
    value = next(one.figure for one in finding.evidence if one.what.startswith(what))
    assert isinstance(value, float | int)
    return value
