"""``remove-dropout-identity``: modules that give back what they get."""

from __future__ import annotations

from tui_profiler.findings.evidence.figure_text import counted
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check
from tui_profiler.findings.evidence.time_share import is_negligible, slowest_first, spent
from tui_profiler.messages import Unknown
from tui_profiler.session import Session

_TYPES = ("Dropout", "DropPath", "StochasticDepth", "FeatureAlphaDropout", "AlphaDropout")


@check("remove-dropout-identity", holds_in="inference")
def remove_dropout_identity(session: Session) -> Finding | None:
    """Find dropout and identity modules that a forward in evaluation calls.

    A dropout that does something (in training) is none of them: it calls an operator.
    """
    tree = session.tree
    if tree is None:
        return None
    nodes = tuple(
        index
        for index, node in enumerate(tree.nodes)
        if node.kind == "module"
        and node.calls
        and (node.type.startswith(_TYPES) or node.type == "Identity")
        and tree.costs[index].ops == 0
    )
    calls = sum(tree.nodes[node].calls for node in nodes)
    # On paper they cost nothing: only the module clock sees what calling them takes.
    found = spent(session, nodes)
    if not nodes or is_negligible(found):
        return None
    evidence = [Evidence("no-op calls per forward", calls, "count", "derived")]
    if isinstance(found, Unknown):
        gain = Gain("time", found, "the modules' share of a forward")
    else:
        gain = found.gain(f"calling them takes {found.text}, which is saved")
        evidence.append(found.evidence("time of those calls"))
    return Finding(
        kind="remove-dropout-identity",
        title=f"remove {counted(len(nodes), 'no-op module')}",
        why=(
            "In eval mode, Dropout and Identity return their input; what they cost is the Python"
            " call of the module. Outputs are bit-identical."
        ),
        nodes=slowest_first(session, nodes),
        evidence=tuple(evidence),
        gains=(gain,),
        trial="remove-dropout-identity",
    )
