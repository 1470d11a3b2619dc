"""A file of parameters as a tree: their dotted names, what each part weighs, nothing that is run.

No torch here: names and shapes come from the look into the file. What needs a forward pass (MACs,
FLOPs, bytes moved) is 0 in the costs on the wire and not known to any reader: the method of the
trace, ``parameters``, says that there was none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from tui_profiler.archive import Found
from tui_profiler.messages import (
    NO_FORWARD,
    Cost,
    LoadSpec,
    LoopState,
    ModelFacts,
    Node,
    Nodes,
    PeakMemory,
    TraceDone,
    TraceStarted,
    Unknown,
)
from tui_profiler.messages.live import Stage
from tui_profiler.probe.load.files.inspection import (
    checked,
    damaged,
    is_file,
    looked_into,
    refusal,
    told_facts,
)
from tui_profiler.probe.load.files.parameters_tree import Part, is_buffer, parts_of
from tui_profiler.probe.process.link import Link
from tui_profiler.probe.process.wire_names import writable

_NODES_PER_MESSAGE = 2_000
_CHARACTERS_PER_MESSAGE = 1 << 19
_MOST_LISTED = 100


class Stages(Protocol):
    """Tells the viewer where we are."""

    def now(self) -> float:
        """Return seconds since the command was started."""
        ...

    def stage(self, stage: Stage, detail: str = "") -> AbstractContextManager[list[str]]:
        """Tell that a stage begins and ends."""
        ...


class ParametersShown:
    """Parameters that are shown: there is nothing to run, nor to stop.

    Args:
        found: what the look told.
        spec: what was asked for.
    """

    def __init__(self, found: Found, spec: LoadSpec) -> None:
        self.found = found
        self.spec = spec

    was_stopped = False


def open_file(spec: LoadSpec, stages: Stages, link: Link) -> ParametersShown | None:
    """Look into a file that the user named, and show it where a look is all there is to it.

    Gives None where there is more: no file was named, or its model is to be loaded.

    Raises:
        LoadError: The file cannot be opened, or not without trust.
    """
    if not is_file(spec):
        return None
    found = looked_into(spec)
    link.send(told_facts(found, spec))
    refused = refusal(found, spec)
    if refused is not None:
        raise refused
    if found.content != "parameters":
        verdict = checked(found, lambda: link.is_closed)
        link.send(told_facts(verdict, spec))
        if verdict.checksum == "failed":
            raise damaged(verdict, spec.model)
        return None
    with stages.stage("load model", "looking into the file") as details:
        details.append(f"{len(found.tensors):,} tensors, {found.parameters:,} parameters")
    with stages.stage("trace", "names of parameters as a tree") as details:
        link.send(facts(found, spec.model))
        for message in messages(found, spec.model):
            link.send(message)
        # The tree is on screen by now; comparing every byte can take seconds.
        link.send(told_facts(checked(found, lambda: link.is_closed), spec))
        details.append("from the names of the parameters")
    link.send(LoopState("finished", stages.now(), None, f"not run: {NO_FORWARD}"))
    return ParametersShown(found, spec)


def facts(found: Found, name: str) -> ModelFacts:
    """Return what is known of the model: no inputs, no class beyond what the file names."""
    top = next((module.class_name for module in found.modules if not module.path), "")
    return ModelFacts(
        name=name,
        type=writable(top.rpartition(".")[2]) or "parameters",
        source=f"{found.kind} file"
        if len(found.files) < 2
        else f"{found.kind}, {len(found.files)} files",
        weights="its own",
        inputs=(),
        batch=None,
        device="not loaded",
        training=False,
    )


def messages(found: Found, name: str) -> Iterator[TraceStarted | Nodes | TraceDone]:
    """Yield the tree in parts that fit into frames of the wire."""
    parts = parts_of(found, Path(name).name or name)
    yield TraceStarted(nodes=len(parts), method="parameters")
    types = {module.path: module.class_name.rpartition(".")[2] for module in found.modules}
    nodes: list[Node] = []
    costs: list[Cost] = []
    characters = 0
    for part in parts:
        node = _node(part, types, found)
        size = (
            len(node.name)
            + len(node.path)
            + len(node.note)
            + sum(60 + len(weight.name) + len(weight.shared_with) for weight in node.weights)
        )
        if nodes and (
            len(nodes) == _NODES_PER_MESSAGE or characters + size > _CHARACTERS_PER_MESSAGE
        ):
            yield Nodes(tuple(nodes), tuple(costs))
            nodes, costs, characters = [], [], 0
        nodes.append(node)
        costs.append(_cost(part))
        characters += size
    yield Nodes(tuple(nodes), tuple(costs))
    unknown = Unknown(NO_FORWARD)
    sizes = _sizes(found)
    peak = PeakMemory(*sizes, unknown, unknown, at=-1, tensors=0, sized=0)
    yield TraceDone(attempts=(), uncosted=(), bounded=(), peak_memory=peak)


def _node(part: Part, types: dict[str, str], found: Found) -> Node:
    is_root = part.parent is None
    return Node(
        parent=-1 if part.parent is None else part.parent.index,
        kind="module",
        name=writable(part.name),
        path=writable(part.path),
        type=writable(types.get(part.path, "")) or ("parameters" if is_root else ""),
        calls=0,
        inputs=(),
        outputs=(),
        weights=tuple(part.weights),
        detail="",
        source="",
        called_from="",
        note=_note(found) if is_root else "",
    )


def _note(found: Found) -> str:
    """Return what the reader must know of the whole file."""
    notes = [NO_FORWARD]
    if found.problems:
        first = found.problems[0]
        place = f" at {first.where}" if first.where else ""
        more = f", and {len(found.problems) - 1} more" if len(found.problems) > 1 else ""
        notes.insert(0, f"damaged: {first.what}{place}{more}")
    return writable("; ".join(notes))


def _cost(part: Part) -> Cost:
    return Cost(part.parameters, part.bytes, 0, 0, 0, 0, 0, 0, 0)


def _sizes(found: Found) -> tuple[float, float]:
    """Return the bytes of parameters and of buffers, each storage once."""
    storages: dict[str, tuple[bool, int]] = {}
    for entry in found.tensors:
        storages.setdefault(entry.storage, (is_buffer(entry), entry.storage_bytes))
    buffers = sum(size for of_buffer, size in storages.values() if of_buffer)
    return sum(size for _, size in storages.values()) - buffers, buffers
