"""The call that follows a language model's first: one more token, with the cache so far.

A model with an encoder is passed what that made of the input, and its decoder's next token.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from tui_profiler.messages import InputSpec
from tui_profiler.probe.cache import Kept, remade, tensors_of
from tui_profiler.probe.inputs import Inputs, TensorMaker
from tui_profiler.probe.load.hf_library import encoder_outputs
from tui_profiler.probe.load.signature import forward_parameters

_IDS = "input_ids"
_MASK = "attention_mask"
_DECODER = "decoder_"
"""Before the names of what the decoder of a model with an encoder is passed."""
_ENCODER_OUTPUTS = "encoder_outputs"


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
    parameters = forward_parameters(model)
    if can_generate is None or not can_generate() or not parameters.takes(kept.name):
        return None
    side = _DECODER if _DECODER + _IDS in before.kwargs else ""
    if side and (kept.encoded is None or not parameters.takes(_ENCODER_OUTPUTS)):
        return None
    ids = before.kwargs.get(side + _IDS)
    if not isinstance(ids, torch.Tensor):
        return None
    step: dict[str, object] = {side + _IDS: ids[:, -1:].clone()}
    why = {side + _IDS: "the next token"}
    mask = before.kwargs.get(side + _MASK)
    if isinstance(mask, torch.Tensor):
        step[side + _MASK] = torch.cat([mask, mask[:, :1]], dim=1)
        why[side + _MASK] = "the tokens so far and the next"
    if side and isinstance(encoded := before.kwargs.get(_MASK), torch.Tensor):
        step[_MASK], why[_MASK] = encoded, "of what was encoded"

    def renewed(make: TensorMaker) -> dict[str, object]:
        cache: dict[str, object] = {kept.name: remade(kept.template, make), "use_cache": True}
        if side and kept.encoded is not None:
            cache[_ENCODER_OUTPUTS] = encoder_outputs(make(kept.encoded))
        return cache

    return replace(
        before,
        kwargs=step,
        specs=(*_specs(step, why), _cache_spec(kept, ids.shape[1])),
        concrete=before.concrete & {_MASK, side + _MASK},
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
