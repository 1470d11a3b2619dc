from __future__ import annotations

from array import array

from msgspec.structs import replace

from tests.small_model import (
    CEILINGS,
    CONV,
    DONE,
    FC,
    FC_OP,
    MEASURED,
    ROOT,
    TRACED,
    folded,
    operator_times,
    tick,
)
from tui_profiler.messages import MemoryWindow, Node, Nodes, TraceDone
from tui_profiler.queries.panel.provenance import why


def test_a_module_without_times_was_not_called() -> None:
    session = folded((*TRACED, tick({ROOT: (0.001, 0.001)})))

    assert why(session, CONV).startswith("time: not called so far ·")


def test_a_module_without_times_may_have_been_left_out() -> None:
    few = replace(tick({ROOT: (0.001, 0.001)}), left_out=9_001)

    said = why(folded((*TRACED, few)), CONV)

    assert said.startswith("time: not called, or one of 9,001 with the least time, left out ·")


def test_the_words_for_little_of_a_roof_are_those_of_the_roofline() -> None:
    session = folded((*TRACED, CEILINGS, tick({ROOT: (10.0, 10.0), CONV: (10.0, 10.0)})))

    assert "bound: neither compute- nor bandwidth-limited; cause unknown" in why(session, CONV)


def test_figures_that_depend_on_the_data_are_called_a_bound() -> None:
    asked = next(n for n in nodes_of(TRACED) if n.kind == "op").name
    done = replace(DONE, bounded=(asked, "aten::nonzero"))
    messages = tuple(done if isinstance(m, TraceDone) else m for m in TRACED)

    said = why(folded(messages), CONV)

    assert f"work: at most, it follows on {asked} and 1 more, which depends on the data" in said


def nodes_of(messages: tuple[object, ...]) -> list[Node]:
    return [node for m in messages if isinstance(m, Nodes) for node in m.nodes]


def test_ceilings_that_are_measured_are_not_said_to_be_missing() -> None:
    measured = (*TRACED, CEILINGS)
    for session in (folded(measured), folded((*measured, tick({ROOT: (0.001, 0.001)})))):
        assert "it has no time to compare with the ceilings" in why(session, CONV)
        assert "not measured yet" not in why(session, CONV)
    assert why(folded(TRACED), CONV).endswith("; ceilings are not measured yet")


def test_memory_that_was_not_measured_says_why_and_not_before_the_first_times() -> None:
    one, two = array("I", [ROOT]).tobytes(), array("Q", [4000]).tobytes()
    window = MemoryWindow(1.0, 10_000, 512, 4000, 7, one, two, two)
    refused = replace(operator_times({}, windows=0), why_none="the program's own profiler runs")
    said = {
        "": why(folded(TRACED), ROOT),
        "unavailable, no operator window with memory events was opened": why(
            folded(MEASURED), ROOT
        ),
        "unavailable, no operator window was opened: the program's own profiler runs": why(
            folded((*MEASURED, refused)), ROOT
        ),
        "measured in one operator window": why(folded((*MEASURED, window)), ROOT),
        "unavailable, not called in the operator window": why(folded((*MEASURED, window)), FC),
    }
    for expected, found in said.items():
        assert found.partition("memory: ")[2] == expected
    assert "memory: " not in why(folded(MEASURED), FC_OP)
