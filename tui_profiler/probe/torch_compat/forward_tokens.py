"""What a forward of a language model is given and keeps: token ids, and its cache.

1. It is read on the thread that runs the forward, before and after it: attributes as they are kept.
   No operator runs, no device is waited for, and no code of the cache's class is called.
2. Nothing of the forward is kept alive: only numbers are.
3. Caches are those of transformers (``Cache`` with its layers, of decoders and of state space
   models, the older lists of keys and values) and plain tuples of tensors. Of anything else the
   sizes are not known.

Tried on transformers 4.57 and 5.24.
"""

from array import array
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tui_profiler.probe.torch_compat.threads import without_torch_function

CACHES = ("cache", "past_key_values", "cache_params", "state")
"""Under which a forward takes its cache and returns it; the first is the newest."""
_IDS = ("decoder_input_ids", "input_ids", "decoder_inputs_embeds", "inputs_embeds")
"""What the encoder is given is no token of the answer: the decoder's goes first."""
_LOGITS = ("logits_to_keep", "num_logits_to_keep")
READ_EVERY = 8
"""Tokens between two readings of the size of the cache."""
MOST_LAYERS = 1_000
_MOST_TENSORS = 64
"""Of one layer."""
_PLAIN = frozenset({bool, int, float, str, type(None), torch.dtype, torch.device})
_IDS_AXES = 2
_KEYS_AXES = 3
"""At least: of keys (batch, heads, tokens, width), where heads are one axis or none."""


class CacheSize(NamedTuple):
    """A cache after a forward."""

    name: str
    """Its class."""
    layers: bytes
    """int64: bytes of the tensors of each layer."""
    length: int | None
    """Tokens of each row that it holds; None: it does not say, as where it is allocated whole."""
    is_preallocated: bool
    """Whether it has room for all tokens from the beginning."""


class ForwardTokens(NamedTuple):
    """The tokens of one forward."""

    rows: int
    """Sequences: the size of the batch axis."""
    tokens: int
    """Of each row that are given."""
    before: int | None
    """Tokens of each row that the cache held before; 0 without one, None where it does not say."""
    checked: int
    """Of the last tokens, those whose logits are kept: more than one where candidates of an
    assistant are checked; 0 where that is not said."""
    is_given_cache: bool
    """Whether a cache is passed, be it empty."""
    cache_id: int
    """``id`` of that, which later ones may have too; 0: none is passed."""
    is_encoded: bool = False
    """Whether an encoder ran before it: its output is passed."""
    encoder: tuple[float, float] | None = None
    """Seconds at which the encoder of the first forward of a request began and ended; None where
    that was not timed."""
    cache: CacheSize | None = None
    """After it; None: no cache, or of a kind that is not known."""
    is_kept: bool = False
    """Whether the cache is in the model's modules, not passed."""

    @property
    def begins(self) -> bool:
        """Whether it begins a sequence: nothing was kept of tokens before."""
        return self.before == 0

    @property
    def is_cache_read(self) -> bool:
        """Whether the size of the cache is read after it: of a prompt, and of a token in eight.

        It takes about a microsecond per layer; what does not grow is told with the prompt.
        """
        return self.tokens > 1 or self.begins or (self.before or 1) % READ_EVERY == 0


def tokens_of(args: tuple[object, ...], kwargs: dict[str, object]) -> ForwardTokens | None:
    """Return the tokens that a forward is given; None where it is given none, or learns from them.

    Args:
        args: of the call, before it.
        kwargs: likewise.
    """
    named = next((name for name in _IDS if kwargs.get(name) is not None), "")
    ids = kwargs.get(named)
    if ids is None and args:
        ids = args[0]
    if not isinstance(ids, Tensor) or kwargs.get("labels") is not None:
        return None
    with without_torch_function():
        is_ids = not ids.is_floating_point() and ids.dim() == _IDS_AXES
        if not is_ids and (ids is (args or (None,))[0] or ids.dim() != _IDS_AXES + 1):
            return None
        rows, tokens = ids.shape[:_IDS_AXES]
        if not isinstance(rows, int) or not isinstance(tokens, int):
            return None  # Under a tracer.
        cache = _cache_in(kwargs)
        before = 0 if cache is None else _length(cache)
    checked = next((found for name in _LOGITS if type(found := kwargs.get(name)) is int), 0)
    if before and tokens > 1 and named.startswith("decoder"):
        checked = tokens  # No prompt is added to what a decoder has written.
    is_given = cache is not None
    cache_id, is_encoded = id(cache) if is_given else 0, kwargs.get("encoder_outputs") is not None
    return ForwardTokens(rows, tokens, before, checked, is_given, cache_id, is_encoded)


def encoder_of(root: nn.Module) -> nn.Module | None:
    """Return the part that ``generate`` calls before the first forward; None without one."""
    for holder in (root, root._modules.get("model")):
        parts = {} if holder is None else holder._modules
        if parts.get("decoder") is not None and parts.get("encoder") is not None:
            return parts["encoder"]
    return None


def with_cache(found: ForwardTokens, kwargs: dict[str, object], output: object) -> ForwardTokens:
    """Return the same with the size of the cache after the forward.

    Args:
        found: before it.
        kwargs: of the call.
        output: what it returned.
    """
    if not found.is_cache_read:
        return found
    cache = _cache_in(kwargs)
    with without_torch_function():
        if cache is None and isinstance(output, dict):
            cache = next(
                (kept for name in CACHES if (kept := dict.get(output, name)) is not None), None
            )
        if cache is None:
            return found
        return found._replace(cache=_size(cache))


def _cache_in(kwargs: dict[str, object]) -> object:
    return next((found for name in CACHES if (found := kwargs.get(name)) is not None), None)


def _size(cache: object) -> CacheSize | None:
    sizes = [_bytes(layer) for layer in _layers(cache)]
    if not sizes or len(sizes) > MOST_LAYERS or None in sizes:
        return None
    layers = array("q", [size for size in sizes if size is not None]).tobytes()
    return CacheSize(type(cache).__qualname__, layers, _length(cache), _is_preallocated(cache))


def _layers(cache: object) -> Iterator[object]:
    """Yield what is kept of each layer."""
    inside: dict[str, object] = getattr(cache, "__dict__", {})
    own, crossed = inside.get("self_attention_cache"), inside.get("cross_attention_cache")
    if own is not None:
        others = iter([] if crossed is None else [*_layers(crossed)])
        yield from ([layer, next(others, None)] for layer in _layers(own))
        return
    for name in ("layers", "key_cache", "conv_states"):
        parts = inside.get(name)
        if isinstance(parts, list | tuple):
            rest = inside.get(
                {"key_cache": "value_cache", "conv_states": "ssm_states"}.get(name, "")
            )
            if isinstance(rest, list | tuple):
                yield from map(list, zip(parts, rest, strict=False))
            else:
                yield from parts
            return
    if isinstance(cache, list | tuple):
        yield from (layer for layer in cache if isinstance(layer, list | tuple))


def _bytes(layer: object, levels: int = 3) -> int | None:
    """Return the bytes of the tensors of a layer, but for counters; None where they are not known.

    Of a tensor of another class, as one that is quantised, the shape does not say what it takes.
    """
    if layer is None or levels == 0:
        return 0
    if isinstance(layer, dict):
        parts = [*dict.values(layer)]
    elif isinstance(layer, list | tuple):
        parts = [*layer]
    else:
        parts = [*getattr(layer, "__dict__", {}).values()]
    size = 0
    for part in parts[:_MOST_TENSORS]:
        if type(part) is Tensor:
            if part.dim() > 1:
                size += part.nbytes
        elif type(part) in _PLAIN:
            continue
        elif isinstance(part, Tensor):
            return None
        else:
            inside = _bytes(part, levels - 1)
            if inside is None:
                return None
            size += inside
    return size


def _first_layer(cache: object) -> dict[str, object] | None:
    """Return the attributes of the first layer of transformers that keeps keys; None without."""
    inside: dict[str, object] = getattr(cache, "__dict__", {})
    inside = getattr(inside.get("self_attention_cache"), "__dict__", inside)
    layers = inside.get("layers")
    if not isinstance(layers, list | tuple):
        return None
    found = (getattr(layer, "__dict__", {}) for layer in layers)
    return next((one for one in found if "keys" in one), None)


def _is_preallocated(cache: object) -> bool:
    first = _first_layer(cache)
    return first is not None and "max_cache_len" in first


def _length(cache: object) -> int | None:
    """Return how many tokens of each row a cache holds; None where it does not say."""
    inside: dict[str, object] = getattr(cache, "__dict__", {})
    if inside.get("layers") == [] and "layer_class_to_replicate" in inside:
        return 0  # Layers are made when first needed.
    first = _first_layer(cache)
    if first is not None:
        counted, keys = first.get("cumulative_length"), first["keys"]
        if first.get("is_initialized") is False or keys is None:
            return 0
        if type(counted) is int:
            return counted
        is_told = isinstance(keys, Tensor) and "max_cache_len" not in first
        return _rows_of_keys(keys) if is_told else None
    if _is_fresh_state(inside.get("layers")):
        return 0
    keys = inside.get("key_cache")
    if keys == []:
        return 0
    if keys is None and isinstance(cache, list | tuple) and cache:
        keys = cache
    while isinstance(keys, list | tuple):
        keys = keys[0] if keys else None
    return _rows_of_keys(keys)


def _rows_of_keys(keys: object) -> int | None:
    if not isinstance(keys, Tensor):
        return None
    if keys.dim() < _KEYS_AXES:
        return 0 if not keys.numel() else None
    return int(keys.shape[-2])


def _is_fresh_state(layers: object) -> bool:
    """Tell whether all layers are of a recurrence that has seen nothing."""
    if not isinstance(layers, list | tuple) or not layers:
        return False
    for layer in layers[:MOST_LAYERS]:
        seen = getattr(layer, "__dict__", {}).get("has_previous_state")
        if seen is True or not isinstance(seen, bool | dict):
            return False
        if isinstance(seen, dict) and any(one is not False for one in dict.values(seen)):
            return False
    return True
