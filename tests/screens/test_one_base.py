"""What stands on one screen is of one whole: shares, bars and orders of tree, strip and panels."""

from __future__ import annotations

import pytest

from screens.explorer.tree.columns import columns_for
from screens.explorer.tree.lines import heading, row
from screens.views.inspector.compact_pane import one_line
from screens.widgets.lines import text
from screens.widgets.rows import Look
from screens.widgets.timing_lines import timing_lines
from tests.queries.time.test_base import A, B, inferring, training
from tui_profiler.formatting.canvas import UNICODE
from tui_profiler.queries.tree.cells import Figures
from tui_profiler.queries.tree.columns import step_columns
from tui_profiler.queries.tree.focus import initial
from tui_profiler.queries.tree.rows import outline
from tui_profiler.session import Session


def shown(session: Session, cells: int = 80) -> dict[str, str]:
    """Return the heading and the rows of the tree by the name of their node."""
    assert session.tree is not None
    figures = Figures()
    figures.update(session)
    laid = outline(session, initial(session.tree))
    columns = columns_for(cells, "wide", of_step=step_columns(session))
    rows = {
        session.tree.nodes[node].name: text(row(laid, figures, node, columns)) for node in laid.rows
    }
    return {"": text(heading(laid, figures, columns).line(UNICODE)), **rows}


def drawn(line: str) -> float:
    """Return the cells of a bar."""
    return line.count("━") + line.count("╸") / 2


def test_in_training_the_bar_is_of_the_share_beside_it() -> None:
    rows = shown(training())

    assert "step%" in rows[""]
    assert "avg" not in rows[""]
    for name, share in (("a", " 16 "), ("b", " 44 "), ("c", " <1 ")):
        assert share in rows[name]
    assert drawn(rows["b"]) > 2.5 * drawn(rows["a"]) > 0
    assert not drawn(rows["c"])


def test_in_inference_it_is_of_the_forward() -> None:
    rows = shown(inferring())

    assert "step%" not in rows[""]
    assert drawn(rows["a"]) == pytest.approx(2 * drawn(rows["b"]), abs=1)


@pytest.mark.parametrize("cells", [40, 50, 60, 70, 80, 100, 120, 160])
def test_columns_of_a_training_are_all_of_the_step(cells: int) -> None:
    names = columns_for(cells, "wide", of_step=step_columns(training())).names

    assert "seconds" not in names
    assert "share" not in names
    assert not names or "step" in names


def test_panels_name_what_their_shares_are_of() -> None:
    def said(session: Session, node: int) -> str:
        look = Look(session, node, 0.0, 60, UNICODE)
        lines = (*timing_lines(look), one_line(look))
        return "\n".join(map(text, lines))

    assert "of step  44 %" in said(training(), B)
    assert "440 ms  44 %" in said(training(), B)
    assert "share  60 %" in said(inferring(), A)
    assert "60.0 ms  60 %" in said(inferring(), A)
