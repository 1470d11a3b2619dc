"""Which kind of forwards is followed."""

from __future__ import annotations

from collections.abc import Iterable
from struct import pack

import pytest
import torch
from torch import nn

from tui_profiler.probe.measure.clock.forward import Forward
from tui_profiler.probe.measure.clock.recent_kinds import MOST_NAMES, RecentKinds
from tui_profiler.probe.torch_compat.forward_kind import Kind, kind_of

MODEL = nn.Linear(8, 8).eval()


def of(rows: int, *, model: nn.Module = MODEL) -> Kind:
    with torch.no_grad():
        return kind_of(model, (torch.zeros(rows, 8),), {})


TRACED = of(1)


class Program:
    """Forwards one after another, on a clock of its own."""

    def __init__(self, pause: float = 0.0) -> None:
        self.kinds, self._now, self._pause = RecentKinds(TRACED), 100.0, pause

    def runs(self, batches: Iterable[tuple[int, float]]) -> Kind | None:
        """Run forwards of these rows and seconds; return the kind to follow then."""
        for rows, seconds in batches:
            began = self._now + self._pause
            self._now = began + seconds
            kind = None if rows == 1 else of(rows)
            times = pack("2d", began, self._now)
            self.kinds.add([Forward([MODEL], times, None, as_traced=rows == 1, kind=kind)])
        return self.kinds.to_follow()


def test_what_runs_in_place_of_the_recorded_kind_is_followed() -> None:
    program = Program()

    assert program.runs([(1, 0.01)] * 200) is None
    assert program.runs([(3, 0.03)] * 30) is None
    assert program.runs([(3, 0.03)] * 34) == of(3)


@pytest.mark.parametrize("share", [1, 2, 3])
def test_kinds_in_turn_are_not_followed(share: int) -> None:
    assert Program().runs([(1, 0.01), *[(3, 0.02)] * share] * 100) is None


def test_few_forwards_of_a_kind_are_not_followed() -> None:
    assert Program().runs([(3, 0.01)] * 7) is None
    assert Program().runs([(3, 0.01)] * 8) == of(3)


def test_many_short_forwards_do_not_displace_few_long_ones() -> None:
    # 20 probes of 1 ms between each two forwards of 1 s: the time goes into the recorded kind.
    assert Program().runs([(1, 1.0), *[(3, 0.001)] * 20] * 5) is None


def test_seldom_forwards_are_followed_after_seconds_not_after_many() -> None:
    program = Program(pause=2.0)
    program.runs([(1, 0.01)] * 100)

    assert program.runs([(3, 0.01)] * 8) == of(3)


def test_of_many_kinds_the_most_frequent_is_followed_where_the_recorded_one_is_gone() -> None:
    mixed = [(2, 0.01), (3, 0.01), (4, 0.01), (3, 0.01)]

    assert Program().runs(mixed * 16) == of(3)


def test_lengths_that_never_repeat_are_not_followed() -> None:
    assert Program().runs((rows, 0.01) for rows in range(2, 200)) is None


def test_other_kinds_are_named_by_what_differs_and_counted() -> None:
    program = Program()
    program.runs([(1, 0.01)] * 10)
    program.runs([(3, 0.03)] * 20)
    training = nn.Linear(8, 8).train()
    kind = kind_of(training, (torch.zeros(1, 8),), {})
    program.kinds.add(
        [Forward([MODEL], pack("2d", 200.0, 200.1), None, as_traced=False, kind=kind)]
    )

    threes, trained = program.kinds.others()

    assert (threes.name, threes.forwards) == ("inputs (3, 8)", 20)
    assert threes.share == pytest.approx(0.6 / 0.8)
    assert (trained.name, trained.forwards) == ("training mode, with autograd", 1)


def test_names_are_bounded_and_nothing_is_lost() -> None:
    program = Program()
    program.runs((rows, 0.01) for rows in range(2, 102))

    others = program.kinds.others()

    assert len(others) == MOST_NAMES + 1
    assert sum(one.forwards for one in others) == 100


def test_without_a_recorded_kind_nothing_is_followed_or_counted() -> None:
    kinds = RecentKinds(None)
    kinds.add([Forward([MODEL], pack("2d", 1.0, 2.0), None, as_traced=False)] * 50)

    assert kinds.to_follow() is None
    assert kinds.others() == ()
