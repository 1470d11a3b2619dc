"""One forward of a model as a tree of nodes with costs.

1. Candidates are tried in order under the first method that works: every one on fake inputs, which
   takes no memory and little time; then, if all failed, every one for real. A model whose
   parameters are on meta has no values: it is recorded on fake ones only.
2. A trace leaves nothing in the model: see ``snapshot.py``. The exception is a model that makes its
   layers in its first forward: it is run once for real beforehand, for good, and its root says so.
3. It runs as inference does: no gradients, training flags as they are, fused paths on.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from msgspec.structs import replace

from tui_profiler.archive.reading.garbage_collection import without_collector
from tui_profiler.messages import (
    Attempt,
    Cost,
    Edges,
    Failed,
    MemorySteps,
    Method,
    Node,
    Nodes,
    PartialTree,
    Phase,
    RealCost,
    Remedy,
    TraceDone,
    TraceStarted,
)
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.kv_cache import ReturnedCache
from tui_profiler.probe.trace import failure, tracers
from tui_profiler.probe.trace.failure import TraceError
from tui_profiler.probe.trace.fake.meta import is_on_meta
from tui_profiler.probe.trace.record import Recording, make_layers, record, waiting_for_shapes
from tui_profiler.probe.trace.remedies import input_remedies
from tui_profiler.probe.trace.tree.lifetimes import peak_memory
from tui_profiler.probe.trace.tree.messages import Frozen
from tui_profiler.probe.trace.tree.module_stack import LATER
from tui_profiler.probe.trace.tree.weights import packed_bytes, weight_storages
from tui_profiler.system import real_time as time

__all__ = ["Trace", "TraceError", "finished", "messages", "trace"]

_MADE_LAYERS = "made its layers in one real forward before this trace"

_NODES_PER_MESSAGE = 500
"""Encoding 2,000 nodes, or freeing them, takes 5 ms in one call into C."""
_EDGES_PER_MESSAGE = 5_000
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
    memory: MemorySteps
    done: TraceDone
    inputs: Inputs
    """The candidate that it was made with."""
    kept: ReturnedCache | None = None
    """The cache that the forward gave back."""

    @property
    def counted(self) -> str:
        """How large the tree is, in words."""
        modules = sum(node.kind == "module" for node in self.nodes)
        return f"{modules:,} modules, {len(self.nodes) - modules:,} operators"


def trace(
    model: torch.nn.Module,
    candidates: Sequence[Inputs],
    tracer: str = "auto",
    name: str = "",
) -> Trace:
    """Record one forward of ``model`` on the first candidate that it takes.

    Args:
        model: left as it is, but for layers that it makes in its first forward.
        candidates: arguments to try, the likeliest first.
        tracer: ``auto``, ``dispatch``, ``fx`` or ``export``.
        name: of the root node; its class where empty.

    Raises:
        TraceError: the tracer is not there, or the model raised on every candidate.
    """
    _check(tracer, candidates)
    attempts: list[Attempt] = []
    failed: Failed | None = None
    partial: PartialTree | None = None
    refused: failure.ForwardError | None = None
    for way in tracers.ways(tracer, is_on_meta(model)):
        # A real run says best what is wrong with a model; of two graphs, the first that failed.
        failed = failed if way.makes_graph else None
        for inputs in candidates:
            started = time.perf_counter()
            try:
                recording, has_grown = _recorded(model, inputs, way, name)
            except failure.ForwardError as error:
                attempts.append(_attempt(way, started, error, failure.one_line(error.error)))
                partial = error.partial if failed is None else partial
                refused = refused if failed is not None else error
                failed = _first(failed, _failure(way, error, inputs))
            else:
                attempts.append(_attempt(way, started, recording.program))
                with without_collector():
                    return finished(model, recording, way, tuple(attempts), inputs, has_grown)
    assert failed is not None
    if refused is not None and any(one.is_tried for one in failed.remedies):
        found = input_remedies(model, refused)
        failed = replace(failed, remedies=(*found, *failed.remedies))
    raise TraceError(failed, tuple(attempts), partial)


def messages(
    made: Trace, phase: Phase = ""
) -> Iterator[TraceStarted | Nodes | Edges | MemorySteps | TraceDone]:
    """Yield a trace in parts that fit into frames of the wire."""
    inputs = made.inputs.specs if phase else ()
    yield TraceStarted(nodes=len(made.nodes), method=made.method, phase=phase, inputs=inputs)
    for begin, end in _chunks(made.nodes):
        yield Nodes(made.nodes[begin:end], made.costs[begin:end])
    for begin in range(0, len(made.edges), _EDGES_PER_MESSAGE):
        yield Edges(made.edges[begin : begin + _EDGES_PER_MESSAGE])
    yield made.memory
    yield made.done


def _check(tracer: str, candidates: Sequence[Inputs]) -> None:
    if tracer not in tracers.TRACERS:
        what = f"there is no tracer called {tracer!r}"
        raise failure.refused(what, Remedy("--tracer auto", "chooses one that works"))
    if not candidates:
        what = "there are no inputs to call forward with"
        raise failure.refused(
            what, Remedy("--input 1,3,224,224", "passes one tensor of this shape")
        )


def _recorded(
    model: torch.nn.Module, inputs: Inputs, way: tracers.Way, name: str
) -> tuple[Recording, bool]:
    """Record; where layers are made in the first forward, make them for good before."""
    waiting = waiting_for_shapes(model)
    if waiting:
        make_layers(model, inputs, waiting)
    growing = _growing(model, inputs) if way.makes_graph else ()
    if growing:
        make_layers(model, inputs, growing)
    recording = record(model, inputs, way, name)
    if not recording.growing:
        return recording, bool(waiting or growing)
    try:
        make_layers(model, inputs, recording.growing)
        return record(model, inputs, way, name), True
    except failure.ForwardError:
        # The paper figures stand; what is wrong shows in the first real run.
        return recording, bool(waiting)


def _growing(model: torch.nn.Module, inputs: Inputs) -> tuple[torch.nn.Module, ...]:
    """Return what makes layers in forward: a tracer stops at it, or leaves them half made."""
    try:
        return record(model, inputs, tracers.DISPATCH_FAKE, "").growing
    except failure.ForwardError:
        return ()  # what is wrong with the model, the tracer will say


def _attempt(
    way: tracers.Way, began: float, made: tracers.Program | failure.ForwardError, error: str = ""
) -> Attempt:
    seconds = time.perf_counter() - began
    return Attempt(way.method, seconds, error, way.variant, made.graphs, made.graph_breaks)


def _first(failed: Failed | None, later: Failed) -> Failed:
    """Keep the failed that was first; a later one may have counted why."""
    return later if failed is None else replace(failed, why=failed.why or later.why)


def _failure(way: tracers.Way, error: failure.ForwardError, inputs: Inputs) -> Failed:
    if isinstance(error, failure.NoGraphError):
        return failure.no_graph(error, str(way))
    return failure.forward_failed(error, inputs)


def finished(
    model: torch.nn.Module,
    recording: Recording,
    way: tracers.Way,
    attempts: tuple[Attempt, ...],
    inputs: Inputs,
    has_grown: bool,
) -> Trace:
    """Return the tree that a recording left, with costs, edges and peak memory."""
    recorder, kept = recording.recorder, recording.kept
    if has_grown:
        recording.places.root.note = _MADE_LAYERS
    frozen = Frozen(recording.places, is_of_graph=way.makes_graph)
    parameters, buffers = weight_storages(model)
    sizes = sum(parameters.values()) + packed_bytes(model), sum(buffers.values())
    done = TraceDone(
        attempts=attempts,
        uncosted=(*recorder.uncosted, *_done_later(recording)),
        bounded=tuple(recorder.bounds.names),
        peak_memory=peak_memory(
            recorder.lifetimes, frozen.index_of, *sizes, kept.bytes if kept else None
        ),
    )
    edges = frozen.edges(recorder.dataflow.edges)
    costs = frozen.costs()
    memory = recorder.lifetimes.steps(frozen.index_of)
    return Trace(way.method, frozen.nodes(), costs, edges, memory, done, inputs, kept)


def _done_later(recording: Recording) -> tuple[str, ...]:
    notes = (place.note for place in recording.places.in_preorder())
    return (LATER,) if LATER in notes else ()


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
    callers = sum(len(one.file) + len(one.function) + 40 for one in node.callers)
    return (
        callers
        + sum(map(len, texts))
        + 60 * tensors
        + sum(len(w.shared_with) for w in node.weights)
    )


def real_cost(model: torch.nn.Module, traced: Trace) -> RealCost | None:
    """Record a real forward on the inputs of a trace; None where that has no figure to bound."""
    if not traced.done.bounded or traced.method == "dispatch:real":
        return None
    try:
        recording = record(model, traced.inputs, tracers.DISPATCH_REAL, "")
    except failure.ForwardError as error:
        return RealCost(None, failure.one_line(error.error))
    return RealCost(Frozen(recording.places).costs()[0])
