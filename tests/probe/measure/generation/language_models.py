"""Tiny language models of transformers' own code with random weights, and what is read of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import torch

from tui_profiler.messages import Generation
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.measure.generation.requests import Requests

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import transformers

VOCABULARY = 96
PROMPT = 7
COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "bos_token_id": 1,
    "eos_token_id": None,
    "pad_token_id": 0,
}
ATTENTION: dict[str, Any] = {
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def llama() -> Any:
    return _made("Llama", **COMMON, **ATTENTION)


def qwen_moe() -> Any:
    experts = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
    return _made("Qwen2Moe", **COMMON, **ATTENTION, **experts, shared_expert_intermediate_size=32)


def mamba() -> Any:
    return _made("Mamba", **COMMON, state_size=8)


def t5() -> Any:
    config = transformers.T5Config(
        vocab_size=VOCABULARY,
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
        eos_token_id=None,
        pad_token_id=0,
    )
    torch.manual_seed(1)
    return transformers.T5ForConditionalGeneration(config).eval()


def _made(name: str, **settings: Any) -> Any:
    config = getattr(transformers, f"{name}Config")(**settings)
    torch.manual_seed(1)
    return getattr(transformers, f"{name}ForCausalLM")(config).eval()


def prompt(rows: int = 1, tokens: int = PROMPT, seed: int = 2) -> torch.Tensor:
    """Return token ids: (rows, tokens)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, VOCABULARY, (rows, tokens), generator=generator)


def answer(model: Any, ids: torch.Tensor, new: int, **options: Any) -> torch.Tensor:
    """Return what ``generate`` does, greedily."""
    options.setdefault("do_sample", False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: torch.Tensor = model.generate(ids, max_new_tokens=new, **options)
    return found


@contextmanager
def clocked(model: Any) -> Iterator[ModuleClock]:
    """Have every forward of a model recorded."""
    clock = ModuleClock(model, reads_tokens=True)
    clock.install()
    clock.recording = True
    try:
        yield clock
    finally:
        clock.uninstall()


def generation_of(model: Any, run: Callable[[], object]) -> Generation:
    """Return what the requests of a run add up to."""
    with clocked(model) as clock:
        run()
        return told(clock)


def told(clock: ModuleClock) -> Generation:
    """Return what the forwards add up to that a clock has recorded."""
    requests = Requests()
    requests.add(clock.take(), (), perf_counter())
    requests.finish()
    (found,) = requests.messages(1.0)
    return found
