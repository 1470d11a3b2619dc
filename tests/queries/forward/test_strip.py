from __future__ import annotations

import pytest

from tests.queries.sessions import RESNET, RESNET_SECONDS, resnet, session_of, ticked
from tui_profiler.queries.cost.bound import mixes_of
from tui_profiler.queries.forward.strip import ELSEWHERE, Strip, colours, place, strip
from tui_profiler.session import EMPTY, Session


def named(session: Session, shown: Strip) -> list[tuple[str, int]]:
    tree = session.tree
    assert tree is not None
    return [
        ("elsewhere" if one.first == ELSEWHERE else tree.nodes[one.first].name, one.cells)
        for one in shown.segments
    ]


def end(shown: Strip) -> int:
    return shown.segments[-1].start + shown.segments[-1].cells


def node(session: Session, path: str) -> int:
    assert session.tree is not None
    found = session.tree.find(path)
    assert found is not None
    return found


def test_children_are_as_wide_as_their_share_of_time() -> None:
    session = resnet()

    shown = strip(session, 118)

    assert shown.measured
    assert named(session, shown)[-4:-1] == [("layer1", 56), ("layer2", 49), ("fc", 1)]
    assert [one.share for one in shown.segments if one.alone][1:3] == [0.5, 0.43]


def test_before_the_first_times_the_width_is_of_macs() -> None:
    session = resnet(measured=False)

    shown = strip(session, 118)

    assert not shown.measured
    assert named(session, shown)[:3] == [("conv1", 3), ("layer1", 19), ("layer2", 29)]


@pytest.mark.parametrize("cells", [1, 2, 3, 7, 20, 78, 118, 198, 400])
@pytest.mark.parametrize("measured", [True, False])
def test_segments_and_gaps_take_exactly_the_cells_given(cells: int, measured: bool) -> None:
    shown = strip(resnet(measured=measured), cells)

    assert end(shown) == cells
    at = 0
    for segment in shown.segments:
        assert segment.start - at in (0, 1)
        at = segment.start + segment.cells


def test_a_thousand_equal_layers_fill_the_strip() -> None:
    text = "m M 0 0\n" + "".join(f"  {i} L 0 0\n" for i in range(1000))
    session = ticked(session_of(text), {"": 1.0, **{str(i): 0.001 for i in range(1000)}})

    shown = strip(session, 118)

    assert end(shown) == 118
    assert shown.segments[0].first == 1
    assert shown.segments[-1].stop == 1001


def test_what_the_root_does_itself_is_shown() -> None:
    session = ticked(session_of("m M 0 0\n  a A 0 0\n  b B 0 0"), {"": 1.0, "a": 0.25, "b": 0.25})

    shown = strip(session, 42)

    assert named(session, shown) == [("a", 10), ("b", 10), ("elsewhere", 20)]


def test_a_wrapper_is_looked_through() -> None:
    text = "m M 0 0\n  net N 0 0\n    a A 0 0\n    b B 0 0"
    session = ticked(session_of(text), {"": 1.0, "net": 1.0, "net.a": 0.5, "net.b": 0.5})

    assert named(session, strip(session, 41)) == [("a", 20), ("b", 20)]


def test_the_place_of_a_child_is_its_segment() -> None:
    session = resnet()
    shown = strip(session, 118)
    layer2 = next(one for one in shown.segments if one.first == node(session, "layer2"))

    assert place(session, shown, node(session, "layer2")) == (layer2.start, layer2.cells)


def test_the_place_of_a_node_inside_is_where_its_time_lies() -> None:
    session = resnet()
    shown = strip(session, 118)
    layer1 = next(one for one in shown.segments if one.first == node(session, "layer1"))

    first = place(session, shown, node(session, "layer1.0"))
    last = place(session, shown, node(session, "layer1.2"))

    assert first == (layer1.start, 10)
    assert last is not None
    assert sum(last) == layer1.start + layer1.cells
    assert last[1] == 24


def test_the_place_is_known_on_paper_too() -> None:
    session = resnet(measured=False)
    shown = strip(session, 118)

    assert place(session, shown, node(session, "layer2.1")) == (38, 15)


def test_the_root_has_no_place_of_its_own() -> None:
    session = resnet()

    assert place(session, strip(session, 118), 0) is None


def test_colours_fill_each_segment() -> None:
    session = ticked(session_of(RESNET), RESNET_SECONDS)
    shown = strip(session, 118)

    mixed = colours(shown, mixes_of(resnet()))
    unknown = colours(shown, mixes_of(session))

    for segment, widths in zip(shown.segments, mixed, strict=True):
        assert sum(widths) == (0 if segment.first == ELSEWHERE else segment.cells)
    assert all(widths == () for widths in unknown)


def test_without_a_tree_or_without_work_the_strip_is_empty() -> None:
    assert strip(EMPTY, 118).segments == ()
    assert strip(session_of("m M 0 0\n  a A 0 0"), 118).segments == ()
    assert strip(resnet(), 0).segments == ()
