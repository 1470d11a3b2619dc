"""The text report of parameters alone: what the file holds, and what each part of it weighs."""

from __future__ import annotations

from tui_profiler.figures.units import UNAVAILABLE, count, share_cell, size, thousands
from tui_profiler.formatting.text import fit, middle, safe, width
from tui_profiler.messages import NO_FORWARD, FileFacts
from tui_profiler.reports.text_parts import field, heading
from tui_profiler.session import Tree

_MOST_INDENT = 24
_LEAST_NAME = 14
_MOST_NAMES = 4


def summary(file: FileFacts | None, tree: Tree) -> list[str]:
    """Give the size of the parameters and what was found in their file."""
    cost, done = tree.costs[0], tree.done
    buffers = done.peak_memory.buffers if done is not None else None
    lines = ["", heading("parameters only", "there is no forward pass: no work, no times")]
    lines.append(field("parameters", f"{thousands(cost.parameters)}  {size(cost.parameter_bytes)}"))
    if isinstance(buffers, float | int):
        lines.append(field("buffers", size(buffers)))
    lines.append(field("work", f"{UNAVAILABLE} ({NO_FORWARD})"))
    return lines + file_lines(file)


def file_lines(file: FileFacts | None) -> list[str]:
    """Give what the look into the file told; nothing where the model is no file."""
    if file is None:
        return []
    harmless = [name for name in file.globals if name not in file.untrusted_globals]
    names = [*file.untrusted_globals, *harmless]
    imports = ", ".join(safe(name) for name in names[:_MOST_NAMES]) or "nothing"
    more = len(names) - _MOST_NAMES
    lines = [
        field("file", f"{safe(file.kind)}, {thousands(file.tensors)} tensors, {size(file.bytes)}"),
        field("checksum", safe(file.checksum)),
        field("imports", f"{imports} and {more} more" if more > 0 else imports),
    ]
    for problem in file.problems:
        place = f" ({safe(problem.where)})" if problem.where else ""
        lines.append(field("problem", f"{safe(problem.what)}{place}"))
    if file.problem_count > len(file.problems):
        lines.append(field("", f"{thousands(file.problem_count - len(file.problems))} more"))
    return [*lines, field("to run it", safe(file.hint))] if file.hint else lines


def part_lines(tree: Tree, cells: int, top: int | None) -> list[str]:
    """Give one line for each part of the tree, or for the largest by what they hold themselves."""
    columns = f"{'params':>8}{'bytes':>12}{'%':>6}"
    room = max(cells - width(columns), _LEAST_NAME)
    chosen = list(range(len(tree)))
    if top is not None:
        held = {
            index: sum(weight.bytes for weight in node.weights if not weight.is_buffer)
            for index, node in enumerate(tree.nodes)
        }
        chosen = sorted(chosen, key=lambda index: -held[index])[:top]
    says = "each with everything inside it" if top is None else f"the {len(chosen)} that hold most"
    return [
        "",
        heading("layers", says),
        fit("", room) + columns,
        *(_part(tree, index, room, in_full=top is not None) for index in chosen),
    ]


def _part(tree: Tree, index: int, room: int, *, in_full: bool) -> str:
    node, cost, whole = tree.nodes[index], tree.costs[index], tree.costs[0].parameters
    indent = 0 if in_full else min(2 * tree.depths[index], _MOST_INDENT, room - _LEAST_NAME)
    name = safe((node.path or node.name) if in_full else node.name)
    kind = f"  {safe(node.type)}" if node.type else ""
    space = room - indent
    if width(name) + width(kind) > space:
        kind = ""
    share = share_cell(cost.parameters / whole) if whole else UNAVAILABLE
    return (
        " " * indent
        + fit(middle(name, space) + kind, space)
        + f"{count(cost.parameters):>8}{size(cost.parameter_bytes):>12}{share:>6}"
    )
