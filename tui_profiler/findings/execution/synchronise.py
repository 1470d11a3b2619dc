"""``synchronise``: places where Python reads a tensor's value, or a tensor changes its device.

On a GPU each of them waits until everything before it is done; anywhere it ends a graph that a
compiler could make. The source line is the one that ran the operator.
"""

from __future__ import annotations

from tui_profiler.findings.evidence.figure_text import counted
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check
from tui_profiler.findings.evidence.graph import operators
from tui_profiler.findings.evidence.time_share import TimeSpent, slowest_first, spent
from tui_profiler.messages import Node, Unknown
from tui_profiler.session import Session, Tree

READS_A_VALUE = frozenset(
    {
        "aten::_local_scalar_dense",
        "aten::item",
        "aten::equal",
        "aten::is_nonzero",
        "aten::nonzero",
        "aten::masked_select",
        "aten::_unique2",
        "aten::unique_dim",
        "aten::unique_consecutive",
        "aten::bincount",
    }
)
"""Python waits for what these give, or for how much they give."""
_INDEXING = frozenset({"aten::index"})
_MOST_LINES = 8
_COPIES = frozenset({"aten::_to_copy", "aten::copy_", "aten::_pin_memory"})


@check("synchronise", holds_in="both")
def synchronise(session: Session) -> Finding | None:
    """Find operators that make Python wait for values."""
    tree, model = session.tree, session.model
    if tree is None:
        return None
    is_gpu = model is not None and model.device.startswith("cuda")
    reads = [*operators(tree, READS_A_VALUE), *_masks(tree)]
    copies = [n for n in operators(tree, _COPIES) if is_gpu and _changes_nothing(tree.nodes[n])]
    nodes = tuple(sorted((*reads, *copies)))
    if not nodes:
        return None
    calls = sum(tree.nodes[node].calls for node in nodes)
    found = spent(session, nodes)
    return Finding(
        kind="synchronise",
        title=f"read no values at {counted(len(_lines(tree, nodes)), 'source line')}",
        why=(
            "Python reads values there (.item(), nonzero, a mask as an index, a tensor in an if)."
            " A GPU must finish everything before it, and a compiler's graph ends there."
        ),
        nodes=slowest_first(session, nodes),
        evidence=(
            Evidence("times per forward that Python waits for a value", calls, "count", "derived"),
            *_met(session, nodes),
            *(
                Evidence(line, float(count), "count", "derived")
                for line, count in _lines(tree, nodes).items()
            ),
        ),
        gains=(_gain(found, is_gpu=is_gpu),),
        why_no_trial="only the model's own code can go on without the value",
    )


def _masks(tree: Tree) -> list[int]:
    """Return the operators that take a mask as an index: how much they give depends on it."""
    indexing = operators(tree, _INDEXING)
    return [i for i in indexing if any(t.dtype == "bool" for t in tree.nodes[i].inputs[1:])]


def _lines(tree: Tree, nodes: tuple[int, ...]) -> dict[str, int]:
    """Return calls by source line, most first."""
    found: dict[str, int] = {}
    for node in nodes:
        name = tree.nodes[node].name.removeprefix("aten::")
        line = f"{name} at {tree.nodes[node].source or 'a line that is not known'}"
        found[line] = found.get(line, 0) + tree.nodes[node].calls
    most = sorted(found, key=lambda line: -found[line])[:_MOST_LINES]
    return {line: found[line] for line in most}


def _met(session: Session, nodes: tuple[int, ...]) -> tuple[Evidence, ...]:
    """Return how often the last operator window met them."""
    if session.operators is None:
        return ()
    calls = sum(session.operators.calls(node) for node in nodes)
    return (Evidence("of them seen in the last operator window", calls, "count", "measured"),)


def _changes_nothing(node: Node) -> bool:
    """Tell whether a copy keeps shape and dtype: then it goes to another device, or order."""
    before, after = node.inputs[:1], node.outputs[:1]
    return [(t.shape, t.dtype, t.layout) for t in before] == [
        (t.shape, t.dtype, t.layout) for t in after
    ]


def _gain(found: TimeSpent | Unknown, *, is_gpu: bool) -> Gain:
    if not is_gpu:
        return Gain(
            "time",
            Unknown("on a processor nothing runs ahead: there is nothing to wait for"),
            "the wait for the device",
        )
    if not isinstance(found, Unknown) and found.is_measured:
        return found.gain(f"they take {found.text}, waiting included", is_bound=True)
    return Gain("time", Unknown("their times are not known yet"), "the wait for the device")
