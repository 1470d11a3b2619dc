"""Which class of transformers a config is built as.

The config's own ``architectures`` says it; where that is missing or not known, the model type is
looked up in the tables of the ``AutoModel`` classes, what generates first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch

from tui_profiler.probe.load.errors import in_words, model_failed, reason, wrong_request
from tui_profiler.probe.load.hf_config import Config

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
    """Give the class that a config asks for.

    Raises:
        LoadError: There is none, or it lies in code that was not to be trusted.
    """
    stated = _stated(config)
    if config.has_own_code or (trust and stated and _in_own_code(config, stated)):
        return _own(library, config, stated)
    found = _class_named(library, stated)
    if found is not None:
        return Choice(stated, "by its architectures", found._from_config, found.from_pretrained)
    for auto_name in _auto_names(library):
        auto = getattr(library, auto_name)
        if type(config.value) in auto._model_mapping:
            several = auto._model_mapping[type(config.value)]
            found = several[0] if isinstance(several, (list, tuple)) else several
            why = f"by {auto_name}" + (f", as there is no {stated} here" if stated else "")
            return Choice(found.__name__, why, found._from_config, found.from_pretrained)
    kind = getattr(config.value, "model_type", "?")
    raise model_failed(
        f"{config.shown} is a config of type {kind}, which no AutoModel class builds",
        ('"architectures": ["BertModel"]', "in that file names a class of transformers"),
    )


def build(choice: Choice, config: Config, dtype: torch.dtype | None) -> torch.nn.Module:
    """Build a model without reading values from files.

    Args:
        choice: Its class.
        config: Left as it is.
        dtype: Of its parameters; None is the config's own, else float32.

    Raises:
        LoadError: It cannot be built from this config.
    """
    copied = type(config.value).from_dict(config.value.to_dict())
    _forbid_downloads(copied)
    wanted = dtype or _stated_dtype(config) or torch.float32
    try:
        model = choice.from_config(copied, dtype=wanted)
    except ImportError as error:
        raise model_failed(
            f"{choice.name} needs a package that is not here: {reason(error)}", error=error
        ) from error
    except Exception as error:
        raise model_failed(
            f"{choice.name} cannot be built from {config.shown}: {reason(error)}", error=error
        ) from error
    if not isinstance(model, torch.nn.Module):
        raise model_failed(f"{choice.name} is no torch.nn.Module")
    return model


def _stated(config: Config) -> str:
    names = getattr(config.value, "architectures", None)
    first = names[0] if isinstance(names, (list, tuple)) and names else ""
    return first if isinstance(first, str) and first.isidentifier() else ""


def _class_named(library: ModuleType, name: str) -> Any:
    """Give the model class of that name; None where transformers has none."""
    found = getattr(library, name, None) if name else None
    is_model = isinstance(found, type) and issubclass(found, library.PreTrainedModel)
    return found if is_model else None


def _auto_names(library: ModuleType) -> list[str]:
    others = sorted(name for name in dir(library) if name.startswith("AutoModelFor"))
    return list(dict.fromkeys((*_FIRST, *others)))


def _in_own_code(config: Config, stated: str) -> bool:
    return any(_class_of(entry) == stated for entry in config.auto_map.values())


def _class_of(entry: object) -> str:
    return entry.rpartition(".")[2] if isinstance(entry, str) else ""


def _own(library: ModuleType, config: Config, stated: str) -> Choice:
    """Give the class in the code that came with the config."""
    models = [name for name in config.auto_map if name.startswith("AutoModel")]
    if not models:
        raise wrong_request(
            f"{config.shown} brings code, and none of it is a model: {_map(config)}"
        )
    matching = [name for name in models if _class_of(config.auto_map[name]) == stated]
    auto_name = (matching or models)[0]
    auto = getattr(library, auto_name, None)
    if auto is None:
        raise model_failed(f"transformers here has no {auto_name}, which {config.shown} asks for")

    def from_config(value: Any, dtype: torch.dtype) -> Any:
        return auto.from_config(value, trust_remote_code=True, dtype=dtype)

    def from_pretrained(source: Any, **named: Any) -> Any:
        return auto.from_pretrained(source, trust_remote_code=True, **named)

    name = _class_of(config.auto_map[auto_name])
    return Choice(name, "in its own code, as trusted", from_config, from_pretrained)


def _map(config: Config) -> str:
    return in_words([str(name) for name in config.auto_map])


def _stated_dtype(config: Config) -> torch.dtype | None:
    dtype = getattr(config.value, "dtype", None)
    if isinstance(dtype, str):
        dtype = getattr(torch, dtype.removeprefix("torch."), None)
    return dtype if isinstance(dtype, torch.dtype) else None


def _forbid_downloads(value: Any) -> None:
    """Let backbones inside have random weights too: else they are fetched by name."""
    pending, seen = [value], set()
    while pending:
        item = pending.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        attributes = vars(item)
        if attributes.get("use_pretrained_backbone"):
            item.use_pretrained_backbone = False
        pending += [part for part in attributes.values() if hasattr(part, "model_type")]
