"""Where and in which number format a model runs."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

import torch

from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.common import errors

_DTYPES = {
    name: dtype
    for name, dtype in vars(torch).items()
    if isinstance(dtype, torch.dtype) and str(dtype) == f"torch.{name}"
}
_MODEL_DTYPES = ("float32", "float16", "bfloat16", "float64")


@dataclass(frozen=True)
class Settings:
    """Device, number format and batch size that were asked for."""

    device: torch.device
    dtype: torch.dtype | None
    """Of parameters and floating inputs; None leaves them as they are."""
    batch: int | None
    """Size of the batch axis; None leaves it as the inputs have it."""


def settings_of(spec: LoadSpec) -> Settings:
    """Read device, dtype and batch size.

    Raises:
        LoadError: One of them cannot be had here.
    """
    if spec.batch is not None and spec.batch < 1:
        raise errors.wrong_request(
            f"a batch of {spec.batch} holds nothing", ("--batch 1", "one item")
        )
    return Settings(_device(spec.device), _model_dtype(spec.dtype), spec.batch)


def set_threads(count: int | None) -> None:
    """Let operators use that many threads; None leaves torch's own choice.

    Raises:
        LoadError: The count is below one.
    """
    if count is None:
        return
    if count < 1:
        raise errors.wrong_request(f"{count} threads cannot compute", ("--threads 1", "one thread"))
    torch.set_num_threads(count)


def place(model: torch.nn.Module, settings: Settings) -> torch.nn.Module:
    """Put a model in eval mode, on its device and in its dtype.

    Always in eval mode, whichever way its factory left it: what is profiled is inference.

    Raises:
        LoadError: It cannot be moved or cast.
    """
    try:
        model.eval()
        return model.to(device=settings.device, dtype=settings.dtype)
    except RecursionError as error:
        raise errors.model_failed(
            f"its modules are nested deeper than Python's limit of {sys.getrecursionlimit()} calls",
            ("sys.setrecursionlimit(100_000)", "in the file that builds it"),
        ) from error
    except (RuntimeError, TypeError, NotImplementedError) as error:
        parts = [str(settings.device), str(settings.dtype or "").removeprefix("torch.")]
        remedies = [("--device cpu", "runs on the processor")] if parts[0] != "cpu" else []
        where = " in ".join(filter(None, parts))
        raise errors.model_failed(
            f"the model cannot be put on {where}: {errors.reason(error)}",
            *remedies,
            error=error,
        ) from error


def as_the_model(model: torch.nn.Module, settings: Settings) -> Settings:
    """Return the settings with the model's own floating dtype where none was asked for.

    What comes out of a file can be in half precision, and its inputs must be too.
    """
    if settings.dtype is not None:
        return settings
    dtypes = (p.dtype for p in model.parameters() if p.is_floating_point())
    found = next((dtype for dtype in dtypes if f"{dtype}"[6:] in _MODEL_DTYPES), None)
    return replace(settings, dtype=found)


def dtype_named(name: str) -> torch.dtype:
    """Return torch's dtype of that name.

    Raises:
        LoadError: There is none.
    """
    try:
        return _DTYPES[name]
    except KeyError:
        likely = errors.nearest(name, _DTYPES) or ["float32", "int64"]
        raise errors.wrong_request(
            f'torch has no dtype "{name}"; near it: {errors.in_words(likely)}'
        ) from None


def _model_dtype(name: str) -> torch.dtype | None:
    if not name:
        return None
    if name not in _MODEL_DTYPES:
        likely = (errors.nearest(name, _MODEL_DTYPES) or ["float32"])[0]
        raise errors.wrong_request(
            f'a model cannot run in "{name}": {errors.in_words(_MODEL_DTYPES)} are possible',
            (f"--dtype {likely}", "casts parameters and floating inputs"),
        )
    return _DTYPES[name]


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name or "cpu")
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda", "meta"):
        raise errors.wrong_request(
            f'"{name}" is not a device that can be profiled: cpu, cuda, cuda:N or meta',
            ("--device cpu", "runs on the processor"),
        )
    if device.type != "cuda":
        return device
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        why = "this torch is built without CUDA" if torch.version.cuda is None else ""
        raise errors.wrong_request(
            f"{name} was asked for, but torch sees no CUDA device here",
            ("--device cpu", "runs on the processor"),
            why=why,
        )
    if (device.index or 0) >= count:
        raise errors.wrong_request(
            f"{name} was asked for, but torch sees {count} CUDA device{'s' * (count > 1)} here",
            ("--device cuda:0", "runs on the first"),
        )
    return torch.device("cuda", device.index or 0)
