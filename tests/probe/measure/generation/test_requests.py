"""Requests of real language models, against what ``generate`` returns and its streamer is told."""

from __future__ import annotations

import copy
import gc
import itertools
import weakref
from collections.abc import Callable
from functools import cache
from time import perf_counter
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")

from tests.probe.measure.generation.language_models import (  # needs transformers
    PROMPT,
    answer,
    clocked,
    generation_of,
    llama,
    mamba,
    prompt,
    qwen_moe,
    t5,
    told,
    transformers,
)
from tui_profiler.messages import TokenCache, Unknown
from tui_profiler.probe.measure.generation.requests import ENCODED, NO_REQUEST, Requests

pytestmark = pytest.mark.usefixtures("old_objects_frozen")  # Garbage is looked for.

MODELS: dict[str, Callable[[], Any]] = {
    "llama": llama,
    "qwen moe": qwen_moe,
    "mamba": mamba,
    "t5": t5,
}
NEW = 10


@cache
def model_of(name: str) -> Any:
    return MODELS[name]()


def layers(kept: TokenCache) -> list[int]:
    return list(memoryview(kept.layers).cast("q"))


@pytest.mark.parametrize("name", MODELS)
def test_tokens_of_each_architecture_are_those_that_generate_returns(name: str) -> None:
    model, ids = model_of(name), prompt(2)
    outputs: list[torch.Tensor] = []
    found = generation_of(model, lambda: outputs.extend(answer(model, ids, NEW) for _ in range(2)))
    before = 1 if model.config.is_encoder_decoder else PROMPT
    new = outputs[0].shape[1] - before

    assert new == NEW
    assert (found.requests, found.cut, found.under_way) == (2, 0, 0)
    assert (found.rows, found.prompt_tokens, found.new_tokens) == (2, before, NEW)
    assert not found.is_at_least
    assert (found.prefill.forwards, found.prefill.tokens) == (2, 2 * 2 * before)
    assert (found.decode.forwards, found.decode.tokens) == (2 * (NEW - 1), 2 * 2 * (NEW - 1))
    assert found.gaps == 2 * (NEW - 1)


@pytest.mark.parametrize(
    ("options", "rows", "forwards"),
    [
        ({}, 1, 1),
        ({"num_beams": 3}, 3, 1),
        ({"prefill_chunk_size": 4}, 1, 2),
        ({"use_cache": False}, 1, 1),
        ({"cache_implementation": "static"}, 1, 1),
        ({"do_sample": True, "num_return_sequences": 4}, 4, 1),
    ],
    ids=["greedy", "beams", "chunked prefill", "without cache", "static cache", "samples"],
)
def test_ways_of_generating(options: dict[str, Any], rows: int, forwards: int) -> None:
    model = model_of("llama")
    found = generation_of(model, lambda: [answer(model, prompt(), NEW, **options) for _ in "ab"])

    assert (found.requests, found.cut) == (2, 0)
    assert (found.rows, found.prompt_tokens, found.new_tokens) == (rows, PROMPT, NEW)
    assert found.prefill.forwards == 2 * forwards
    assert found.decode.forwards == 2 * (NEW - 1)


class Clocked(transformers.generation.streamers.BaseStreamer):  # type: ignore[misc]  # untyped
    """Notes when it is given tokens."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def put(self, value: torch.Tensor) -> None:
        self.times.append(perf_counter())

    def end(self) -> None:
        pass


def test_times_are_those_of_a_streamer() -> None:
    model, streamer, new = model_of("llama"), Clocked(), 60
    answer(model, prompt(), 2)
    found = generation_of(model, lambda: answer(model, prompt(), new, streamer=streamer))
    given, first, *_, last = streamer.times  # It is given the prompt before all.

    assert isinstance(found.decode_per_second, float)
    assert isinstance(found.per_second, float)
    assert isinstance(found.first_p50, float)
    assert len(streamer.times) == 1 + new
    assert (new - 1) / found.decode_per_second == pytest.approx(last - first, rel=0.1, abs=0.02)
    assert new / found.per_second == pytest.approx(last - given, rel=0.1, abs=0.02)
    assert 0 < found.first_p50 < first - given
    assert isinstance(found.between, float)
    assert 0 < found.between < 1


def test_gaps_are_those_of_a_streamer() -> None:
    model, streamer = model_of("llama"), Clocked()
    found = generation_of(model, lambda: answer(model, prompt(), 40, streamer=streamer))
    times = streamer.times[1:]
    gaps = torch.tensor([after - before for before, after in itertools.pairwise(times)])

    assert found.gap_p50 == pytest.approx(float(gaps.median()), rel=0.3)


@pytest.mark.parametrize("assistant", ["another", "itself"])
def test_tokens_of_assisted_decoding_are_counted_as_they_are_accepted(assistant: str) -> None:
    model = model_of("llama")
    helper = copy.deepcopy(model)
    if assistant == "another":
        torch.manual_seed(7)
        for parameter in helper.parameters():
            parameter.data.normal_()
    outputs: list[torch.Tensor] = []

    def run() -> None:
        outputs.append(answer(model, prompt(), 16, assistant_model=helper))

    found = generation_of(model, run)
    new = outputs[0].shape[1] - PROMPT

    assert (found.requests, found.prompt_tokens) == (1, PROMPT)
    assert isinstance(found.new_tokens, float)
    if assistant == "itself":  # All are accepted, but of the last forward it is not seen.
        assert found.decode.forwards < new - 1
        assert found.new_tokens < new or not found.is_at_least
        assert found.accepted == found.checked
        unseen = new - found.new_tokens
        assert 0 <= unseen <= 20  # As many as an assistant proposes.
        assert (unseen > 0) <= found.is_at_least
    else:
        assert (found.new_tokens, found.accepted) == (new, 0)
        assert found.checked > 0


def test_bytes_are_those_of_the_tensors_of_the_cache() -> None:
    model, kept = model_of("llama"), transformers.DynamicCache(config=model_of("llama").config)
    found = generation_of(model, lambda: answer(model, prompt(2), NEW, past_key_values=kept)).cache

    assert found is not None
    assert found.name == "DynamicCache"
    assert isinstance(found.length, float)
    held, whole = int(found.length), kept.layers[0].keys.shape[-2]
    assert whole - 8 < held <= whole
    assert layers(found) == [
        layer.keys[..., :held, :].nbytes + layer.values[..., :held, :].nbytes
        for layer in kept.layers
    ]
    assert found.growth == sum(
        (layer.keys.nbytes + layer.values.nbytes) / whole for layer in kept.layers
    )
    assert found.peak == sum(layers(found))
    assert (found.rows, found.is_preallocated) == (2, False)


def test_a_static_cache_has_its_bytes_from_the_beginning() -> None:
    model = model_of("llama")
    static = transformers.StaticCache(config=model.config, max_cache_len=64)
    found = generation_of(model, lambda: answer(model, prompt(), 3, past_key_values=static)).cache

    assert found is not None
    assert layers(found) == [one.keys.nbytes + one.values.nbytes for one in static.layers]
    assert found.is_preallocated
    assert isinstance(found.growth, Unknown)


def test_the_state_of_a_recurrence_does_not_grow() -> None:
    model, kept = model_of("mamba"), transformers.DynamicCache(config=model_of("mamba").config)
    found = generation_of(model, lambda: answer(model, prompt(), NEW, cache_params=kept)).cache

    assert found is not None
    assert layers(found) == [
        sum(tensor.nbytes for one in (*layer.conv_states.values(),) if (tensor := one) is not None)
        + sum(one.nbytes for one in layer.recurrent_states.values())
        for layer in kept.layers
    ]


def test_the_cache_of_an_encoder_decoder_has_what_it_crosses_to() -> None:
    model = model_of("t5")
    kept = transformers.EncoderDecoderCache(
        transformers.DynamicCache(), transformers.DynamicCache()
    )
    found = generation_of(model, lambda: answer(model, prompt(), 9, past_key_values=kept)).cache

    assert found is not None
    assert found.length == 9
    assert layers(found) == [
        own.keys.nbytes + own.values.nbytes + crossed.keys.nbytes + crossed.values.nbytes
        for own, crossed in zip(
            kept.self_attention_cache.layers, kept.cross_attention_cache.layers, strict=True
        )
    ]


def test_the_time_to_the_first_token_begins_with_the_encoder() -> None:
    model, streamer = t5(), Clocked()
    began: list[float] = []
    ended: list[float] = []
    model.encoder.register_forward_pre_hook(lambda *_: began.append(perf_counter()))
    model.encoder.register_forward_hook(lambda *_: ended.append(perf_counter()))
    found = generation_of(model, lambda: answer(model, prompt(1, 64), 2, streamer=streamer))
    _, first, _ = streamer.times

    assert found.requests == 1
    assert isinstance(found.first_p50, float)
    assert ended[-1] - began[-1] < found.first_p50 < first - began[-1] + 0.005
    assert found.prefill.seconds > ended[-1] - began[-1]
    assert isinstance(found.between, float)
    assert found.between >= 0


def test_an_encoder_that_was_not_timed_is_in_no_time_to_the_first_token() -> None:
    model = model_of("t5")
    with torch.no_grad():
        encoded = model.encoder(prompt())
    found = generation_of(model, lambda: answer(model, prompt(), 4, encoder_outputs=encoded))
    assert found.first_p50 == found.prefill_per_second == ENCODED


def test_a_request_without_a_first_token_is_in_no_rate_of_prefill() -> None:
    model = model_of("t5")
    with torch.no_grad():
        encoded = model.encoder(prompt())

    def run() -> None:
        answer(model, prompt(), 4, encoder_outputs=encoded)
        answer(model, prompt(), 4)

    found = generation_of(model, run)
    assert (found.requests, found.prefill.tokens) == (2, 2)
    assert isinstance(found.first_p50, float)
    assert found.prefill_per_second == pytest.approx(1 / found.first_p50)
    assert isinstance(found.gap_p50, float)


def test_the_next_turn_of_a_conversation_is_another_request() -> None:
    model = model_of("llama")
    kept = transformers.DynamicCache(config=model.config)

    def run() -> None:
        said = answer(model, prompt(), 5, past_key_values=kept)
        answer(model, torch.cat([said, prompt(seed=3)], dim=1), 5, past_key_values=kept)

    found = generation_of(model, run)
    assert (found.requests, found.new_tokens) == (2, 5)
    assert found.prompt_tokens == PROMPT + 0.5  # The last token of the answer is given again.


def test_two_requests_in_turn_are_told_apart() -> None:
    model = model_of("llama")
    caches = [transformers.DynamicCache(config=model.config) for _ in range(3)]

    @torch.no_grad()
    def run() -> None:
        for tokens in (7, 1, 1, 1):
            for place, kept in enumerate(caches):
                model(prompt(1, tokens + (tokens > 1) * place), past_key_values=kept)

    found = generation_of(model, run)
    assert (found.requests, found.cut) == (3, 0)
    assert (found.prompt_tokens, found.new_tokens) == (8, 4)


def test_a_token_of_another_cache_is_of_another_request() -> None:
    model = model_of("llama")
    kept, other = (transformers.DynamicCache(config=model.config) for _ in range(2))
    with torch.no_grad():
        model(prompt(1, 3), past_key_values=other)

    @torch.no_grad()
    def run() -> None:
        model(prompt(), past_key_values=kept)
        model(prompt(1, 1), past_key_values=kept)
        model(prompt(1, 1), past_key_values=other)

    found = generation_of(model, run)
    assert (found.requests, found.cut, found.new_tokens) == (1, 1, 2)


def test_a_loop_whose_cache_is_the_one_returned() -> None:
    model = model_of("llama")

    @torch.no_grad()
    def run() -> None:
        kept, ids = None, prompt(2)
        for _ in range(5):
            out = model(ids, past_key_values=kept, use_cache=True)
            kept, ids = out.past_key_values, out.logits[:, -1:].argmax(-1)

    found = generation_of(model, run)
    assert (found.requests, found.rows, found.new_tokens) == (1, 2, 5)
    assert found.cache is not None
    assert found.cache.length == 9  # After the forward that found eight.


def test_evaluation_and_training_are_no_requests() -> None:
    model, requests = model_of("llama"), Requests()
    with clocked(model) as clock:
        with torch.no_grad():
            for tokens in (7, 8, 9):  # Batches that happen to be longer each.
                ids = prompt(2, tokens)
                model(ids, labels=ids, use_cache=False)
            model(prompt(2))
            model(prompt(3))
        model.train()
        model(prompt(2), use_cache=True)
        model.eval()
        requests.add(clock.take(), (), perf_counter())
    requests.finish()
    assert not requests.are_seen
    assert list(requests.messages(1.0)) == []


def test_a_request_without_its_beginning_has_no_time_to_the_first_token() -> None:
    model = model_of("llama")
    kept = transformers.DynamicCache(config=model.config)
    with torch.no_grad():
        model(prompt(), past_key_values=kept)
    with clocked(model) as clock, torch.no_grad():
        for _ in range(3):
            model(prompt(1, 1), past_key_values=kept)
        found = told(clock)

    assert (found.requests, found.cut, found.gaps) == (0, 1, 2)
    assert found.first_p50 == NO_REQUEST
    assert isinstance(found.gap_p50, float)


def test_what_slows_a_forward_is_in_no_gap() -> None:
    model, requests = model_of("llama"), Requests()
    with clocked(model) as clock:
        answer(model, prompt(), 6)
        forwards = clock.take()
    requests.add(forwards, {id(forwards[3])}, perf_counter())
    requests.finish()
    (found,) = requests.messages(1.0)
    assert (found.requests, found.gaps) == (1, 4)
    assert found.first_p50 == NO_REQUEST


def test_a_request_is_recorded_whole_though_a_share_of_the_time_is() -> None:
    model = model_of("llama")
    with clocked(model) as clock:
        clock.record_for(1e-9)
        for _ in range(2):
            answer(model, prompt(), NEW)
        found = told(clock)
        assert (found.requests, found.new_tokens) == (1, NEW)
        assert not clock.waits

        clock.record_for(1.0)
        answer(model, prompt(), 3)
        with torch.no_grad():
            kept = transformers.DynamicCache(config=model.config)
            model(prompt(), past_key_values=kept)
            clock.record_for(0.0)  # In the midst of a request.
            assert clock.waits
            model(prompt(1, 1), past_key_values=kept)
            answer(model, prompt(), 3)
        assert not clock.waits
        assert len(clock.take()) == 3 + 2


def test_nothing_is_changed_or_kept_alive() -> None:
    model = model_of("llama")
    alone = answer(model, prompt(2), NEW)
    kept = transformers.DynamicCache(config=model.config)
    with clocked(model) as clock:
        watched = answer(model, prompt(2), NEW, past_key_values=kept)
        gone = weakref.ref(kept), weakref.ref(kept.layers[0].keys)
        del kept
        gc.collect()
        assert [one() for one in gone] == [None, None]
        assert len(clock.take()) == NEW
    assert torch.equal(alone, watched)


def test_a_cache_whose_class_raises_is_let_alone() -> None:
    class Hostile(transformers.DynamicCache):  # type: ignore[misc]  # untyped
        @property
        def __dict__(self) -> Any:
            raise RuntimeError("not for you")

    model = model_of("llama")
    with clocked(model) as clock, torch.no_grad():
        model(prompt(), past_key_values=Hostile(config=model.config))
        (forward,) = clock.take()
    assert forward.tokens is None
