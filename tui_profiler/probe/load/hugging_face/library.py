"""The transformers library: imported when it is needed, and kept quiet and offline meanwhile."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch

from tui_profiler.probe.load.common.errors import model_failed, reason, wrong_request


def transformers_library() -> ModuleType:
    """Import transformers.

    Raises:
        LoadError: It is not installed, or its import fails.
    """
    try:
        return importlib.import_module("transformers")
    except ModuleNotFoundError as error:
        if error.name != "transformers":
            raise model_failed(f"transformers needs {error.name}", error=error) from error
        raise wrong_request(
            "Hugging Face models need the package transformers, which is not installed",
            ("pip install 'tui-profiler[hf]'", "brings it"),
        ) from None
    except Exception as error:
        raise model_failed(f"importing transformers raised {reason(error)}", error=error) from error


@contextmanager
def quiet(*, offline: bool) -> Iterator[None]:
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


def image_processor(kind: str) -> tuple[str, dict[str, object]]:
    """Return the name and the sizes of the class that prepares images for a model type, if any.

    It is not made: of some it takes torchvision or PIL, and only its defaults are wanted.
    """
    library = importlib.import_module("transformers")
    auto = importlib.import_module("transformers.models.auto.image_processing_auto")
    named: Any = auto.IMAGE_PROCESSOR_MAPPING_NAMES.get(kind) or ()
    for name in named.values() if isinstance(named, dict) else named:
        try:
            found = getattr(library, name)
            sizes = {key: getattr(found, key, None) for key in ("crop_size", "size")}
        except Exception:
            continue
        if any(sizes.values()):
            return name, sizes
    return "", {}


def encoder_outputs(last_hidden_state: torch.Tensor) -> object:
    """Return what a decoder is passed of its encoder.

    Args:
        last_hidden_state: (batch, tokens, width).
    """
    outputs: Any = importlib.import_module("transformers.modeling_outputs")
    made: object = outputs.BaseModelOutput(last_hidden_state=last_hidden_state)
    return made
