"""Load a model and let another counter count one forward of it.

1. The forward is real, on the inputs that our own trace takes, without gradients: what the counter
   sees is what a user of it would see.
2. Counters change models (training flags, hooks, statistics): the worker counts once and ends.
3. On the CPU the process may not take more memory than the machine has: the counter gets an error
   that can be told, rather than the whole machine a shortage.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping

import torch
from msgspec.structs import replace

from tui_profiler.messages import Counter, LoadSpec, SecondOpinion
from tui_profiler.probe.counters.allocated import allocated
from tui_profiler.probe.counters.fvcore import by_fvcore
from tui_profiler.probe.counters.torch_counter import by_torch
from tui_profiler.probe.load.load import load
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.failure import one_line, wanted_memory
from tui_profiler.probe.trace.record import ForwardError
from tui_profiler.probe.trace.trace import trace

_COUNTERS: Mapping[Counter, Callable[[torch.nn.Module, Inputs], SecondOpinion]] = {
    "flop_counter": by_torch,
    "fvcore": by_fvcore,
    "measured": allocated,
}


def count_with(counter: Counter, spec: LoadSpec) -> SecondOpinion:
    """Give what ``counter`` says, in a process that is there for nothing else.

    Raises:
        LoadError, TraceError: the model could not be had, or takes none of its inputs.
    """
    return count(counter, spec)


def count(counter: Counter, spec: LoadSpec) -> SecondOpinion:
    """Give what ``counter`` says; what it raises is in it.

    Raises:
        LoadError, TraceError: the model could not be had, or takes none of its inputs.
    """
    model, inputs = _model_with_values(spec)
    began = time.perf_counter()
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            opinion = _COUNTERS[counter](model, inputs)
    # The counter is not ours, and what it raises is its result.
    except (Exception, SystemExit) as error:
        opinion = SecondOpinion(counter, "", 0.0, error=_told(error))
    return replace(opinion, seconds=time.perf_counter() - began)


def _model_with_values(spec: LoadSpec) -> tuple[torch.nn.Module, Inputs]:
    loaded = load(spec)
    inputs = trace(loaded.model, tuple(loaded.candidates), name=spec.model).inputs
    return loaded.model if loaded.initialise is None else loaded.initialise(), inputs


def _told(error: BaseException) -> str:
    cause = error.error if isinstance(error, ForwardError) else error
    wanted = wanted_memory(cause)
    return f"out of memory: wanted {wanted} more" if wanted else one_line(cause)
