"""A model that was to be measured and has no times: each verb fails and says why."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tests.recorded_source import Recorded
from tests.small_model import FACTS, MEASURED, TRACED, folded
from tui_profiler import messages
from tui_profiler.queries.sweep import Axis, Sweep
from tui_profiler.reports.json.report import json_report
from tui_profiler.reports.json_values import Json
from tui_profiler.reports.text.full import full_markdown, full_text
from tui_profiler.reports.text.table import table
from tui_profiler.session import Session
from tui_profiler.verbs.outcome import DONE, MODEL_FAILED, complaint, exit_code, measured
from tui_profiler.verbs.sweep import exit_code as exit_code_of_sweep
from tui_profiler.verbs.sweep import sweep
from tui_profiler.verbs.trials import try_out
from tui_profiler.verbs.zoo import Job, make

WHY = "no forward after the warm-up was finished; measure for longer"
FIRST_RUN = messages.StageDone("first run", 2.0, 0.1)
TOO_SHORT: tuple[messages.Message, ...] = (
    *MEASURED[: len(TRACED)],
    FIRST_RUN,
    *(one for one in MEASURED[len(TRACED) :] if not isinstance(one, messages.Tick)),
)


def test_no_times_where_they_were_asked_for_is_a_failure_with_a_remedy() -> None:
    session = measured(folded(TOO_SHORT))

    assert exit_code(folded(TOO_SHORT)) == DONE
    assert exit_code(session) == MODEL_FAILED
    assert complaint(session, debug=False) == (
        f"measure: {WHY}",
        "try --measure SECONDS: runs it for longer",
    )


@pytest.mark.parametrize(
    "written",
    [
        lambda session: "\n".join(table(session, columns=120)),
        lambda session: full_text(session, columns=120, top=None),
        lambda session: full_markdown(session, top=None),
        json_report,
    ],
    ids=["table", "text", "markdown", "json"],
)
def test_each_format_says_it(written: Callable[[Session], str]) -> None:
    assert WHY in " ".join(written(measured(folded(TOO_SHORT))).split())


@pytest.mark.parametrize(
    "told",
    [
        MEASURED,
        TRACED,
        (*TRACED, messages.LoopState("finished", 5.0, 1, "not run: it has no values")),
    ],
    ids=["it has times", "not run", "it cannot run"],
)
def test_what_has_times_or_did_not_run_is_none(told: tuple[messages.Message, ...]) -> None:
    assert measured(folded(told)).failure is None


def test_a_model_of_many_is_a_failure_with_its_report() -> None:
    origin: dict[str, Json] = {"version": "1", "libraries": {}, "asked": {}, "jobs": 1}
    job = Job(messages.LoadSpec(FACTS.name, seconds=0.1), None, 60.0, origin)
    made = asyncio.run(make(job, lambda _: Recorded(TOO_SHORT)))

    assert (made.code, made.what) == (MODEL_FAILED, f"measure: {WHY}")
    assert json.loads(made.text)["report"]["latency"] is None


async def test_a_point_of_a_sweep_is_a_failure() -> None:
    def begin(request: messages.Request) -> Recorded:
        assert isinstance(request, messages.Start)
        batch = request.spec.batch
        return Recorded(
            [
                replace(m, batch=batch) if isinstance(m, messages.ModelFacts) else m
                for m in TOO_SHORT
            ]
        )

    found = await sweep(
        Sweep(FACTS.name, (Axis("batch", (1, 2)),), 1, 0.1, True),
        messages.LoadSpec(FACTS.name),
        begin,
        seconds=60.0,
        now=lambda: 0.0,
        progress=lambda _: None,
        kept=lambda _: None,
    )

    assert [visit.failure for visit in found.visits] == [f"measure: {WHY}"] * 2
    assert exit_code_of_sweep(found) == MODEL_FAILED


async def test_nothing_is_tried_on_it() -> None:
    source = Recorded(TOO_SHORT)
    session = await try_out(
        source, (messages.Wish("compile"),), progress=lambda _: None, kept=lambda _: None
    )

    assert source.requests == []
    assert exit_code(session) == MODEL_FAILED
