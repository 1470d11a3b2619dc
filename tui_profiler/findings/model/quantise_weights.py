"""``quantise-weights``: tensors whose values need fewer bits than they have.

The width of each is the narrowest storage that keeps the signal 30 dB above the noise of rounding,
as the look at its values found it.
"""

from __future__ import annotations

from tui_profiler.figures.units import size
from tui_profiler.findings.evidence.figure_text import counted
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check
from tui_profiler.findings.evidence.parameter_values import owners, trained_values
from tui_profiler.findings.evidence.time_share import LEAST_SHARE, share_of
from tui_profiler.messages import Unknown, known
from tui_profiler.queries.cost.totals import peak_bytes
from tui_profiler.session import Session


@check("quantise-weights", holds_in="inference")
def quantise_weights(session: Session) -> Finding | None:
    """Find parameters that could be stored narrower, of values that were looked at."""
    tree = session.tree
    every = [(one, one.width) for one in trained_values(session) if one.width is not None]
    narrower = [(one, width) for one, width in every if width.saved_bytes > 0]
    narrower.sort(key=lambda pair: -pair[1].saved_bytes)
    saved = sum(width.saved_bytes for _, width in narrower)
    held = sum(one.bytes for one in trained_values(session))
    if tree is None or not len(tree) or share_of(saved, held) < LEAST_SHARE:
        return None
    done = tree.done
    whole = known(peak_bytes(done.peak_memory)) if done is not None and tree.has_forward else None
    formula = f"{size(saved)} of {size(held)} of parameters are not needed"
    gain = (
        Gain("memory", share_of(saved, whole), f"{formula}, of a peak of {size(whole)}", "derived")
        if whole
        else Gain("memory", Unknown("there is no forward with a peak"), formula)
    )
    worst = max(narrower, key=lambda pair: pair[1].error)
    return Finding(
        kind="quantise-weights",
        title=f"fewer bits for {counted(len(narrower), 'parameter')}",
        why=(
            "Rounded to fewer bits these tensors keep their values 30 dB above the noise. How much"
            " the output bears is measured by the sensitivity of each layer, on the weights screen."
        ),
        nodes=owners(session, tuple(one for one, _ in narrower)),
        evidence=(
            Evidence("parameters that need fewer bits", len(narrower), "count", "measured"),
            Evidence("bytes that this saves", saved, "B", "derived"),
            Evidence(
                f"largest relative error, of {worst[0].name}", worst[1].error, "share", "measured"
            ),
        ),
        gains=(gain,),
        why_no_trial="narrow weights need kernels of their own: int8-dynamic tries linear layers",
    )
