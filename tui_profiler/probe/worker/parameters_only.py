"""A file of parameters as a tree of their dotted names and sizes, without a forward.

No torch here: names and shapes come from the file's headers. Costs that need a forward (MACs,
FLOPs, bytes moved) are 0 on the wire and unavailable to readers: the trace's method is
``parameters``.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tui_profiler import messages
from tui_profiler.archive import Found
from tui_profiler.probe.load.files import inspection
from tui_profiler.probe.load.files.parameters_tree import Part, is_buffer, parts_of
from tui_profiler.probe.process.link import Link
from tui_profiler.probe.process.wire_names import writable
from tui_profiler.probe.worker.stages import Stages

_NODES_PER_MESSAGE = 2_000
_CHARACTERS_PER_MESSAGE = 1 << 19
_MOST_LISTED = 100


class ParametersShown(NamedTuple):
    """A file of parameters that is shown, and its request."""

    found: Found
    spec: messages.LoadSpec


def open_file(spec: messages.LoadSpec, stages: Stages, link: Link) -> ParametersShown | None:
    """Show a file of parameters; return None where the request names no file, or one with a model.

    Raises:
        LoadError: the file cannot be opened, or not without trust.
    """
    if not inspection.is_file(spec):
        return None
    found = inspection.inspected(spec)
    link.send(inspection.facts_with_trust(found, spec))
    refused = inspection.refusal(found, spec)
    if refused is not None:
        raise refused
    if found.content != "parameters":
        verdict = inspection.checked(found, lambda: link.is_closed)
        link.send(inspection.facts_with_trust(verdict, spec))
        if verdict.checksum == "failed":
            raise inspection.damaged(verdict, spec.model)
        return None
    with stages.stage("load model", "inspecting the file") as details:
        details.append(f"{len(found.tensors):,} tensors, {found.parameters:,} parameters")
    with stages.stage("trace", "names of parameters as a tree") as details:
        link.send(facts(found, spec.model))
        for message in tree_messages(found, spec.model):
            link.send(message)
        # The tree is on screen by now; checksums can take seconds.
        link.send(
            inspection.facts_with_trust(inspection.checked(found, lambda: link.is_closed), spec)
        )
        details.append("from the names of the parameters")
    link.send(messages.LoopState("finished", stages.now(), None, f"not run: {messages.NO_FORWARD}"))
    return ParametersShown(found, spec)


def facts(found: Found, name: str) -> messages.ModelFacts:
    """Return the facts of the model: no inputs, and a class only if the file names it."""
    top = next((module.class_name for module in found.modules if not module.path), "")
    return messages.ModelFacts(
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


def tree_messages(
    found: Found, name: str
) -> Iterator[messages.TraceStarted | messages.Nodes | messages.TraceDone]:
    """Yield the tree in messages that fit into a frame of the wire."""
    parts = parts_of(found, Path(name).name or name)
    yield messages.TraceStarted(nodes=len(parts), method="parameters")
    types = {module.path: module.class_name.rpartition(".")[2] for module in found.modules}
    nodes: list[messages.Node] = []
    costs: list[messages.Cost] = []
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
            yield messages.Nodes(tuple(nodes), tuple(costs))
            nodes, costs, characters = [], [], 0
        nodes.append(node)
        costs.append(_cost(part))
        characters += size
    yield messages.Nodes(tuple(nodes), tuple(costs))
    unknown = messages.Unknown(messages.NO_FORWARD)
    sizes = _sizes(found)
    peak = messages.PeakMemory(*sizes, unknown, unknown, at=-1, tensors=0, sized=0)
    yield messages.TraceDone(attempts=(), uncosted=(), bounded=(), peak_memory=peak)


def _node(part: Part, types: dict[str, str], found: Found) -> messages.Node:
    is_root = part.parent is None
    return messages.Node(
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
    notes = [messages.NO_FORWARD]
    if found.problems:
        first = found.problems[0]
        place = f" at {first.where}" if first.where else ""
        more = f", and {len(found.problems) - 1} more" if len(found.problems) > 1 else ""
        notes.insert(0, f"damaged: {first.what}{place}{more}")
    return writable("; ".join(notes))


def _cost(part: Part) -> messages.Cost:
    return messages.Cost(part.parameters, part.bytes, 0, 0, 0, 0, 0, 0, 0)


def _sizes(found: Found) -> tuple[float, float]:
    """Return the bytes of parameters and of buffers, each storage once."""
    storages: dict[str, tuple[bool, int]] = {}
    for entry in found.tensors:
        storages.setdefault(entry.storage, (is_buffer(entry), entry.storage_bytes))
    buffers = sum(size for of_buffer, size in storages.values() if of_buffer)
    return sum(size for _, size in storages.values()) - buffers, buffers
