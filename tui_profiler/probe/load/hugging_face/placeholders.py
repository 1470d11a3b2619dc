"""Token ids that stand for an image or a sound: as many as the model makes features of it.

Which id that is stands in the config; how many there must be is asked of the model's own
``get_image_features`` or ``get_audio_features``, on tensors that take no memory.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import torch

from tui_profiler.probe.load.common.settings import Settings
from tui_profiler.probe.load.common.signature import parameters_of
from tui_profiler.probe.load.hugging_face.forms import Arguments, Situation, tensor_of
from tui_profiler.probe.torch_compat.internals import DATA_DEPENDENT, fake_inputs

_KINDS = (
    (
        ("pixel_values", "images"),
        "get_image_features",
        ("image_token_id", "image_token_index"),
        ("vision_start_token_id", "image_start_token_id", "boi_token_id", "boi_token_index"),
        ("vision_end_token_id", "image_end_token_id", "eoi_token_id", "eoi_token_index"),
    ),
    (
        ("input_features", "input_values"),
        "get_audio_features",
        ("audio_token_id", "audio_token_index"),
        ("audio_bos_token_id", "audio_start_token_id", "boa_token_id", "boa_token_index"),
        ("audio_eos_token_id", "audio_end_token_id", "eoa_token_id", "eoa_token_index"),
    ),
)
"""(inputs, method, placeholder, what may stand before it, what may stand behind)."""
_BY_TOKEN = ("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids")


def with_placeholders(
    call: Arguments, model: torch.nn.Module, now: Situation, settings: Settings
) -> Arguments | None:
    """Put the placeholders that an image or sound in a call needs before its tokens.

    Returns:
        the call as it was, where it needs none; None where the model makes no features of it.
    """
    special = now.sizes.special_ids()
    first: list[int] = []
    kinds: list[int] = []
    for place, (inputs, method, ids, before, behind) in enumerate(_KINDS):
        token = next((special[name] for name in ids if name in special), None)
        if "input_ids" not in call or token is None or not any(name in call for name in inputs):
            continue
        ask = _asked(model, method, inputs)
        count = None if ask is None else _features(call, model, ask, settings, now.dtype)
        if count is None:
            return None
        opening = [special[name] for name in before if name in special][:1]
        closing = [special[name] for name in behind if name in special][:1]
        first += [*opening, *[token] * count, *closing]
        kinds += [*[0] * len(opening), *[place + 1] * count, *[0] * len(closing)]
    return _lengthened(call, tuple(first), tuple(kinds)) if first else call


def _lengthened(call: Arguments, first: tuple[int, ...], kinds: tuple[int, ...]) -> Arguments:
    changed = dict(call)
    for name in _BY_TOKEN:
        argument = call.get(name)
        if argument is None:
            continue
        length = argument.shape[1] + len(first)
        argument = replace(argument, shape=(argument.shape[0], length, *argument.shape[2:]))
        if name == "input_ids":
            why = f"{len(first)} placeholders of what it sees or hears, and {argument.why}"
            argument = replace(argument, first=first, why=why, is_concrete=True)
        elif name == "mm_token_type_ids":
            argument = replace(argument, first=kinds, why="which tokens are placeholders")
        changed[name] = argument
    return changed


def _asked(
    model: torch.nn.Module, method: str, inputs: tuple[str, ...]
) -> Callable[..., object] | None:
    """Return the method of the outermost part that takes one of these inputs by its name."""
    for module in model.modules():  # Heads wrap the model, some with ``*args``.
        found = getattr(module, method, None)
        if callable(found) and not set(inputs).isdisjoint(parameters_of(found).positional):
            return found  # type: ignore[no-any-return]
    return None


def _features(
    call: Arguments,
    model: torch.nn.Module,
    ask: Callable[..., object],
    settings: Settings,
    dtype: torch.dtype,
) -> int | None:
    """Return how many features an item of a call has; None where the model cannot tell."""
    names = set(parameters_of(ask).positional)
    wanted = {name: part for name, part in call.items() if name in names}
    given = {name: tensor_of(part, dtype, settings, 0) for name, part in wanted.items()}
    concrete = frozenset(name for name, part in wanted.items() if part.is_concrete)
    try:
        with torch.no_grad(), without_logs():
            found = on_fakes(ask, given, concrete, on_meta=is_on_meta(model))
    except Exception:
        return None  # this form of the input is not the right one: another is tried
    rows = sum(tensor.numel() // max(tensor.shape[-1], 1) for tensor in _told(found))
    items = next(iter(call.values())).shape[0]
    return rows // items or None


def on_fakes(
    ask: Callable[..., object],
    given: Mapping[str, torch.Tensor],
    concrete: frozenset[str],
    *,
    on_meta: bool,
) -> object:
    """Ask on tensors without values; on real ones where the count depends on them."""
    others = {name: part for name, part in given.items() if name not in concrete}
    real = {name: part for name, part in given.items() if name in concrete}
    if on_meta:
        return ask(**real, **{name: part.to("meta") for name, part in others.items()})
    try:
        return ask(**real, **fake_inputs(others)[1])
    except DATA_DEPENDENT:
        return ask(**given)


@contextmanager
def without_logs() -> Iterator[None]:
    """Keep torch from printing a traceback for an operator that refuses this form."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before = log.disabled
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = before


def is_on_meta(model: torch.nn.Module) -> bool:
    """Say whether its parameters have no values."""
    return any(parameter.device.type == "meta" for parameter in model.parameters())


def _told(found: object) -> Iterator[torch.Tensor]:
    """Yield the feature tensors: the pooled ones, where there are others too."""
    pooled = found.get("pooler_output") if isinstance(found, Mapping) else None
    pending = [found if pooled is None else pooled]
    while pending:
        item = pending.pop()
        if isinstance(item, torch.Tensor):
            yield item
        elif isinstance(item, Mapping):
            pending += [value for value in item.values() if value is not None][:1]
        elif isinstance(item, (list, tuple)):
            pending += list(item)
