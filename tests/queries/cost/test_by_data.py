"""Work that depends on the data decides no class, share of a roof, energy or fit alone."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from tests.small_model import CEILINGS, CONV, DONE, FC, ROOT, TRACED, folded, tick
from tui_profiler.messages import Message, Nodes, RealCost, TraceDone, Unknown
from tui_profiler.queries.cost.bound import (
    BY_DATA,
    BY_VALUE,
    UNEXPLAINED_BELOW,
    bound,
    kinds_of,
    on_paper,
    why_not_decided,
)
from tui_profiler.queries.cost.breakdown import bound_shares
from tui_profiler.queries.cost.energy import PaperEnergy, energy_on_paper
from tui_profiler.queries.cost.roofline import node_roofline, parts, reached
from tui_profiler.queries.hardware.data_sheets import data_sheet
from tui_profiler.queries.hardware.fits import Need, cublas_bytes, devices_needed, fit
from tui_profiler.queries.hardware.on_device import LeastTime, least_time
from tui_profiler.queries.panel.provenance import no_class, why
from tui_profiler.reports.json.report import json_report
from tui_profiler.session import Bounded, Session, apply

SCALAR = "aten::_local_scalar_dense"
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


def test_shares_of_the_flops_are_not_known_where_some_depend_on_the_data() -> None:
    sure, open_ones = (bound_shares(session(2e-6, is_bounded=each)) for each in (False, True))
    assert sum(share.flops_share or 0.0 for share in sure.values()) == pytest.approx(1.0)
    assert [share.flops_share for share in open_ones.values()] == [None] * len(open_ones)
    found = json.loads(json_report(session(2e-6)))["unavailable"]
    assert found["bottlenecks.compute.flops_share"] == BY_DATA


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


def by_value(message: Message) -> Message:
    """Have a value be read at the convolution: what runs from there on is no bound."""
    if type(message) is Nodes:
        nodes = (
            replace(node, name=SCALAR) if node.name == "aten::convolution" else node
            for node in message.nodes
        )
        return replace(message, nodes=tuple(nodes))
    return replace(DONE, bounded=(SCALAR,)) if type(message) is TraceDone else message


def behind_a_value(seconds: float = 0.6e-6) -> Session:
    return folded(
        (*map(by_value, TRACED), FAST_MEMORY, tick({ROOT: (3e-6, 1e-6), FC: (seconds,) * 2}))
    )


@pytest.mark.parametrize("seconds", [0.6e-6, 1e-6])
def test_behind_a_value_that_python_read_nothing_is_decided_however_long_it_takes(
    seconds: float,
) -> None:
    session = behind_a_value(seconds)
    tree = _tree(session)
    assert tree.bounded[FC] == "about"
    assert bound(session, FC) is None
    assert why_not_decided(session, FC) == BY_VALUE
    assert no_class(session, FC) == BY_VALUE
    whole = bound(session, ROOT)
    assert whole is not None  # The other modules are unexplained for most of the time.
    assert (whole.compute_share, whole.memory_share, whole.overhead_share) == (None, None, None)
    assert whole.flops_per_second is None
    assert kinds_of(session)(FC) is None
    found = parts(tree, FAST_MEMORY)
    row = node_roofline(session, found, reached(session, found), FC)
    assert (row.share, row.gain, row.why) == (None, None, BY_VALUE)
    assert energy_on_paper(session, FC) == Unknown(BY_VALUE)
    sheet = data_sheet("V100-SXM2")
    assert sheet is not None
    least = least_time(tree, FC, sheet)
    assert isinstance(least, LeastTime)
    assert (least.seconds, least.by_data) == (0, 1)


def test_a_real_forward_that_cost_the_same_confirms_what_was_traced() -> None:
    before = behind_a_value()
    session = apply(before, RealCost(_tree(before).costs[0]))
    found = bound(session, FC)
    assert found is not None
    assert (found.kind, found.measured) == ("compute", True)
    assert _tree(session).bounded == _tree(before).bounded  # Other data may cost something else.
    assert "one real forward cost the same" in dict(why(session, FC))["work"]
    assert isinstance(energy_on_paper(session, FC), PaperEnergy)


def test_one_that_cost_something_else_confirms_nothing_and_is_what_joules_are_compared_with() -> (
    None
):
    before = behind_a_value()
    other = replace(_tree(before).costs[0], flops=7)
    session = apply(before, RealCost(other))
    assert bound(session, FC) is None
    assert why_not_decided(session, FC) == BY_VALUE


def test_on_paper_an_upper_bound_has_a_class_only_where_less_of_it_has_the_same() -> None:
    for flops, kind, unsure in ((13_824, "memory", "memory"), (138_240, "compute", None)):
        sure = on_paper(_tree(folded(tuple(with_flops(one, flops) for one in TRACED))), CONV)
        told = folded(tuple(by_data(with_flops(one, flops)) for one in TRACED))
        found = on_paper(_tree(told), CONV)
        assert sure is not None
        assert sure.kind == kind
        assert (found.kind if found is not None else None) == unsure
        assert no_class(told, CONV) == ("" if unsure else BY_DATA)


def with_flops(message: Message, flops: int) -> Message:
    """Have the convolution compute so much on its 2,224 bytes."""
    if type(message) is not Nodes:
        return message
    costs = (replace(one, flops=flops) if one.flops == 13_824 else one for one in message.costs)
    return replace(message, costs=tuple(costs))


@pytest.mark.parametrize(
    ("depends", "free", "fits", "devices"),
    [
        (None, 100, True, 1),
        (None, 60, False, 2),
        ("at most", 100, True, 1),
        ("at most", 60, None, 2),
        ("about", 100, None, 1),
        ("about", 60, None, 2),
    ],
)
def test_memory_that_depends_on_the_data_fits_only_as_an_upper_bound_that_fits(
    depends: Bounded | None, free: int, fits: bool | None, devices: int
) -> None:
    sheet = data_sheet("V100-SXM2")
    assert sheet is not None
    library = cublas_bytes(sheet)
    need = Need(1, 80.0, 0.0, 0.0, 10.0, 0.0, depends)
    found = fit((need,), replace(sheet, memory_bytes=float(free + library)), reserve=0)
    assert found.fits is fits
    assert devices_needed(found) == devices
