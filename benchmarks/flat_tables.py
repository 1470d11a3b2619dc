"""Compare the flat table of operators with ``torch.profiler``'s ``key_averages()``.

    python -m benchmarks.flat_tables [MODEL ...] [--forwards N]

Both are of one process and one model, but of different forwards, in turn: one in an operator window
of ours, then one in a recording of ``torch.profiler``, so that whatever else the machine does
reaches both alike. *ours* is the total time of ``flat_table(session, "operator")``, *theirs* the
mean of ``cpu_time_total`` over the recordings that were not interrupted (those of at most 1.5 times
the median, as of ours). Both begin with a forward that is in no figure: in the first one of a
recording small operators take up to twice as long.

Rows are the operators that take at least 1 % of the forward by ``key_averages()``. Some cannot be
compared: what a traced operator calls (``aten::_convolution``) is part of that operator and has no
row of ours, nor has what calls a traced operator (``aten::conv2d``); and where an operator is also
called inside of another traced one, ``key_averages()`` adds those calls, the flat table does not.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from statistics import fmean, median
from typing import NamedTuple

os.environ.setdefault("KINETO_LOG_LEVEL", "99")

import torch
import torchvision
from torch import nn
from torch.autograd.profiler_util import EventList
from torch.profiler import ProfilerActivity, profile

import tui_profiler
from benchmarks.against_profiler import in_window
from benchmarks.self_timing import watched
from tui_profiler.messages import known
from tui_profiler.messages.live import OPERATOR_WINDOWS
from tui_profiler.probe.measure.operators.operators import OUTLIER_TIMES, OperatorClock
from tui_profiler.queries.cost.flat import FlatTable, flat_table
from tui_profiler.session import apply

MODELS = ("resnet18", "mobilenet_v3_small", "vit_b_16")
LEAST_SHARE = 0.01
"""Of the forward, that an operator has to take to be compared."""
TOLERANCE = 0.03
WARM_FORWARD = "warm forward"
HEADING = f"{'operator':40}{'calls':>12}{'ours ms':>10}{'theirs ms':>11}{'%':>7}{'difference':>12}"


class Total(NamedTuple):
    """All operators of one name in a forward."""

    seconds: float
    calls: int


class Compared(NamedTuple):
    """One operator name; seconds of a forward, all calls together."""

    name: str
    ours: float | None
    """None where no node has that name."""
    theirs: float
    our_calls: int
    their_calls: int
    share: float
    """Of the forward, by ``key_averages()``."""

    @property
    def difference(self) -> float | None:
        """Ours over theirs, less one; None where they are not of the same calls."""
        if self.ours is None or self.our_calls != self.their_calls:
            return None
        return self.ours / self.theirs - 1


def compared(model: nn.Module, image: torch.Tensor, forwards: int) -> list[Compared]:
    """Return the operators that take at least a hundredth of the forward, the largest first."""
    session = tui_profiler.profile(model, image, seconds=1.0).session
    assert session.tree is not None
    clock = OperatorClock(session.tree.nodes, model)
    theirs: list[dict[str, Total]] = []
    wholes: list[float] = []

    def run() -> None:
        model(image)

    with torch.no_grad():
        for turn in range(1 + forwards):
            with watched(model) as modules:
                forward, seen = in_window(modules, run)
            found, whole = _key_averages(run)
            if turn:  # The first ones warm up.
                clock.add(forward, seen)
                theirs.append(found)
                wholes.append(whole)
    session = apply(session, clock.message(session.heard_at, median(wholes)))
    most = OUTLIER_TIMES * median(wholes)
    theirs = [one for one, whole in zip(theirs, wholes, strict=True) if whole <= most]
    whole = fmean(whole for whole in wholes if whole <= most)
    rows = _by_name(flat_table(session, "operator"))
    found_rows = []
    for name in {name for one in theirs for name in one}:
        seconds = fmean(one[name].seconds for one in theirs if name in one)
        calls = max(one[name].calls for one in theirs if name in one)
        ours = rows.get(name)
        share = seconds / whole
        found_rows.append(
            Compared(
                name,
                ours.seconds if ours is not None else None,
                seconds,
                ours.calls if ours is not None else 0,
                calls,
                share,
            )
        )
    kept = [row for row in found_rows if row.share >= LEAST_SHARE]
    return sorted(kept, key=lambda row: -row.theirs)


def _by_name(table: FlatTable) -> dict[str, Total]:
    return {
        row.name: Total(seconds, row.calls)
        for row in table.rows
        if (seconds := known(row.total)) is not None
    }


def _key_averages(run: Callable[[], None]) -> tuple[dict[str, Total], float]:
    """Return the totals by operator name, and the seconds, both of one forward."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        run()
        with torch.profiler.record_function(WARM_FORWARD):
            run()
    events = profiler.events()
    assert events is not None
    [warm] = [one.time_range for one in events if one.name == WARM_FORWARD]
    kept = EventList(one for one in events if one.time_range.start >= warm.start)
    kept._tree_built = True  # That of all events.
    averages = {one.key: Total(one.cpu_time_total / 1e6, one.count) for one in kept.key_averages()}
    whole = averages.pop(WARM_FORWARD).seconds
    operators = {name: total for name, total in averages.items() if "::" in name}
    return operators, whole


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
        both = [row.difference for row in rows if row.difference is not None]
        off = sum(abs(one) > TOLERANCE for one in both)
        print(f"{len(both)} operators in both, {off} differ by more than {TOLERANCE:.0%}")


def _line(row: Compared) -> str:
    calls = f"{row.our_calls} / {row.their_calls}"
    ours = "–" if row.ours is None else f"{row.ours * 1e3:.3f}"
    off = "–" if row.difference is None else f"{row.difference:+.1%}"
    figures = f"{ours:>10}{row.theirs * 1e3:11.3f}{row.share * 100:7.1f}{off:>12}"
    return f"{row.name:40}{calls:>12}{figures}"


if __name__ == "__main__":
    main()
