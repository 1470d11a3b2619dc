"""A model that is ready to be traced and run, as it was set: device, number format, batch size."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import torch

from tui_profiler.messages import LoadSpec, Unknown
from tui_profiler.probe.load.common import errors
from tui_profiler.probe.process.memory_limit import limit_bytes
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.internals import stored_bytes
from tui_profiler.probe.torch_compat.kv_cache import ReturnedCache
from tui_profiler.probe.torch_compat.modules import each_module

_GROUP = Path("/sys/fs/cgroup")
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
    batch_of_examples: int | None = None
    """The same for a function that makes inputs and takes it: which axis it is, is not asked."""


def settings_of(spec: LoadSpec) -> Settings:
    """Read device, dtype and batch size."""
    if spec.batch is not None and spec.batch < 1:
        raise errors.wrong_request(f"a batch of {spec.batch} is empty", ("--batch 1", "one item"))
    return Settings(_device(spec.device), _model_dtype(spec.dtype), spec.batch)


def set_threads(count: int | None) -> None:
    """Let operators use that many threads; None leaves torch's own choice."""
    if count is None:
        return
    if count < 1:
        raise errors.wrong_request(f"{count} threads cannot compute", ("--threads 1", "one thread"))
    torch.set_num_threads(count)


def parse_arguments(text: str) -> tuple[tuple[object, ...], dict[str, object]]:
    """Read ``--args``: an object is keywords, an array is positional, empty is none."""
    if not text.strip():
        return (), {}
    try:
        value: object = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise errors.wrong_request(
            f"--args is not JSON: {error}",
            ("--args '{\"width\": 64}'", "passes width=64"),
            ("--args '[64]'", "passes 64 as the first argument"),
        ) from error
    if isinstance(value, dict):
        return (), value
    if isinstance(value, list):
        return tuple(value), {}
    raise errors.wrong_request(
        "--args must be an object (keywords) or an array (positional)",
        (f"--args '[{text.strip()}]'", "passes it as the first argument"),
    )


def place(model: torch.nn.Module, settings: Settings) -> torch.nn.Module:
    """Put a model in eval mode, on its device and in its dtype.

    Always in eval mode, whichever way its factory left it: what is profiled is inference.
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
    """Return torch's dtype of that name."""
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


def free_bytes(device: torch.device) -> int:
    """Return the free memory of a device; on the CPU within the memory limit of this process."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    free = int(psutil.virtual_memory().available)
    most = limit_bytes()
    free = free if most is None else min(free, most)
    limit, used = _number(_GROUP / "memory.max"), _number(_GROUP / "memory.current")
    return free if limit is None or used is None else min(free, max(limit - used, 0))


def _held_bytes(model: torch.nn.Module) -> int:
    sizes: dict[int, int] = {}
    for module in each_module(model):
        for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
            sizes[id(tensor)] = stored_bytes(tensor)
    return sum(sizes.values())


def why_it_does_not_fit(sketch: torch.nn.Module, device: torch.device) -> str:
    """Say why a model, sketched on meta, does not fit a device; empty where it does."""
    if device.type == "meta":
        return ""
    needed, free = _held_bytes(sketch) / 2**30, free_bytes(device) / 2**30
    if needed <= free:
        return ""
    return f"its parameters take {needed:,.1f} GiB, and {free:,.1f} GiB of memory are free"


def _number(path: Path) -> int | None:
    """Read a number; None where there is no such file, or it says ``max``."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


@dataclass(frozen=True)
class Loaded:
    """A model, and what may be passed to it."""

    model: torch.nn.Module
    """In eval mode, on its device and in its dtype.

    Where ``initialise`` is not None its parameters hold no values yet: trace it on fake tensors,
    call ``initialise`` before anything is computed.
    """
    facts_source: str
    """``torchvision``, ``demo``, or the file or module of the user's code, as typed."""
    weights: str
    """Goes before the word "weights": ``random``, ``its own`` (the user's factory made them), or
    the name of the published ones or of the file they came from."""
    candidates: Sequence[Inputs]
    """What to pass, likeliest first: the first that runs is right. Each is made when it is asked
    for. There is exactly one where the user, the model or its weights said what it takes."""
    remake: Callable[[torch.nn.Module, int], Sequence[Inputs]]
    """Returns the same candidates for another batch size."""
    initialise: Callable[[], torch.nn.Module] | None = None
    """Builds the same model with its proper random values, the same at each call."""
    knows_batch: bool = False
    """Which axis of the inputs is the batch is known to the library that the model comes from, or
    written in its file; else it is found once the model is traced (``trace/batch_axis.py``)."""
    batch: int | None = None
    """Size of the batch axis that was asked for, where that axis is still to be found."""
    published_gmacs: float | None = None
    """Billions of multiply-accumulates of one item, where ``candidates`` have the published
    size."""
    published_parameters: int | None = None
    cannot_run: str = ""
    """Why it can only be traced, as a clause after "not run: "; empty where it can be run."""
    decode: (
        Callable[[torch.nn.Module, Inputs, ReturnedCache | None], Inputs | Unknown | None] | None
    ) = None
    """Returns the next call, from the model, the call before it and the cache that it returned,
    if any: one more token. None where the model generates nothing, ``Unknown`` where it does and
    there is no such call."""


def loaded(
    model: torch.nn.Module,
    source: str,
    weights: str,
    candidates: Callable[[torch.nn.Module, Settings], Sequence[Inputs]],
    settings: Settings,
    *,
    initialise: Callable[[], torch.nn.Module] | None = None,
    cannot_run: str = "",
    knows_batch: bool = True,
) -> Loaded:
    """Return a model of which nothing is published; ``candidates`` are of the settings' batch size.

    Where the batch axis is not known they are as they were made, or as the model's own function
    made them of that size.

    The other arguments are as ``Loaded`` has them.
    """

    def made(model: torch.nn.Module, batch: int | None) -> Sequence[Inputs]:
        known = batch if knows_batch else None
        return candidates(model, replace(settings, batch=known, batch_of_examples=batch))

    return Loaded(
        model=model,
        facts_source=source,
        weights=weights,
        candidates=made(model, settings.batch),
        remake=made,
        knows_batch=knows_batch,
        batch=None if knows_batch else settings.batch,
        initialise=initialise,
        cannot_run=cannot_run,
    )
