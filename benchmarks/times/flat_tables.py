"""Compare the flat table of operators with ``torch.profiler``'s ``key_averages()``.

    python -m benchmarks.times.flat_tables [MODEL ...] [--forwards N] [--threads N]

Both are of one process and one model. *same*: of the very same forwards, ours made from the events
of the recordings that *theirs* come from, so that a difference is one of method. *apart*: of other
forwards in turn, one in an operator window of ours, then one in a recording of ``torch.profiler``,
as they are for a user. *theirs apart*: every second of those recordings against the others, which
is what two runs of ``key_averages()`` differ by on this machine.

*ours* are total and self time of ``flat_table(session, "operator")``, *theirs* the means of
``cpu_time_total`` and ``self_cpu_time_total``. Interrupted forwards (longer than 1.5 times the
median) are left out: of *same* those that ours leaves out. Each forward follows one that is in no
figure: in the first one of a recording small operators take up to twice as long.

Rows are the operators that take at least 1 % of the forward themselves. Where an operator runs
inside one of its own name ``key_averages()`` has its time twice in the total, the flat table once.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, median
from typing import NamedTuple

os.environ.setdefault("KINETO_LOG_LEVEL", "99")

import torch
import torchvision
from torch import nn
from torch.autograd.profiler_util import EventList
from torch.profiler import ProfilerActivity, profile

import tui_profiler
from benchmarks.times.against_profiler import in_window
from benchmarks.times.self_timing import watched
from tui_profiler.messages import known
from tui_profiler.messages.live import OPERATOR_WINDOWS
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.measure.operators.operators import (
    OUTLIER_TIMES,
    OperatorClock,
    uninterrupted,
)
from tui_profiler.probe.torch_compat import kineto
from tui_profiler.queries.cost.flat import flat_table
from tui_profiler.session import Session, apply

MODELS = ("resnet18", "mobilenet_v3_small", "vit_b_16")
LEAST_SHARE = 0.01
"""Of the forward, that an operator has to take to be compared."""
TOLERANCE = 0.03
WARM_FORWARD = "warm forward"
HEADING = (
    f"{'operator':34}{'calls':>11}{'self ms':>10}{'%':>6}"
    f"{'same: total':>13}{'self':>8}{'apart: total':>14}{'self':>8}{'theirs apart':>14}"
)


class Times(NamedTuple):
    """All operators of one name in a forward; seconds."""

    total: float
    own: float
    calls: int


ByName = dict[str, Times]


class Compared(NamedTuple):
    """One operator name."""

    name: str
    theirs: Times
    share: float
    """Of the forward, by ``key_averages()``."""
    same: Times
    """Ours over theirs, less one."""
    apart: Times
    theirs_apart: float
    """Self time of every second recording over that of the others, less one."""


def _over(one: Times | None, other: Times | None) -> Times:
    """Return one over the other, less one; NaN where one of them is missing."""
    if one is None or other is None:
        return Times(float("nan"), float("nan"), 0)
    return Times(one.total / other.total - 1, one.own / other.own - 1, one.calls)


def compared(model: nn.Module, image: torch.Tensor, forwards: int) -> list[Compared]:
    """Return the operators that take at least a hundredth of the forward, the largest first."""
    session = tui_profiler.profile(model, image, seconds=1.0).session
    assert session.tree is not None
    same, apart = (OperatorClock(session.tree.nodes, model) for _ in range(2))
    theirs: list[ByName] = []
    wholes: list[float] = []

    def run() -> None:
        model(image)

    with torch.no_grad(), watched(model) as modules:
        for turn in range(1 + forwards):
            forward, seen = in_window(modules, run)
            found, whole = _key_averages(modules, run, same if turn else None)
            if turn:  # The first ones warm up.
                apart.add(forward, seen)
                theirs.append(found)
                wholes.append(whole)
    most = OUTLIER_TIMES * median(wholes)
    usual = [one for one, whole in zip(theirs, wholes, strict=True) if whole <= most]
    whole = fmean(whole for whole in wholes if whole <= most)
    of_same, of_apart = (_ours(session, clock, wholes) for clock in (same, apart))
    windows = [(one, sum(one.own.values())) for one in same._joined]
    kept = {id(one) for one in uninterrupted(windows)}
    both = zip(theirs[-len(same._joined) :], same._joined, strict=True)
    of_kept = _means(one for one, ours in both if id(ours) in kept)
    means, *halves = _means(usual), _means(usual[::2]), _means(usual[1::2])
    rows = [
        Compared(
            name,
            times,
            times.own / whole,
            same=_over(of_same.get(name), of_kept.get(name)),
            apart=_over(of_apart.get(name), times),
            theirs_apart=_over(halves[0].get(name), halves[1].get(name)).own,
        )
        for name, times in means.items()
        if times.own >= LEAST_SHARE * whole
    ]
    return sorted(rows, key=lambda row: -row.theirs.own)


def _ours(session: Session, clock: OperatorClock, wholes: Sequence[float]) -> ByName:
    session = apply(session, clock.message(session.heard_at, median(wholes)))
    return {
        row.name: Times(total, own, row.calls)
        for row in flat_table(session, "operator").rows
        if (total := known(row.total)) is not None and (own := known(row.own)) is not None
    }


def _means(recordings: Iterable[ByName]) -> ByName:
    found: dict[str, list[Times]] = {}
    for one in recordings:
        for name, times in one.items():
            found.setdefault(name, []).append(times)
    return {
        name: Times(
            fmean(one.total for one in each),
            fmean(one.own for one in each),
            max(one.calls for one in each),
        )
        for name, each in found.items()
    }


def _key_averages(
    modules: ModuleClock, run: Callable[[], None], same: OperatorClock | None
) -> tuple[ByName, float]:
    """Return the times by operator name, and the seconds, both of one forward.

    Its events are handed to ``same``.
    """
    modules.take()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        offset = kineto._clock_offset()
        run()
        with torch.profiler.record_function(WARM_FORWARD):
            run()
    if same is not None:
        same.add(modules.take()[-1], kineto._read(profiler.profiler.kineto_results, offset))
    events = profiler.events()
    assert events is not None
    [warm] = [one.time_range for one in events if one.name == WARM_FORWARD]
    kept = EventList(one for one in events if one.time_range.start >= warm.start)
    kept._tree_built = True  # That of all events.
    averages = {
        one.key: Times(one.cpu_time_total / 1e6, one.self_cpu_time_total / 1e6, one.count)
        for one in kept.key_averages()
    }
    whole = averages.pop(WARM_FORWARD).total
    return {name: times for name, times in averages.items() if "::" in name}, whole


def main() -> None:
    """Print every row, and what is off by more than the tolerance."""
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--forwards", type=int, default=OPERATOR_WINDOWS)
    parser.add_argument("--threads", type=int, default=1)
    typed = parser.parse_args()
    torch.set_num_threads(typed.threads)
    for name in typed.models:
        torch.manual_seed(1)
        model = torchvision.models.get_model(name).eval()
        rows = compared(model, torch.randn(1, 3, 224, 224), typed.forwards)
        print(f"\n{name}: {typed.forwards} forwards each, in turn; {typed.threads} threads")
        print(HEADING)
        for row in rows:
            print(_line(row))
        for what, differences in (
            ("same forwards", [one for row in rows for one in row.same[:2]]),
            ("forwards apart", [one for row in rows for one in row.apart[:2]]),
            ("theirs apart", [row.theirs_apart for row in rows]),
        ):
            off = sum(not abs(one) <= TOLERANCE for one in differences)
            most = max(map(abs, differences), default=0.0)
            print(f"{what}: {off} of {len(differences)} off by over 3 %, at most {most:.2%}")


def _line(row: Compared) -> str:
    calls = f"{row.same.calls} / {row.theirs.calls}"
    figures = f"{row.theirs.own * 1e3:10.3f}{row.share * 100:6.1f}"
    same = f"{row.same.total:+13.2%}{row.same.own:+8.2%}"
    apart = f"{row.apart.total:+14.1%}{row.apart.own:+8.1%}"
    return f"{row.name:34}{calls:>11}{figures}{same}{apart}{row.theirs_apart:+14.1%}"


if __name__ == "__main__":
    main()
