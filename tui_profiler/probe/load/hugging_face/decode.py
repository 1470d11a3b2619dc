"""The call that follows a language model's first: one more token, with the cache so far.

A model with an encoder is passed what that made of the input, and its decoder's next token.
"""

import copy
import importlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch

from tui_profiler.messages import InputSpec, Unknown
from tui_profiler.probe.load.hugging_face import inputs
from tui_profiler.probe.load.inputs.input_tensors import forward_parameters, specs_of
from tui_profiler.probe.torch_compat import kv_cache
from tui_profiler.probe.torch_compat.forward_inputs import Inputs, TensorMaker
from tui_profiler.probe.torch_compat.forward_tokens import CACHES

_IDS = "input_ids"
_MASK = "attention_mask"
_DECODER = "decoder_"
"""Before the names of what the decoder of a model with an encoder is passed."""
_ENCODER_OUTPUTS = "encoder_outputs"
_POSITIONS = re.compile(r"(?:^|[._])(?:position|positions|pos|wpe)(?:[._]|$)|position_embed")
_STATES = ("recurrent_states", "conv1d_state")
"""Ends of names of attributes."""


def decode_call(
    model: torch.nn.Module, before: Inputs, kept: kv_cache.ReturnedCache | None
) -> Inputs | Unknown | None:
    """Return the inputs of the next token.

    Args:
        model: As ``before`` was passed to it.
        before: All tokens so far.
        kept: The cache that this call returned.

    Returns:
        None where the model generates nothing, ``Unknown`` where it does and cannot be passed one
        more token.
    """
    if not inputs.answer_of(model, "can_generate"):
        return None
    parameters = forward_parameters(model)
    side = _DECODER if _DECODER + _IDS in before.kwargs else ""
    ids = before.kwargs.get(side + _IDS)
    if not isinstance(ids, torch.Tensor):
        return Unknown("its forward was not called with token ids")
    if own := next(_state_names(model), ""):
        return Unknown(f"it keeps its state in its modules ({own}), not in a cache")
    if kept is None:
        if getattr(getattr(model, "config", None), "use_cache", None) is False:
            return Unknown('its config says "use_cache": false')
        return Unknown(f"its forward returns no cache ({', '.join(CACHES)})")
    if not parameters.takes(kept.name):
        return Unknown(f"its forward returns {kept.name}, and has no parameter of that name")
    if side and kept.encoded is None:
        return Unknown(f"its forward returns no {kv_cache.ENCODED}, which the next token needs")
    if side and not parameters.takes(_ENCODER_OUTPUTS):
        return Unknown(f"its forward has no parameter {_ENCODER_OUTPUTS}")
    if full := _full_table(model, side, ids.shape[1]):
        return Unknown(f"the prompt of {ids.shape[1]:,} tokens fills {full}")
    encoded = _encoded(model, before, kept.encoded) if side and kept.encoded is not None else None
    step: dict[str, object] = {side + _IDS: ids[:, -1:].clone()}
    why = {side + _IDS: "the next token"}
    mask = before.kwargs.get(side + _MASK)
    if isinstance(mask, torch.Tensor) and not _keeps_offset(model):
        step[side + _MASK] = torch.cat([mask, mask[:, :1]], dim=1)
        why[side + _MASK] = "the tokens so far and the next"
    if side and isinstance(of_encoded := before.kwargs.get(_MASK), torch.Tensor):
        step[_MASK], why[_MASK] = of_encoded, "of what was encoded"

    def renewed(make: TensorMaker) -> dict[str, object]:
        cache: dict[str, object] = {
            kept.name: kv_cache.remade(kept.template, make),
            "use_cache": True,
        }
        if encoded is not None:
            cache[_ENCODER_OUTPUTS] = kv_cache.remade(encoded, make)
        return cache

    return replace(
        before,
        kwargs=step,
        specs=(
            *(one for name, part in step.items() for one in specs_of(part, name, why[name])),
            *_specs_of_cache(kept, ids.shape[1]),
        ),
        concrete=before.concrete & {_MASK, side + _MASK},
        renewed=renewed,
    )


def _encoded(model: torch.nn.Module, before: Inputs, last: torch.Tensor) -> object:
    """Return what the encoder returned, without memory: of its own class, whose fields it reads."""
    encoder = _encoder_of(model)
    outputs: Any = importlib.import_module("transformers.modeling_outputs")
    plain: object = outputs.BaseModelOutput(last_hidden_state=last)
    if encoder is None:
        return plain
    names = forward_parameters(encoder).positional
    given = {
        name: part
        for name, part in before.kwargs.items()
        if name in names and isinstance(part, torch.Tensor)
    }
    shared = {id(one): one for one in (*encoder.parameters(), *encoder.buffers())}
    try:
        # Modules may keep what they are given: a copy of them, with the same parameters.
        copied = copy.deepcopy(encoder, dict(shared))
        found = inputs.on_fakes(model, copied, given, before.concrete)
    except Exception:
        return plain  # What the model returned is known to hold its last hidden state.
    first = found.get("last_hidden_state") if isinstance(found, Mapping) else None
    if not isinstance(first, torch.Tensor) or first.shape != last.shape:
        return plain
    return kv_cache.template(found)


def _encoder_of(model: torch.nn.Module) -> torch.nn.Module | None:
    found = inputs.answer_of(model, "get_encoder")
    return found if isinstance(found, torch.nn.Module) and found is not model else None


def _full_table(model: torch.nn.Module, side: str, tokens: int) -> str:
    """Return the name and rows of a table of positions that has none for the next token."""
    beside_tokens = _folder_of_tokens(model)
    for name, module in model.named_modules():
        # The part that sees or hears has positions too, of its own patches.
        is_side = "decoder" in name if side else name.startswith(beside_tokens)
        is_table = isinstance(module, torch.nn.Embedding) and _POSITIONS.search(name)
        if is_side and is_table and _rows(module) <= tokens:
            return f"all {_rows(module):,} rows of {name}"
    return ""


def _folder_of_tokens(model: torch.nn.Module) -> str:
    """Return the path of the module, with a dot, that holds the table of the input tokens."""
    table = inputs.answer_of(model, "get_input_embeddings")
    path = next((name for name, module in model.named_modules() if module is table), "")
    return path[: path.rfind(".") + 1]


def _rows(table: torch.nn.Module) -> int:
    """Return how many positions a table has; some begin with rows for padding (``offset``)."""
    rows, offset = getattr(table, "num_embeddings", 0), getattr(table, "offset", 0)
    return int(rows) - (offset if isinstance(offset, int) else 0)


def _keeps_offset(model: torch.nn.Module) -> bool:
    """Say whether a forward with an image leaves the offset of the positions after it.

    The next forward adds it to the positions of all tokens of its mask, and raises as it has one;
    without a mask it counts from the cache. Nothing is padded: the mask would hide nothing.
    """
    return any("rope_deltas" in vars(module) for module in model.modules())


def _state_names(model: torch.nn.Module) -> Iterator[str]:
    """Yield the attributes of modules in which a forward keeps the state of a recurrence."""
    for name, module in model.named_modules():
        for attribute in vars(module):
            if attribute.endswith(_STATES):
                yield f"{name}.{attribute}"


def _specs_of_cache(kept: kv_cache.ReturnedCache, tokens: int) -> tuple[InputSpec, ...]:
    """Describe the cache by its first tensor: there are as many as layers, twice."""
    tensors = kv_cache.tensors_of(kept.template)
    why = f"the cache of {tokens} tokens: {len(tensors)} tensors, the first of this shape"
    return specs_of(tensors[0], kept.name, why)
