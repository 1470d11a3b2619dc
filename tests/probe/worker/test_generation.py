"""Requests that our own loop makes to a language model."""

from __future__ import annotations

import queue
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")

from tests.probe.load.hf_folders import BERT, folder_of  # needs transformers
from tests.probe.measure.generation.language_models import (
    PROMPT,
    answer,
    llama,
    prompt,
    qwen_moe,
    t5,
)
from tui_profiler.messages import (
    ExpertTokens,
    Failed,
    LoadSpec,
    LoopState,
    Message,
    Request,
    Start,
    Stop,
)
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.worker.generation import OwnGeneration
from tui_profiler.probe.worker.worker import Worker
from tui_profiler.session import EMPTY, Session, apply


class Wire:
    """Keeps what a worker says, and stops it when enough was run."""

    is_closed = False
    dropped = 0

    def __init__(self, first: Request) -> None:
        self.waiting: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self.waiting.put(first)
        self.session: Session = EMPTY

    def send(self, message: Message) -> None:
        self.session = apply(self.session, message)
        is_over = isinstance(message, LoopState) and message.state == "finished"
        if is_over or isinstance(message, Failed):
            self.waiting.put(Stop())

    def flush(self, timeout: float) -> bool:
        return True  # What was sent has arrived.

    def next_request(self, timeout: float | None) -> Request | None:
        try:
            return self.waiting.get(block=timeout != 0.0, timeout=timeout)
        except queue.Empty:
            return None


def served(folder: Path, **options: Any) -> Session:
    wire = Wire(Start(LoadSpec(f"hf:{folder}", ceilings=False, **options)))
    Worker(wire).serve()  # type: ignore[arg-type] # has what is called
    wire.is_closed = True
    return wire.session


def test_requests_of_a_mixture_of_experts(tmp_path: Path) -> None:
    qwen_moe().config.save_pretrained(tmp_path)
    session = served(tmp_path, generate=5, forwards=3, inputs=("input_ids=2,9",))
    found, experts = session.generation, session.experts

    assert session.failure is None
    assert found is not None
    assert experts is not None
    assert (found.requests, found.cut, found.under_way) == (3, 0, 0)
    assert (found.rows, found.prompt_tokens, found.new_tokens) == (2, 9, 5)
    assert session.tick is not None
    assert not session.tick.as_traced
    routed = 2 * (9 + 4) * 2  # rows, tokens that run through the model, experts per token
    assert [sum(layer.tokens) for layer in experts.layers] == [routed, routed]


def test_a_model_that_does_not_generate_is_refused(tmp_path: Path) -> None:
    folder_of(tmp_path, BERT)
    session = served(tmp_path, generate=5, forwards=1)
    assert session.failure is not None
    assert session.failure.what.startswith("cannot generate")
    assert session.generation is None


def own(model: Any, **given: torch.Tensor) -> OwnGeneration:
    return OwnGeneration(model, Inputs((), dict(given)), 4, is_on_device=False)


def test_tokens_per_expert_are_those_that_the_router_chose() -> None:
    model, chosen = qwen_moe(), Counter[int]()
    router = model.model.layers[1].mlp.gate
    hook = router.register_forward_hook(
        lambda module, args, output: chosen.update(output[2].flatten().tolist())
    )
    answer(model, prompt(2), 4)
    hook.remove()

    made = own(model, input_ids=prompt(2))
    made.first_request()
    [told] = [one for one in made.messages(1.0) if isinstance(one, ExpertTokens)]
    assert told.layers[1].path == "model.layers.1.mlp.gate"
    assert told.layers[1].tokens == [chosen[expert] for expert in range(6)]
    assert not router._forward_hooks


def test_an_expert_without_tokens_is_told_as_such() -> None:
    model = qwen_moe()
    with torch.no_grad():
        model.model.layers[0].mlp.gate.weight.zero_()  # All are alike: the same two are chosen.
    made = own(model, input_ids=prompt())
    made.first_request()
    [told] = [one for one in made.messages(1.0) if isinstance(one, ExpertTokens)]
    assert told.layers[0].tokens.count(0) == 6 - 2


@pytest.mark.parametrize("made", [llama, t5])
def test_models_without_experts_have_none(made: Any) -> None:
    one = own(made(), input_ids=prompt())
    one.first_request()
    assert list(one.messages(1.0)) == []


def test_a_request_ends_after_as_many_tokens_whatever_the_model_says() -> None:
    model = llama()
    lengths: list[int] = []
    generate = model.generate

    def noted(*args: Any, **settings: Any) -> Any:
        found = generate(*args, **settings)
        lengths.append(found.shape[1])
        return found

    first = int(answer(model, prompt(), 1)[0, -1])
    model.generation_config.eos_token_id = first  # It would end at once.
    model.generate = noted
    own(model, input_ids=prompt()).request()
    assert lengths == [PROMPT + 4]
