from __future__ import annotations

from array import array

from msgspec.structs import replace

from tests.queries.sessions import session_of, traced
from tests.small_model import (
    CEILINGS,
    CONV,
    DONE,
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

    assert why(session, CONV)[0] == ("time", "not called so far")


def test_a_module_without_times_may_have_been_left_out() -> None:
    few = replace(tick({ROOT: (0.001, 0.001)}), left_out=9_001)

    said = dict(why(folded((*TRACED, few)), CONV))

    assert said["time"] == "not called, or one of 9,001 with the least time, left out"


def test_the_words_for_little_of_a_roof_are_those_of_the_roofline() -> None:
    session = folded((*TRACED, CEILINGS, tick({ROOT: (10.0, 10.0), CONV: (10.0, 10.0)})))

    said = dict(why(session, CONV))["bound"]
    assert said.startswith("neither compute- nor bandwidth-limited; cause unknown")


def test_figures_that_depend_on_the_data_are_called_a_bound() -> None:
    asked = next(n for n in nodes_of(TRACED) if n.kind == "op").name
    done = replace(DONE, bounded=(asked, "aten::nonzero"))
    messages = tuple(done if isinstance(m, TraceDone) else m for m in TRACED)

    said = dict(why(folded(messages), CONV))["work"]

    assert said == f"at most, it depends on {asked} and 1 more, whose output depends on the data"


def nodes_of(messages: tuple[object, ...]) -> list[Node]:
    return [node for m in messages if isinstance(m, Nodes) for node in m.nodes]


def test_ceilings_that_are_measured_are_not_said_to_be_missing() -> None:
    measured = (*TRACED, CEILINGS)
    for session in (folded(measured), folded((*measured, tick({ROOT: (0.001, 0.001)})))):
        said = dict(why(session, CONV))["bound"]
        assert said.endswith("; no time to compare with the roofs")
    assert dict(why(folded(TRACED), CONV))["bound"].endswith("; the roofline is not calibrated yet")


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
        "unavailable, not seen in the operator window": why(folded((*MEASURED, window)), FC_OP),
    }
    for expected, found in said.items():
        assert dict(found).get("memory", "") == expected


def test_operators_without_a_formula_are_named_wherever_they_lie_most_calls_first() -> None:
    session = session_of(
        "m M 0 0\n  a A 0 0\n    x::one x 0 0\n  b B 0 0\n    x::two x 0 0\n  c C 0 0"
    )
    assert session.tree is not None
    uncosted = {0: 9, 1: 1, 2: 1, 3: 5, 4: 5, 5: 3}
    notes = {5: "compiled by torch.compile: [bold]\x1b"}
    nodes = [replace(each, note=notes.get(at, "")) for at, each in enumerate(session.tree.nodes)]
    costs = [
        replace(each, ops=9, uncosted=uncosted[at]) for at, each in enumerate(session.tree.costs)
    ]
    session = traced(nodes, costs)

    assert dict(why(session, 0))["no formula"] == (
        "x::two ×5, compiled by torch.compile: [bold]\\x1b ×3, x::one ×1"
    )
    assert dict(why(session, 1))["no formula"] == "x::one ×1"
    assert dict(why(traced(nodes[:5], costs[:5]), 0))["no formula"] == (
        "x::two ×5, operators that were not seen ×3, x::one ×1"
    )
    assert "no formula" not in dict(why(folded(TRACED), CONV))
