"""A training step on paper: its cost beside the forward, and who is alive at its peak."""

from tui_profiler.figures.units import UNAVAILABLE, duration, quantity, share, size, thousands
from tui_profiler.messages import PassCost, TrainingCost, Unknown, known
from tui_profiler.queries.cost.exactness import of_count, of_flops
from tui_profiler.queries.training import step_costs
from tui_profiler.reports.document import Grid, Part, Section, figures, names
from tui_profiler.reports.text.sections import figure_text
from tui_profiler.reports.text.sections.step import verdict_words
from tui_profiler.session import Bounded, Session, Tree

_MOST_NAMED = 4
_USES = {
    "gradient": "gradient",
    "saved": "saved for backward",
    "recomputed": "recomputed",
    "temporary": "temporary",
}
_OUTSIDE = "loss or optimizer"
HELD = "learning rate 0: weights do not change"


def training_sections(session: Session, tree: Tree) -> tuple[Section, ...]:
    """Return the sections of a training step; none where none was recorded."""
    if session.training_cost is None:
        return ()
    cost = session.training_cost.cost
    if cost.why:
        return (Section("training step", "on paper", figure_text.nothing(cost.why)),)
    parts = figure_text.facts(
        *_how(cost), *_work(session, tree, cost), *_utilisation(session), *_unknown(cost)
    )
    found = [Section("training step", "on paper, of one pass", (parts,))]
    if session.training_memory is not None:
        found.append(_memory(session, tree))
    return tuple(found)


def step_facts(session: Session) -> tuple[tuple[str, str], ...]:
    """Return time, FLOPs and peak of a step as a row of a summary; none where none was seen."""
    if session.training_cost is None or session.training_cost.cost.why:
        seconds = known(step_costs.step_seconds(session))
        said = f"{duration(seconds)}; {verdict_words(session)}" if seconds else ""
        return (("training step", said),)
    flops, seconds = step_costs.step_flops(session), known(step_costs.step_seconds(session))
    depends = session.tree.bounded.get(0) if session.tree is not None else None
    mark = figure_text.words(of_count(depends))
    peak = known(step_costs.peak_bytes(session))
    told = (
        duration(seconds) if seconds else "",
        "" if isinstance(flops, Unknown) else mark + quantity(flops.model, "FLOP"),
        f"peak memory {mark}{size(peak)}, predicted" if peak else "",
    )
    return (("training step", ", ".join(filter(None, told))),)


def _how(cost: TrainingCost) -> list[tuple[str, str]]:
    spec = cost.spec
    if spec is None:
        return [("loss", "of the program")]
    passes = f"{thousands(spec.accumulate)} passes per step" if spec.accumulate > 1 else ""
    return [
        ("loss", cost.loss),
        ("optimizer", ", ".join(filter(None, (cost.optimizer, "" if spec.update else HELD)))),
        ("accumulation", passes),
        ("autocast", spec.autocast),
        ("checkpointed", spec.checkpoint),
    ]


def _work(session: Session, tree: Tree, cost: TrainingCost) -> list[tuple[str, str]]:
    forward = tree.costs[0]
    ratio = f", {cost.backward.macs / forward.macs:.2f}× forward" if forward.macs else ""
    step, depends = cost.optimizer_step, tree.bounded.get(0)
    mark = figure_text.words(of_count(depends))
    flops = step_costs.step_flops(session)
    return [
        ("forward", figure_text.work(tree)),
        ("backward", f"{_cost(cost.backward, depends)}{ratio}"),
        ("recomputed", _cost(cost.recomputed, depends) if cost.recomputed.macs else ""),
        ("of the loss", _cost(cost.loss_forward, depends) if cost.loss_forward.ops else ""),
        ("elsewhere", _cost(cost.elsewhere, depends) if cost.elsewhere.ops else ""),
        ("optimizer step", _cost(step) if step is not None else ""),
        (
            "model FLOPs",
            "" if isinstance(flops, Unknown) else f"{mark}{quantity(flops.model, 'FLOP')} per step",
        ),
    ]


def _cost(cost: PassCost, depends: Bounded | None = None) -> str:
    least = figure_text.words(of_flops(depends, is_at_least=cost.uncosted > 0))
    mark = figure_text.words(of_count(depends))
    macs = f"{mark}{quantity(cost.macs, 'MAC')}, " if cost.macs else ""
    flops = f"{least}{quantity(cost.flops, 'FLOP')}"
    if not cost.flops and cost.uncosted:
        flops = f"{UNAVAILABLE} FLOP"
    return f"{macs}{flops}, {mark}{size(step_costs.bytes_of(cost))}"


def _utilisation(session: Session) -> list[tuple[str, str]]:
    attained = step_costs.utilisation(session)
    if session.training is None or (mfu := known(attained.mfu)) is None:
        return []
    seconds = known(session.training.step.seconds) or 0.0
    roof = f"{quantity(known(attained.roof) or 0.0, 'FLOP/s')}{' ' * bool(attained.dtype)}"
    of = f"of {roof}{attained.dtype}, {duration(seconds)} per step"
    return [("MFU", f"{share(mfu)} {of}"), ("HFU", share(known(attained.hfu) or 0.0))]


def _unknown(cost: TrainingCost) -> list[tuple[str, str]]:
    more = len(cost.uncosted) - _MOST_NAMED
    listed = ", ".join(cost.uncosted[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return [("no formula", listed)]


def _memory(session: Session, tree: Tree) -> Section:
    assert session.training_memory is not None
    memory = session.training_memory.memory
    whole = step_costs.peak_bytes(session)
    reading = of_flops(tree.bounded.get(0), is_at_least=isinstance(whole, Unknown))
    peak = memory.peak if isinstance(whole, Unknown) else whole
    least = f"{figure_text.words(reading)}{size(peak)}"
    at = tree.nodes[memory.at].path if 0 <= memory.at < len(tree) else ""
    forward, backward, optimizer = memory.phase_peaks
    parts: list[Part] = [
        figure_text.facts(
            ("peak", f"{least}, in the {memory.phase}"),
            ("at", at),
            ("parameters", size(memory.parameters)),
            ("gradients", size(memory.gradients)),
            ("optimizer state", size(memory.optimizer_state)),
            ("saved", f"{size(memory.saved)} of activations, for the backward"),
            ("buffers", size(memory.buffers)),
            ("inputs", size(memory.inputs)),
            ("temporaries", f"{size(memory.uses[3])} at the peak"),
            ("recomputed", f"{size(memory.uses[2])} at the peak" if memory.uses[2] else ""),
            ("workspace", figure_text.figure(memory.workspace, size)),
            ("forward peak", size(forward)),
            ("backward peak", size(backward)),
            ("optimizer peak", size(optimizer)),
        )
    ]
    if memory.alive:
        parts.append(_alive(session, tree))
    if step_costs.best_checkpointing(session):
        parts.append(_checkpointing(session, tree))
    return Section("memory of a training step", "predicted, from lifetimes", tuple(parts))


def _alive(session: Session, tree: Tree) -> Grid:
    assert session.training_memory is not None
    memory = session.training_memory.memory
    rows = tuple(
        (
            tree.nodes[one.node].path if 0 <= one.node < len(tree) else _OUTSIDE,
            _USES[one.use],
            size(one.bytes),
            figure_text.percent(one.bytes / memory.peak if memory.peak else None),
        )
        for one in memory.alive
    )
    columns = (names("alive at the peak, made by"), names("use"), *figures("bytes", "% peak"))
    return Grid(columns, rows)


def _checkpointing(session: Session, tree: Tree) -> Grid:
    found = step_costs.best_checkpointing(session)
    rows = tuple(
        (
            _group(tree, one.nodes),
            size(one.saved_bytes),
            size(one.peak),
            quantity(one.flops, "FLOP"),
        )
        for one in found[: figure_text.MOST_ROWS]
    )
    columns = (names("checkpointing"), *figures("saved", "peak then", "recomputed"))
    return Grid(columns, rows, left_out=max(len(found) - figure_text.MOST_ROWS, 0))


def _group(tree: Tree, nodes: tuple[int, ...]) -> str:
    first, last = (tree.nodes[node].path for node in (nodes[0], nodes[-1]))
    return first if len(nodes) == 1 else f"{first} to {last} ({len(nodes)} blocks)"
