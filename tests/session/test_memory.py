"""Steps of memory arrive with their tree; what does not fit its nodes is left out."""

from __future__ import annotations

from array import array

import pytest
from msgspec.structs import replace

from tests.queries.forward.test_memory import SMALL, session_with
from tests.session.test_phases import RUNNING
from tests.small_model import COSTS, DONE, NODES, TRACED, folded
from tui_profiler.messages import LoopState, MemorySteps, Message, Nodes, Phase, TraceStarted


def traced(phase: Phase, steps: MemorySteps) -> tuple[Message, ...]:
    return (TraceStarted(len(NODES), "dispatch:fake", phase), Nodes(NODES, COSTS), steps, DONE)


def calls(session) -> int | None:
    memory = session.tree.memory
    return None if memory is None else memory.steps.calls


def test_they_are_kept_with_their_tree() -> None:
    assert calls(session_with(SMALL)) == 4


def test_a_tree_without_them_has_none() -> None:
    assert calls(folded(TRACED)) is None
    assert calls(folded(TRACED, session_with(SMALL))) is None


def test_each_phase_has_its_own() -> None:
    session = folded((*traced("prefill", SMALL), *traced("decode", replace(SMALL, calls=9))))
    assert calls(session) == 4
    session = folded((RUNNING, LoopState("running", 2.0, 1, phase="decode")), session)
    assert calls(session) == 9


@pytest.mark.parametrize(
    "changes",
    [
        {"live": b""},
        {"whole": SMALL.whole[:-1]},
        {"nodes": SMALL.nodes + b"\0"},
        {"nodes": array("I", [0, 1, 2, len(NODES)]).tobytes()},
        {"makers": array("i", [0, 1, len(NODES)]).tobytes()},
        {"makers": array("i", [0, 1, -2]).tobytes()},
        {"sizes": b"\0"},
    ],
)
def test_columns_that_do_not_fit_are_left_out(changes: dict[str, bytes]) -> None:
    session = session_with(replace(SMALL, **changes))
    assert session.tree is not None
    assert calls(session) is None


def test_steps_of_no_tree_are_ignored() -> None:
    before = folded(TRACED)
    assert folded((SMALL,), before).tree is before.tree
