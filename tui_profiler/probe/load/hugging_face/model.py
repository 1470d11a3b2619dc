"""A Hugging Face model: ``hf:DIR`` or ``hf:DIR/config.json``, built from its config, offline.

1. Nothing is downloaded unless ``--weights`` asks for it, and code that a directory carries
   (``auto_map``) never runs without ``--trust``.
2. Parameters are random unless ``--weights`` names files: a directory that holds weights is read
   only with ``--weights DEFAULT``.
3. A model that does not fit into memory is built on meta, and only traced.
4. It has the dtype that its config states, unless ``--dtype`` says otherwise.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch

from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.common.errors import (
    LoadError,
    in_words,
    model_failed,
    wrong_request,
)
from tui_profiler.probe.load.common.initialisation import seeded, without_random_values
from tui_profiler.probe.load.common.loaded_model import Loaded
from tui_profiler.probe.load.common.memory_check import why_it_does_not_fit
from tui_profiler.probe.load.common.settings import Settings, place
from tui_profiler.probe.load.downloads import DEFAULT
from tui_profiler.probe.load.hugging_face.classes import build, choose_class, refuse_files
from tui_profiler.probe.load.hugging_face.config import Config, fetched_folder, read_config
from tui_profiler.probe.load.hugging_face.decode import decode_call
from tui_profiler.probe.load.hugging_face.inputs import candidates
from tui_profiler.probe.load.hugging_face.library import quiet, transformers_library
from tui_profiler.probe.load.hugging_face.weights import read_values, values_asked_for
from tui_profiler.probe.process.memory_limit import allow_untouched
from tui_profiler.probe.torch_compat.forward_inputs import Inputs

_FEW_PARAMETERS = 1 << 25
"""Below this, proper values take less time than building the model twice."""

_Build = Callable[[], torch.nn.Module]


def load_hugging_face(spec: LoadSpec, settings: Settings) -> Loaded:
    """Build a model from its config.

    Raises:
        LoadError: transformers is not there, the config cannot be read, is of a kind that this
            version of transformers does not know, or wants code or weights that were not allowed.
    """
    if spec.arguments:
        raise wrong_request(
            "--args is for factories; what a Hugging Face model is built with is its config",
            (f"tui-profiler {spec.model}", "without --args, after a change of its config.json"),
        )
    library = transformers_library()
    with quiet(offline=False):
        fetched = fetched_folder(spec)
    # Without trust nothing is downloaded once a file is open.
    with quiet(offline=not (spec.trust and spec.weights == DEFAULT)):
        config = read_config(library, spec, fetched)
        if not spec.trust:
            refuse_files(config)
        choice = choose_class(library, config, trust=spec.trust)
        values = values_asked_for(spec, config)
        without_values = partial(build, choice, config, settings.dtype)
        sketch = _sketch(without_values)
        if sketch is not None:
            _require_forward(sketch, config)
        reason = "" if sketch is None else why_it_does_not_fit(sketch, settings.device)
        if sketch is not None and (reason or settings.device.type == "meta"):
            return _loaded(sketch.eval(), config, spec, settings, cannot_run=reason)
        if values is not None:
            model, said = read_values(values, choice, config, settings.dtype)
            return _loaded(_placed(model, settings), config, spec, settings, weights=said)
        if sketch is not None and _parameters(sketch) > _FEW_PARAMETERS:
            del sketch
            with without_random_values():
                model = without_values()
            initialise = _initialiser(without_values, settings)
            return _loaded(_placed(model, settings), config, spec, settings, initialise=initialise)
        return _loaded(_initialiser(without_values, settings)(), config, spec, settings)


def _sketch(without_values: _Build) -> torch.nn.Module | None:
    """Build a model on meta, to know its size; None where it can only be built with values."""
    try:
        with torch.device("meta"):
            return without_values()
    except LoadError:
        return None  # Building it for real tells what is wrong, or that nothing is.


def _require_forward(model: torch.nn.Module, config: Config) -> None:
    """Refuse a class whose own methods, such as ``generate``, call its parts in turn.

    Raises:
        LoadError: It has no ``forward``.
    """
    if type(model).forward is not torch.nn.Module.forward:
        return
    name, source = type(model).__name__, type(config.value).__name__
    parts = [part for part, child in model.named_children() if list(child.parameters())]
    made = f"transformers.{name}(transformers.{source}.from_pretrained({config.shown!r}))"
    raise model_failed(
        f"{name} has no forward: {_callers(model)} its parts ({in_words(parts, 6)})",
        *(
            (
                "tui-profiler part.py:build",
                f"profiles one part: import transformers; build = lambda: {made}.{part}",
            )
            for part in parts[:1]
        ),
        ("tui-profiler run SCRIPT", "profiles the parts that a script of yours calls"),
    )


def _callers(model: torch.nn.Module) -> str:
    """Return what calls the parts of a model without a forward, as subject and verb."""
    can_generate = getattr(model, "can_generate", None)
    if callable(can_generate) and can_generate():
        return "generate() calls"
    own = [name for name, one in vars(type(model)).items() if inspect.isfunction(one)]
    public = [f"{name}()" for name in own if not name.startswith("_")]
    if not public:
        return "other code calls"
    return f"{in_words(public, 3)} {'calls' if len(public) == 1 else 'call'}"


def _parameters(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _placed(model: torch.nn.Module, settings: Settings) -> torch.nn.Module:
    """Put it on its device: its dtypes are as its class wants them."""
    return place(model, replace(settings, dtype=None))


def _initialiser(without_values: _Build, settings: Settings) -> _Build:
    def initialise() -> torch.nn.Module:
        allow_untouched()  # The model that was traced has no values.
        with quiet(offline=True), seeded():
            model = without_values()
        return _placed(model, settings)

    return initialise


def _loaded(
    model: torch.nn.Module,
    config: Config,
    spec: LoadSpec,
    settings: Settings,
    *,
    weights: str = "random",
    initialise: _Build | None = None,
    cannot_run: str = "",
) -> Loaded:
    def made(model: torch.nn.Module, settings: Settings) -> Sequence[Inputs]:
        return candidates(model, config, spec, settings)

    return Loaded(
        model=model,
        facts_source="transformers",
        weights=weights,
        candidates=made(model, settings),
        initialise=initialise,
        published_gmacs=None,
        published_parameters=None,
        remake=lambda model, batch: made(model, replace(settings, batch=batch)),
        cannot_run=cannot_run,
        decode=decode_call,
    )
