"""``inference-mode``: a forward whose results autograd keeps the way back of, or keeps count for.

Under ``no_grad`` autograd still counts versions and follows views of every tensor, which
``inference_mode`` does not. Source: pytorch.org/docs/stable/notes/autograd.html#inference-mode.
"""

from __future__ import annotations

from tui_profiler.figures.units import duration, size
from tui_profiler.findings.evidence.affected_operators import call_seconds
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check
from tui_profiler.findings.evidence.time_share import share_of
from tui_profiler.messages import Unknown, known
from tui_profiler.queries.cost.totals import peak_bytes
from tui_profiler.queries.time.modes import shown_settings
from tui_profiler.queries.time.node_seconds import root_seconds
from tui_profiler.session import Session, Tree

APPLIES_ABOVE = 0.05
"""Of a forward: operators' calls take so much."""


@check("inference-mode", holds_in="inference")
def inference_mode(session: Session) -> Finding | None:
    """Find a model in evaluation that autograd follows, or whose calls are what takes its time."""
    tree, model = session.tree, session.model
    if tree is None or not len(tree) or not tree.has_forward or model is None or model.training:
        return None
    if any(one.autograd == "inference_mode" for one in shown_settings(session)):
        return None
    follows = any(tensor.grad for tensor in tree.nodes[0].outputs)
    whole = root_seconds(session)
    call = call_seconds(session.ceilings)
    calls = tree.costs[0].ops
    share = share_of(calls * call, whole) if call is not None and whole else None
    if not follows and (share is None or share < APPLIES_ABOVE):
        return None
    if share is None or call is None or whole is None:
        gain = Gain("time", Unknown("what calling an operator takes is not known"), "calls of them")
    else:
        formula = (
            f"calling {calls:,} operators takes {duration(calls * call)} of {duration(whole)} in"
            " all; what autograd has of it is not measured"
        )
        gain = Gain("time", share, formula, "derived", is_bound=True)
    return Finding(
        kind="inference-mode",
        title="run under torch.inference_mode()",
        why=(
            "Autograd keeps every activation until the output is gone: nothing needs a gradient."
            if follows
            else "Each operator counts versions and follows views for gradients that no one asks"
            " for. The output stays the same to the bit."
        ),
        nodes=(0,),
        evidence=(
            Evidence("outputs recorded by autograd", float(follows), "count", "measured"),
            Evidence("operators per forward", calls, "count", "derived"),
            *(
                (Evidence("minimum time of one", call, "s", "measured"),)
                if call is not None
                else ()
            ),
        ),
        gains=(gain, *(_memory(tree) if follows else ())),
        trial="inference-mode",
    )


def _memory(tree: Tree) -> tuple[Gain, ...]:
    """Return what keeping every operator's output adds to the peak."""
    peak = tree.done.peak_memory if tree.done is not None else None
    whole = known(peak_bytes(peak)) if peak is not None else None
    live = known(peak.activations) if peak is not None else None
    if whole is None or live is None:
        return ()
    kept = tree.costs[0].output_bytes
    formula = f"{size(kept)} are written in a forward and kept, {size(live)} need be alive at once"
    return (Gain("memory", share_of(kept - live, whole + kept - live), formula, "estimated", True),)
