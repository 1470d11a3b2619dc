"""The compilation screen: breaks and recompilations, their modules, and the cursor."""

from msgspec.structs import replace

from screens.views.compilation.lines import NOTHING, compilation_lines
from screens.views.node.lines import NodeContext, node_lines
from screens.views.node.source_text import read_source
from screens.widgets.lines import line_width, text
from screens.widgets.rows import Look, finished
from tests.fixtures.record import recorded
from tests.screens.explorer.test_explorer import on_stage
from tests.screens.screen_text import screen_text
from tests.small_model import CONV, FC, ROOT, TRACED, folded
from tui_profiler.messages import Compilations, CompiledAgain, Unknown
from tui_profiler.queries.panel.neighbours import Neighbours
from tui_profiler.session import Session, apply

PLACE = "/model.py:7"
BREAK = CompiledAgain("/model.py", 9, "guarded", "a value was read", 5, (PLACE,))
RESUMED = "torch_dynamo_resume_in_forward_at_40"
AGAIN = CompiledAgain("/model.py", 40, RESUMED, "self.factor == 1", 2)
SEEN = Compilations(1.0, 10, 6, 1.5, (BREAK,), (AGAIN,), left_out=3)


def compiled() -> Session:
    session = folded(TRACED)
    assert session.tree is not None
    nodes = tuple(
        replace(node, source=PLACE) if at in (CONV, FC) else node
        for at, node in enumerate(session.tree.nodes)
    )
    tree = replace(session.tree, nodes=nodes)
    return apply(replace(session, tree=tree), SEEN)


def drawn(session: Session, selected: int = 0, cells: int = 100) -> list[str]:
    look = Look(session, ROOT, 9.0, cells)
    return [text(line).rstrip() for line in finished(compilation_lines(look, selected, 30), look)]


def test_each_has_its_modules_its_line_and_its_reason() -> None:
    lines = drawn(compiled())
    assert lines[0].split("  ")[:3] == [" 6 graphs", "10 frames", "1.50 s compile time"]
    assert lines[3].split() == [
        "▌",
        "5×",
        "conv",
        "(Conv2d)",
        "or",
        "1",
        "other",
        "guarded",
        "/model.py:9",
    ]
    assert lines[4].strip() == "a value was read"
    assert lines[7].split()[:4] == ["2×", "not", "in", "a"]
    assert lines[7].endswith("forward, resumed at line 40  /model.py:40")
    assert drawn(compiled(), selected=1)[7].startswith("▌")
    assert lines[-1].strip() == "3 more are not listed"


def test_nothing_compiled_and_seconds_that_are_not_known_are_said() -> None:
    assert drawn(folded(TRACED))[0].strip() == NOTHING
    unknown = apply(folded(TRACED), replace(SEEN, seconds=Unknown("gone")))
    assert "– compile time" in drawn(unknown)[0]


def test_no_row_is_too_wide_and_the_selected_one_is_seen() -> None:
    session = compiled()
    many = replace(SEEN, breaks=tuple(replace(BREAK, line=at) for at in range(1, 31)))
    session = apply(session, many)
    for cells in range(40, 140, 7):
        look = Look(session, ROOT, 9.0, cells)
        lines = compilation_lines(look, 25, 12)
        assert len(lines) <= 12
        assert all(line_width(line) <= cells for line in lines)
        assert sum(text(line).startswith("▌") for line in lines) == 1


def test_the_node_screen_has_those_of_its_class() -> None:
    around = NodeContext(Neighbours((), ()), (), read_source("", 0, 0), ())

    def of(node: int) -> str:
        return "\n".join(map(text, node_lines(Look(compiled(), node, 9.0, 100), around)))

    assert "graph break, 5×  guarded  /model.py:9" in of(FC)
    assert "a value was read" in of(FC)
    assert "graph break" not in of(ROOT)


async def test_the_palette_opens_it_and_enter_a_module() -> None:
    async with on_stage([*recorded(), SEEN]) as (stage, pilot):
        await pilot.press("colon", *"compilation", "enter")
        await pilot.pause()
        assert "guarded  /model.py:9" in screen_text(stage.app)
        await pilot.press("down", "enter")
        await pilot.pause()
        assert "tensors" in screen_text(stage.app)
