"""Findings of attention: what is written to memory and read again between its operators.

1. ``sdpa``: as separate matmuls and softmax. Between the two matmuls the scores are scaled, masked
   and normalised, each time through memory; ``scaled_dot_product_attention`` keeps them in the
   caches. Source: Dao et al., FlashAttention, arXiv 2205.14135.
2. ``static-kv-cache``: a language model that appends to its keys and values copies the whole cache,
   in every layer, for each new token. Source:
   pytorch.org/blog/accelerating-generative-ai-2, 2023.
"""

from tui_profiler.figures.units import size
from tui_profiler.findings.evidence import quantities, time_share
from tui_profiler.findings.evidence.attention import unfused
from tui_profiler.findings.evidence.finding import Evidence, Finding, check, counted
from tui_profiler.findings.evidence.graph import graph, operators
from tui_profiler.findings.evidence.memory import memory_gain, peak_of
from tui_profiler.messages import known
from tui_profiler.queries.cost.breakdown import op_type
from tui_profiler.session import Session, Tree


@check(
    "sdpa",
    holds_in="both",
    reads=(quantities.TREE,),
    uses=(*quantities.TIME_OF_NODES, quantities.PEAK),
)
def sdpa(session: Session) -> Finding | None:
    """Find a softmax between two batched matmuls."""
    tree = session.tree
    if tree is None:
        return None
    found = unfused(tree)
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
    )


_CACHE_AXES = 4
"""(batch, heads, tokens, width of a head)."""
_TOKENS = 2


@check(
    "static-kv-cache",
    holds_in="inference",
    reads=(quantities.TREE,),
    uses=(*quantities.TIME_OF_NODES, quantities.PEAK),
)
def static_kv_cache(session: Session) -> Finding | None:
    """Find concatenations of a tensor from an earlier forward with a new one, for attention.

    The nodes are operators.
    """
    tree = session.tree
    if tree is None:
        return None
    appends = tuple(
        node for node in operators(tree, frozenset({"aten::cat"})) if _appends(tree, node)
    )
    found = time_share.spent(session, appends)
    if not appends or time_share.is_negligible(found):
        return None
    copied = sum(tree.costs[node].output_bytes for node in appends)
    cache = known(tree.done.peak_memory.kv_cache) if tree.done is not None else None
    return Finding(
        kind="static-kv-cache",
        title=f"use a static KV cache ({counted(len(appends), 'concatenation')})",
        why=(
            "Each new token copies the keys and values of all tokens so far, in each layer. A"
            " static cache is written in place, and its constant shapes suit torch.compile."
        ),
        nodes=time_share.slowest_first(session, appends),
        evidence=(
            Evidence("concatenations of the KV cache", len(appends), "count", "derived"),
            Evidence("cache copied per forward", copied, "B", "derived"),
            *((Evidence("KV cache", cache, "B", "derived"),) if cache is not None else ()),
            *time_share.evidence(found),
        ),
        gains=(
            time_share.gain(
                found,
                "concatenating takes {}; in place, only the new tokens are written",
                "the share of a forward that concatenating takes",
            ),
        ),
    )


def _appends(tree: Tree, node: int) -> bool:
    """Return whether a concatenation appends tokens to the cache of an attention."""
    inputs, outputs = tree.nodes[node].inputs, tree.nodes[node].outputs
    if len(inputs) != 2 or len(outputs) != 1 or len(outputs[0].shape) != _CACHE_AXES:
        return False
    past, new = inputs[0].shape, inputs[1].shape
    if len(past) != _CACHE_AXES or len(new) != _CACHE_AXES or not past[_TOKENS]:
        return False
    grows = past[_TOKENS] + new[_TOKENS] == outputs[0].shape[_TOKENS]
    same = past[:_TOKENS] == new[:_TOKENS] and past[-1] == new[-1]
    # No operator of this forward produces the cache: the one producer is that of the new tokens.
    producers = graph(tree).writers.get(node, ())
    return grows and same and len(producers) == 1 and _is_attended(tree, node)


def _is_attended(tree: Tree, node: int) -> bool:
    """Return whether a matmul or an attention consumes the result, directly or through views."""
    edges, pending, seen = graph(tree), [node], set[int]()
    while pending and len(seen) < 64:
        for reader in edges.readers.get(pending.pop(), ()):
            kind = op_type(tree.nodes[reader])
            if kind in ("matmul", "attention"):
                return True
            if kind in ("layout", "elementwise") and reader not in seen:
                seen.add(reader)
                pending.append(reader)
    return False
