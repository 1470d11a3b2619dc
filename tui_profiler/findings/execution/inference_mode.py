"""``inference-mode``: a forward that autograd records, or whose operator overhead it adds to.

Under ``no_grad`` autograd still tracks versions and views of every tensor, which ``inference_mode``
does not. Source: pytorch.org/docs/stable/notes/autograd.html#inference-mode.
"""

from tui_profiler.figures.units import duration, size
from tui_profiler.findings.evidence import quantities
from tui_profiler.findings.evidence.affected_operators import call_seconds
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check
from tui_profiler.findings.evidence.memory import peak_of
from tui_profiler.findings.evidence.time_share import (
    NO_CALL_TIME,
    NO_COUNT,
    NO_TIME,
    operators_run,
    share_of,
)
from tui_profiler.messages import Unknown, known
from tui_profiler.queries.time.modes import shown_settings
from tui_profiler.queries.time.node_seconds import unwaited_seconds
from tui_profiler.session import Session, Tree

APPLIES_ABOVE = 0.05
"""Share of operator overhead in a forward."""
_FEWER_OR_LARGER = (0.5, 2.0)
"""Of what was measured of an operator with one input: views and constants cost less, operators with
more inputs and outputs more."""


@check(
    "inference-mode",
    holds_in="inference",
    reads=(quantities.TREE,),
    uses=(
        quantities.TIMES,
        quantities.OPERATOR_ROOF,
        quantities.KERNELS,
        quantities.REAL,
        quantities.PEAK,
    ),
)
def inference_mode(session: Session) -> Finding | Unknown | None:
    """Find a model in eval mode that autograd records, or that has high operator overhead."""
    tree, model = session.tree, session.model
    if tree is None or not len(tree) or not tree.has_forward or model is None or model.training:
        return None
    if any(one.autograd == "inference_mode" for one in shown_settings(session)):
        return None
    is_recorded = any(tensor.grad for tensor in tree.nodes[0].outputs)
    whole = unwaited_seconds(session, 0)
    call = call_seconds(session.ceilings)
    calls = operators_run(session, tree)
    if not is_recorded and (call is None or calls is None or whole is None):
        return NO_TIME if whole is None else NO_CALL_TIME if call is None else NO_COUNT
    is_overhead = (
        call is not None
        and calls is not None
        and whole is not None
        and share_of(calls * call, whole) >= APPLIES_ABOVE
    )
    if not is_recorded and not is_overhead:
        return None
    kernels = session.ceilings.kernels if session.ceilings is not None else None
    more = None
    if kernels is not None:
        more = known(kernels.autograd_seconds if is_recorded else kernels.no_grad_seconds)
    gain = _gain(calls, more, whole)
    return Finding(
        kind="inference-mode",
        title="run under torch.inference_mode()",
        why=(
            "Autograd keeps every activation until the output is freed; inference needs none."
            if is_recorded
            else "Autograd tracks versions and views in every operator, which inference does not"
            " need. Outputs are bit-identical."
        ),
        nodes=(0,),
        evidence=(
            Evidence("outputs recorded by autograd", float(is_recorded), "count", "measured"),
            Evidence(
                "operators per forward", NO_COUNT if calls is None else calls, "count", "derived"
            ),
            *(
                (Evidence("minimum overhead per operator", call, "s", "measured"),)
                if call is not None
                else ()
            ),
        ),
        gains=(gain, *(_memory(tree) if is_recorded else ())),
    )


def _gain(calls: int | None, more: float | None, whole: float | None) -> Gain:
    formula = "operators × what each takes longer than in inference mode"
    if calls is None:
        return Gain("time", NO_COUNT, formula)
    if more is None or whole is None:
        return Gain("time", NO_CALL_TIME, formula)
    saved = calls * more
    low, high = (share_of(saved * times, whole) for times in _FEWER_OR_LARGER)
    text = (
        f"{calls:,} operators take {duration(saved)} longer than in inference mode, of"
        f" {duration(whole)}; half or twice as much, by their inputs"
    )
    return Gain("time", share_of(saved, whole), text, "estimated", low=low, high=high)


def _memory(tree: Tree) -> tuple[Gain, ...]:
    """Return the gain of freeing activations that autograd keeps."""
    whole = peak_of(tree)
    live = known(tree.done.peak_memory.activations) if tree.done is not None else None
    if whole is None or live is None:
        return ()
    kept = tree.costs[0].output_bytes
    formula = (
        f"{size(kept)} are written per forward and kept;"
        f" without autograd {size(live)} are live at the peak"
    )
    return (Gain("memory", share_of(kept - live, whole + kept - live), formula, "estimated", True),)
