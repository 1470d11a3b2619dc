from __future__ import annotations

from array import array

import pytest
from msgspec.structs import replace

from tests.queries.sessions import medians_alone, resnet, session_of, ticked
from tui_profiler.queries.cost.totals import slowest_modules
from tui_profiler.queries.forward.strip import strip
from tui_profiler.queries.panel.provenance import why
from tui_profiler.queries.time.base import share
from tui_profiler.queries.time.node_seconds import node_seconds, part_of, parts_share
from tui_profiler.queries.tree.cells import Figures
from tui_profiler.queries.tree.columns import figure
from tui_profiler.reports.text.sections.layers import layers_section
from tui_profiler.reports.text.table import as_table
from tui_profiler.session import Session, apply

LIST = """
model Model 0 100
  blocks ModuleList 0 90
    0 Block 0 40
      inner Linear 0 40
    1 Block 0 50
  unused Linear 0 0
  head Linear 0 10
"""


def test_a_container_that_is_never_called_takes_what_its_children_take() -> None:
    spent = {"": 1.0, "blocks.0": 0.25, "blocks.0.inner": 0.125, "blocks.1": 0.5, "head": 0.125}
    session = ticked(session_of(LIST), spent)
    assert session.tree is not None

    assert node_seconds(session, 1) == 0.75
    assert share(session, 1) == 0.75
    assert node_seconds(session, 0) == 1.0
    unused = session.tree.find("unused")
    assert unused is not None
    assert node_seconds(session, unused) is None


def test_an_operator_has_no_time_of_its_own() -> None:
    session = resnet()
    assert session.tree is not None
    operator = session.tree.find("conv1/0")
    assert operator is not None

    assert node_seconds(session, operator) is None


def test_before_the_first_times_a_share_is_of_macs() -> None:
    session = session_of(LIST)

    assert node_seconds(session, 0) is None
    assert share(session, 1) == pytest.approx(0.9)


def test_without_macs_there_is_no_share() -> None:
    assert share(session_of("m M 0 0\n  a A 0 0"), 1) is None


def test_medians_of_parts_that_do_not_add_up_are_told() -> None:
    spent = {"": 1.0, "blocks.0": 0.25, "blocks.0.inner": 0.125, "blocks.1": 0.125}
    even = ticked(session_of(LIST), spent)
    assert even.tick is not None
    uneven = apply(even, medians_alone(even.tick, own=bytes(len(even.tick.own_per_forward))))

    assert parts_share(even, 2) == 1.0
    assert parts_share(uneven, 0) == 0.375
    assert parts_share(uneven, 2) == 0.5
    assert parts_share(uneven, 3) is None
    assert parts_share(session_of(LIST), 0) is None
    assert dict(why(uneven, 2))["time"].endswith("its children's medians add up to 50 % of it")
    assert "children" not in dict(why(even, 2))["time"]


@pytest.mark.parametrize(
    ("seconds", "whole", "expected"),
    [(0.25, 1.0, 0.25), (1.02, 1.0, 1.0), (None, 1.0, None), (1.0, None, None), (1.0, 0.0, None)],
)
def test_no_part_is_more_than_the_whole(
    seconds: float | None, whole: float | None, expected: float | None
) -> None:
    assert part_of(seconds, whole) == expected


def test_a_share_that_medians_make_more_than_all_is_all_everywhere() -> None:
    session = ticked(session_of(LIST), {"": 1.0, "blocks.0": 0.7, "blocks.1": 0.32})
    assert session.tree is not None
    assert share(session, 1) == 1.0
    figures = Figures()
    figures.update(session)
    assert figures.cells(1, 10).share == 1.0
    lines = as_table([layers_section(session, session.tree, None)], 100)
    assert not any("102" in line for line in lines)


def with_other_means(session: Session, means: dict[int, tuple[float, float]]) -> Session:
    """Return a session whose means are not its medians: by node, of all and of its own time."""
    tick = session.tick
    assert tick is not None
    nodes = memoryview(tick.nodes).cast("I").tolist()
    whole = array("f", [means[node][0] for node in nodes])
    own = array("f", [means[node][1] for node in nodes])
    return apply(
        session,
        replace(tick, mean_per_forward=whole.tobytes(), own_mean_per_forward=own.tobytes()),
    )


def test_time_share_order_and_strip_are_of_means_that_add_up() -> None:
    medians = ticked(session_of("m M 0 0\n  a A 0 0\n  b B 0 0"), {"": 1.0, "a": 0.5, "b": 0.25})
    # Half of the forwards were interrupted in b.
    session = with_other_means(medians, {0: (2.0, 0.25), 1: (0.5, 0.5), 2: (1.25, 1.25)})

    assert [node_seconds(session, node) for node in range(3)] == [2.0, 0.5, 1.25]
    assert [share(session, node) for node in (1, 2)] == [0.25, 0.625]
    assert parts_share(session, 0) == 1.0
    assert slowest_modules(session, 3) == (2, 1, 0)
    assert slowest_modules(medians, 3) == (1, 0, 2)
    assert [figure(session, node, "self") for node in range(3)] == [0.25, 0.5, 1.25]
    shares = {part.first: part.share for part in strip(session, 80).segments}
    assert shares[2] == pytest.approx(0.62, abs=0.006)
