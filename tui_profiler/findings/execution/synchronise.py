"""``synchronise``: source lines where Python reads a tensor's value, or a tensor changes device.

On a GPU each of them waits for all queued work; on any device it breaks the graph of a compiler.
"""

from tui_profiler.findings.evidence import quantities, time_share
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check, counted
from tui_profiler.findings.evidence.graph import operators
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
"""Python waits for their result, or for its shape."""
_INDEXING = frozenset({"aten::index"})
_MOST_LINES = 8
_COPIES = frozenset({"aten::_to_copy", "aten::copy_", "aten::_pin_memory"})


@check(
    "synchronise",
    holds_in="both",
    reads=(quantities.TREE,),
    uses=quantities.TIME_OF_NODES,
)
def synchronise(session: Session) -> Finding | None:
    """Find operators that make Python wait for the device."""
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
    lines = _lines(tree, nodes)
    found = time_share.spent(session, nodes)
    return Finding(
        kind="synchronise",
        title=_title(lines, calls),
        why=(
            "Python reads tensor values there (.item(), nonzero, a mask as index, if tensor)."
            " A GPU has to finish all queued work first, and torch.compile breaks the graph."
        ),
        nodes=time_share.slowest_first(session, nodes),
        evidence=(
            Evidence("reads of tensor values per forward", calls, "count", "derived"),
            *_met(session, nodes),
            *(Evidence(line, float(count), "count", "derived") for line, count in lines.items()),
        ),
        gains=(_gain(found, is_gpu=is_gpu),),
        why_no_trial="only the model's code can avoid reading the value",
    )


def _title(lines: dict[str, int], calls: int) -> str:
    """Return ``.item() at net.py:14, 6 per forward``, or how many lines there are."""
    first, *others = lines
    words = first.replace("_local_scalar_dense", ".item()")
    if others:
        words = f"reading tensor values at {counted(len(lines), 'line')}"
    return f"{words}, {calls:,} per forward"


def _masks(tree: Tree) -> list[int]:
    """Return the operators that index with a mask: their output's shape depends on its values."""
    indexing = operators(tree, _INDEXING)
    return [i for i in indexing if any(t.dtype == "bool" for t in tree.nodes[i].inputs[1:])]


def _lines(tree: Tree, nodes: tuple[int, ...]) -> dict[str, int]:
    """Return the calls by source line, most first."""
    found: dict[str, int] = {}
    for node in nodes:
        name = tree.nodes[node].name.removeprefix("aten::")
        line = f"{name} at {tree.nodes[node].source or 'an unknown line'}"
        found[line] = found.get(line, 0) + tree.nodes[node].calls
    most = sorted(found, key=lambda line: -found[line])[:_MOST_LINES]
    return {line: found[line] for line in most}


def _met(session: Session, nodes: tuple[int, ...]) -> tuple[Evidence, ...]:
    """Return their calls in the last operator window."""
    if session.host_operators is None:
        return ()
    calls = sum(session.host_operators.calls(node) for node in nodes)
    return (Evidence("of them in the last operator window", calls, "count", "measured"),)


def _changes_nothing(node: Node) -> bool:
    """Return whether a copy keeps shape, dtype and layout: it then changes the device."""
    before, after = node.inputs[:1], node.outputs[:1]
    return [(t.shape, t.dtype, t.layout) for t in before] == [
        (t.shape, t.dtype, t.layout) for t in after
    ]


def _gain(found: time_share.TimeSpent | Unknown, *, is_gpu: bool) -> Gain:
    if not is_gpu:
        return Gain(
            "time",
            Unknown("a CPU runs nothing asynchronously, so there is no wait"),
            "the wait for the device",
        )
    if not isinstance(found, Unknown) and not found.is_measured:
        found = Unknown("their times are not measured yet")
    text = "they take {}, including the wait"
    return time_share.gain(found, text, "the wait for the device", is_bound=True)
