"""``sdpa``: attention written by hand, product by product, where one operator does it all.

Between its two products the scores of every token with every other are scaled, masked and turned
into weights, each time written to memory and read again. ``scaled_dot_product_attention`` keeps
them in the caches. Source: Dao et al., FlashAttention, arXiv 2205.14135.
"""

from __future__ import annotations

from msgspec import Struct

from tui_profiler.figures.units import size
from tui_profiler.findings.evidence.figure_text import counted
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check
from tui_profiler.findings.evidence.graph import graph, operators
from tui_profiler.findings.evidence.time_share import is_negligible, share_of, slowest_first, spent
from tui_profiler.messages import Tensor, Unknown, known
from tui_profiler.queries.cost.totals import peak_bytes
from tui_profiler.session import Session, Tree

_SOFTMAX = frozenset({"aten::_softmax", "aten::softmax", "aten::_safe_softmax"})
_PRODUCTS = frozenset({"aten::bmm", "aten::matmul", "aten::baddbmm"})
_BETWEEN_NAMES = """aten::add aten::add_ aten::sub aten::mul aten::mul_ aten::div aten::div_
    aten::masked_fill aten::masked_fill_ aten::where aten::clamp aten::tanh aten::_to_copy
    aten::view aten::_unsafe_view aten::reshape aten::expand aten::clone aten::copy_
    aten::native_dropout aten::dropout aten::to aten::type_as aten::unsqueeze aten::squeeze"""
_BETWEEN = frozenset(_BETWEEN_NAMES.split())
_MOST_BETWEEN = 12
"""Operators between a product and the softmax: scaling, mask, casts and views."""


class _Attention(Struct, frozen=True):
    module: int
    between: tuple[int, ...]
    """Softmax, scaling and masking: what is written and read again."""
    scores_bytes: int


@check("sdpa", holds_in="both")
def sdpa(session: Session) -> Finding | None:
    """Find a softmax between two batched products."""
    tree = session.tree
    if tree is None:
        return None
    found = _written_by_hand(tree)
    between = tuple(node for one in found for node in one.between)
    time = spent(session, between)
    if not found or is_negligible(time):
        return None
    scores = sum(one.scores_bytes for one in found)
    evidence = [
        Evidence("softmax between two batched products", len(found), "count", "derived"),
        Evidence("scores that each forward writes", scores, "B", "derived"),
    ]
    if isinstance(time, Unknown):
        gain = Gain("time", time, "the share of what lies between the two products")
    else:
        gain = time.gain(f"scaling, masking and softmax take {time.text}; fused they take nothing")
        evidence.append(time.evidence("scaling, masking and softmax per forward"))
    return Finding(
        kind="sdpa",
        title=f"fuse {counted(len(found), 'attention')} written by hand",
        why=(
            "scaled_dot_product_attention scales, masks and weighs in one pass and never writes all"
            " scores to memory. Only rounding changes."
        ),
        nodes=slowest_first(session, dict.fromkeys(one.module for one in found)),
        evidence=tuple(evidence),
        gains=(gain, *_memory(tree, max(one.scores_bytes for one in found))),
        trial="sdpa",
    )


def _written_by_hand(tree: Tree) -> list[_Attention]:
    edges = graph(tree)
    found = []
    for softmax in operators(tree, _SOFTMAX):
        before = _way(tree, edges.writers, softmax)
        after = _way(tree, edges.readers, softmax)
        if before is not None and after is not None:
            between = (*before, softmax, *after)
            scores = sum(t.bytes for node in between for t in _written(tree, node))
            found.append(_Attention(tree.nodes[softmax].parent, between, scores))
    return found


def _way(tree: Tree, steps: dict[int, tuple[int, ...]], start: int) -> tuple[int, ...] | None:
    """Return element-wise operators on the way to the nearest product; None where it has none."""
    passed: dict[int, None] = {}
    pending = list(steps.get(start, ()))
    reached = False
    while pending and len(passed) <= _MOST_BETWEEN:
        node = pending.pop()
        name = tree.nodes[node].name
        if name in _PRODUCTS:
            reached = True
        elif name in _BETWEEN and node not in passed and _is_scores(tree, node, start):
            passed[node] = None
            pending += steps.get(node, ())
    return tuple(passed) if reached else None


def _is_scores(tree: Tree, node: int, softmax: int) -> bool:
    """Tell whether an operator writes as many values as the softmax: a mask's own way does not."""
    wanted = tree.nodes[softmax].outputs[:1]
    return [_size(t.shape) for t in tree.nodes[node].outputs[:1]] == [
        _size(t.shape) for t in wanted
    ]


def _size(shape: tuple[int, ...]) -> int:
    total = 1
    for axis in shape:
        total *= axis
    return total


def _written(tree: Tree, node: int) -> tuple[Tensor, ...]:
    return tree.nodes[node].outputs[:1] if tree.costs[node].output_bytes else ()


def _memory(tree: Tree, scores: int) -> tuple[Gain, ...]:
    whole = known(peak_bytes(tree.done.peak_memory)) if tree.done is not None else None
    if not whole:
        return ()
    formula = f"at most {size(scores)} of one attention's scores, of a peak of {size(whole)}"
    return (Gain("memory", share_of(scores, whole), formula, "estimated", is_bound=True),)
