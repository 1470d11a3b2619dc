"""Work that is an upper bound, because its size depends on the data, decides no class alone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.small_model import CEILINGS, CONV, DONE, FC, ROOT, TRACED, folded, tick
from tui_profiler.messages import Message, TraceDone
from tui_profiler.queries.cost.bound import BY_DATA, UNEXPLAINED_BELOW, bound, why_not_decided
from tui_profiler.queries.cost.roofline import node_roofline, parts, reached
from tui_profiler.queries.hardware.data_sheets import data_sheet
from tui_profiler.queries.hardware.on_device import LeastTime, least_time
from tui_profiler.session import Session

FAST_MEMORY = replace(CEILINGS, bytes_per_second=1e12, op_seconds=1e-9)


def by_data(message: Message) -> Message:
    """Have the convolution answer with a bound: its work is at most what was traced."""
    return replace(DONE, bounded=("aten::convolution",)) if type(message) is TraceDone else message


def session(seconds: float, *, is_bounded: bool = True) -> Session:
    """Return one in which the convolution takes so long; 13,824 FLOP at 10 GFLOP/s are 1.38 µs."""
    told = tuple(by_data(message) if is_bounded else message for message in TRACED)
    return folded((*told, FAST_MEMORY, tick({ROOT: (3e-6, 1e-6), CONV: (seconds, seconds)})))


def test_it_has_no_measured_class_and_no_share_of_a_roof_and_says_why() -> None:
    sure, at_most = (bound(session(2e-6, is_bounded=each), CONV) for each in (False, True))
    assert sure is not None
    assert at_most is not None
    assert (sure.kind, sure.measured, sure.compute_share) == (
        "compute",
        True,
        pytest.approx(0.691, rel=1e-3),
    )
    assert (at_most.measured, at_most.compute_share) == (False, None)
    assert why_not_decided(session(2e-6), CONV) == BY_DATA
    found = parts(_tree(session(2e-6)), FAST_MEMORY)
    row = node_roofline(session(2e-6), found, reached(session(2e-6), found), CONV)
    assert (row.share, row.gain, row.why) == (None, None, BY_DATA)
    whole = node_roofline(session(2e-6), found, reached(session(2e-6), found), ROOT)
    assert (whole.roof, whole.gain) == (None, None)


def test_far_above_what_it_takes_at_most_it_is_unexplained() -> None:
    longest = 1.3824e-6 / UNEXPLAINED_BELOW
    found = bound(session(1.1 * longest), CONV)
    assert found is not None
    assert (found.kind, found.measured) == ("unexplained", True)
    assert (found.compute_share, found.flops_per_second) == (None, None)


def test_other_modules_keep_their_class() -> None:
    said = (*map(by_data, TRACED), FAST_MEMORY, tick({FC: (0.6e-6, 0.6e-6)}))
    found = bound(folded(said), FC)
    assert found is not None
    assert (found.kind, found.measured) == ("compute", True)


def test_it_has_no_minimum_time_on_a_device() -> None:
    sheet = data_sheet("V100-SXM2")
    assert sheet is not None
    sure, at_most = (
        least_time(_tree(session(2e-6, is_bounded=each)), CONV, sheet) for each in (False, True)
    )
    assert isinstance(sure, LeastTime)
    assert isinstance(at_most, LeastTime)
    assert sure.seconds > 0
    assert (sure.by_data, at_most.by_data) == (0, 1)
    assert at_most.seconds == 0
    whole = least_time(_tree(session(2e-6)), ROOT, sheet)
    assert isinstance(whole, LeastTime)
    assert whole.seconds > 0
    assert whole.by_data >= 1


def _tree(found: Session):
    assert found.tree is not None
    return found.tree
