"""The node screen: what it tells of a node, and its keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from textual.app import App
from textual.binding import Binding
from textual.reactive import var

from screens.actions.table import Key
from screens.actions.view_keys import NODE
from screens.common.base_app import BaseApp
from screens.settings.theme import DARK, roles_for
from screens.views.node.lines import node_lines, parts_lines
from screens.views.node.screen import NodeScreen, node_context
from screens.views.node.source_text import read_source
from screens.views.roofline.screen import RooflineScreen
from screens.widgets.lines import line_width, text
from screens.widgets.rows import Look, finished, thumb_rows
from screens.widgets.scrolled import ScrolledLines
from tests.fixtures.record import recorded
from tests.queries.training.test_backward_operators import SESSION as TRAINED
from tests.screens.explorer.test_explorer import check_golden, on_stage
from tests.screens.panel_session import (
    BN2,
    CONV2,
    CONV_OP,
    LOADING,
    NODES,
    RELU,
    TRACED,
    folded,
    live,
)
from tests.screens.screen_text import screen_text
from tests.small_model import operator_times
from tui_profiler.formatting.canvas import ASCII
from tui_profiler.messages import Caller, Message, Nodes
from tui_profiler.queries.time.time_parts import HOST, REST, TimePart, TimeParts
from tui_profiler.session import EMPTY, Session, apply

CODE = """import torch


class Bottleneck:
    def forward(self, x):
        out = self.conv2(x)
        return self.bn2(out)
"""


def body(session: Session, node: int, cells: int = 71) -> list[str]:
    assert session.tree is not None
    around = node_context(session.tree, node)
    assert around is not None
    look = Look(session, node, 8.0, cells)
    return [text(line) for line in finished(node_lines(look, around), look)]


def with_sources(source: str, called_from: str) -> Session:
    nodes = tuple(replace(n, source=source, called_from=called_from) for n, _ in NODES)
    part = Nodes(nodes, tuple(c for _, c in NODES))
    messages: tuple[Message, ...] = tuple(part if isinstance(m, Nodes) else m for m in TRACED)
    return folded((*LOADING, *messages))


def test_a_leaf_is_laid_out_as_drawn():
    assert body(live(), CONV2) == [
        " resnet50 › layer3 › 2 › conv2                                  Conv2d ",
        " 256→256, 3×3, pad 1, no bias                                          ",
        "                                                                       ",
        " tensors ───────────────────────────────────────────────────────────── ",
        " in              1×256×14×14   f32   196 KiB   ← –                     ",
        " out             1×256×14×14   f32   196 KiB   → layer3.2.bn2          ",
        "                                                                       ",
        " operators ───────────── one forward, on paper; no operator window yet ",
        " name                    shape             MAC    bytes     ms    %    ",
        " aten::convolution       1×256×14×14      116M 2.63 MiB      –    –  C ",
        "                                                                       ",
        " time ─────────────────────────────────────────────── mean per forward ",
        " self time, without an operator window                 0.89 ms   100 % ",
        " total, mean per forward                               0.89 ms   100 % ",
        "                                                                       ",
        " weights ───────────────────────────────────────────── 590K parameters ",
        " 589,824 trainable   0 frozen                                          ",
        " weight              256×256×3×3   f32  2.25 MiB   not shared          ",
        "                                                                       ",
        " energy ───────────────────────────────────────────────── not measured ",
        " per forward             –  this recording is older than the figure    ",
        # 115,605,504 multiply-adds of 4.6 pJ, 2,760,704 bytes of 12.5 to 325 pJ.
        " on paper                ~570 µJ to ~1.4 mJ                            ",
        "                         Horowitz, ISSCC 2014, 45 nm at 0.9 V          ",
        " working set             –  the kernel does not describe this          ",
        "                            machine's caches                           ",
    ]


def test_a_block_lists_its_modules_in_order_with_their_times():
    lines = body(live(), 2)
    at = next(i for i, line in enumerate(lines) if line.startswith(" modules "))
    assert lines[at + 2 : at + 5] == [
        " conv2                   1×256×14×14      116M 2.63 MiB   0.89    2  C ",
        " bn2                     1×256×14×14         ·  396 KiB   0.03   <1  M ",
        " relu                    1×256×14×14         ·  392 KiB   0.09   <1  M ",
    ]


def test_tensors_name_the_modules_at_their_other_ends():
    lines = body(live(), BN2)
    assert lines[3].endswith("  ← layer3.2.conv2        ")
    assert lines[4].endswith("  → layer3.2.relu         ")
    assert "buffer" in next(line for line in lines if "running_mean" in line)


def test_the_code_that_ran_is_shown_with_its_line_marked(tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text(CODE)
    lines = body(with_sources(f"{file}:5", f"{file}:6"), CONV2)
    at = next(i for i, line in enumerate(lines) if line.startswith(" source "))
    assert lines[at].endswith("model.py ")
    assert lines[at + 1].rstrip() == "     5 ▸     def forward(self, x):"
    assert lines[at + 2].rstrip() == "     6           out = self.conv2(x)"
    called = next(i for i, line in enumerate(lines) if line.startswith(" called from "))
    assert lines[called + 2].rstrip() == "     6 ▸         out = self.conv2(x)"


@pytest.mark.parametrize("place", ["", "nowhere", "/nowhere/at/all.py:3", "/dev/zero:1", "/tmp:1"])
def test_code_that_cannot_be_read_is_named_with_the_reason(place):
    found = read_source(place, before=1, after=1)
    assert not found.lines
    assert found.missing


def test_a_pipe_is_not_waited_for(tmp_path: Path):
    import os

    os.mkfifo(tmp_path / "pipe.py")
    assert read_source(f"{tmp_path / 'pipe.py'}:1", 0, 1).missing.startswith("file not readable")


def test_code_is_hostile_text_too(tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_bytes(b"\x1b[31mred\xff\n")
    assert read_source(f"{file}:1", 0, 0).lines == ("\\x1b[31mred�",)


def test_modules_of_the_same_type_and_shape_are_compared():
    # The same block twice: layer3.2 and, below another parent, layer3.3.
    nodes, costs = [n for n, _ in NODES], [c for _, c in NODES]
    again = [
        replace(
            node,
            parent=node.parent + len(nodes) - 2 if node.parent > 1 else 1,
            name="3" if node.name == "2" else node.name,
            path=node.path.replace("layer3.2", "layer3.3"),
        )
        for node in nodes[2:]
    ]
    part = Nodes((*nodes, *again), (*costs, *costs[2:]))
    messages = tuple(part if isinstance(m, Nodes) else m for m in TRACED)
    lines = body(folded((*LOADING, *messages)), CONV2)
    at = next(i for i, line in enumerate(lines) if line.startswith(" siblings "))
    assert [line.split()[0] for line in lines[at + 1 :]] == ["2.conv2", "3.conv2"]


def test_a_thumb_says_where_the_reader_is():
    assert list(thumb_rows(10, 0, 10)) == []
    assert list(thumb_rows(40, 0, 10)) == [0, 1]
    assert list(thumb_rows(40, 30, 10)) == [8, 9]
    assert list(thumb_rows(100_000, 50_000, 10)) == [5]


@pytest.mark.parametrize("cells", range(40, 131, 2))
def test_every_row_is_exactly_as_wide_as_asked(cells, tmp_path: Path):
    bad = "\x1b[31m" + "漢" * 40 + "\u202e" + "x" * 200
    nodes = tuple(
        replace(n, name=bad, path=bad + n.path, type=bad, detail=bad, note=bad, source=bad)
        for n, _ in NODES
    )
    part = Nodes(nodes, tuple(c for _, c in NODES))
    hostile = folded((*LOADING, *(part if isinstance(m, Nodes) else m for m in TRACED)))
    file = tmp_path / ("long" * 30 + ".py")
    file.write_text("x = 1\n" * 9)
    for session in (hostile, live(), with_sources(f"{file}:4", f"{file}:9")):
        assert session.tree is not None
        for node in (0, 2, CONV2, CONV_OP, RELU):
            around = node_context(session.tree, node)
            assert around is not None
            for glyphs in (Look(EMPTY, 0, 0, 0).glyphs, ASCII):
                look = Look(session, node, 8.0, cells, glyphs)
                lines = finished(node_lines(look, around), look)
                assert {line_width(line) for line in lines} == {cells}
                assert not {c for line in lines for c in text(line)} & set("\x1b\u202e\n")


class Host(App[None]):
    """Has the session that a screen is bound to, and the layout of the real app."""

    CSS_PATH = BaseApp.CSS_PATH
    session: var[Session] = var(EMPTY)

    def __init__(self) -> None:
        super().__init__()
        self.register_theme(DARK)
        self.theme = DARK.name

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return roles_for(DARK)


async def shown(app: Host, node: int) -> NodeScreen:
    screen = NodeScreen(node, now=lambda: 8.0)
    screen.data_bind(Host.session)
    await app.push_screen(screen)
    return screen


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (200, 50), (40, 8)])
async def test_brackets_go_to_the_siblings_and_escape_goes_back(size):
    app = Host()
    async with app.run_test(size=size) as pilot:
        app.session = live()
        screen = await shown(app, CONV2)
        await pilot.pause()
        assert "conv2" in screen.query_one(ScrolledLines).render_line(0).text
        await pilot.press("]")
        assert screen.node == BN2
        assert "bn2" in screen.query_one(ScrolledLines).render_line(0).text
        await pilot.press("]", "]", "]")
        assert screen.node == RELU
        await pilot.press("[")
        assert screen.node == BN2
        await pilot.press("escape")
        assert app.screen is not screen


async def test_a_long_body_is_scrolled_by_the_keyboard():
    app = Host()
    async with app.run_test(size=(80, 14)) as pilot:
        app.session = live()
        screen = await shown(app, CONV2)
        await pilot.pause()
        lines = screen.query_one(ScrolledLines)
        await pilot.press("j", "down")
        assert lines.top == 2
        await pilot.press("G")
        assert lines.is_at_end
        assert "power   –  RAPL counters need root" in lines.render_line(lines.size.height - 1).text
        await pilot.press("g")
        assert lines.top == 0


async def test_a_new_trace_keeps_the_node_by_its_path():
    app = Host()
    async with app.run_test(size=(120, 40)) as pilot:
        app.session = live()
        screen = await shown(app, RELU)
        await pilot.pause()
        # A conv2 without operators: every index behind it is one lower.
        kept = [
            (replace(n, parent=n.parent - (n.parent > CONV_OP)), c)
            for i, (n, c) in enumerate(NODES)
            if i != CONV_OP
        ]
        part = Nodes(tuple(n for n, _ in kept), tuple(c for _, c in kept))
        app.session = folded((*LOADING, *(part if isinstance(m, Nodes) else m for m in TRACED)))
        await pilot.pause()
        assert screen.node == RELU - 1


async def test_a_view_that_was_paused_in_the_explorer_stays_paused():
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press("p", "o")
        await pilot.pause()
        paused = screen_text(stage.app)
        assert "‖ paused" in paused
        spent = apply(stage.app._newest, replace(stage.app._newest.tick, latency_p50=9.0))
        stage.app.session = stage.app._newest = spent
        await pilot.pause()
        assert screen_text(stage.app) == paused
        await pilot.press("p")
        await pilot.pause()
        assert "‖ paused" not in screen_text(stage.app)
        assert "9.00 s" in screen_text(stage.app)


def test_operators_say_whether_their_times_are_of_windows() -> None:
    on_paper = "\n".join(body(live(), CONV2))
    measured = "\n".join(body(apply(live(), operator_times({CONV_OP: 0.5e-3})), CONV2))
    assert "no operator window yet" in on_paper
    assert "ms per forward, derived; % of the forward" in measured
    assert "no operator window yet" not in measured


def test_operators_of_the_backward_stand_below_those_of_the_forward() -> None:
    shown = [" ".join(line.split()) for line in body(TRAINED, 0)]
    at = next(i for i, line in enumerate(shown) if line.startswith("backward "))
    assert shown[at].endswith("operators, self time per step, 2 windows")
    assert TRAINED.backward is not None
    once = apply(TRAINED, replace(TRAINED.backward.operators, windows=1))
    assert any(line.rstrip().endswith("per step, 1 window") for line in body(once, 0))
    assert shown[at + 1 : at + 5] == [
        "aten::mm 4 × 1.25 s 62 %",
        "AddmmBackward0 1 × 250 ms 12 %",
        "aten::mul 1 × 250 ms 12 %",
        "aten::mm recomputed 1 × 250 ms 12 %",
    ]
    assert not any("AddmmBackward0" in line for line in body(TRAINED, 3))


async def test_another_view_takes_the_node_along():
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press("3", "j", "o", "right_square_bracket")
        screen = stage.app.screen
        assert isinstance(screen, NodeScreen)
        node = screen.node
        assert node != stage.explorer.tree_widget.view.selected
        await pilot.press("r")
        await pilot.pause()
        assert isinstance(stage.app.screen, RooflineScreen)
        assert stage.app.screen.node == node
        await pilot.press("escape")
        await pilot.pause()
        assert stage.explorer.tree_widget.view.selected == node


async def test_its_keys_are_listed_and_lead_back():
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press("o", "question_mark")
        await pilot.pause()
        assert "the previous sibling" in screen_text(stage.app)
        await pilot.press("escape")
        await pilot.pause()
        assert isinstance(stage.app.screen, NodeScreen)


@pytest.mark.parametrize("key", NODE, ids=lambda key: key.action)
def test_every_key_that_is_listed_is_bound(key: Key):
    bound = {one: each.action for each in bindings_of(NodeScreen) for one in each.key.split(",")}
    assert {bound.get(one) for one in key.keys.split(",")} == {key.action}


def bindings_of(screen: type[NodeScreen]) -> list[Binding]:
    found = [each for kind in reversed(screen.__mro__) for each in vars(kind).get("BINDINGS", ())]
    return [each for each in found if isinstance(each, Binding)]


def test_the_users_line_and_the_librarys_are_told_each_with_its_function(tmp_path: Path):
    own, library = tmp_path / "net.py", tmp_path / "layers.py"
    own.write_text(CODE)
    library.write_text("\n\ndef apply(layer, x):\n    return layer(x)\n")
    callers = (Caller(str(own), 6, "forward"), Caller(str(library), 4, "apply", "nets"))
    nodes = tuple(replace(n, callers=callers) for n, _ in NODES)
    part = Nodes(nodes, tuple(c for _, c in NODES))
    messages: tuple[Message, ...] = tuple(part if isinstance(m, Nodes) else m for m in TRACED)
    lines = [line.strip() for line in body(folded((*LOADING, *messages)), CONV2)]
    first = next(i for i, line in enumerate(lines) if line.startswith("called from your code"))
    assert lines[first].endswith("/net.py, forward")
    assert lines[first + 2] == "6 ▸         out = self.conv2(x)"
    second = next(i for i, line in enumerate(lines) if line.startswith("called from nets"))
    assert lines[second].endswith("/layers.py, apply")
    assert lines[second + 2] == "4 ▸     return layer(x)"


def test_frozen_parameters_are_told_of_a_container_and_marked_on_a_weight():
    frozen = tuple(replace(weight, requires_grad=False) for weight in NODES[CONV2][0].weights)
    nodes = list(NODES)
    nodes[CONV2] = (replace(NODES[CONV2][0], weights=frozen), replace(NODES[CONV2][1], trainable=0))
    nodes[2] = (NODES[2][0], replace(NODES[2][1], trainable=530_176))
    part = Nodes(tuple(n for n, _ in nodes), tuple(c for _, c in nodes))
    messages: tuple[Message, ...] = tuple(part if isinstance(m, Nodes) else m for m in TRACED)
    session = folded((*LOADING, *messages))
    block = [line.strip() for line in body(session, 2)]
    assert "530,176 trainable   589,824 frozen" in block
    leaf = [line.strip() for line in body(session, CONV2)]
    assert "0 trainable   589,824 frozen" in leaf
    assert any(line.endswith("frozen, not shared") for line in leaf)


def test_parts_of_the_time_add_up_and_many_modules_are_folded_into_one_row():
    parts = tuple(TimePart("module", f"m{at}", 1e-3) for at in range(10))
    parts += (TimePart("host", HOST, 2e-3), TimePart("rest", REST, -1e-3))
    session = live()
    look = Look(session, CONV2, 8.0, 71)
    lines = [text(line).strip() for line in parts_lines(TimeParts(11e-3, parts, True), look)]
    assert lines[0].endswith("self time by the last operator window")
    assert [line.rpartition(" ms")[0] for line in lines[1:]] == [
        line.rpartition(" ms")[0]
        for line in (
            *(f"m{at}".ljust(54) + "1.00 ms" for at in range(8)),
            "2 further modules".ljust(54) + "2.00 ms",
            HOST.ljust(54) + "2.00 ms",
            REST.ljust(53) + "−1.00 ms",
            "total, mean per forward".ljust(54) + "11.0 ms",
        )
    ]


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_the_node_screen_looks_as_agreed(size: tuple[int, int]) -> None:
    async with on_stage(recorded(), size) as (stage, pilot):
        await pilot.press("3", *"jjjjjjjj", "o")
        await pilot.pause()
        check_golden(f"node-{size[0]}x{size[1]}", screen_text(stage.app))


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_its_help_looks_as_agreed(size: tuple[int, int]) -> None:
    async with on_stage(recorded(), size) as (stage, pilot):
        await pilot.press("o", "question_mark")
        await pilot.pause()
        check_golden(f"node-help-{size[0]}x{size[1]}", screen_text(stage.app))
