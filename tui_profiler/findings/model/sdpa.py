"""``sdpa``: attention as separate matmuls and softmax, where one fused operator does it all.

Between its two matmuls, the scores are scaled, masked and normalised, each time written to memory
and read again. ``scaled_dot_product_attention`` keeps them in the caches. Source: Dao et al.,
FlashAttention, arXiv 2205.14135.
"""

from math import prod

from msgspec import Struct

from tui_profiler.figures.units import size
from tui_profiler.findings.evidence import time_share
from tui_profiler.findings.evidence.finding import Evidence, Finding, check, counted
from tui_profiler.findings.evidence.graph import graph, operators
from tui_profiler.findings.evidence.memory import memory_gain, peak_of
from tui_profiler.session import Session, Tree

_SOFTMAX = frozenset({"aten::_softmax", "aten::softmax", "aten::_safe_softmax"})
_MATMULS = frozenset({"aten::bmm", "aten::matmul", "aten::baddbmm"})
_BETWEEN_NAMES = """aten::add aten::add_ aten::sub aten::mul aten::mul_ aten::div aten::div_
    aten::masked_fill aten::masked_fill_ aten::where aten::clamp aten::tanh aten::_to_copy
    aten::view aten::_unsafe_view aten::reshape aten::expand aten::clone aten::copy_
    aten::native_dropout aten::dropout aten::to aten::type_as aten::unsqueeze aten::squeeze"""
_BETWEEN = frozenset(_BETWEEN_NAMES.split())
_MOST_BETWEEN = 12
"""Operators between a matmul and the softmax: scaling, mask, casts and views."""


class _Attention(Struct, frozen=True):
    module: int
    between: tuple[int, ...]
    """Softmax, scaling and masking."""
    scores_bytes: int


@check("sdpa", holds_in="both")
def sdpa(session: Session) -> Finding | None:
    """Find a softmax between two batched matmuls."""
    tree = session.tree
    if tree is None:
        return None
    found = _unfused(tree)
    time = time_share.spent(session, (node for one in found for node in one.between))
    if not found or time_share.is_negligible(time):
        return None
    largest = max(one.scores_bytes for one in found)
    memory = memory_gain(
        tree, largest, f"at most {size(largest)} of scores at once", "estimated", is_bound=True
    )
    return Finding(
        kind="sdpa",
        title=f"use SDPA in {counted(len(found), 'attention module')}",
        why=(
            "scaled_dot_product_attention scales, masks and normalises the scores in one kernel,"
            " and never writes all of them to memory. Only rounding changes."
        ),
        nodes=time_share.slowest_first(session, dict.fromkeys(one.module for one in found)),
        evidence=(
            Evidence("softmax between two batched matmuls", len(found), "count", "derived"),
            Evidence(
                "scores written per forward",
                sum(one.scores_bytes for one in found),
                "B",
                "derived",
            ),
            *time_share.evidence(time, "scaling, masking and softmax per forward"),
        ),
        gains=(
            time_share.gain(
                time,
                "scaling, masking and softmax take {}; fused, they take no time",
                "the share of the operators between the two matmuls",
            ),
            *((memory,) if peak_of(tree) else ()),
        ),
        trial="sdpa",
    )


def _unfused(tree: Tree) -> list[_Attention]:
    edges = graph(tree)
    found = []
    for softmax in operators(tree, _SOFTMAX):
        before = _path(tree, edges.writers, softmax)
        after = _path(tree, edges.readers, softmax)
        if before is not None and after is not None:
            between = (*before, softmax, *after)
            scores = sum(
                tensor.bytes
                for node in between
                for tensor in tree.nodes[node].outputs[:1]
                if tree.costs[node].output_bytes
            )
            found.append(_Attention(tree.nodes[softmax].parent, between, scores))
    return found


def _path(tree: Tree, steps: dict[int, tuple[int, ...]], start: int) -> tuple[int, ...] | None:
    """Return the pointwise operators up to the nearest matmul; None where there is none."""
    passed: dict[int, None] = {}
    pending = list(steps.get(start, ()))
    reached = False
    while pending and len(passed) <= _MOST_BETWEEN:
        node = pending.pop()
        name = tree.nodes[node].name
        if name in _MATMULS:
            reached = True
        elif name in _BETWEEN and node not in passed and _is_scores(tree, node, start):
            passed[node] = None
            pending += steps.get(node, ())
    return tuple(passed) if reached else None


def _is_scores(tree: Tree, node: int, softmax: int) -> bool:
    """Return whether an operator writes as many values as the softmax: a mask does not."""
    written, wanted = (
        [prod(tensor.shape) for tensor in tree.nodes[one].outputs[:1]] for one in (node, softmax)
    )
    return written == wanted
