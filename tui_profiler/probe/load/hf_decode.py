"""The call that follows a language model's first: one more token, with the cache so far."""

from __future__ import annotations

from dataclasses import replace

import torch

from tui_profiler.messages import InputSpec
from tui_profiler.probe.cache import Kept, remade, tensors_of
from tui_profiler.probe.inputs import Inputs, TensorMaker
from tui_profiler.probe.load.signature import forward_parameters

_IDS = "input_ids"
_MASK = "attention_mask"


def decode_call(model: torch.nn.Module, before: Inputs, kept: Kept) -> Inputs | None:
    """Give the inputs of the next token.

    Args:
        model: as ``before`` was passed to it.
        before: all tokens so far.
        kept: the cache that this call left.

    Gives:
        None where the model generates nothing, or takes no such cache.
    """
    can_generate = getattr(model, "can_generate", None)
    ids = before.kwargs.get(_IDS)
    parameters = forward_parameters(model)
    if can_generate is None or not can_generate() or not parameters.takes(kept.name):
        return None
    if not isinstance(ids, torch.Tensor) or "decoder_input_ids" in before.kwargs:
        return None
    step: dict[str, object] = {_IDS: ids[:, -1:].clone()}
    why = {_IDS: "the next token"}
    mask = before.kwargs.get(_MASK)
    if isinstance(mask, torch.Tensor):
        step[_MASK] = torch.cat([mask, mask[:, :1]], dim=1)
        why[_MASK] = "the tokens so far and the next"

    def renewed(make: TensorMaker) -> dict[str, object]:
        return {kept.name: remade(kept.template, make), "use_cache": True}

    return replace(
        before,
        kwargs=step,
        specs=(*_specs(step, why), _cache_spec(kept, ids.shape[1])),
        concrete=before.concrete & {_MASK},
        renewed=renewed,
    )


def _specs(step: dict[str, object], why: dict[str, str]) -> tuple[InputSpec, ...]:
    return tuple(
        InputSpec(name, tuple(part.shape), str(part.dtype).removeprefix("torch."), why[name])
        for name, part in step.items()
        if isinstance(part, torch.Tensor)
    )


def _cache_spec(kept: Kept, tokens: int) -> InputSpec:
    """Describe the cache by its first tensor: there are as many as layers, twice."""
    tensors = tensors_of(kept.template)
    first = tensors[0]
    why = f"the cache of {tokens} tokens: {len(tensors)} tensors, the first of this shape"
    dtype = str(first.dtype).removeprefix("torch.")
    return InputSpec(kept.name, tuple(first.shape), dtype, why)
