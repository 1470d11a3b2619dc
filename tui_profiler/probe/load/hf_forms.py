"""The forms in which each keyword of a Hugging Face ``forward`` may come, by its name.

Names mean the same across architectures; sizes come from the config under the names that it
gives them. Where a name has several forms, the likeliest is first, and all are tried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from tui_profiler.probe.load.hf_arguments import Argument
from tui_profiler.probe.load.hf_sizes import Sizes

TOKENS = 128
_LONGEST_SOUND_SECONDS = 1
_RATE = 16_000
_FRAMES = 8
_MOST_POSITIONS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "max_sequence_length",
    "max_seq_length",
    "seq_length",
    "n_ctx",
    "context_length",
    "max_text_len",
)
_CHANNELS = ("num_channels", "in_channels", "in_chans", "num_input_channels", "n_channels")


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

    def has(self, *names: str) -> bool:
        """Say whether ``forward`` takes all of these."""
        return self.parameters.issuperset(names)


def most_tokens(sizes: Sizes) -> tuple[int, str]:
    """Give the length of a sequence, and why."""
    bound = sizes.named(*_MOST_POSITIONS, inside="text") or sizes.named(*_MOST_POSITIONS)
    if bound is None or bound[1] >= TOKENS:
        return TOKENS, f"{TOKENS} tokens, as nothing else was asked for"
    return bound[1], f"its config's {bound[0]}"


def forms(name: str, now: Situation) -> tuple[Argument, ...]:
    """Give the forms of one keyword; none where nothing is known of that name."""
    made = _FORMS.get(name)
    return () if made is None else made(now)


def has_form(name: str) -> bool:
    """Say whether something is known of a keyword of that name."""
    return name in _FORMS


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
    bound = now.sizes.named("max_target_positions", "max_decoder_position_embeddings")
    vocabulary = now.sizes.number("vocab_size", inside="decoder") or now.vocabulary
    if bound is not None and bound[1] < now.tokens:
        now = replace(now, tokens=bound[1], why_tokens=f"its config's {bound[0]}")
    else:
        now = replace(now, why_tokens=f"{now.tokens} tokens, as nothing else was asked for")
    return _text(replace(now, vocabulary=vocabulary))


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


def _image(now: Situation) -> tuple[Argument, ...]:
    if now.has("image_grid_thw") or now.has("grid_thw"):
        return _patches(now)
    (height, width), why = now.sizes.image()
    channels = now.sizes.number(*_CHANNELS, inside="vision") or now.sizes.number(*_CHANNELS) or 3
    image = Argument((1, channels, height, width), why)
    several = replace(image, shape=(1, 1, channels, height, width), why=f"{why}; a list of one")
    if now.sizes.number("num_frames") is not None:
        return (*_video(now), image, several)
    return (image, several, replace(image, shape=(1, 5, *image.shape[1:])))


def _video(now: Situation) -> tuple[Argument, ...]:
    (height, width), why = now.sizes.image()
    channels = now.sizes.number(*_CHANNELS) or 3
    found = now.sizes.named("num_frames", "frames_per_clip", "max_frames")
    frames, frames_why = (found[1], f"its config's {found[0]}") if found else (_FRAMES, "8 frames")
    why = f"{frames_why}, {why}"
    return (
        Argument((1, frames, channels, height, width), why),
        Argument((1, channels, frames, height, width), why),
    )


def _grid(now: Situation) -> tuple[int, int, str]:
    """Give rows and columns of patches, for models that take them as a list."""
    sizes = now.sizes
    patch = sizes.number("patch_size", "spatial_patch_size", inside="vision") or sizes.number(
        "patch_size", "spatial_patch_size"
    )
    patch = patch or 14
    merged = sizes.number("spatial_merge_size", "merge_size", "spatial_merge_kernel_size") or 2
    (height, width), why = sizes.image()
    step = merged * 2
    rows, columns = (max(side // patch // step, 1) * step for side in (height, width))
    return rows, columns, f"{rows}×{columns} patches of {patch}×{patch}, {why}"


def _patches(now: Situation) -> tuple[Argument, ...]:
    rows, columns, why = _grid(now)
    sizes = now.sizes
    patch = sizes.number("patch_size", "spatial_patch_size", inside="vision") or sizes.number(
        "patch_size", "spatial_patch_size"
    )
    frames = sizes.number("temporal_patch_size") or 1
    channels = sizes.number(*_CHANNELS, inside="vision") or sizes.number(*_CHANNELS) or 3
    width = channels * frames * (patch or 14) ** 2
    flat = Argument((rows * columns, width), why, rows=rows * columns)
    squares = (1, rows * columns, channels, patch or 14, patch or 14)
    return (
        flat,
        replace(flat, shape=(1, *flat.shape), rows=1),
        replace(flat, shape=squares, rows=1),
    )


def _grid_sizes(now: Situation) -> tuple[Argument, ...]:
    rows, columns, why = _grid(now)
    value = ((1, rows, columns),)
    return (
        Argument((1, 3), why, dtype=torch.int64, value=value, is_concrete=True),
        Argument((1, 2), why, dtype=torch.int64, value=((rows, columns),), is_concrete=True),
    )


def _image_sizes(now: Situation) -> tuple[Argument, ...]:
    (height, width), why = now.sizes.image()
    value = ((height, width),)
    return (Argument((1, 2), why, dtype=torch.int64, value=value, is_concrete=True),)


def _pixel_mask(now: Situation) -> tuple[Argument, ...]:
    (height, width), _ = now.sizes.image()
    whole = Argument((1, height, width), "no padding", "ones", torch.int64, is_concrete=True)
    return (whole, replace(whole, shape=(1, 1, height, width)))


def _spectrogram(now: Situation) -> tuple[Argument, ...]:
    sizes = now.sizes
    bins = sizes.named(
        "num_mel_bins",
        "feature_size",
        "input_feat_per_channel",
        "feature_projection_input_dim",
        "input_dim",
        "n_mels",
        "mel_bins",
        "num_mels",
        "input_feat_size",
        "input_size",
    )
    width, why = (bins[1], f"its config's {bins[0]}") if bins else (80, "80 bands, as usual")
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
        Argument(shape, "no padding", "ones", torch.int64, is_concrete=True)
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
    "bbox": _boxes,
    "pixel_values": _image,
    "pixel_values_videos": _video,
    "image": _image,
    "images": _image,
    "hidden_states": _patches,
    "grid_thw": _grid_sizes,
    "image_grid_thw": _grid_sizes,
    "image_sizes": _image_sizes,
    "pixel_mask": _pixel_mask,
    "input_features": _spectrogram,
    "input_features_mask": _sound_mask,
    "feature_attention_mask": _sound_mask,
    "input_values": _sound,
    "past_values": _series,
    "past_observed_mask": _series_mask,
    "past_time_features": _series_features,
}
