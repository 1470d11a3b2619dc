"""Which class of transformers a config is built as.

The config's own ``architectures`` says it; where that is missing or not known, the model type is
looked up in the tables of the ``AutoModel`` classes, what generates first.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import torch

from tui_profiler.probe.load.common import errors
from tui_profiler.probe.load.hugging_face.config import Config, inner_configs

_ARGUMENTS_OF_TIMM = ("model_args", "backbone_kwargs")
_FILES_OF_TIMM = frozenset(
    ["checkpoint_path", "cache_dir", "pretrained", "pretrained_cfg", "pretrained_cfg_overlay"]
)
_TIMM_MODELS = ("architecture", "backbone")
"""timm takes ``local-dir:PATH`` and ``hf-hub:NAME`` as well."""
_IMPLEMENTATION = ("_implementation", "_implementation_internal")
"""Of attention, of experts: a name of transformers', or of a repository."""
_PACKAGE = re.compile(r"requires the (\S+) library")
_PIP = re.compile(r"`?(pip install [^`\n]+?)`?(?:[.\n]|$)")
_PAGE = re.compile(r"https?://\S+")
_COUNT = re.compile(r"^(?:num|n)_|_(?:size|dim|length|layers|experts)$")
_MASKED = "AutoModelForMaskedLM"
_FIRST = (
    "AutoModelForSpeechSeq2Seq",
    "AutoModelForImageTextToText",
    "AutoModelForSeq2SeqLM",
    _MASKED,
    "AutoModelForCausalLM",
    "AutoModel",
)
"""In this order: a type that can be masked is mostly an encoder, though it could be causal."""


@dataclass(frozen=True)
class Choice:
    """A class, and how it is built."""

    name: str
    why: str
    """Why this one, in a clause."""
    from_config: Callable[..., Any]
    from_pretrained: Callable[..., Any]


def choose_class(library: ModuleType, config: Config, *, trust: bool) -> Choice:
    """Return the class that a config asks for."""
    stated = _stated(config)
    listed: Choice | None = None
    missing = ""
    if config.has_own_code or (trust and stated and _in_own_code(config, stated)):
        return _own(library, config, stated)
    found = _class_named(library, stated)
    if found is not None:
        return Choice(stated, "by its architectures", found._from_config, found.from_pretrained)
    for auto_name in _auto_names(library):
        auto = getattr(library, auto_name)
        if type(config.value) in auto._model_mapping:
            try:
                several = auto._model_mapping[type(config.value)]
            except ValueError as error:  # A name in its table, and no class of that name.
                missing = missing or f": {errors.reason(error)}"
                continue
            found = several[0] if isinstance(several, (list, tuple)) else several
            why = f"by {auto_name}" + (f", as there is no {stated} here" if stated else "")
            choice = _listed(found, why)
            if _is_built_from(found, config.value):
                return choice
            listed = listed or choice  # MusicgenForCausalLM is listed for the whole model's config.
    if listed is not None:
        return listed
    kind = getattr(config.value, "model_type", "?")
    raise errors.model_failed(
        f"{config.shown} is a config of type {kind}, which no AutoModel class builds{missing}",
        ('"architectures": ["BertModel"]', "in that file names a class of transformers"),
    )


def build(choice: Choice, config: Config, dtype: torch.dtype | None) -> torch.nn.Module:
    """Build a model without reading values from files; in the config's dtype, else float32."""
    copied = type(config.value).from_dict(config.value.to_dict())
    _forbid_downloads(copied)
    wanted = dtype or _stated_dtype(config) or torch.float32
    try:
        model = choice.from_config(copied, dtype=wanted)
    except ImportError as error:
        raise _without_package(choice.name, error) from error
    except Exception as error:
        empty = _without_value(config.value) if isinstance(error, TypeError) else []
        raise errors.model_failed(
            f"{choice.name} cannot be built from {config.shown}: {errors.reason(error)}",
            *((f'"{name}": 8', f"in {config.shown} gives it a value: now none") for name in empty),
            error=error,
            likely=f"its config has no value for {errors.in_words(empty)}" if empty else "",
        ) from error
    if not isinstance(model, torch.nn.Module):
        raise errors.model_failed(f"{choice.name} is not a torch.nn.Module")
    return model


def _listed(found: Any, why: str) -> Choice:
    """Return a class of an AutoModel's table; of one whose package is missing, a stand-in."""
    try:
        return Choice(found.__name__, why, found._from_config, found.from_pretrained)
    except ImportError as error:
        raise _without_package(found.__name__, error) from error


def _without_package(name: str, error: ImportError) -> errors.LoadError:
    """Return the error for a class whose package is not installed, and where that comes from."""
    text = str(error)
    package = error.name or next(iter(_PACKAGE.findall(text)), "")
    if not package:
        return errors.model_failed(
            f"{name} needs a package that is not installed: {errors.reason(error)}", error=error
        )
    typed = next(iter(_PIP.findall(text)), "").strip()
    page = next(iter(_PAGE.findall(text)), "").rstrip(".,)`'\"")
    remedies = [(typed, "installs it")] if typed else [(page, "says how to install it")]
    return errors.model_failed(
        f"{name} needs the package {package}, which is not installed",
        *(remedies if typed or page else ()),
        error=error,
    )


def _without_value(config: Any) -> list[str]:
    return [
        name
        for name, value in vars(config).items()
        if value is None and _COUNT.search(name) and not name.startswith("_")
    ]


def _stated(config: Config) -> str:
    names = getattr(config.value, "architectures", None)
    first = names[0] if isinstance(names, (list, tuple)) and names else ""
    return first if isinstance(first, str) and first.isidentifier() else ""


def _class_named(library: ModuleType, name: str) -> Any:
    found = getattr(library, name, None) if name else None
    is_model = isinstance(found, type) and issubclass(found, library.PreTrainedModel)
    return found if is_model else None


def _auto_names(library: ModuleType) -> list[str]:
    # Not of the library: its ``__dir__`` looks at every file of every model, for 0.2 s.
    known = dir(library.models.auto.modeling_auto)
    others = sorted(name for name in known if name.startswith("AutoModelFor"))
    return list(dict.fromkeys((*_FIRST, *others)))


def _is_built_from(model: Any, config: object) -> bool:
    """Say whether a class takes such a config: one that states another is built from a part."""
    stated = getattr(model, "config_class", None)
    return not isinstance(stated, type) or isinstance(config, stated)


def _in_own_code(config: Config, stated: str) -> bool:
    return any(_class_of(entry) == stated for entry in config.auto_map.values())


def _class_of(entry: object) -> str:
    return entry.rpartition(".")[2] if isinstance(entry, str) else ""


def _own(library: ModuleType, config: Config, stated: str) -> Choice:
    """Return the class in the code that came with the config."""
    models = [name for name in config.auto_map if name.startswith("AutoModel")]
    if not models:
        raise errors.wrong_request(
            f"{config.shown} brings code, and none of it is a model:"
            f" {errors.in_words([str(name) for name in config.auto_map])}"
        )
    matching = [name for name in models if _class_of(config.auto_map[name]) == stated]
    auto_name = (matching or models)[0]
    auto = getattr(library, auto_name, None)
    if auto is None:
        raise errors.model_failed(
            f"transformers here has no {auto_name}, which {config.shown} asks for"
        )

    name = _class_of(config.auto_map[auto_name])
    return Choice(
        name,
        "in its own code, as trusted",
        partial(auto.from_config, trust_remote_code=True),
        partial(auto.from_pretrained, trust_remote_code=True),
    )


def _stated_dtype(config: Config) -> torch.dtype | None:
    dtype = getattr(config.value, "dtype", None)
    if isinstance(dtype, str):
        dtype = getattr(torch, dtype.removeprefix("torch."), None)
    return dtype if isinstance(dtype, torch.dtype) else None


def refuse_files(config: Config) -> None:
    """Refuse a config that names a file or a repository that building its model would read.

    Arguments of timm's ``create_model`` can name a checkpoint, which older versions unpickle; an
    implementation of attention can be code of the Hub's.
    """
    for _, part in inner_configs(config.value):
        attributes = vars(part)
        for name in _ARGUMENTS_OF_TIMM:
            arguments = attributes.get(name)
            named = _FILES_OF_TIMM.intersection(arguments) if isinstance(arguments, dict) else ()
            if named:
                raise errors.model_failed(
                    f"{config.shown} names a file to load, as {min(named)} in its {name}"
                )
        for name, text in attributes.items():
            if name in _TIMM_MODELS and isinstance(text, str) and ":" in text:
                raise errors.model_failed(
                    f"{config.shown} names a model that lies elsewhere: {text[:100]!a}"
                )
            if name.endswith(_IMPLEMENTATION) and "/" in str(text):
                raise errors.model_failed(
                    f"{config.shown} names code of the Hub's as its implementation of a layer:"
                    f" {str(text)[:100]!a}"
                )


def _forbid_downloads(value: Any) -> None:
    """Let backbones inside have random weights too: else they are fetched by name."""
    for _, part in inner_configs(value):
        if vars(part).get("use_pretrained_backbone"):
            part.use_pretrained_backbone = False
