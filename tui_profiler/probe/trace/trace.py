"""One forward of a model as a tree of nodes with costs.

1. Candidates are tried in order under the first method that works: every one on fake inputs, which
   takes no memory and little time; then, if all failed, every one for real.
2. A trace leaves nothing in the model: see ``snapshot.py``. The exception is a model that makes its
   layers in its first forward: it is run once for real beforehand, for good, and its root says so.
3. It runs as inference does: no gradients, training flags as they are, fused paths on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from tui_profiler.messages import (
    Attempt,
    Cost,
    Edges,
    Failed,
    Node,
    Nodes,
    Remedy,
    TraceDone,
    TraceStarted,
)
from tui_profiler.messages.model import Method
from tui_profiler.probe.inputs import Inputs
from tui_profiler.probe.trace.failure import TraceError, forward_failed, one_line, refused
from tui_profiler.probe.trace.lifetimes import peak_memory
from tui_profiler.probe.trace.nodes import Frozen
from tui_profiler.probe.trace.record import (
    ForwardError,
    Recording,
    make_layers,
    record,
    waiting_for_shapes,
)
from tui_profiler.probe.trace.weights import weight_storages

__all__ = ["Trace", "TraceError", "messages", "trace"]

_METHODS: tuple[Method, ...] = ("dispatch:fake", "dispatch:real")
_MADE_LAYERS = "made its layers in one real forward before this trace"

_NODES_PER_MESSAGE = 2_000
_EDGES_PER_MESSAGE = 20_000
_CHARACTERS_PER_MESSAGE = 1 << 19
"""Text in one message: deep models have long paths, and a frame of the wire holds 4 MiB."""


@dataclass(frozen=True)
class Trace:
    """A model's tree and what it costs, for one call's inputs."""

    method: Method
    nodes: tuple[Node, ...]
    """In preorder; a parent's subtree is contiguous."""
    costs: tuple[Cost, ...]
    """One for each node, everything below it included."""
    edges: tuple[tuple[int, int], ...]
    """(writer, reader): indices of operator nodes."""
    done: TraceDone
    inputs: Inputs
    """The candidate that it was made with."""


def trace(
    model: torch.nn.Module,
    candidates: tuple[Inputs, ...],
    tracer: str = "auto",
    name: str = "",
) -> Trace:
    """Record one forward of ``model`` on the first candidate that it takes.

    Args:
        model: left as it is, but for layers that it makes in its first forward.
        candidates: arguments to try, the likeliest first.
        tracer: ``auto`` or ``dispatch``.
        name: of the root node; its class where empty.

    Raises:
        TraceError: the tracer is not there, or the model raised on every candidate.
    """
    _check(tracer, candidates)
    attempts: list[Attempt] = []
    failure: Failed | None = None
    for method in _METHODS:
        failure = None
        for inputs in candidates:
            started = time.perf_counter()
            try:
                recording, has_grown = _recorded(model, inputs, method, name)
            except ForwardError as error:
                taken = time.perf_counter() - started
                attempts.append(Attempt(method, taken, one_line(error.error)))
                failure = failure or forward_failed(error.error, error.where, inputs)
            else:
                attempts.append(Attempt(method, time.perf_counter() - started, ""))
                return _finished(model, recording, method, tuple(attempts), inputs, has_grown)
    assert failure is not None
    raise TraceError(failure, tuple(attempts))


def messages(made: Trace) -> Iterator[TraceStarted | Nodes | Edges | TraceDone]:
    """Give a trace in parts that fit into frames of the wire."""
    yield TraceStarted(nodes=len(made.nodes), method=made.method)
    for begin, end in _chunks(made.nodes):
        yield Nodes(made.nodes[begin:end], made.costs[begin:end])
    for begin in range(0, len(made.edges), _EDGES_PER_MESSAGE):
        yield Edges(made.edges[begin : begin + _EDGES_PER_MESSAGE])
    yield made.done


def _check(tracer: str, candidates: tuple[Inputs, ...]) -> None:
    if tracer in ("fx", "export"):
        what = f"the tracer {tracer} is not part of this version"
        raise refused(what, Remedy("--tracer dispatch", "records what forward dispatches"))
    if tracer not in ("auto", "dispatch"):
        what = f"there is no tracer called {tracer!r}"
        raise refused(what, Remedy("--tracer auto", "takes what works"))
    if not candidates:
        what = "there are no inputs to call forward with"
        raise refused(what, Remedy("--input 1,3,224,224", "passes one tensor of this shape"))


def _recorded(
    model: torch.nn.Module, inputs: Inputs, method: Method, name: str
) -> tuple[Recording, bool]:
    """Record; where layers are made in the first forward, make them for good before."""
    waiting = waiting_for_shapes(model)
    if waiting:
        make_layers(model, inputs, waiting)
    recording = record(model, inputs, method, name)
    if not recording.growing:
        return recording, bool(waiting)
    try:
        make_layers(model, inputs, recording.growing)
        return record(model, inputs, method, name), True
    except ForwardError:
        # The paper figures stand; what is wrong shows in the first real run.
        return recording, bool(waiting)


def _finished(
    model: torch.nn.Module,
    recording: Recording,
    method: Method,
    attempts: tuple[Attempt, ...],
    inputs: Inputs,
    has_grown: bool,
) -> Trace:
    recorder = recording.recorder
    if has_grown:
        recording.places.root.note = _MADE_LAYERS
    frozen = Frozen(recording.places)
    parameters, buffers = weight_storages(model)
    at = frozen.index_of(recorder.lifetimes.peak_at)
    sizes = sum(parameters.values()), sum(buffers.values())
    done = TraceDone(
        attempts=attempts,
        uncosted=tuple(recorder.uncosted),
        bounded=tuple(recorder.bounds.names),
        peak_memory=peak_memory(recorder.lifetimes, at, *sizes),
    )
    edges = frozen.edges(recorder.dataflow.edges)
    return Trace(method, frozen.nodes(), frozen.costs(), edges, done, inputs)


def _chunks(nodes: tuple[Node, ...]) -> Iterator[tuple[int, int]]:
    begin = characters = 0
    for index, node in enumerate(nodes):
        size = _characters(node)
        full = index - begin == _NODES_PER_MESSAGE or characters + size > _CHARACTERS_PER_MESSAGE
        if full and index > begin:
            yield begin, index
            begin, characters = index, 0
        characters += size
    if begin < len(nodes):
        yield begin, len(nodes)


def _characters(node: Node) -> int:
    """Estimate a node's text, with a rough allowance for each tensor that it shows."""
    texts = (node.name, node.path, node.detail, node.source, node.called_from, node.note)
    tensors = len(node.inputs) + len(node.outputs) + len(node.weights)
    return sum(map(len, texts)) + 60 * tensors + sum(len(w.shared_with) for w in node.weights)
