"""A Hugging Face model: ``hf:DIR`` or ``hf:DIR/config.json``, built from its config, offline.

1. Nothing is downloaded unless ``--weights`` asks for it, and code that a directory carries
   (``auto_map``) never runs without ``--trust``.
2. Parameters are random unless ``--weights`` names files: a directory that holds weights is read
   only with ``--weights DEFAULT``.
3. A model that does not fit into memory is built on meta, and only traced.
4. It has the dtype that its config states, unless ``--dtype`` says otherwise.
"""

import importlib
import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.common import errors, loaded_model
from tui_profiler.probe.load.common.downloads import DEFAULT
from tui_profiler.probe.load.common.initialisation import seeded, sketched, without_random_values
from tui_profiler.probe.load.common.optional_libraries import library
from tui_profiler.probe.load.files.state_dict import file_of_weights, read_state_dict
from tui_profiler.probe.load.hugging_face.classes import Choice, build, choose_class, refuse_files
from tui_profiler.probe.load.hugging_face.config import Config, fetched_folder, read_config
from tui_profiler.probe.load.hugging_face.decode import decode_call
from tui_profiler.probe.load.hugging_face.inputs import answer_of, candidates
from tui_profiler.probe.process.memory_limit import allow_map, allow_untouched

_PATTERNS = ("*.safetensors", "*.safetensors.index.json", "*.bin", "*.bin.index.json")


@dataclass(frozen=True)
class _Values:
    source: str | Path
    """A folder, a file, or a name that is downloaded."""
    shown: str
    """As it is told: ``its own files'``, or the file as typed."""
    is_download: bool = False


def _values_asked_for(spec: LoadSpec, config: Config) -> _Values | None:
    text = spec.weights
    if not text:
        return None
    if config.folder is None:
        return _Values(config.shown, DEFAULT, is_download=True)
    if text.upper() == DEFAULT:
        if not _has_weights(config.folder):
            raise errors.wrong_request(
                f"{config.shown} has no weights beside its config",
                (f"tui-profiler hf:{config.shown}", "random weights"),
            )
        return _Values(config.folder, DEFAULT)
    folder = Path(spec.folder or ".") / Path(text).expanduser()
    if folder.is_dir():
        if not _has_weights(folder):
            raise errors.wrong_request(f"--weights: {text} contains no weights")
        return _Values(folder, text)
    path = file_of_weights(text, spec.folder)
    if path is None:
        raise errors.wrong_request(
            f'--weights "{text}": there is no such file or folder',
            (f"--weights {DEFAULT}", "the files beside the config"),
        )
    return _Values(path, text)


def _has_weights(folder: Path) -> bool:
    return any(next(folder.glob(pattern), None) is not None for pattern in _PATTERNS)


def _read_values(
    values: _Values, choice: Choice, config: Config, dtype: torch.dtype | None
) -> tuple[torch.nn.Module, str]:
    """Build a model with values; give it and what is to be said of its weights.

    Tensors that the files lack are random, and counted.
    """
    named: dict[str, Any] = {
        "config": config.value,
        "dtype": dtype or "auto",
        "local_files_only": not values.is_download,
        "output_loading_info": True,
    }
    source: Any = values.source
    if isinstance(source, Path) and source.is_file():
        named["state_dict"] = read_state_dict(source, values.shown)
        source = None
    elif isinstance(source, Path):
        allow_map(sum(file.stat().st_size for file in source.glob("*.safetensors")))
    try:
        model, found = choice.from_pretrained(source, **named)
    except Exception as error:
        what = f"the weights of {values.shown} cannot be read into {choice.name}"
        raise errors.model_failed(f"{what}: {errors.reason(error)}", error=error) from error
    return model, _told(model, found, values, choice)


def _told(model: torch.nn.Module, found: Any, values: _Values, choice: Choice) -> str:
    missing = sorted(str(name) for name in found.get("missing_keys", ()))
    wanted = len(model.state_dict())
    if wanted and len(missing) >= wanted:
        raise errors.model_failed(
            f"{values.shown} contains no weights of {choice.name}",
            ("--weights FILE", "another file"),
        )
    if not missing:
        return values.shown
    return (
        f"{values.shown} (all but {len(missing)}, which are random: {errors.in_words(missing, 2)})"
    )


_FEW_PARAMETERS = 1 << 25
"""Below this, proper values take less time than building the model twice."""

_Build = Callable[[], torch.nn.Module]


def load_hugging_face(spec: LoadSpec, settings: loaded_model.Settings) -> loaded_model.Loaded:
    """Build a model from its config."""
    if spec.arguments:
        raise errors.wrong_request(
            "--args is for factories; what a Hugging Face model is built with is its config",
            (f"tui-profiler {spec.model}", "without --args, after a change of its config.json"),
        )
    transformers = library("transformers", "Hugging Face models", "hf")
    with _quiet(offline=False):
        fetched = fetched_folder(spec)
    # Without trust nothing is downloaded once a file is open.
    with _quiet(offline=not (spec.trust and spec.weights == DEFAULT)):
        config = read_config(transformers, spec, fetched)
        if not spec.trust:
            refuse_files(config)
        choice = choose_class(transformers, config, trust=spec.trust)
        values = _values_asked_for(spec, config)
        without_values = partial(build, choice, config, settings.dtype)
        sketch = sketched(without_values)
        if sketch is not None:
            _require_forward(sketch, config)
        why_not = (
            "" if sketch is None else loaded_model.why_it_does_not_fit(sketch, settings.device)
        )
        if sketch is not None and (why_not or settings.device.type == "meta"):
            return _loaded(sketch.eval(), config, spec, settings, cannot_run=why_not)
        if values is not None:
            model, said = _read_values(values, choice, config, settings.dtype)
            return _loaded(_placed(model, settings), config, spec, settings, weights=said)
        if sketch is not None and _parameters(sketch) > _FEW_PARAMETERS:
            del sketch
            with without_random_values():
                model = without_values()
            initialise = _initialiser(without_values, settings)
            return _loaded(_placed(model, settings), config, spec, settings, initialise=initialise)
        return _loaded(_initialiser(without_values, settings)(), config, spec, settings)


@contextmanager
def _quiet(*, offline: bool) -> Iterator[None]:
    """Keep transformers from warning, asking and drawing progress, and if asked from the network.

    Everything is as it was afterwards.
    """
    logs: Any = importlib.import_module("transformers.utils.logging")
    hub: Any = importlib.import_module("huggingface_hub.constants")
    code: Any = importlib.import_module("transformers.dynamic_module_utils")
    seconds = code.TIME_OUT_REMOTE_CODE
    # Of 0 it does not ask at standard input whether code may run, and refuses.
    code.TIME_OUT_REMOTE_CODE = 0
    verbosity, progress = logs.get_verbosity(), logs.is_progress_bar_enabled()
    was_offline = hub.HF_HUB_OFFLINE
    logs.set_verbosity(logs.CRITICAL)
    logs.disable_progress_bar()
    hub.HF_HUB_OFFLINE = offline or was_offline
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        hub.HF_HUB_OFFLINE = was_offline
        code.TIME_OUT_REMOTE_CODE = seconds
        logs.set_verbosity(verbosity)
        if progress:
            logs.enable_progress_bar()


def _require_forward(model: torch.nn.Module, config: Config) -> None:
    """Refuse a class whose own methods, such as ``generate``, call its parts in turn."""
    if type(model).forward is not torch.nn.Module.forward:
        return
    name, source = type(model).__name__, type(config.value).__name__
    parts = [part for part, child in model.named_children() if list(child.parameters())]
    made = f"transformers.{name}(transformers.{source}.from_pretrained({config.shown!r}))"
    raise errors.model_failed(
        f"{name} has no forward: {_callers(model)} its parts ({errors.in_words(parts, 6)})",
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
    if answer_of(model, "can_generate"):
        return "generate() calls"
    own = [name for name, one in vars(type(model)).items() if inspect.isfunction(one)]
    public = [f"{name}()" for name in own if not name.startswith("_")]
    if not public:
        return "other code calls"
    return f"{errors.in_words(public, 3)} {'calls' if len(public) == 1 else 'call'}"


def _parameters(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _placed(model: torch.nn.Module, settings: loaded_model.Settings) -> torch.nn.Module:
    """Put it on its device: its dtypes are as its class wants them."""
    return loaded_model.place(model, replace(settings, dtype=None))


def _initialiser(without_values: _Build, settings: loaded_model.Settings) -> _Build:
    def initialise() -> torch.nn.Module:
        allow_untouched()  # The model that was traced has no values.
        with _quiet(offline=True), seeded():
            model = without_values()
        return _placed(model, settings)

    return initialise


def _loaded(
    model: torch.nn.Module,
    config: Config,
    spec: LoadSpec,
    settings: loaded_model.Settings,
    *,
    weights: str = "random",
    initialise: _Build | None = None,
    cannot_run: str = "",
) -> loaded_model.Loaded:
    found = loaded_model.loaded(
        model,
        "transformers",
        weights,
        lambda model, settings: candidates(model, config, spec, settings),
        settings,
        initialise=initialise,
        cannot_run=cannot_run,
    )
    return replace(found, decode=decode_call)
