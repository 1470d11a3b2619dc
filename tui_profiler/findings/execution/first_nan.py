"""``first-nan``: a NaN in activations or gradients of a program that trains."""

from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check
from tui_profiler.messages import Unknown
from tui_profiler.queries.training.values import first_nan as seen
from tui_profiler.queries.training.values import nan_words
from tui_profiler.session import Session

_WHY: dict[str, str] = {
    "input": "It is in the input of the model: in the data, or made by preprocessing.",
    "activation": "No child module returned one before: it comes from the module's own operators or"
    " parameters.",
    "gradient": "Gradients later in the model have none: it comes from the backward of what reads"
    " this output, or from the loss.",
    "parameter gradient": "Gradients of activations have none: it comes from computing this"
    " gradient, from summing it over ranks, or from unscaling or clipping.",
}


@check("first-nan", holds_in="both")
def first_nan(session: Session) -> Finding | None:
    """Find the module and the step in which a NaN was seen first."""
    found = seen(session)
    if found is None:
        return None
    return Finding(
        kind="first-nan",
        title=nan_words(session),
        why=f"{_WHY[found.kind]} Only some steps are read: it may be older than its step.",
        nodes=(found.node,),
        evidence=(
            Evidence("share of its elements", found.share, "share", "measured"),
            Evidence("step", float(found.step), "count", "measured"),
        ),
        gains=(
            Gain("time", Unknown("a NaN is an error, not a cost"), "nothing is saved", "measured"),
        ),
        why_no_trial="its cause is in the program, which a trial does not run",
    )
