"""``static-kv-cache``: a cache that is written in place, not joined anew with every token.

A language model that appends to its keys and values copies all that it has read so far, in every
layer, for each new token. Source: pytorch.org/blog/accelerating-generative-ai-2, 2023.
"""

from __future__ import annotations

from tui_profiler.findings.evidence.figure_text import counted
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check
from tui_profiler.findings.evidence.graph import graph, operators
from tui_profiler.findings.evidence.time_share import is_negligible, slowest_first, spent
from tui_profiler.messages import Unknown, known
from tui_profiler.queries.cost.breakdown import op_type
from tui_profiler.session import Session, Tree

_JOINS = frozenset({"aten::cat"})
_CACHE_AXES = 4
"""(batch, heads, tokens, width of a head)."""
_TOKENS = 2


@check("static-kv-cache", holds_in="inference")
def static_kv_cache(session: Session) -> Finding | None:
    """Find tensors that no operator of this forward made, joined with one that was, for attention.

    The nodes are the operators that join.
    """
    tree = session.tree
    if tree is None:
        return None
    joins = tuple(node for node in operators(tree, _JOINS) if _appends(tree, node))
    found = spent(session, joins)
    if not joins or is_negligible(found):
        return None
    copied = sum(tree.costs[node].output_bytes for node in joins)
    kept = tree.done.peak_memory.kv_cache if tree.done is not None else None
    evidence = [
        Evidence("concatenations of the KV cache", len(joins), "count", "derived"),
        Evidence("cache copied in each forward", copied, "B", "derived"),
    ]
    if kept is not None and known(kept) is not None:
        evidence.append(Evidence("what the model keeps of its tokens", kept, "B", "derived"))
    if isinstance(found, Unknown):
        gain = Gain("time", found, "the share of a forward that joining takes")
    else:
        formula = f"joining takes {found.text}; in place only the new tokens are written"
        gain = found.gain(formula)
        evidence.append(found.evidence("their time per forward"))
    return Finding(
        kind="static-kv-cache",
        title=f"write {counted(len(joins), 'cache')} in place",
        why=(
            "Keys and values of all tokens so far are copied to add one more, in each layer. A"
            " cache of a fixed length is written in place, and its shapes stay for a compiler."
        ),
        nodes=slowest_first(session, joins),
        evidence=tuple(evidence),
        gains=(gain,),
        trial="static-kv-cache",
    )


def _appends(tree: Tree, node: int) -> bool:
    """Tell whether a join puts a few tokens at the end of many that came from before."""
    inputs, outputs = tree.nodes[node].inputs, tree.nodes[node].outputs
    if len(inputs) != 2 or len(outputs) != 1 or len(outputs[0].shape) != _CACHE_AXES:
        return False
    past, new = inputs[0].shape, inputs[1].shape
    if len(past) != _CACHE_AXES or len(new) != _CACHE_AXES or not past[_TOKENS]:
        return False
    grows = past[_TOKENS] + new[_TOKENS] == outputs[0].shape[_TOKENS]
    same = past[:_TOKENS] == new[:_TOKENS] and past[-1] == new[-1]
    # The cache is no operator's of this forward: one writer, of the new tokens.
    edges = graph(tree)
    return grows and same and len(edges.writers.get(node, ())) == 1 and _is_attended(tree, node)


def _is_attended(tree: Tree, node: int) -> bool:
    """Tell whether a product or an attention reads what was joined, views between them aside."""
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
