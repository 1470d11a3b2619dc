"""The report verb on known messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from tests.recorded_source import Recorded
from tests.small_model import MEASURED, TRACED
from tui_profiler.messages import (
    Ended,
    Failed,
    FileFacts,
    Heartbeat,
    Hello,
    Listed,
    LoopState,
    Message,
    Program,
    Remedy,
    Request,
    StageDone,
)
from tui_profiler.session import Session
from tui_profiler.verbs.one_request import models
from tui_profiler.verbs.outcome import complaint, exit_code
from tui_profiler.verbs.report import progress_line, report


class Watched(Recorded):
    """A recorded source that knows whether it was closed."""

    is_closed = False

    async def close(self) -> None:
        self.is_closed = True
        await super().close()


async def told(source: Recorded, *, measuring: bool = False) -> tuple[Session, list[str]]:
    lines: list[str] = []
    session = await report(source, measuring=measuring, progress=lines.append)
    return session, lines


async def test_without_measuring_the_whole_tree_is_enough() -> None:
    session, _ = await told(Recorded(MEASURED))
    assert (session.tree is not None, session.timings) == (True, None)


async def test_measuring_waits_until_enough_was_run() -> None:
    session, _ = await told(Recorded(MEASURED), measuring=True)
    assert session.tick is not None
    assert session.overhead is not None


async def test_a_program_that_runs_no_forward_is_waited_for_and_its_end_is_a_failure() -> None:
    hello = Hello(1, 7, (), program=Program("idle", 7, "idle.py", 0.0, 5.0))
    beats = [Heartbeat(float(at), 0.0) for at in range(5)]
    for end in (
        Ended(0, True, attached=True),
        LoopState("finished", 5.0, detail="the program ended"),
    ):
        session, lines = await told(Recorded((hello, *beats, end), ends=True), measuring=True)
        assert lines == ["waiting for its next forward"]
        assert complaint(session, debug=False) == (
            "trace: no forward of the program was recorded",
            "because the program ended",
            "try tui-profiler attach --list",
        )
        assert exit_code(session) == 1
    worker, lines = await told(Recorded((*beats, Ended(0, True)), ends=True))
    assert (worker.failure, lines) == (None, [])


async def test_each_stage_that_is_done_is_told() -> None:
    _, lines = await told(Recorded(MEASURED), measuring=True)
    assert lines == ["import torch: 1.50 s, 2.15.0", "measuring"]


async def test_what_a_trusted_file_runs_is_told_once() -> None:
    file = FileFacts(
        "torch-zip-module",
        "module",
        1,
        2,
        "not checked",
        untrusted_globals=("posix.system", "a\x1b.b"),
        is_trusted=True,
        dangerous_globals=("posix.system",),
    )
    checked = replace(file, checksum="verified")
    _, lines = await told(Recorded((file, checked, *MEASURED)))
    (line,) = (line for line in lines if line.startswith("file: "))
    assert "imports posix.system, a\\x1b.b; the first can run commands" in line
    assert lines[0] == line


async def test_of_a_file_that_is_not_trusted_no_code_is_told() -> None:
    file = FileFacts("torch-zip-module", "module", 1, 2, "", untrusted_globals=("posix.system",))
    _, lines = await told(Recorded((file, *MEASURED)))
    assert not any(line.startswith("file: ") for line in lines)


@pytest.mark.parametrize(
    "last", [Failed("trace", "no"), Ended(-9, False), LoopState("finished", 1.0)]
)
async def test_what_ends_a_run_ends_the_verb(last: Message) -> None:
    session, _ = await told(Recorded((*TRACED[:-1], last)), measuring=True)
    assert session.tree is None


async def test_a_failure_of_one_request_does_not_end_the_verb() -> None:
    failed = Failed("ceilings", "no", fatal=False)
    session, _ = await told(Recorded((failed, *MEASURED)), measuring=True)
    assert session.tick is not None


async def test_a_source_that_ends_without_a_word_ends_the_verb() -> None:
    session, _ = await told(Recorded(TRACED[:3], ends=True))
    assert session.tree is None


async def test_the_source_is_closed_when_all_is_known() -> None:
    source = Watched(TRACED)
    await told(source)
    assert source.is_closed


async def test_the_source_is_closed_when_the_verb_is_interrupted() -> None:
    source = Watched(TRACED[:2])
    verb = asyncio.create_task(told(source))
    await asyncio.sleep(0)
    verb.cancel()
    with pytest.raises(asyncio.CancelledError):
        await verb
    assert source.is_closed


async def test_the_source_is_closed_when_it_raises() -> None:
    class Broken(Watched):
        async def messages(self) -> AsyncIterator[Message]:
            yield TRACED[0]
            raise OSError("gone")

        def send(self, request: Request) -> None:
            del request

    source = Broken(())
    with pytest.raises(OSError, match="gone"):
        await told(source)
    assert source.is_closed


async def test_models_gives_the_names() -> None:
    names = Listed((("demo", "demo:cnn"),))
    assert (await models(Recorded((TRACED[0], names)))).listed == names


async def test_models_ends_when_the_worker_fails() -> None:
    session = await models(Recorded((Failed("worker", "no"),)))
    assert session.failure is not None


FAILURE = Failed(
    stage="load model",
    what="no model is called resnet51",
    where="layer1",
    at="net.py:3",
    why="the name is unknown",
    likely="a slip",
    remedies=(Remedy("tui-profiler resnet50", "the nearest name"),),
    traceback="Traceback\n  \x1b[31mline",
)


def test_a_failure_says_what_and_what_to_try() -> None:
    assert complaint(Session(failure=FAILURE), debug=False) == (
        "load model: no model is called resnet51 (layer1 in net.py:3)",
        "because the name is unknown",
        "likely a slip",
        "try tui-profiler resnet50: the nearest name",
    )


def test_a_traceback_is_shown_for_debugging_only_and_made_safe() -> None:
    assert complaint(Session(failure=FAILURE), debug=True)[-2:] == (
        "Traceback",
        "  \\x1b[31mline",
    )


def test_a_failure_without_a_remedy_says_how_to_learn_more() -> None:
    raised = Failed("trace", "KeyError", at="net.py:3", traceback="a line")
    said, remedy = complaint(Session(failure=raised), debug=False)
    assert (said, remedy) == (
        "trace: KeyError (net.py:3)",
        "try --debug: it shows where this happened",
    )
    assert complaint(Session(failure=raised), debug=True)[1] == "try a change at net.py:3"
    without = Session(failure=Failed("trace", "KeyError"))
    assert complaint(without, debug=False)[1] == "try tui-profiler --help: lists what there is"


def test_a_stage_from_before_it_was_attached_to_has_no_time() -> None:
    told = StageDone("worker", 0.0, 0.0, "attached to pid 7")
    assert progress_line(told) == "worker: attached to pid 7"
    assert progress_line(replace(told, seconds=1.5)) == "worker: 1.50 s, attached to pid 7"


@pytest.mark.parametrize(
    ("session", "code"),
    [
        (Session(), 0),
        (Session(ended=Ended(0, True)), 0),
        (Session(ended=Ended(-15, True)), 0),
        (Session(ended=Ended(-9, False)), 1),
        (Session(failure=Failed("run", "no")), 1),
        (Session(failure=Failed("load model", "no", bad_argument=True)), 2),
    ],
)
def test_the_exit_code_says_whose_fault_it_was(session: Session, code: int) -> None:
    assert exit_code(session) == code


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (-9, "the worker was ended by SIGKILL (sender not known); last output: Killed"),
        (-11, "the worker was ended by SIGSEGV; last output: Killed"),
        (-99, "the worker was ended by signal 99; last output: Killed"),
        (3, "the worker ended with exit code 3; last output: Killed"),
    ],
)
def test_a_worker_that_dies_is_a_sentence(code: int, said: str) -> None:
    lines = complaint(Session(ended=Ended(code, False, "Killed")), debug=False)
    assert lines[0] == said


async def test_a_worker_that_dies_in_a_stage_names_it() -> None:
    session, _ = await told(Recorded((TRACED[1], Ended(-9, False))))
    assert complaint(session, debug=False)[0] == (
        "the worker was ended by SIGKILL (sender not known) during import torch"
    )


def test_all_went_well_says_nothing() -> None:
    assert complaint(Session(), debug=True) == ()
