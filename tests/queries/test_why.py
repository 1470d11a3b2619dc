from __future__ import annotations

from msgspec.structs import replace

from tests.small_model import CEILINGS, CONV, DONE, ROOT, TRACED, folded, tick
from tui_profiler.messages import Node, Nodes, TraceDone
from tui_profiler.queries.why import why


def test_a_module_without_times_was_not_called() -> None:
    session = folded((*TRACED, tick({ROOT: (0.001, 0.001)})))

    assert why(session, CONV).startswith("time: not called since the model runs ·")


def test_a_module_without_times_may_have_been_left_out() -> None:
    few = replace(tick({ROOT: (0.001, 0.001)}), left_out=9_001)

    said = why(folded((*TRACED, few)), CONV)

    assert said.startswith("time: not called, or one of 9,001 with the least time, left out ·")


def test_the_words_for_little_of_a_roof_are_those_of_the_roofline() -> None:
    session = folded((*TRACED, CEILINGS, tick({ROOT: (10.0, 10.0), CONV: (10.0, 10.0)})))

    assert "bound: far below every roof" in why(session, CONV)


def test_figures_that_depend_on_the_data_are_called_a_bound() -> None:
    asked = next(n for n in nodes_of(TRACED) if n.kind == "op").name
    done = replace(DONE, bounded=(asked, "aten::nonzero"))
    messages = tuple(done if isinstance(m, TraceDone) else m for m in TRACED)

    said = why(folded(messages), CONV)

    assert f"work: at most, it follows on {asked} and 1 more, which depends on the data" in said


def nodes_of(messages: tuple[object, ...]) -> list[Node]:
    return [node for m in messages if isinstance(m, Nodes) for node in m.nodes]
