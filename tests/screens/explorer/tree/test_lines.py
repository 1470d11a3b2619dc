from __future__ import annotations

import pytest
from msgspec.structs import replace

from screens.explorer.tree import lines as tree_lines
from screens.explorer.tree.columns import Form, columns_for
from screens.widgets.lines import Line, line_width, text
from tests.queries.sessions import (
    RESNET,
    RESNET_SECONDS,
    cost_of,
    medians_alone,
    node_of,
    resnet,
    session_of,
    ticked,
    traced,
    with_ceilings,
)
from tui_profiler.formatting.canvas import ASCII, UNICODE, Glyphs
from tui_profiler.messages import Ended, Failed, Node
from tui_profiler.queries.tree import focus as focuses
from tui_profiler.queries.tree import rows
from tui_profiler.queries.tree.cells import Figures
from tui_profiler.session import Session, apply


def drawn(
    session: Session,
    cells: int = 72,
    form: Form = "wide",
    *,
    unfold: tuple[str, ...] = (),
    glyphs: Glyphs = UNICODE,
    figures: Figures | None = None,
    unfold_all: bool = False,
) -> list[Line]:
    """Return header and rows, the cursor cell left blank."""
    assert session.tree is not None
    figures = figures or Figures()
    figures.update(session)
    view = focuses.initial(session.tree)
    laid = rows.outline(session, focuses.all_unfolded(view, session.tree) if unfold_all else view)
    for path in unfold:
        node = session.tree.find(path)
        assert node is not None
        laid = rows.toggled(laid, session, node)
    columns = columns_for(cells, form)
    lines = [tree_lines.header(laid, figures, 0, columns, glyphs)]
    for node in laid.rows:
        line = tree_lines.row(laid, figures, node, columns, glyphs=glyphs)
        lines.append(tree_lines.with_cursor(line, ("", "ink"), ""))
    return lines


def texts(session: Session, cells: int = 72, form: Form = "wide") -> str:
    return "\n".join(text(line) for line in drawn(session, cells, form, unfold=("layer1",)))


def roles(line: Line, of: str) -> str:
    return next(role for part, role in line if part.strip() == of)


def test_wide_rows_are_those_of_the_specification() -> None:
    assert texts(resnet()) == (
        " modules, execution order   params    MAC avg ms    %  0───────50 %    \n"
        " ▾ resnet50 ResNet           25.6M  4.09G  36.50  100  ━━━━━━━━━━━› C  \n"
        "     conv1 Conv2d            9.41K   118M   0.93    3  ╸            C  \n"
        "     bn1 BatchNorm2d           128      ·   0.18   <1               U  \n"
        "     relu ReLU                   ·      ·   0.14   <1               U  \n"
        "     maxpool MaxPool2d           ·      ·   0.24    1               U  \n"
        "   ▾ layer1 3× Bottleneck     216K   668M  18.20   50  ━━━━━━━━━━━━ C  \n"
        "     ▸ 0 Bottleneck          75.0K   231M   3.20    9  ━━           C  \n"
        "     ▸ 1 Bottleneck          70.4K   218M   7.50   21  ━━━━━        C  \n"
        "     ▸ 2 Bottleneck          70.4K   219M   7.50   21  ━━━━━        C  \n"
        "   ▸ layer2 2× Bottleneck    1.22M  1.03G  15.70   43  ━━━━━━━━━━╸  C  \n"
        "     avgpool AdaptiveAvgPo…      ·      ·   0.04   <1               O  \n"
        "     fc Linear               2.05M  2.05M   0.49    1  ╸            M  "
    )


def test_narrow_rows_are_those_of_the_specification() -> None:
    assert texts(resnet(), 80, "narrow") == (
        " modules, execution order                 MAC  avg ms    %  0───────────50 %    \n"
        " ▾ resnet50 ResNet                      4.09G   36.50  100  ━━━━━━━━━━━━━━━› C  \n"
        "     conv1 Conv2d                        118M    0.93    3  ━                C  \n"
        "     bn1 BatchNorm2d                        ·    0.18   <1                   U  \n"
        "     relu ReLU                              ·    0.14   <1                   U  \n"
        "     maxpool MaxPool2d                      ·    0.24    1                   U  \n"
        "   ▾ layer1 3× Bottleneck                668M   18.20   50  ━━━━━━━━━━━━━━━━ C  \n"
        "     ▸ 0 Bottleneck                      231M    3.20    9  ━━━              C  \n"
        "     ▸ 1 Bottleneck                      218M    7.50   21  ━━━━━━╸          C  \n"
        "     ▸ 2 Bottleneck                      219M    7.50   21  ━━━━━━╸          C  \n"
        "   ▸ layer2 2× Bottleneck               1.03G   15.70   43  ━━━━━━━━━━━━━━   C  \n"
        "     avgpool AdaptiveAvgPool2d              ·    0.04   <1                   O  \n"
        "     fc Linear                          2.05M    0.49    1  ╸                M  "
    )


def test_before_the_first_times_bars_speak_of_macs() -> None:
    lines = drawn(resnet(measured=False))

    assert [text(line) for line in lines[:4]] == [
        " modules, on paper          params    MAC     ms %MAC  0───────50 %    ",
        " ▾ resnet50 ResNet           25.6M  4.09G      …  100  ━━━━━━━━━━━›    ",
        "     conv1 Conv2d            9.41K   118M      …    3  ╸               ",
        "     bn1 BatchNorm2d           128      ·      …    ·                  ",
    ]
    assert roles(lines[1], "━━━━━━━━━━━") == "faint"


def test_nothing_moves_when_the_first_times_come() -> None:
    paper, measured = drawn(resnet(measured=False)), drawn(resnet())

    for before, after in zip(paper, measured, strict=True):
        assert text(before)[:42].split()[-2:] == text(after)[:42].split()[-2:]
        assert line_width(before) == line_width(after)


def test_after_a_failure_times_are_unavailable_and_the_node_is_marked() -> None:
    session = apply(resnet(measured=False), Failed("first run", "out of memory", where="bn1"))

    lines = drawn(session)

    assert text(lines[1])[42:48] == "     –"
    assert text(lines[3]).endswith("✗  ")
    assert roles(lines[3], "✗") == "strong error"
    assert not any("✗" in text(line) for line in lines[4:])


def test_times_of_a_worker_that_is_gone_are_unavailable() -> None:
    lines = drawn(apply(resnet(measured=False), Ended(-9, expected=False)))

    assert text(lines[1])[42:48] == "     –"


def test_a_node_that_was_not_measured_has_no_time() -> None:
    some = {path: seconds for path, seconds in RESNET_SECONDS.items() if path != "fc"}

    lines = drawn(ticked(session_of(RESNET), some))

    assert text(lines[-1]) == (
        "     fc Linear               2.05M  2.05M      –    –                  "
    )


def test_weight_follows_share() -> None:
    lines = drawn(resnet())

    assert roles(lines[6], "18.20") == "strong"
    assert roles(lines[2], "0.93") == "ink"
    assert roles(lines[3], "0.18") == "faint"
    assert roles(lines[3], "U") == "faint"
    assert roles(lines[2], "C") == "strong compute"


def test_a_bar_is_coloured_by_what_holds_its_inside_back() -> None:
    spent = {"": 1.0, "a": 0.5, "a.c": 0.25, "a.m": 0.25}
    tree = "m M 0 0\n  a A 0 0\n    c C 10 60000000000\n    m L 800000000 10"
    nodes_session = with_ceilings(ticked(session_of(tree), spent))
    line = drawn(_with_operators(nodes_session))[2]

    bar = [(part, role) for part, role in line if "━" in part]

    assert bar == [("━" * 6, "compute"), ("━" * 6, "memory")]


def _with_operators(session: Session) -> Session:
    """Return each leaf an operator that does its work, as a trace does."""
    assert session.tree is not None
    tree = session.tree
    nodes: list[Node] = []
    costs = []
    moved: dict[int, int] = {}
    for index, (node, cost) in enumerate(zip(tree.nodes, tree.costs, strict=True)):
        moved[index] = len(nodes)
        nodes.append(replace(node, parent=moved.get(node.parent, -1)))
        costs.append(cost)
        if tree.ends[index] == index + 1:
            nodes.append(node_of(moved[index], "aten::op", "aten.op", nodes))
            costs.append(cost)
    again = with_ceilings(traced(nodes, costs))
    assert session.timings is not None
    spent = {
        node.path: seconds
        for index, node in enumerate(tree.nodes)
        if (seconds := session.timings.per_forward(index)) is not None
    }
    return ticked(again, spent)


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
@pytest.mark.parametrize("form", ["wide", "narrow", "tiny"])
@pytest.mark.parametrize("cells", [1, 2, 5, 12, 20, 32, 40, 52, 60, 72, 80, 96, 120, 136, 200, 300])
def test_every_row_is_exactly_as_wide_as_the_widget(cells: int, form: Form, glyphs: Glyphs) -> None:
    for session in (resnet(), resnet(measured=False), _hostile()):
        lines = drawn(session, cells, form, unfold=("layer1",) if len(session.tree or ()) > 15 else (), glyphs=glyphs)  # fmt: skip  # noqa: E501
        wanted = cells - (form == "wide" and cells > 2)
        assert {line_width(line) for line in lines} == {wanted}


HOSTILE = (
    "[/nope]",
    "\x1b[31mred\x1b[0m",
    "\x1b]52;c;aGk=\x07",
    "a\nb\tc\rd",
    "名前" * 40,
    "é" * 300,
    "x" * 10_000,
    "\u202egnp.exe",
    "\ud800",
    "😀" * 30,
    "",
)


def _hostile() -> Session:
    nodes = [node_of(-1, "root", "Root", [])]
    nodes += [
        replace(nodes[0], parent=0, name=name, type=name, path=f"at{index}")
        for index, name in enumerate(HOSTILE)
    ]
    return traced(nodes, [cost_of(10**14, 10**17)] * len(nodes))


def test_hostile_names_are_written_out() -> None:
    shown = "\n".join(text(line) for line in drawn(_hostile(), 136))

    assert "[/nope] [/nope]" in shown
    assert "\\x1b[31mred" in shown
    assert all(character == "\n" or character.isprintable() for character in shown)


def test_a_long_name_is_cut_in_its_middle_and_the_type_yields_first() -> None:
    session = session_of(
        f"m M 0 0\n  begin_{'x' * 60}_end LongType 0 0\n  b{'y' * 15} LongType 0 0"
    )

    lines = [text(line) for line in drawn(session)]

    assert lines[2][:28] == "     begin_xxxxx…xxxxxx_end "
    assert lines[3][:28] == "     byyyyyyyyyyyyyyy Long… "


def test_deep_nodes_keep_their_names() -> None:
    nodes: list[Node] = []
    for depth in range(3000):
        nodes.append(node_of(depth - 1, f"level{depth}", "Block", nodes))
    session = traced(nodes, [cost_of(1, 1)] * len(nodes))

    lines = drawn(session, unfold_all=True)

    assert len(lines) == 3001
    assert text(lines[3000]).startswith(" …             level2999 ")
    assert {line_width(line) for line in lines} == {71}


@pytest.mark.parametrize("cells", [44, 50, 72])
def test_the_first_level_lies_below_the_root_however_narrow(cells: int) -> None:
    session = session_of("m M 0 0\n  a Linear 0 0")
    _, root, child, *_ = (text(line) for line in drawn(session, cells, unfold_all=True))
    assert (root[3], child[3:6]) == ("m", "  a")


def test_plain_ascii_when_asked_for() -> None:
    shown = "\n".join(text(line) for line in drawn(resnet(), glyphs=ASCII, unfold=("layer1",)))

    assert shown.isascii()
    assert "- layer1 3x Bottleneck" in shown


@pytest.mark.parametrize(("glyphs", "mark"), [(UNICODE, "≥"), (ASCII, ">")])
def test_an_intensity_of_some_operators_alone_is_a_lower_bound(glyphs: Glyphs, mark: str) -> None:
    tree = session_of("m M 0 8\n  a A 0 8\n").tree
    assert tree is not None
    nodes, costs = list(tree.nodes), [cost_of(0, 8, moved=2), cost_of(0, 8, moved=2)]
    whole, some = traced(nodes, costs), traced(nodes, [replace(costs[0], uncosted=1), costs[1]])

    root = text(drawn(some, 120, glyphs=glyphs)[1])
    assert f"{mark}8.00" in root
    assert f"{mark}8.00" not in text(drawn(whole, 120, glyphs=glyphs)[1])


def test_microseconds_are_the_unit_of_a_fast_model() -> None:
    lines = drawn(ticked(session_of("m M 0 0\n  a A 0 0"), {"": 0.0008, "a": 0.0000123}))

    assert text(lines[0])[42:48] == "avg µs"
    assert text(lines[1])[42:48] == " 800.0"
    assert text(lines[2])[42:48] == "  12.3"


def test_medians_of_an_old_recording_are_not_called_means() -> None:
    session = ticked(session_of("m M 0 0\n  a A 0 0"), {"": 0.02, "a": 0.01})
    assert session.tick is not None
    old = apply(session, medians_alone(session.tick))

    assert text(drawn(session)[0])[42:48] == "avg ms"
    assert text(drawn(old)[0])[42:48] == "p50 ms"
    assert text(drawn(old)[2])[42:48] == " 10.00"


def test_the_unit_of_the_column_stays_put() -> None:
    session = session_of("m M 0 0\n  a A 0 0")
    figures = Figures()
    units = []
    for at, seconds in enumerate((0.02, 0.009, 0.011, 0.004, 0.009, 0.03)):
        session = ticked(session, {"": seconds, "a": seconds}, at=float(at))
        figures.update(session)
        units.append(figures.times.unit)

    assert units == ["ms", "ms", "ms", "µs", "µs", "ms"]


def test_a_long_forward_keeps_its_leaves_readable_in_columns_that_stay() -> None:
    session = session_of("m M 0 0\n  a A 0 0\n  b B 0 0\n  c C 0 0")
    figures = Figures()
    columns = []
    for at, seconds in enumerate((12.3, 9.8, 10.4, 0.9, 99.0)):
        session = ticked(session, {"": seconds, "a": 0.3456, "b": 3.4e-3, "c": 23e-6}, at=float(at))
        lines = drawn(session, figures=figures)
        assert {line_width(line) for line in lines} == {71}
        columns.append([text(line)[42:48] for line in lines[:5]])

    leaves = ["345.60", "  3.40", " 0.023"]
    assert columns[0] == ["avg ms", "12.3 s", *leaves]
    assert [each[1] for each in columns] == ["12.3 s", "9.80 s", "10.4 s", "900.00", "99.0 s"]
    assert all(each[0] == "avg ms" and each[2:] == leaves for each in columns)


def test_stale_figures_are_muted() -> None:
    figures = Figures()
    figures.stale = True

    lines = drawn(resnet(), figures=figures)

    assert roles(lines[6], "18.20") == "muted"


def test_a_trend_is_an_arrow_beside_the_time() -> None:
    session = session_of("m M 0 0\n  a A 0 0")
    total = 0.0
    for tick in range(240):
        total += 10 * (0.5 if tick < 220 else 0.7)
        session = ticked(
            session, {"": 1.0, "a": 0.5}, at=tick / 4, forwards=10 * (tick + 1),
            totals={"": 2.0 * tick, "a": total},
        )  # fmt: skip

    assert "500.00↑" in text(drawn(session)[2])


def test_bars_hold_still_while_a_share_wavers() -> None:
    session = session_of("m M 0 0\n  a A 0 0\n  b B 0 0")
    figures = Figures()
    shown = set()
    for tick in range(24):
        part = 0.30 + 0.05 * (tick % 2)
        session = ticked(session, {"": 1.0, "a": part, "b": 0.4}, at=tick / 4)
        shown.add(text(drawn(session, figures=figures)[2])[54:])

    assert len(shown) == 1


def test_a_bar_follows_a_share_that_lasts() -> None:
    session = session_of("m M 0 0\n  a A 0 0\n  b B 0 0")
    figures = Figures()
    bars = []
    for tick in range(24):
        part = 0.25 if tick < 4 else 0.5
        session = ticked(session, {"": 1.0, "a": part, "b": 0.4}, at=tick / 4)
        bars.append(text(drawn(session, figures=figures)[2])[54:].count("━"))

    assert bars == [6] * 12 + [12] * 12


def header_of(session: Session, first: str, root: str = "", cells: int = 72) -> str:
    tree = session.tree
    assert tree is not None
    figures = Figures()
    figures.update(session)
    view = focuses.all_unfolded(focuses.initial(tree), tree)
    node, top = tree.find(first), tree.find(root)
    assert node is not None
    assert top is not None
    if top:
        view = focuses.drilled_down(view, top)
    laid = rows.outline(session, view)
    return text(tree_lines.header(laid, figures, node, columns_for(cells, "wide"))).split("  ")[0]


def test_the_title_is_the_breadcrumb_of_the_first_row_when_the_root_is_gone() -> None:
    assert header_of(resnet(), "conv1") == " resnet50"
    assert header_of(resnet(), "layer1.0") == " resnet50 › layer1"
    assert header_of(resnet(), "layer1.0.conv1") == " resnet50 › layer1 › 0"
    assert header_of(resnet(), "layer1.0.conv1", cells=136) == " resnet50 › layer1 › 0"


def test_the_title_names_the_root_of_the_view() -> None:
    assert header_of(resnet(), "layer1", root="layer1") == " resnet50 › layer1"


def test_the_title_names_the_order_and_the_filter() -> None:
    session = resnet()
    assert session.tree is not None
    figures = Figures()
    figures.update(session)
    columns = columns_for(72, "wide")
    laid = rows.outline(session, focuses.initial(session.tree))
    by_time = rows.relaid(laid, session, replace(laid.focus, sort="seconds", descending=True))
    found = rows.filtered(laid, session, "conv1")
    nothing = rows.filtered(laid, session, "conv9")

    assert text(tree_lines.header(by_time, figures, 0, columns)).startswith(" modules, by time ")
    assert text(tree_lines.header(found, figures, 0, columns)).startswith(" /conv1  4 of 17 match ")
    assert text(tree_lines.footer(laid, columns)).rstrip() == " 1 of 9 shown · 17 nodes"
    assert text(tree_lines.footer(found, columns)).rstrip() == (
        ' 1 of 9 shown · 4 of 17 match "conv1"'
    )
    assert text(tree_lines.footer(nothing, columns)).rstrip() == (
        ' no node matches "conv9"  esc clears'
    )


def test_a_row_of_equal_blocks_names_its_ends_and_counts_them() -> None:
    session = session_of(
        "m M 0 0\n  body Sequential 60 600\n"
        + "".join(f"    {i} Block 10 100\n      act ReLU 0 0\n" for i in range(6))
    )
    assert session.tree is not None
    figures = Figures()
    figures.update(session)
    columns = columns_for(72, "wide")
    view = focuses.all_unfolded(focuses.initial(session.tree), session.tree)
    laid = rows.outline(session, replace(view, grouped=True))
    lines = [text(tree_lines.row(laid, figures, node, columns)) for node in laid.rows]
    assert [line[:26].rstrip() for line in lines] == [
        "\u25be m M",
        "  \u25be body 6\u00d7 Block",
        "    \u25be 0-5 6\u00d7 Block",
        "        act 6\u00d7 ReLU",
    ]
    assert lines[2].split()[3:6] == ["Block", "60", "600"]
