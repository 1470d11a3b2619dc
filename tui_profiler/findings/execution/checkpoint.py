"""``checkpoint``: activations that could be computed again, so that the peak of a step is lower."""

from tui_profiler.figures.units import duration, size
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check, counted
from tui_profiler.findings.evidence.time_share import share_of
from tui_profiler.findings.evidence.training_step import recorded_step
from tui_profiler.messages import Checkpointing, known
from tui_profiler.queries.time.modes import runs_own_steps
from tui_profiler.queries.training import paper
from tui_profiler.session import Session

PEAK_SHARE = 0.1
"""Of the peak of a step, that it saves."""


@check("checkpoint", holds_in="training")
def checkpoint(session: Session) -> Finding | None:
    """Find the modules whose checkpointing lowers the peak most."""
    found, whole = paper.best_checkpointing(session), known(paper.peak_bytes(session))
    if not found or not whole:
        return None
    best = found[0]
    share = share_of(whole - best.peak, whole)
    if share < PEAK_SHARE:
        return None
    is_own = runs_own_steps(session)
    formula = f"a peak of {size(best.peak)} instead of {size(whole)}, on paper"
    return Finding(
        kind="checkpoint",
        title=f"checkpoint {counted(len(best.nodes), 'module')}, if memory is short",
        why=(
            "They keep only their inputs, and run their forward again in the backward: the step"
            " takes longer, and gradients stay the same."
        ),
        nodes=best.nodes,
        evidence=(
            Evidence(
                "activations no longer saved for the backward", best.saved_bytes, "B", "derived"
            ),
            Evidence("recomputed FLOPs per pass, at most", best.flops, "count", "derived"),
            *_again(session, best),
        ),
        gains=(Gain("memory", share, formula, "derived"),),
        trial="checkpoint" if is_own else None,
        why_no_trial="" if is_own else "the model is the program's, which a trial does not run",
        is_of_step=True,
    )


def _again(session: Session, best: Checkpointing) -> tuple[Evidence, ...]:
    """Return the time of their forward, which each step then has once more."""
    step, training = recorded_step(session), session.training
    if step is None or training is None:
        return ()
    times = [training.of(node) for node in best.nodes]
    seconds = sum(one.forward for one in times if one is not None)
    whole = known(step.seconds) or 0.0
    what = f"one more forward of these modules per step of {duration(whole)}"
    return (Evidence(what, seconds, "s", "derived"),) if all(times) else ()
