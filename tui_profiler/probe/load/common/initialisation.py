"""Random values of parameters: left out for a trace, or the same at each run.

A trace needs shapes only, and filling ResNet-50 takes 0.2 s, building it without 0.02 s.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch.nn import init
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.modules.module import register_module_module_registration_hook
from torch.nn.parameter import UninitializedBuffer
from torch.overrides import TorchFunctionMode

from tui_profiler.probe.load.common.errors import model_failed, reason
from tui_profiler.probe.load.common.loaded_model import Settings, place
from tui_profiler.probe.process.memory_limit import allow_untouched
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.modules import each_module

_MOST_MODULES = 100_000
"""Building so many takes 15 s. DeepSeek-V3 with a module per expert has 80,000."""
_FILLS: frozenset[Callable[..., object]] = frozenset(
    {
        torch.Tensor.uniform_,
        torch.Tensor.normal_,
        torch.Tensor.erfinv_,
        torch.Tensor.random_,
        torch.Tensor.bernoulli_,
        torch.Tensor.exponential_,
        # What is drawn is then scaled, moved and cut off, which takes as long.
        torch.Tensor.mul_,
        torch.Tensor.div_,
        torch.Tensor.add_,
        torch.Tensor.clamp_,
        # These three hand themselves over to the mode; the others of torch.nn.init end in the
        # methods above.
        init.uniform_,
        init.normal_,
        init.kaiming_uniform_,
    }
)


@contextmanager
def limited_modules() -> Iterator[None]:
    """Have the building of a model fail that has more modules than any: a config states any number.

    What builds it raises a ValueError.
    """
    left = _MOST_MODULES

    def count(*_: object) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise ValueError(f"it has more than {_MOST_MODULES:,} modules")

    hook = register_module_module_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()


class _WithoutFills(TorchFunctionMode):
    """Passes over random fills of parameters, and over arithmetic on what was drawn.

    Only of parameters: ``trunc_normal_`` draws into temporary tensors until every value is inside
    its bounds, and would never end if those stayed as they are.
    """

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        named = kwargs or {}
        if func in _FILLS:
            tensor = args[0] if args else named["tensor"]
            if isinstance(tensor, torch.nn.Parameter):
                return tensor
        return func(*args, **named)


@contextmanager
def without_random_values() -> Iterator[None]:
    """Leave parameters made inside without values; the random state is put back after it."""
    with torch.random.fork_rng(devices=[]), _WithoutFills():
        yield


@contextmanager
def seeded(seed: int = 0) -> Iterator[None]:
    """Draw the same values inside each time; the random state is put back after it.

    Only the generator of the CPU: models are built there and moved.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def sketched(build: Callable[[], torch.nn.Module]) -> torch.nn.Module | None:
    """Build a model on meta, to know its size; None where it can only be built with values."""
    try:
        with torch.device("meta"), torch.random.fork_rng(devices=[]):
            return build()
    except Exception:
        return None  # Building it for real tells what is wrong, or that nothing is.


def initialiser(
    build: Callable[[], torch.nn.Module], settings: Settings
) -> Callable[[], torch.nn.Module]:
    """Return what builds a model with values, the same each time, where it is to run."""

    def initialise() -> torch.nn.Module:
        allow_untouched()  # The model that was traced has no values.
        with seeded():
            model = build()
        return place(model, settings)

    return initialise


def with_shapes(model: torch.nn.Module, candidates: Sequence[Inputs]) -> Sequence[Inputs]:
    """Give lazy layers their shapes by a run on the first candidate that fits.

    A trace on fake tensors would leave fake parameters behind. Where there are several candidates
    each is tried on a copy first, as a failed run leaves some layers with the wrong shape.

    Returns:
        The candidate that ran, or all of them where no layer is lazy.
    """
    if not any(map(_is_lazy, each_module(model))):
        return candidates
    first_error: Exception | None = None
    for inputs in candidates:
        try:
            with seeded(), torch.no_grad():
                if len(candidates) > 1:
                    _copy(model)(*inputs.args, **inputs.kwargs)
                model(*inputs.args, **inputs.kwargs)
        except Exception as error:
            first_error = first_error or error
            continue
        return (inputs,)
    if first_error is None:
        raise model_failed("its lazy layers got no shape: there is no input to try")
    count = len(candidates)
    tried = "its input did not run" if count == 1 else f"none of {count} likely inputs ran"
    raise model_failed(
        f"its lazy layers got no shape: {tried}: {reason(first_error)}",
        ("--input 1,3,224,224", "gives the shape of its input"),
        error=first_error,
    ) from first_error


def _is_lazy(module: torch.nn.Module) -> bool:
    return isinstance(module, LazyModuleMixin) and module.has_uninitialized_params()


def _copy(model: torch.nn.Module) -> torch.nn.Module:
    # torch copies parameters that wait for their shape, but raises on such buffers.
    waiting = {
        # Its __new__ takes both, its stub does not.
        id(buffer): UninitializedBuffer(device=buffer.device, dtype=buffer.dtype)  # type: ignore[call-arg]
        for buffer in model.buffers()
        if isinstance(buffer, UninitializedBuffer)
    }
    return copy.deepcopy(model, dict(waiting))
