from __future__ import annotations

from array import array

import pytest

from tests.queries.sessions import session_of
from tui_profiler.messages import BackwardOperators, CalledOperators
from tui_profiler.messages.training import OUTSIDE
from tui_profiler.queries.training.backward_operators import backward_operators, outside_operators
from tui_profiler.session import EMPTY, apply

TREE = """
model Net 0 0
  block Block 0 0
    linear Linear 16 16
  head Linear 16 16
"""
MODEL, BLOCK, LINEAR, HEAD = range(4)


def columns(*rows: tuple[int, str, int, float, float]) -> CalledOperators:
    names = tuple(sorted({row[1] for row in rows}))
    return CalledOperators(
        names=names,
        nodes=array("I", [row[0] for row in rows]).tobytes(),
        name_of=array("I", [names.index(row[1]) for row in rows]).tobytes(),
        calls=array("I", [row[2] for row in rows]).tobytes(),
        per_forward=array("f", [row[3] for row in rows]).tobytes(),
        own_per_forward=array("f", [row[4] for row in rows]).tobytes(),
    )


TOLD = BackwardOperators(
    at=1.0,
    windows=2,
    step_seconds=4.0,
    pass_seconds=3.0,
    numbered=2.0,
    outside=0.5,
    operators=columns(
        (LINEAR, "AddmmBackward0", 1, 1.0, 0.25),
        (LINEAR, "aten::mm", 2, 0.75, 0.75),
        (BLOCK, "aten::mul", 1, 0.25, 0.25),
        (HEAD, "aten::mm", 2, 0.5, 0.5),
        (OUTSIDE, "aten::pow", 1, 0.5, 0.5),
    ),
    recomputed=columns((LINEAR, "aten::mm", 1, 0.25, 0.25)),
)
SESSION = apply(session_of(TREE), TOLD)


def test_modules_inside_are_added_up_and_most_own_seconds_go_first() -> None:
    rows = backward_operators(SESSION, MODEL)
    assert [(row.name, row.calls, row.seconds, row.own, row.is_recomputed) for row in rows] == [
        ("aten::mm", 4, 1.25, 1.25, False),
        ("AddmmBackward0", 1, 1.0, 0.25, False),
        ("aten::mul", 1, 0.25, 0.25, False),
        ("aten::mm", 1, 0.25, 0.25, True),
    ]
    assert sum(row.share for row in rows) == pytest.approx(1.0)
    assert [row.name for row in backward_operators(SESSION, BLOCK, 1)] == ["aten::mm"]
    assert [row.own for row in backward_operators(SESSION, HEAD)] == [0.5]


def test_what_is_not_the_models_is_apart() -> None:
    assert [(row.name, row.share) for row in outside_operators(SESSION)] == [("aten::pow", 1.0)]


def test_names_are_safe_to_show() -> None:
    told = BackwardOperators(
        *(1.0, 1, 1.0, 1.0, 1.0, 0.0),
        operators=columns((HEAD, "\x1b[31mred", 1, 1.0, 1.0)),
        recomputed=columns(),
    )
    (row,) = backward_operators(apply(session_of(TREE), told), HEAD)
    assert "\x1b" not in row.name


def test_before_the_first_window_there_is_nothing() -> None:
    assert backward_operators(session_of(TREE), MODEL) == ()
    assert outside_operators(EMPTY) == ()
    assert apply(SESSION, TOLD).backward is not None
    assert session_of(TREE, after=SESSION).backward is None
