"""Equal blocks in one row: what is equal, what is summed, and that nothing is lost."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.queries.sessions import cost_of, node_of, session_of, ticked, traced, with_ceilings
from tui_profiler.messages import Node
from tui_profiler.queries.cost.bound_classes import KINDS
from tui_profiler.queries.time.repeated_siblings import members, runs, slices
from tui_profiler.queries.tree import focus as focuses
from tui_profiler.queries.tree import rows
from tui_profiler.queries.tree.cells import Figures
from tui_profiler.queries.tree.rows import Outline
from tui_profiler.session import Session

LAYER = """
    {name} Layer 30 300
      attn Attention 10 100
        heads ModuleList 8 80
          0 Head 4 40
          1 Head 4 40
      mlp Linear 20 200
"""
MODEL = (
    "gpt GPT 1000 1000\n  embed Embedding 7 0\n  layers ModuleList 90 900"
    + "".join(LAYER.rstrip("\n").format(name=name) for name in range(3))
    + "\n  head Linear 903 100\n  tail Linear 903 0\n  last Linear 5 0"
)


def model() -> Session:
    """Three equal layers with two equal heads each; two equal and one other Linear."""
    return with_ceilings(session_of(MODEL))


def measured() -> Session:
    seconds = {"": 0.1, "head": 0.01, "tail": 0.002, "last": 0.001, "embed": 0.001}
    for layer, base in enumerate((0.01, 0.02, 0.04)):
        seconds[f"layers.{layer}"] = base
        seconds[f"layers.{layer}.attn"] = base / 2
        seconds[f"layers.{layer}.mlp"] = base / 4
        for head in (0, 1):
            seconds[f"layers.{layer}.attn.heads.{head}"] = base / 8
    return ticked(model(), seconds)


def grouped(session: Session, **changes: object) -> Outline:
    assert session.tree is not None
    view = focuses.all_unfolded(focuses.initial(session.tree), session.tree)
    return rows.outline(session, replace(view, **{"grouped": True, **changes}))


def paths(laid: Outline) -> list[str]:
    return [laid.tree.nodes[node].path for node in laid.rows]


def node(session: Session, path: str) -> int:
    assert session.tree is not None
    found = session.tree.find(path)
    assert found is not None
    return found


GROUPED = [
    "", "embed", "layers", "layers.0", "layers.0.attn", "layers.0.attn.heads",
    "layers.0.attn.heads.0", "layers.0.mlp", "head", "last",
]  # fmt: skip


def test_equal_blocks_in_a_row_are_one_row() -> None:
    laid = grouped(model())

    assert paths(laid) == GROUPED
    assert {paths(laid)[row]: laid.steps(each) for row, each in enumerate(laid.rows)} == {
        **dict.fromkeys(GROUPED, ()),
        "layers.0": ((3, 6),),
        "layers.0.attn": ((3, 6),),
        "layers.0.attn.heads": ((3, 6),),
        "layers.0.attn.heads.0": ((2, 1), (3, 6)),
        "layers.0.mlp": ((3, 6),),
        "head": ((2, 1),),
    }


def test_a_row_of_a_row_stands_for_every_node_at_its_place() -> None:
    session = model()
    laid = grouped(session)
    first = node(session, "layers.0.attn.heads.0")

    stands_for = sorted(members(first, laid.steps(first)))

    assert [laid.tree.nodes[each].path for each in stands_for] == [
        f"layers.{layer}.attn.heads.{head}" for layer in range(3) for head in range(2)
    ]
    assert len(list(slices(first, laid.steps(first)))) == 2


def test_figures_of_a_row_are_sums() -> None:
    session = measured()
    laid = grouped(session)
    figures = Figures()
    figures.update(session)

    def cells(path: str) -> tuple[object, ...]:
        index = node(session, path)
        found = figures.cells(index, 12, laid.steps(index))
        return found.parameters, found.macs, found.seconds, found.share, found.p95

    layers = cells("layers.0")
    assert layers[:2] == (90, 900)
    assert layers[2:4] == pytest.approx((0.07, 0.7))
    assert layers[4] == "unavailable"
    # The list of heads is never timed itself: it takes what its two heads take.
    assert cells("layers.0.attn.heads")[2] == pytest.approx(0.07 / 4)
    assert cells("layers.0.attn.heads.0")[:2] == (6 * 4, 6 * 40)
    assert cells("layers.0.attn.heads.0")[2] == pytest.approx(0.07 / 4)
    assert cells("head")[2] == pytest.approx(0.012)


def test_the_bound_of_a_row_is_that_of_its_sums_and_its_bar_shows_each() -> None:
    nodes: list[Node] = []
    for parent, name in ((-1, "m"), (0, "0"), (1, "aten::a"), (0, "1"), (3, "aten::a")):
        nodes.append(node_of(parent, name, "Linear", nodes))
    # The first one takes 1 ms for 0.4 of 400 GFLOP/s, the other 8 ms for 0.03 of 20 GB/s.
    arithmetic, traffic = cost_of(0, 2 * 10**8), cost_of(0, 0, moved=30 * 10**6)
    works = [cost_of(0, 0), arithmetic, arithmetic, traffic, traffic]
    session = ticked(with_ceilings(traced(nodes, works)), {"": 0.0095, "0": 0.001, "1": 0.008})
    laid = grouped(session)
    figures = Figures()
    figures.update(session)

    assert list(laid.rows) == [0, 1]
    assert figures.cells(1, 10).bound == "compute"
    assert figures.cells(1, 10, laid.steps(1)).bound == "memory"
    # 9 ms of 9.5 fill ten cells, the last one half: one of compute, nine of memory.
    assert figures.cells(1, 10, laid.steps(1)).bar.mix == (1, 9, *(0,) * (len(KINDS) - 1))


def test_a_sum_with_an_unknown_part_is_unknown() -> None:
    session = ticked(model(), {"": 0.1, "layers.0": 0.01, "layers.1": 0.01})
    laid = grouped(session)
    figures = Figures()
    figures.update(session)

    index = node(session, "layers.0")
    assert figures.cells(index, 12, laid.steps(index)).seconds == "unavailable"


@pytest.mark.parametrize(
    "other",
    ["1 Block 9 0\n    a A 1 0\n    b B 1 0", "1 Other 9 0\n    a A 1 0\n    c B 1 0",
     "1 Block 9 0\n    a A 1 0", "1 Block 8 0\n    a A 1 0\n    c B 1 0"],
)  # fmt: skip
def test_what_differs_inside_is_not_equal(other: str) -> None:
    block = "  0 Block 9 0\n    a A 1 0\n    c B 1 0\n"
    same = session_of("m M 0 0\n" + block + block.replace("0 Block", "1 Block")).tree
    unlike = session_of("m M 0 0\n" + block + "  " + other).tree
    assert same is not None
    assert unlike is not None

    assert runs(same).counts == {1: 2}
    assert runs(unlike).counts == {}


def test_settings_are_part_of_being_equal() -> None:
    nodes: list[Node] = []
    for parent, name in ((-1, "m"), (0, "0"), (0, "1"), (0, "2")):
        nodes.append(node_of(parent, name, "Conv2d", nodes))
    nodes[3] = replace(nodes[3], detail="3×3")
    tree = traced(nodes, [cost_of(1, 1)] * 4).tree
    assert tree is not None
    assert (runs(tree).counts, runs(tree).firsts) == ({1: 2}, {2: 1})


def test_going_to_a_block_shows_its_row_of_blocks_one_by_one() -> None:
    session = model()
    laid = grouped(session)
    wanted = node(session, "layers.1.attn.heads.1")
    assert laid.row_of(wanted) is None
    assert laid.tree.nodes[laid.standing_for(wanted)].path == "layers.0.attn.heads.0"

    view = focuses.revealing(laid.focus, laid.tree, wanted)
    shown = rows.relaid(laid, session, replace(view, apart=laid.hiding(wanted)))

    assert shown.focus.selected == wanted
    assert "layers.2" in paths(shown)
    assert shown.steps(node(session, "layers.1")) == ()
    assert shown.steps(node(session, "head")) == ((2, 1),)


def test_the_cursor_goes_to_the_row_that_stands_for_its_node() -> None:
    session = model()
    before = grouped(session, grouped=False, selected=node(session, "layers.2.mlp"))

    after = rows.relaid(before, session, replace(before.focus, grouped=True))
    back = rows.relaid(after, session, replace(after.focus, grouped=False))

    assert after.tree.nodes[after.focus.selected].path == "layers.0.mlp"
    assert len(back) == len(before)


def test_rows_of_blocks_fold_sort_and_drill_down() -> None:
    session = measured()
    laid = grouped(session)
    first = node(session, "layers.0")

    folded = rows.toggled(laid, session, first)
    assert list(rows.toggled(folded, session, first).rows) == list(laid.rows)
    assert paths(folded) == [path for path in GROUPED if not path.startswith("layers.0.")]
    # head and tail take 12 ms together, embed and last 1 ms each; layers 70.
    by_time = rows.relaid(folded, session, replace(folded.focus, sort="seconds", descending=True))
    assert paths(by_time) == ["", "layers", "layers.0", "head", "embed", "last"]
    drilled = rows.relaid(laid, session, focuses.drilled_down(laid.focus, first))
    assert drilled.steps(first) == ()
    assert drilled.steps(node(session, "layers.0.attn.heads.0")) == ((2, 1),)


def test_a_filter_shows_what_it_finds_one_by_one() -> None:
    session = model()
    laid = rows.filtered(grouped(session), session, "mlp")

    assert laid.shape.found == 3
    assert [path for path in paths(laid) if path.endswith("mlp")] == [
        f"layers.{layer}.mlp" for layer in range(3)
    ]
    assert laid.steps(node(session, "layers.0.mlp")) == ()


def test_bars_hold_the_sums_of_rows() -> None:
    blocks = "".join(f"  {i} Block 10 100\n" for i in range(20))
    session = session_of("m M 200 2000\n" + blocks)
    laid = grouped(session)
    figures = Figures()
    figures.update(session)
    assert figures.scale == 0.05
    figures.update(session, 0, laid.run_of)
    assert figures.scale == 1.0
    assert figures.cells(1, 12, laid.steps(1)).bar.halves == 24
    figures.update(session)
    assert figures.scale == 0.05
