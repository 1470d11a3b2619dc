"""A model that the user named: an architecture of torchvision's.

The model is built without values for the trace, which needs only shapes, and built again with
values before anything is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import torch
from torchvision import models
from torchvision.models import WeightsEnum

from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.architectures.torchvision_architectures import (
    Published,
    architecture_names,
    build,
    is_quantised,
    published,
    reference_weights,
)
from tui_profiler.probe.load.common.errors import (
    LoadError,
    in_words,
    model_failed,
    nearest,
    wrong_request,
)
from tui_profiler.probe.load.common.factory import parse_arguments
from tui_profiler.probe.load.common.initialisation import initialiser, seeded, without_random_values
from tui_profiler.probe.load.common.input_tensors import Candidates
from tui_profiler.probe.load.common.loaded_model import Loaded
from tui_profiler.probe.load.common.settings import Settings, place
from tui_profiler.probe.load.downloads import (
    DownloadError,
    download_of,
    fetched,
    file_of_entry,
)
from tui_profiler.probe.load.files.state_dict import bind_file, file_of_weights
from tui_profiler.probe.load.inputs.guesses import guesses
from tui_profiler.probe.load.inputs.input_candidates import candidates_for
from tui_profiler.probe.load.weights_only import weights_only
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.system.demos import PREFIX, demo_names


def load_named(spec: LoadSpec, settings: Settings) -> Loaded:
    """Load an architecture by its name.

    Raises:
        LoadError: There is none of that name, or what goes with it cannot be had.
    """
    name = _checked_name(spec)
    keywords = _keywords(spec.arguments, name)
    entry, bind = _weights(spec, name)
    if entry is not None:
        _fetch(entry, spec)
    # Weights are made whole numbers by what they are: their values must be there.
    has_values = is_quantised(name, keywords, entry)
    reading = nullcontext() if spec.trust else weights_only()
    with reading, seeded() if has_values else without_random_values():
        model = build(name, keywords, entry)
    if bind is not None:
        bind(model)
    model = place(model, settings)
    known = published(name, entry or reference_weights(name), model)
    is_as_published = known is not None and not keywords
    return Loaded(
        model=model,
        facts_source="torchvision",
        weights=spec.weights if bind else f"{entry.name}" if entry else "random",
        candidates=_candidates(model, known, keywords, spec, settings),
        initialise=(
            None
            if entry or bind or has_values or settings.device.type == "meta"
            else initialiser(partial(build, name, keywords), settings)
        ),
        published_gmacs=known.gmacs if known and is_as_published and not spec.inputs else None,
        published_parameters=known.parameters if known and is_as_published else None,
        remake=lambda model, batch: _candidates(
            model, known, keywords, spec, replace(settings, batch=batch)
        ),
    )


def _checked_name(spec: LoadSpec) -> str:
    name = spec.model
    folded = name.casefold()
    if folded in architecture_names():
        return folded
    raise _unknown(name)


def _unknown(name: str) -> LoadError:
    demos = [PREFIX + demo for demo in demo_names()]
    likely = nearest(name, (*architecture_names(), *demos))
    likely += [PREFIX + demo for demo in demo_names() if demo == name.casefold()]
    remedies = [(f"tui-profiler {near}", "a name like it") for near in dict.fromkeys(likely)]
    if "." in name and all(part.isidentifier() for part in name.split(".")):
        remedies.append((f"tui-profiler {name}:build", "takes build from that Python module"))
    return wrong_request(
        f'no model is named "{name}"',
        *remedies,
        ("tui-profiler models", "lists the names there are"),
    )


def _keywords(arguments: str, name: str) -> dict[str, object]:
    positional, keywords = parse_arguments(arguments)
    reserved = [key for key in ("weights", "progress") if key in keywords]
    if positional or reserved:
        raise wrong_request(
            f"{name} takes keywords only, and its weights through --weights",
            ("--args '{\"num_classes\": 10}'", "an object of keywords"),
        )
    return keywords


def _weights(
    spec: LoadSpec, name: str
) -> tuple[WeightsEnum | None, Callable[[torch.nn.Module], None] | None]:
    """Give the published weights, or what binds the user's own; neither where none were asked."""
    text = spec.weights
    if not text:
        return None, None
    path = file_of_weights(text, spec.folder)
    if path is not None:
        return None, lambda model: bind_file(path, text, model, name)
    return _entry(text, name), None


def _entry(text: str, name: str) -> WeightsEnum:
    entries = models.get_model_weights(name)
    names = [entry.name for entry in entries]
    wanted = text.rpartition(".")[2].upper()
    if wanted == "DEFAULT":
        default: WeightsEnum = entries.DEFAULT
        return default
    for entry in entries:
        if entry.name == wanted:
            found: WeightsEnum = entry
            return found
    raise wrong_request(
        f'{name} has no weights "{text}"; it has {in_words(names)}',
        *(
            (f"--weights {near}", "downloads them, once")
            for near in nearest(text, names) or names[:1]
        ),
    )


def _fetch(entry: WeightsEnum, spec: LoadSpec) -> None:
    """Have the file of published weights fetched, where it is not kept from before.

    Raises:
        LoadError: It cannot be had.
    """
    download = download_of(spec)
    if download is None or file_of_entry(entry).exists():
        return
    try:
        fetched(download)
    except DownloadError as error:
        raise model_failed(
            f"the weights {entry.name} of {download.name} cannot be had: {error}",
            (f"tui-profiler {download.name}", "random weights, no download"),
            error=error,
        ) from error


def _candidates(
    model: torch.nn.Module,
    known: Published | None,
    keywords: Mapping[str, object],
    spec: LoadSpec,
    settings: Settings,
) -> Sequence[Inputs]:
    if spec.inputs or known is None:
        return candidates_for(model, None, spec, settings)
    # The user's keywords may have changed what it takes.
    others = guesses(model) if keywords.keys() - {"quantize"} else ()
    return Candidates((known.call, *others), settings)
