"""Requests of models that keep keys and values in their modules."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from time import perf_counter, sleep

import pytest
import torch
from torch import Tensor, nn

from tests.probe.measure.generation.module_cache_models import (
    HEAD,
    HEADS,
    LONGEST,
    VOCABULARY,
    WIDTH,
    BufferCache,
    ByNumber,
    Decoder,
    Growing,
    InAttributes,
    InBuffers,
    answer,
)
from tui_profiler.messages import Generation
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.measure.generation.requests import Requests

MODES = [torch.no_grad, torch.inference_mode]
FORMS: dict[str, Callable[[], Decoder]] = {
    "buffers": lambda: Decoder(InBuffers, 2),
    "attributes, position as a number": lambda: ByNumber(InAttributes, 2),
    "attributes": lambda: Decoder(InAttributes, 2),
    "joined anew": lambda: Decoder(Growing, 2),
}


def prompt(tokens: int, rows: int = 2) -> Tensor:
    return torch.arange(rows * tokens).reshape(rows, tokens) % VOCABULARY


def generation_of(model: nn.Module, run: Callable[[], object]) -> Generation | None:
    clock, requests = ModuleClock(model, reads_tokens=True), Requests()
    clock.install()
    clock.recording = True
    try:
        run()
        requests.add(clock.take(), (), perf_counter())
    finally:
        clock.uninstall()
    requests.finish()
    return next(requests.messages(1.0), None)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FORMS)
def test_requests_are_those_of_the_loop(form: str, mode: Callable[[], torch.no_grad]) -> None:
    torch.manual_seed(0)
    model = FORMS[form]().eval()
    with mode():
        expected = answer(model, prompt(5), 8)
    answers: list[Tensor] = []

    def run() -> None:
        with mode():
            answers.append(answer(model, prompt(3), 4))  # Its prompt is not known to be one.
            answers.extend(answer(model, prompt(5), 8) for _ in range(3))
            answers.append(answer(model, prompt(9), 6))

    found = generation_of(model, run)

    assert found is not None
    assert (found.requests, found.cut) == (4, 1)
    assert found.rows == 2
    assert found.prompt_tokens == (3 * 5 + 9) / 4
    assert found.new_tokens == (3 * 8 + 6) / 4
    assert (found.prefill.forwards, found.prefill.tokens) == (4, 2 * (3 * 5 + 9))
    assert (found.decode.forwards, found.decode.tokens) == (3 * 7 + 5, 2 * (3 * 7 + 5))
    assert found.gaps == 3 * 7 + 5 + 2
    assert all(torch.equal(one, expected) for one in answers[1:4])


@pytest.mark.parametrize("form", ["buffers", "attributes"])
def test_the_cache_has_the_bytes_of_its_tensors(form: str) -> None:
    model = FORMS[form]().eval()

    def run() -> None:
        with torch.no_grad():
            answer(model, prompt(3), 3)
            answer(model, prompt(3), 3)

    found = generation_of(model, run)

    assert found is not None
    assert found.cache is not None
    assert found.cache.is_preallocated
    layers = list(memoryview(found.cache.layers).cast("q"))
    assert layers == [2 * 2 * HEADS * LONGEST * HEAD * 4] * 2  # K and V, rows
    assert found.cache.name == ("BufferCache" if form == "buffers" else "InAttributes")


def test_caches_made_anew_for_each_request_are_seen_again() -> None:
    model = Decoder(InBuffers, 1).eval()

    def run() -> None:
        for _ in range(4):
            for layer in model.layers:
                layer.cache = BufferCache(1)
            with torch.no_grad():
                answer(model, prompt(4, 1), 5)
            for layer in model.layers:
                layer.cache = None
            sleep(0.05)  # The search takes a hundredth of the time at most.

    found = generation_of(model, run)

    assert found is not None
    assert found.requests + found.cut == 4
    assert found.requests >= 2
    assert found.decode.tokens == found.requests * 4


def test_a_prompt_in_pieces_is_one_where_the_position_is_a_number() -> None:
    model = ByNumber(InAttributes, 1).eval()

    def run() -> None:
        with torch.no_grad():
            answer(model, prompt(2, 1), 2)
            ids = prompt(8, 1)
            model(ids[:, :4], 0)
            model(ids[:, 4:], 4)
            model(ids[:, :1], 8)
            model(ids[:, 1:2], 9)

    found = generation_of(model, run)

    assert found is not None
    assert (found.requests, found.prompt_tokens, found.new_tokens) == (1, 8, 3)
    assert found.prefill.forwards == 2


def test_prompts_that_are_only_scored_are_no_requests() -> None:
    model = Decoder(InBuffers, 1).eval()

    def run() -> None:
        with torch.no_grad():
            answer(model, prompt(3, 1), 3)  # The caches are known after it.
            for tokens in (7, 7, 9, 4, 4, 4):
                model(prompt(tokens, 1), torch.arange(tokens))

    found = generation_of(model, run)

    assert found is not None
    assert (found.requests, found.cut) == (0, 1)


class Recurrent(nn.Module):
    """One id for each row, and buffers that no forward writes."""

    def __init__(self, *, writes: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, WIDTH)
        self.register_buffer("mask", torch.ones(1, 1, LONGEST, LONGEST))
        self.register_buffer("mean", torch.zeros(WIDTH))
        self.writes = writes

    def forward(self, ids: Tensor) -> Tensor:
        if self.writes:
            self.mean.add_(1.0)
        return self.table(ids) * self.mask[0, 0, 0, 0]


@pytest.mark.parametrize("writes", [False, True])
def test_one_id_in_each_row_alone_is_no_request(writes: bool) -> None:
    model = Recurrent(writes=writes).eval()

    def run() -> None:
        with torch.no_grad():
            for _ in range(20):
                model(prompt(6))
                model(prompt(1))

    assert generation_of(model, run) is None


def test_nothing_is_kept_alive_by_what_is_known_of_caches() -> None:
    model = Decoder(InBuffers, 1).eval()
    clock = ModuleClock(model, reads_tokens=True)
    clock.install()
    clock.recording = True
    with torch.no_grad():
        answer(model, prompt(3, 1), 4)
    clock.take()
    gone = weakref.ref(model), weakref.ref(model.layers[0].cache.keys)
    del model
    gc.collect()

    assert [one() for one in gone] == [None, None]
    clock.uninstall()
