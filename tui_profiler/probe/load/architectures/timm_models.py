"""timm's architectures, by name: ``timm:vit_tiny_patch16_224``, with or without the tag of weights.

1. Nothing is downloaded but by ``--weights DEFAULT`` or ``--weights TAG``. Names by which timm
   itself would fetch a model (``hf-hub:``) are none of its architectures, and are refused.
2. A model that does not fit into memory is built on meta, and only traced.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch

from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.common import downloads, errors, loaded_model
from tui_profiler.probe.load.common.initialisation import (
    initialiser,
    sketched,
    without_random_values,
)
from tui_profiler.probe.load.common.optional_libraries import library
from tui_profiler.probe.load.files.state_dict import bind_file, file_of_weights
from tui_profiler.probe.load.inputs import input_tensors
from tui_profiler.probe.load.inputs.guesses import guesses
from tui_profiler.probe.load.inputs.input_candidates import candidates_for
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.system.library_names import names_in_source

PREFIX = "timm:"

_RESERVED = ("pretrained", "pretrained_cfg", "pretrained_cfg_overlay", "checkpoint_path")


@dataclass(frozen=True)
class _Architecture:
    """What was asked for."""

    name: str
    """timm's, with the tag of weights behind a point where there is one."""
    keywords: Mapping[str, object]
    """For its builder."""
    is_pretrained: bool = False
    """With published weights, downloaded where they are not kept from before."""


@lru_cache(maxsize=1)
def timm_names() -> tuple[str, ...]:
    """Name timm's architectures, without the prefix; none where it is not installed.

    They are read from its source: importing timm takes seconds. A test holds them equal to what
    ``timm.list_models`` gives.
    """
    return tuple(sorted(names_in_source("timm")))


def load_timm(spec: LoadSpec, settings: loaded_model.Settings) -> loaded_model.Loaded:
    """Build one of timm's architectures."""
    timm: Any = library("timm", "timm models", "timm")
    wanted, file = _wanted(spec)
    make = partial(_build, timm, wanted)

    def candidates(model: torch.nn.Module, settings: loaded_model.Settings) -> Sequence[Inputs]:
        return _candidates(model, wanted, spec, settings)

    sketch = sketched(partial(_build, timm, replace(wanted, is_pretrained=False)))
    cannot_run = "" if sketch is None else loaded_model.why_it_does_not_fit(sketch, settings.device)
    if sketch is not None and cannot_run:
        model = sketch.eval()
        return loaded_model.loaded(
            model, "timm", "random", candidates, settings, cannot_run=cannot_run
        )
    if wanted.is_pretrained:
        _fetch(timm, wanted, spec)
        # Without trust nothing is downloaded once a file is open.
        with nullcontext() if spec.trust else downloads.offline():
            model = loaded_model.place(make(), settings)
        return loaded_model.loaded(model, "timm", _tag(model) or wanted.name, candidates, settings)
    with without_random_values():
        model = make()
    if file is not None:
        bind_file(file, spec.weights, model, spec.model)
        return loaded_model.loaded(
            loaded_model.place(model, settings), "timm", spec.weights, candidates, settings
        )
    initialise = None if settings.device.type == "meta" else initialiser(make, settings)
    placed = loaded_model.place(model, settings)
    return loaded_model.loaded(
        placed, "timm", "random", candidates, settings, initialise=initialise
    )


def _wanted(spec: LoadSpec) -> tuple[_Architecture, Path | None]:
    """Return the architecture, and the file that its values are in, where there is one."""
    name, point, tag = spec.model.removeprefix(PREFIX).partition(".")
    names = timm_names()
    if name not in names:
        folded = name.casefold().replace("-", "_")
        likely = [folded] if folded in names else errors.nearest(name, names)
        raise errors.wrong_request(
            f'timm has no architecture "{name}"',
            *((f"tui-profiler {PREFIX}{near}", "a name like it") for near in likely),
            (f"tui-profiler models '{PREFIX}*'", "lists the names there are"),
        )
    positional, keywords = loaded_model.parse_arguments(spec.arguments)
    if positional or any(key in _RESERVED for key in keywords):
        raise errors.wrong_request(
            f"{spec.model} takes keywords only, and its weights through --weights",
            ("--args '{\"num_classes\": 10}'", "an object of keywords"),
        )
    if not spec.weights:
        return _Architecture(f"{name}{point}{tag}", keywords), None
    file = file_of_weights(spec.weights, spec.folder)
    if file is not None:
        return _Architecture(f"{name}{point}{tag}", keywords), file
    return _Architecture(
        downloads.timm_weights(f"{name}{point}{tag}", spec.weights), keywords, True
    ), None


def _fetch(timm: Any, wanted: _Architecture, spec: LoadSpec) -> None:
    download = downloads.download_of(spec)
    if download is None:
        return
    try:
        downloads.fetched(download)
    except downloads.DownloadError as error:
        plain = wanted.name.partition(".")[0]
        raise errors.model_failed(
            f"the weights of {wanted.name} are not available as safetensors: {error};"
            f" {plain} has {_tags(timm, plain)}",
            (f"tui-profiler {PREFIX}{plain}", "random weights, no download"),
            (f"tui-profiler {spec.model} --weights {spec.weights} --trust", "if you trust pickles"),
            error=error,
        ) from error


def _build(timm: Any, wanted: _Architecture) -> torch.nn.Module:
    try:
        model = timm.create_model(wanted.name, pretrained=wanted.is_pretrained, **wanted.keywords)
    except Exception as error:
        plain = wanted.name.partition(".")[0]
        if wanted.is_pretrained:
            raise errors.model_failed(
                f"the weights of {wanted.name} are not available: {errors.reason(error)};"
                f" {plain} has {_tags(timm, plain)}",
                (f"tui-profiler {PREFIX}{plain}", "random weights, no download"),
                error=error,
            ) from error
        asked = " with these --args" if wanted.keywords else ""
        raise errors.wrong_request(
            f"{wanted.name} cannot be built{asked}: {errors.reason(error)}",
            (f"tui-profiler {PREFIX}{plain}", "without --args" if asked else "without the tag"),
        ) from error
    if not isinstance(model, torch.nn.Module):
        raise errors.model_failed(f"timm gave a {type(model).__name__} for {wanted.name}")
    return model


def _tags(timm: Any, plain: str) -> str:
    tags = [full.partition(".")[2] for full in timm.list_pretrained(plain)]
    return errors.in_words(tags) or "none"


def _tag(model: torch.nn.Module) -> str:
    config = getattr(model, "pretrained_cfg", None)
    return str(config.get("tag") or "") if isinstance(config, Mapping) else ""


def _candidates(
    model: torch.nn.Module, wanted: _Architecture, spec: LoadSpec, settings: loaded_model.Settings
) -> Sequence[Inputs]:
    """Return the image that its ``pretrained_cfg`` states, changed as the user's keywords say."""
    config = getattr(model, "pretrained_cfg", None)
    size = config.get("input_size") if isinstance(config, Mapping) else None
    if spec.inputs or not isinstance(size, (tuple, list)) or len(size) != 3:
        return candidates_for(model, None, spec, settings)
    channels, height, width = (int(axis) for axis in size)
    why = "its pretrained_cfg"
    match wanted.keywords.get("in_chans"):
        case int() as given:
            channels, why = given, f"{why}, with --args"
    match wanted.keywords.get("img_size"):
        case int() as side:
            height, width, why = side, side, "its img_size in --args"
        case [int() as high, int() as wide]:
            height, width, why = high, wide, "its img_size in --args"
    parameter = input_tensors.forward_parameters(model).name_at(0)
    stated = input_tensors.Call(
        ((parameter, input_tensors.ForwardArgument((1, channels, height, width), why)),)
    )
    others = guesses(model) if wanted.keywords else ()
    return input_tensors.Candidates((stated, *others), settings)
