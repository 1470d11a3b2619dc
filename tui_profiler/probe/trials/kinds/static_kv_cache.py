"""A static KV cache instead of one that grows with every token.

For generating models of transformers: the same tokens are generated with both, after the same
prompt, whose time does not count.
"""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trials.kinds import change

_TOKENS = 16
_IDS = "input_ids"


def _change(subject: change.Subject) -> change.Change:
    from transformers import DynamicCache, StaticCache  # noqa: PLC0415 - not always installed

    module, prompt = subject.module, (subject.first or subject.inputs).kwargs[_IDS]
    assert isinstance(prompt, torch.Tensor)
    config: Any = module.config
    length = prompt.shape[1] + _TOKENS
    grows = _side(module, prompt, lambda: DynamicCache(config=config))
    is_fixed = _side(module, prompt, lambda: StaticCache(config=config, max_cache_len=length))
    detail = f"{_TOKENS} tokens after {prompt.shape[1]}, in a static cache of length {length}"
    return change.Change(grows, is_fixed, detail)


def _side(module: nn.Module, prompt: torch.Tensor, make: Callable[[], object]) -> change.Side:
    with torch.no_grad():
        first: Any = module(input_ids=prompt, past_key_values=make(), use_cache=True)
    token = first.logits[:, -1:].argmax(-1)
    filled = first.past_key_values

    def call(cache: object) -> object:
        following, scores = token, []
        with torch.no_grad():
            for _ in range(_TOKENS):
                made: Any = module(input_ids=following, past_key_values=cache, use_cache=True)
                scores.append(made.logits[:, -1:])
                # The same tokens on both sides, or the following scores would differ.
                following = (following + 1) % made.logits.shape[-1]
        return torch.cat(scores, dim=1)

    return change.Side(module, call, lambda: copy.deepcopy(filled))


def _why_not(module: nn.Module, inputs: Inputs) -> str:
    generates = getattr(module, "can_generate", None)
    if generates is None or not generates():
        return "it does not generate with a KV cache of transformers"
    if getattr(module.config, "is_encoder_decoder", False):
        return "it is an encoder-decoder; only decoders are tried"
    return "" if _IDS in inputs.kwargs else "it takes no input_ids"


KIND = change.Kind(_change, _why_not)
