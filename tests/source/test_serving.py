"""A program's messages with those of a server beside it, over real HTTP."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from http.server import BaseHTTPRequestHandler

import pytest

from tests.serving.answers import RELEASES, answer, grown, say, serving
from tui_profiler.messages import Ended, Heartbeat, Request, ServingFigures, ServingSeen, Step
from tui_profiler.serving.address import address
from tui_profiler.session import EMPTY, Jump, Session, apply
from tui_profiler.source import Told
from tui_profiler.source.serving import NOT_READ, WithServing

FIRST_OF_ALL = Heartbeat(1.0, 0.0)
COUNTERS = {
    "vllm-0.32": ("vllm:generation_tokens_total", {}),
    "vllm-0.6": ("vllm:generation_tokens_total", {}),
    "sglang-0.5.8": ("sglang:realtime_tokens_total", {"mode": "decode"}),
    "tgi-3": ("tgi_request_generated_tokens_sum", {}),
}


class Program:
    """Says something, and ends when it may; what it was asked is kept."""

    def __init__(self, *told: Told) -> None:
        self._told = told
        self.asked: list[Request] = []
        self.is_closed = False
        self.go_on = asyncio.Event()

    async def messages(self) -> AsyncIterator[Told]:
        for message in (FIRST_OF_ALL, *self._told):
            yield message
        await self.go_on.wait()
        yield Ended(0, True)

    def send(self, request: Request) -> None:
        self.asked.append(request)

    async def close(self) -> None:
        self.is_closed = True


def heard(url: str, is_enough: Callable[[list[ServingSeen]], bool]) -> list[ServingSeen]:
    """Follow a program beside the server until that is enough; return what was said of it."""

    async def follow() -> list[ServingSeen]:
        program = Program()
        both = WithServing(program, address(url), seconds=0.01)
        found: list[ServingSeen] = []
        async for message in both.messages():
            if isinstance(message, ServingSeen):
                # Leaving waits for these.
                assert not any(one.name.startswith("asyncio_") for one in threading.enumerate())
                if message.why_none != NOT_READ:
                    found.append(message)
                if is_enough(found):
                    program.go_on.set()
        both.send(Step())
        await both.close()
        assert program.asked == [Step()]
        assert program.is_closed
        return found

    return asyncio.run(asyncio.wait_for(follow(), 120))


def figures(seen: ServingSeen) -> ServingFigures:
    assert seen.figures is not None, seen.why_none
    return seen.figures


@pytest.mark.parametrize("release", RELEASES)
def test_two_readings_of_a_server_make_its_rates(release: str) -> None:
    asked: list[int] = []

    def answers(handler: BaseHTTPRequestHandler) -> None:
        asked.append(1)
        say(handler, answer(release, min(len(asked), 2)))

    with serving(answers) as url:
        found = heard(url, lambda seen: len(seen) >= 2)
        assert {one.address for one in found} == {url}
    before, after = figures(found[0]), figures(found[1])
    assert before.seconds == 0.0
    name, labels = COUNTERS[release]
    assert isinstance(after.generated_per_second, float)
    tokens = after.generated_per_second * after.seconds
    assert tokens == pytest.approx(grown(release, name, **labels))


def test_a_server_that_is_away_for_a_while_is_no_zero() -> None:
    """It fails and comes back: a reason meanwhile, then figures."""
    asked: list[int] = []

    def answers(handler: BaseHTTPRequestHandler) -> None:
        asked.append(1)
        if len(asked) == 2:
            say(handler, "starting", status=503)
        elif len(asked) == 3:
            say(handler, "up 1\n")
        else:
            say(handler, answer("vllm-0.32", 1))

    with serving(answers) as url:
        found = heard(url, lambda seen: len(seen) >= 4)
    assert [one.why_none for one in found[:4]] == [
        "",
        "HTTP 503 Service Unavailable",
        "no metrics of vLLM, SGLang or TGI",
        "",
    ]
    assert [one.figures is None for one in found[:4]] == [False, True, True, False]


def test_a_server_that_hangs_holds_up_no_message_and_not_the_end() -> None:
    over = threading.Event()

    async def follow(url: str) -> list[Told]:
        program = Program(*(Heartbeat(float(number), 0.0) for number in range(200)))
        program.go_on.set()
        return [message async for message in WithServing(program, address(url)).messages()]

    with serving(lambda handler: bool(over.wait()) or None) as url:
        found = asyncio.run(asyncio.wait_for(follow(url), 120))
        over.set()
    assert len(found) == 203
    assert isinstance(found[-1], Ended)
    assert [one for one in found if isinstance(one, ServingSeen)] == [
        ServingSeen(url, None, "not read yet")
    ]


class Ranks(Program):
    """Says all that is known of another rank."""

    async def messages(self) -> AsyncIterator[Told]:
        await self.go_on.wait()
        yield Jump(EMPTY)
        yield Ended(0, True)


def test_a_whole_session_of_the_source_keeps_the_server() -> None:
    """Of ranks, one after the other is shown; the server is beside all of them."""

    async def follow(url: str) -> Session:
        ranks, session = Ranks(), EMPTY
        async for message in WithServing(ranks, address(url), 600.0).messages():
            session = apply(session, message)
            if isinstance(message, ServingSeen) and message.figures is not None:
                ranks.go_on.set()
        return session

    with serving(lambda handler: say(handler, answer("tgi-3", 1))) as url:
        session = asyncio.run(asyncio.wait_for(follow(url), 120))
    assert session.ended is not None
    assert session.serving is not None
    assert figures(session.serving).server == "TGI"
