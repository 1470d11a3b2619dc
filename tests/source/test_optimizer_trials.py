"""Trials beside a program: a real worker tries tensors, and the program is asked for nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace
from torch import nn

from tui_profiler.messages import (
    Ended,
    Failed,
    Hello,
    LoadSpec,
    Program,
    Request,
    StopTrial,
    TraceAgain,
    TrialProgress,
    TrialResult,
    TryOptimizer,
    Wish,
)
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trials.experiment import Progress, try_change
from tui_profiler.probe.trials.kinds.change import Subject
from tui_profiler.probe.trials.kinds.optimizer_loop import alone
from tui_profiler.source import Told
from tui_profiler.source.optimizer_trials import ACCEPTS, WithOptimizerTrials

HELLO = Hello(1, 1, ("Observe",), program=Program("net", 1, "python train.py", 0.0, 0.0))


class Quiet:
    """Says hello, and nothing until it is closed."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.is_over = asyncio.Event()

    async def messages(self) -> AsyncIterator[Told]:
        yield HELLO
        await self.is_over.wait()
        yield Ended(0, expected=True)

    def send(self, request: Request) -> None:
        self.asked.append(request)

    async def close(self) -> None:
        self.is_over.set()


def request(name: str = "AdamW", dtype: str = "float32") -> TryOptimizer:
    tensors = (((64, 32), dtype), ((64,), dtype))
    wish = Wish("optimizer-loop", seconds=0.05)
    return TryOptimizer(LoadSpec("", threads=1), wish, name, tensors, of_step=0.25)


async def result_of(source: WithOptimizerTrials, told: AsyncIterator[Told]) -> TrialResult:
    async for message in told:
        if isinstance(message, TrialResult):
            return message
    raise AssertionError("no result")


async def test_tensors_beyond_the_memory_limit_end_the_trial_not_the_worker() -> None:
    source = WithOptimizerTrials(Quiet())
    told = source.messages()
    asked = request()
    wish = replace(asked.wish, most_bytes=64 << 20)
    async with asyncio.timeout(240):
        await anext(told)
        source.send(replace(asked, wish=wish, tensors=(((1 << 14, 1 << 13), "float32"),)))
        result = await result_of(source, told)
        await source.close()
    assert result.outcome == "memory"
    assert result.why.startswith("out of memory")


async def test_a_worker_tries_tensors_of_the_same_shapes() -> None:
    program = Quiet()
    source = WithOptimizerTrials(program)
    told = source.messages()
    async with asyncio.timeout(240):
        hello = await anext(told)
        assert isinstance(hello, Hello)
        assert hello.accepts == ("Observe", *ACCEPTS)

        source.send(request())
        source.send(request("SGD"))  # One at a time.
        result = await result_of(source, told)
        assert result.outcome == "measured", result.why
        assert result.detail == (
            "the update of 2 tensors by AdamW with its default settings, fused=True"
        )
        assert result.of_step == 0.25
        assert result.error is not None
        assert result.error.values == 64 * 32 + 64
        assert result.error.relative < 1e-4

        source.send(TraceAgain())
        await source.close()
        assert [type(one) async for one in told] == [Ended]
    assert program.asked == [TraceAgain()]


@pytest.mark.parametrize(
    ("shapes", "why"),
    [
        ((), "no parameter of the program is known"),
        ((((2,), "int8"),), "parameters of int8 are not tried"),
        ((((2,), "nn"),), "parameters of nn are not tried"),
        ((((1 << 45,), "float32"),), "its tensors take more memory than is free"),
    ],
)
def test_tensors_that_cannot_be_made_are_said(
    shapes: tuple[tuple[tuple[int, ...], str], ...], why: str
) -> None:
    wish = request().wish
    nothing = Subject(nn.Module(), Inputs(()), None)
    progress = Progress(wish, lambda _: None, lambda: None)
    result = try_change(alone("AdamW", shapes, "cpu"), wish, nothing, progress)
    assert (result.outcome, result.why) == ("impossible", why)


class Worker:
    """Reports progress, then what it is told to say, if anything."""

    def __init__(self, last: Told | None) -> None:
        self.last = last
        self.is_closed = asyncio.Event()

    async def messages(self) -> AsyncIterator[Told]:
        yield TrialProgress("optimizer-loop", -1, "measure", 1.0)
        if self.last is None:
            await self.is_closed.wait()
        else:
            yield self.last

    def send(self, request: Request) -> None:
        raise AssertionError(request)

    async def close(self) -> None:
        self.is_closed.set()


@pytest.mark.parametrize(
    ("last", "outcome", "why"),
    [
        (None, "stopped", "stopped"),
        (Failed("import torch", "no torch"), "failed", "import torch: no torch"),
        (Ended(1, expected=False), "failed", "its process ended"),
    ],
)
async def test_a_trial_that_is_stopped_or_fails_has_a_result_and_its_worker_ends(
    last: Told | None, outcome: str, why: str
) -> None:
    worker = Worker(last)
    source = WithOptimizerTrials(Quiet(), lambda _: worker)
    told = source.messages()
    async with asyncio.timeout(120):
        await anext(told)
        source.send(request())
        assert isinstance(await anext(told), TrialProgress)
        assert isinstance(await anext(told), TrialProgress)
        if last is None:
            source.send(StopTrial())
        result = await result_of(source, told)
        assert (result.outcome, result.why) == (outcome, why)
        assert worker.is_closed.is_set()
        await source.close()


async def test_what_the_program_s_source_raises_is_raised_and_a_trial_ends_with_it() -> None:
    class Broken(Quiet):
        async def messages(self) -> AsyncIterator[Told]:
            yield HELLO
            await self.is_over.wait()
            raise OSError("gone")

    program, worker = Broken(), Worker(None)
    source = WithOptimizerTrials(program, lambda _: worker)
    told = source.messages()
    async with asyncio.timeout(120):
        await anext(told)
        source.send(request())
        await anext(told)
        program.is_over.set()
        with pytest.raises(OSError, match="gone"):
            async for _ in told:
                pass
        assert worker.is_closed.is_set()
