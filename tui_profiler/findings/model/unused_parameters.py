"""``unused-parameters``: weights that are held in memory and that no operator reads."""

from __future__ import annotations

from collections import Counter

from tui_profiler.figures.units import size
from tui_profiler.findings.evidence.figure_text import counted
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check
from tui_profiler.findings.evidence.time_share import LEAST_SHARE, share_of
from tui_profiler.messages import Unknown, Weight, known
from tui_profiler.queries.cost.totals import peak_bytes
from tui_profiler.session import Session, Tree


@check("unused-parameters", holds_in="both")
def unused_parameters(session: Session) -> Finding | None:
    """Find modules with parameters of a shape that no operator around them reads.

    A fused operator reads the weights of modules that it does not call: what counts is that some
    operator inside the nearest module that is called reads tensors of these shapes.
    """
    tree = session.tree
    if tree is None or not tree.has_forward or not len(tree):
        return None
    if any(node.is_opaque for node in tree.nodes) or tree.phase:
        return None  # A compiled region names no operators; another phase may read the rest.
    found = _unread(tree)
    unread = sum(found.values())
    share = share_of(unread, tree.costs[0].parameter_bytes)
    if not unread or share < LEAST_SHARE:
        return None
    whole = known(peak_bytes(tree.done.peak_memory)) if tree.done is not None else None
    formula = f"{size(unread)} that nothing reads"
    gain = (
        Gain("memory", share_of(unread, whole), f"{formula}, of a peak of {size(whole)}")
        if whole
        else Gain("memory", Unknown("the peak is not known"), formula)
    )
    return Finding(
        kind="unused-parameters",
        title=f"drop unread parameters of {counted(len(found), 'module')}",
        why=(
            "No operator of this forward reads them: heads for training, layers left over, or a"
            " branch that these inputs do not take. Check before removing them."
        ),
        nodes=tuple(sorted(found, key=lambda node: -found[node])),
        evidence=(
            Evidence("parameters that no operator reads", unread, "B", "derived"),
            Evidence("of all parameters", share, "share", "derived"),
        ),
        gains=(gain,),
        why_no_trial="removing them changes no result, only file size and memory",
    )


def _unread(tree: Tree) -> dict[int, int]:
    """Return the bytes of parameters that are not read, by the module that owns them."""
    found: dict[int, int] = {}
    shapes: dict[int, Counter[tuple[int, ...]]] = {}
    for index, node in enumerate(tree.nodes):
        owned = [one for one in node.weights if not one.is_buffer and not one.shared_with]
        if not owned or node.note.startswith("also at"):
            continue
        around = _called(tree, index)
        if around not in shapes:
            shapes[around] = _read_shapes(tree, around)
        unread = sum(one.bytes for one in owned if not _take(shapes[around], one))
        if unread:
            found[index] = unread
    return found


def _called(tree: Tree, index: int) -> int:
    """Return the node itself where it is called, else the nearest one above that is."""
    while index > 0 and not tree.nodes[index].calls:
        index = tree.nodes[index].parent
    return index


def _read_shapes(tree: Tree, module: int) -> Counter[tuple[int, ...]]:
    """Count the shapes that operators inside a module read."""
    found: Counter[tuple[int, ...]] = Counter()
    for index in range(module, tree.ends[module]):
        if tree.nodes[index].kind == "op":
            found.update(tensor.shape for tensor in tree.nodes[index].inputs)
    return found


def _take(shapes: Counter[tuple[int, ...]], weight: Weight) -> bool:
    """Tell whether a tensor of that shape is read."""
    return shapes[weight.shape] > 0
