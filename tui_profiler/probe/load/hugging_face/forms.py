"""The forms in which each keyword of a Hugging Face ``forward`` may come, by its name.

Names mean the same across architectures; sizes come from the config under the names that it
gives them. Where a name has several forms, the likeliest is first, and all are tried.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import torch

from tui_profiler.probe.load.common.loaded_model import Settings
from tui_profiler.probe.load.hugging_face.config import Sizes

_Fill: TypeAlias = Literal["normal", "tokens", "ones", "zeros"]


@dataclass(frozen=True)
class Argument:
    """What is passed under one name."""

    shape: tuple[int, ...]
    """Every axis, the batch axis included."""
    why: str
    """Where the shape came from."""
    fill: _Fill = "normal"
    dtype: torch.dtype | None = None
    """None: floating, in the model's dtype."""
    below: int = 2
    """Tokens are drawn from 0 to this, without it."""
    avoided: frozenset[int] = frozenset()
    """Tokens that are not drawn by chance."""
    last: int | None = None
    """The token at the end of each row, where it must be a certain one."""
    first: tuple[int, ...] = ()
    """Tokens at the beginning of each row: placeholders."""
    value: tuple[tuple[int, ...], ...] = ()
    """Whole numbers in place of ``fill``, one row for each of the first axis."""
    has_batch: bool = True
    """Its first axis counts items."""
    rows: int = 1
    """Rows of its first axis that belong to one item."""
    is_concrete: bool = False
    """It stays real where the others are fake."""

    def of_batch(self, batch: int) -> Argument:
        """Return the same for another number of items."""
        if not self.has_batch:
            return self
        if self.value:
            return replace(self, value=self.value * batch)
        return replace(self, shape=(batch * self.rows, *self.shape[1:]))


Arguments: TypeAlias = dict[str, Argument]


def tensor_of(
    argument: Argument, dtype: torch.dtype, settings: Settings, seed: int
) -> torch.Tensor:
    """Make the tensor, the same values each time.

    A model on meta is traced as if it were on the CPU, and so are its inputs.

    Args:
        argument: What is wanted.
        dtype: Of floating numbers where ``argument`` does not say.
        settings: On which device.
        seed: Of the random values.
    """
    device = torch.device("cpu") if settings.device.type == "meta" else settings.device
    dtype = argument.dtype or dtype
    if argument.value:
        rows = torch.tensor(argument.value, dtype=dtype, device=device)
        return rows.reshape(len(argument.value), *argument.shape[1:])
    if argument.fill in ("ones", "zeros"):
        number = 1 if argument.fill == "ones" else 0
        filled = torch.full(argument.shape, number, dtype=dtype)
        return _begun(filled, argument).to(device)
    generator = torch.Generator().manual_seed(seed)
    if argument.fill == "normal":
        drawn = torch.randn(argument.shape, generator=generator, dtype=torch.float32)
        return drawn.to(device, dtype)
    tokens = torch.randint(0, max(argument.below, 1), argument.shape, generator=generator)
    tokens = _begun(_without(tokens, argument), argument)
    if argument.last is not None:
        tokens[..., -1] = argument.last
    return tokens.to(device, dtype)


def _begun(tokens: torch.Tensor, argument: Argument) -> torch.Tensor:
    if argument.first:
        tokens[..., : len(argument.first)] = torch.tensor(argument.first, dtype=tokens.dtype)
    return tokens


def _without(tokens: torch.Tensor, argument: Argument) -> torch.Tensor:
    """Put the first token without a meaning in the place of those that have one."""
    plain = next((i for i in range(argument.below) if i not in argument.avoided), 0)
    for token in argument.avoided:
        tokens = tokens.masked_fill(tokens == token, plain)
    return tokens


TOKENS = 128
_LONGEST_SOUND_SECONDS = 1
_RATE = 16_000
_FRAMES = 8
_MOST_POSITIONS = (
    *("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length"),
    *("max_seq_length", "seq_length", "n_ctx", "context_length", "max_text_len"),
)
_DOCUMENTED = re.compile(
    r"^ *(\w+) \(`?(?:torch\.)?(\w*Tensor)`?[^()\n]* of shape `?\(([^()`\n]*)\)`?([^\n]*)$",
    re.MULTILINE,
)
_BANDS = (
    *("num_mel_bins", "feature_size", "input_feat_per_channel", "feature_projection_input_dim"),
    *("input_dim", "n_mels", "mel_bins", "num_mels", "input_feat_size", "input_size"),
)
_CHANNELS = ("num_channels", "in_channels", "in_chans", "num_input_channels", "n_channels")


@dataclass(frozen=True)
class Documented:
    """One parameter, as the documentation of ``forward`` has it."""

    axes: tuple[str, ...]
    """Such as ``batch_size``, ``sequence_length``, ``config.num_mel_bins``, ``1``."""
    is_whole: bool
    """Of whole numbers."""
    is_optional: bool


def documented(text: str) -> dict[str, Documented]:
    """Read the shapes in the documentation of a ``forward``; the first of each name counts."""
    found: dict[str, Documented] = {}
    for name, kind, axes, rest in _DOCUMENTED.findall(text):
        named = tuple(axis.strip() for axis in axes.split(",") if axis.strip())
        found.setdefault(
            name, Documented(named, kind.startswith(("Long", "Int")), "optional" in rest)
        )
    return found


@dataclass(frozen=True)
class Situation:
    """What the forms depend on."""

    sizes: Sizes
    vocabulary: int
    """Rows of the table in which tokens are looked up."""
    tokens: int
    """Length of a sequence."""
    why_tokens: str
    parameters: frozenset[str]
    """Names in ``forward``."""
    is_seq2seq: bool
    dtype: torch.dtype
    """Of floating inputs."""
    documented: Mapping[str, Documented] = field(default_factory=dict)
    """What the documentation of ``forward`` says of its parameters, by name."""
    generates: bool = False
    """Its next token needs a position too."""
    whole: frozenset[str] = frozenset()
    """Names in ``forward`` that are annotated as tensors of whole numbers."""

    def has(self, *names: str) -> bool:
        """Say whether ``forward`` takes all of these."""
        return self.parameters.issuperset(names)


def most_tokens(sizes: Sizes, *, generates: bool) -> tuple[int, str]:
    """Return the length of a sequence, and why; one position is left for a next token."""
    bound = sizes.named(*_MOST_POSITIONS, inside="text") or sizes.named(*_MOST_POSITIONS)
    return _within(bound, generates=generates)


def _within(bound: tuple[str, int] | None, *, generates: bool) -> tuple[int, str]:
    if bound is None or bound[1] - generates >= TOKENS:
        return TOKENS, f"{TOKENS} tokens, the default"
    less = ", less one for the next token" if generates else ""
    return max(bound[1] - generates, 1), f"its config's {bound[0]}{less}"


def forms_of(name: str, now: Situation) -> tuple[Argument, ...]:
    """Return the forms of one keyword; none where nothing is known of that name.

    What its documentation says comes first where it says that one item has several rows, and
    alone where the name says nothing; without a documentation, its annotation.
    """
    made = _FORMS.get(name)
    said = _as_documented(name, now)
    if made is None:
        return said or (_annotated(now) if name in now.whole else ())
    known = made(now)
    axes = now.documented[name].axes if name in now.documented else ()
    if not known or not axes or "*" not in axes[0] or not said:
        return known
    rows, why = said[0].rows, said[0].why
    in_rows = tuple(
        replace(one, shape=(rows, *one.shape[1:]), rows=rows, why=f"{why}; {one.why}", last=None)
        for one in known
    )
    return (*in_rows, *known)


def has_form(name: str) -> bool:
    """Say whether something is known of a keyword of that name."""
    return name in _FORMS


def _as_documented(name: str, now: Situation) -> tuple[Argument, ...]:
    """Return what the documentation of ``forward`` says, where every axis is known."""
    found = now.documented.get(name)
    if found is None or not found.axes:
        return ()
    sizes = [_axis(axis, now) for axis in found.axes]
    if any(size is None for size in sizes):
        return ()
    shape = tuple(size for size in sizes if size is not None)
    why = f"its documentation: ({', '.join(found.axes)})"
    dtype = torch.int64 if found.is_whole else None
    return (Argument(shape, why, "zeros" if found.is_whole else "normal", dtype, rows=shape[0]),)


def _annotated(now: Situation) -> tuple[Argument, ...]:
    """Return zeros: of whole numbers that count or point to something, the one that always can."""
    return tuple(replace(row, why="its annotation: whole numbers") for row in _zeros_by_token(now))


def _axis(text: str, now: Situation) -> int | None:
    """Return the size of an axis by its name; None where it says nothing."""
    factors = [_factor(part.strip(), now) for part in text.split("*")]
    if any(size is None for size in factors):
        return None
    return math.prod(size for size in factors if size is not None)


def _factor(text: str, now: Situation) -> int | None:
    name = text.removeprefix("self.").removeprefix("config.")
    if name.isdecimal():
        return int(name)
    if name in ("batch_size", "batch"):
        return 1
    inside = "decoder" if name == "num_codebooks" else ""
    size = now.sizes.number(name, inside=inside) or now.sizes.number(name)
    is_length = name.endswith(("_length", "_len", "length"))
    return size or (now.tokens if is_length else None)


def _text(now: Situation) -> tuple[Argument, ...]:
    special = now.sizes.special_ids()
    end = special.get("eos_token_id")
    row = Argument(
        (1, now.tokens),
        now.why_tokens,
        "tokens",
        torch.int64,
        below=now.vocabulary,
        avoided=frozenset(special.values()),
        last=end if now.is_seq2seq and end is not None and 0 <= end < now.vocabulary else None,
    )
    shorter = [
        replace(row, shape=(1, tokens), why=f"{tokens} tokens, as {now.tokens} were too many")
        for tokens in dict.fromkeys((now.tokens - 2, now.tokens // 2, 16, 8))
        if 0 < tokens < now.tokens
    ]
    return (row, *shorter)


def _decoder_text(now: Situation) -> tuple[Argument, ...]:
    names = ("max_target_positions", "max_decoder_position_embeddings")
    bound = now.sizes.named(*names) or now.sizes.named(*_MOST_POSITIONS)
    vocabulary = now.sizes.number("vocab_size", inside="decoder") or now.vocabulary
    tokens, why = _within(bound, generates=now.generates)
    if tokens >= now.tokens and bound is not None and bound[0].rpartition(".")[2] not in names:
        room = now.tokens - (now.generates and tokens == now.tokens < TOKENS)
        tokens, why = room, f"{room} tokens, the default"
    return _text(replace(now, tokens=tokens, why_tokens=why, vocabulary=vocabulary))


def _mask(now: Situation) -> tuple[Argument, ...]:
    return tuple(
        replace(
            row, fill="ones", why="no padding", is_concrete=True, avoided=frozenset(), last=None
        )
        for row in _text(now)
    )


def _zeros_by_token(now: Situation) -> tuple[Argument, ...]:
    return tuple(replace(row, fill="zeros", why="one segment") for row in _mask(now))


def _boxes(now: Situation) -> tuple[Argument, ...]:
    return tuple(
        replace(row, fill="zeros", shape=(*row.shape, 4), why="one box for each token")
        for row in _mask(now)
    )


def _no_padding(*shape: int) -> Argument:
    return Argument(shape, "no padding", "ones", torch.int64, is_concrete=True)


def _numbers(shape: tuple[int, ...], why: str, value: tuple[tuple[int, ...], ...]) -> Argument:
    return Argument(shape, why, dtype=torch.int64, value=value, is_concrete=True)


def _stated(found: tuple[str, int] | None, usual: int, why: str) -> tuple[int, str]:
    """Return a number that the config states, else the usual one, and why."""
    return (usual, why) if found is None else (found[1], f"its config's {found[0]}")


def _of_vision(now: Situation, *names: str) -> int | None:
    """Return a number of the part that sees, else of any."""
    return now.sizes.number(*names, inside="vision") or now.sizes.number(*names)


def _channels(now: Situation) -> int:
    return _of_vision(now, *_CHANNELS) or 3


def _image(now: Situation) -> tuple[Argument, ...]:
    if now.has("spatial_shapes"):
        rows, columns, patch, why = _native_grid(now)
        channels = now.sizes.number(*_CHANNELS, inside="vision") or 3
        return (Argument((1, rows * columns, channels * patch * patch), why),)
    if now.has("image_grid_thw") or now.has("grid_thw"):
        return _patches(now)
    if now.has("image_position_ids") or now.has("pixel_position_ids"):
        return _placed_patches(now)
    (height, width), why = now.sizes.image()
    if now.has("prompt_pixel_values"):
        height, why = height // 2, f"half of {why}: the prompt is the other"
    channels = _channels(now)
    image = Argument((1, channels, height, width), why)
    several = replace(image, shape=(1, 1, channels, height, width), why=f"{why}; a list of one")
    if now.sizes.number("num_frames") is not None:
        return (*_video(now), image, several)
    tiles = replace(image, shape=(1, 5, *image.shape[1:]))
    pair = replace(image, shape=(1, 2, *image.shape[1:]), why=f"{why}; a pair")
    forms = (image, several, tiles, pair)
    prepared = now.sizes.prepared_image()
    if prepared is None:
        return forms
    (height, width), why = prepared
    return (*forms, replace(image, shape=(1, channels, height, width), why=why))


def _encoded(now: Situation) -> tuple[Argument, ...]:
    """Return what an encoder would have made, for a part of a model that is passed it."""
    found = now.sizes.named("encoder_hidden_size", "cross_attention_hidden_size", "hidden_size")
    if found is None:
        return ()
    return (Argument((1, now.tokens, found[1]), f"its config's {found[0]}, {now.why_tokens}"),)


def _video(now: Situation) -> tuple[Argument, ...]:
    (height, width), why = now.sizes.image()
    channels = now.sizes.number(*_CHANNELS) or 3
    found = now.sizes.named("num_frames", "frames_per_clip", "max_frames")
    frames, frames_why = _stated(found, _FRAMES, f"{_FRAMES} frames")
    why = f"{frames_why}, {why}"
    return (
        Argument((1, frames, channels, height, width), why),
        Argument((1, channels, frames, height, width), why),
    )


def _native_grid(now: Situation) -> tuple[int, int, int, str]:
    """Return rows, columns and side of the patches of an image that keeps its own shape."""
    patch = _of_vision(now, "patch_size") or 16
    most = now.sizes.named("num_patches", "max_num_patches", inside="vision")
    count, why = _stated(most, 256, "256, the usual value")
    side = math.isqrt(count)
    return side, side, patch, f"{side}×{side} patches of {patch}×{patch}, {why}"


def _spatial_shapes(now: Situation) -> tuple[Argument, ...]:
    rows, columns, _, why = _native_grid(now)
    return (_numbers((1, 2), why, ((rows, columns),)),)


def _patch_mask(now: Situation) -> tuple[Argument, ...]:
    if not now.has("spatial_shapes"):
        return _pixel_mask(now)
    rows, columns, _, _ = _native_grid(now)
    return (_no_padding(1, rows * columns),)


def _grid(now: Situation) -> tuple[int, int, int, str]:
    """Return rows, columns and side of patches, for models that take them as a list."""
    patch = _of_vision(now, "patch_size", "spatial_patch_size") or 14
    merged = now.sizes.number("spatial_merge_size", "merge_size", "spatial_merge_kernel_size") or 2
    return _grid_of(now, patch, merged * 2)


def _grid_of(now: Situation, patch: int, step: int) -> tuple[int, int, int, str]:
    """Return the grid of an image in patches, its rows and columns multiples of ``step``."""
    (height, width), why = now.sizes.image()
    rows, columns = (max(side // patch // step, 1) * step for side in (height, width))
    return rows, columns, patch, f"{rows}×{columns} patches of {patch}×{patch}, {why}"


def _patches(now: Situation) -> tuple[Argument, ...]:
    rows, columns, patch, why = _grid(now)
    channels = _channels(now)
    width = channels * (now.sizes.number("temporal_patch_size") or 1) * patch**2
    flat = Argument((rows * columns, width), why, rows=rows * columns)
    squares = (rows * columns, channels, patch, patch)
    return (
        flat,
        replace(flat, shape=(1, *flat.shape), rows=1),
        replace(flat, shape=(1, *squares), rows=1),
        replace(flat, shape=squares),
        replace(flat, shape=squares),
        replace(flat, shape=(rows * columns, 2 * width), why=f"{why}, two frames"),
    )


def _grid_sizes(now: Situation) -> tuple[Argument, ...]:
    rows, columns, _, why = _grid(now)
    with_frames = _numbers((1, 3), why, ((1, rows, columns),))
    flat = replace(with_frames, shape=(1, 2), value=((rows, columns),))
    # As the patches come beside them.
    return (with_frames, flat, flat, with_frames, flat, with_frames)


def _merge_sizes(now: Situation) -> tuple[Argument, ...]:
    side = now.sizes.number("spatial_merge_size", "merge_size") or 2
    return (_numbers((1,), f"squares of {side}×{side} patches", ((side,),)),)


def _pooled_grid(now: Situation) -> tuple[int, int, int, str]:
    step = now.sizes.number("pooling_kernel_size") or 1
    return _grid_of(now, _of_vision(now, "patch_size") or 16, step)


def _placed_patches(now: Situation) -> tuple[Argument, ...]:
    rows, columns, patch, why = _pooled_grid(now)
    return (Argument((1, rows * columns, _channels(now) * patch**2), why),)


def _places_of_patches(now: Situation) -> tuple[Argument, ...]:
    rows, columns, _, why = _pooled_grid(now)
    places = tuple(place for y in range(rows) for x in range(columns) for place in (x, y))
    return (_numbers((1, rows * columns, 2), why, (places,)),)


def _flattened_patches(now: Situation) -> tuple[Argument, ...]:
    patch = _of_vision(now, "patch_size") or 16
    width = 2 + (now.sizes.number(*_CHANNELS) or 3) * patch**2
    why = f"{now.tokens} patches of {patch}×{patch}, with row and column"
    return (Argument((1, now.tokens, width), why, "ones"),)


def _high_resolution(now: Situation) -> tuple[Argument, ...]:
    found = now.sizes.named("image_size", inside="high_res")
    side, why = _stated(found, 1024, "1024, the usual value")
    return (Argument((1, 3, side, side), why),)


def _image_sizes(now: Situation) -> tuple[Argument, ...]:
    (height, width), why = now.sizes.image()
    return (_numbers((1, 2), why, ((height, width),)),)


def _pixel_mask(now: Situation) -> tuple[Argument, ...]:
    (height, width), _ = now.sizes.image()
    return (_no_padding(1, height, width), _no_padding(1, 1, height, width))


def _spectrogram(now: Situation) -> tuple[Argument, ...]:
    sizes = now.sizes
    bins = sizes.named(*_BANDS)
    width, why = _stated(bins, 80, "80 bands, the usual value")
    halved = sizes.named("max_source_positions")
    length = 2 * halved[1] if halved and halved[1] <= 3000 else 200
    columns = Argument((1, width, length), f"{why}, {length} frames")
    rows = replace(columns, shape=(1, length, width))
    clip = replace(columns, shape=(1, 1, 1024, width), why=f"{why}, 1024 frames")
    whisper = sizes.number("max_source_positions") is not None
    return (columns, rows, clip) if whisper else (rows, columns, clip)


def _sound(now: Situation) -> tuple[Argument, ...]:
    found = now.sizes.named("num_mel_bins")
    length = now.sizes.named("max_length")
    seconds = f"{_LONGEST_SOUND_SECONDS} s at 16 kHz"
    raw = Argument((1, _LONGEST_SOUND_SECONDS * _RATE), seconds)
    channels = now.sizes.number("audio_channels", "channels") or 1
    with_channels = replace(raw, shape=(1, channels, raw.shape[1]))
    if found is None:
        return (raw, with_channels)
    frames = length[1] if length is not None else 1024
    spectrogram = Argument((1, frames, found[1]), f"its config's {found[0]}")
    return (spectrogram, raw, with_channels)


def _sound_mask(now: Situation) -> tuple[Argument, ...]:
    return tuple(
        _no_padding(*shape)
        for part in _spectrogram(now)
        for shape in ((1, part.shape[-1]), (1, part.shape[-2]))
    )


def _series(now: Situation) -> tuple[Argument, ...]:
    sizes = now.sizes
    length = sizes.named("context_length", "prediction_length") or ("", 64)
    lags = sizes.value("lags_sequence")
    past = length[1] + (max(lags) if isinstance(lags, (list, tuple)) and lags else 0)
    width = sizes.number("num_input_channels", "input_size") or 1
    why = f"its config's {length[0]}" if length[0] else "64 steps"
    flat, deep = Argument((1, past), why), Argument((1, past, width), why)
    return (deep, flat) if sizes.number("num_input_channels") or width > 1 else (flat, deep)


def _series_mask(now: Situation) -> tuple[Argument, ...]:
    return tuple(replace(part, fill="ones", why="all observed") for part in _series(now))


def _series_features(now: Situation) -> tuple[Argument, ...]:
    past = _series(now)[0].shape[1]
    count = now.sizes.number("num_time_features") or 0
    return (Argument((1, past, count), "its config's num_time_features"),)


_FORMS: dict[str, Callable[[Situation], tuple[Argument, ...]]] = {
    "input_ids": _text,
    "attention_mask": _mask,
    "token_type_ids": _zeros_by_token,
    "mm_token_type_ids": _zeros_by_token,
    "decoder_input_ids": _decoder_text,
    "encoder_hidden_states": _encoded,
    "bbox": _boxes,
    "pixel_values": _image,
    "pixel_values_videos": _video,
    "image": _image,
    "prompt_pixel_values": _image,
    "prompt_masks": _image,
    "images": _image,
    "hidden_states": _patches,
    "high_res_pixel_values": _high_resolution,
    "image_position_ids": _places_of_patches,
    "pixel_position_ids": _places_of_patches,
    "flattened_patches": _flattened_patches,
    "grid_thw": _grid_sizes,
    "merge_sizes": _merge_sizes,
    "image_merge_sizes": _merge_sizes,
    "image_grid_thw": _grid_sizes,
    "image_sizes": _image_sizes,
    "pixel_mask": _pixel_mask,
    "pixel_attention_mask": _patch_mask,
    "spatial_shapes": _spatial_shapes,
    "input_features": _spectrogram,
    "input_features_mask": _sound_mask,
    "feature_attention_mask": _sound_mask,
    "input_values": _sound,
    "past_values": _series,
    "past_observed_mask": _series_mask,
    "past_time_features": _series_features,
}
