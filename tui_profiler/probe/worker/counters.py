"""Cross-checks with other counters on the same model, each in a separate worker.

1. The forward is real, on the traced inputs, without gradients: as a user of the counter runs it.
2. Counters change models (training flags, hooks, statistics): the worker counts once and ends.
3. On the CPU the process is limited to the machine's memory: the counter gets an error, instead of
   the machine running out of memory.
4. fvcore also counts norms, pooling and resizing, which are not multiply-accumulates, into the same
   total. Source: fvcore/nn/flop_count.py, ``_DEFAULT_SUPPORTED_OPS``.
"""

import importlib
import importlib.metadata
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from msgspec.structs import replace
from torch.utils import _pytree as pytree

from tui_profiler.messages import Counted, Counter, LoadSpec, SecondOpinion, Unknown
from tui_profiler.probe.cost.call import tensors_in
from tui_profiler.probe.load.load import load
from tui_profiler.probe.torch_compat.flop_counter import FlopCounter
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.batch_axis import of_batch
from tui_profiler.probe.trace.failure import ForwardError, one_line, wanted_memory
from tui_profiler.probe.trace.measured_peak import measured_peak
from tui_profiler.probe.trace.trace import trace
from tui_profiler.probe.trace.tree.weights import weight_storages
from tui_profiler.system import real_time as time


def by_torch(model: torch.nn.Module, inputs: Inputs) -> SecondOpinion:
    """Count a real forward with ``FlopCounterMode``, and the parameters."""
    with FlopCounter() as counter:
        model(*inputs.args, **inputs.kwargs)
    counted = counter.get_flop_counts().get("Global", {})
    total = counter.get_total_flops()
    return SecondOpinion(
        counter="flop_counter",
        version=f"torch {torch.__version__}",
        seconds=0.0,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        macs=total // 2,
        flops=total,
        operators=tuple(
            Counted(str(op), counter.calls[op] or None, flops // 2) for op, flops in counted.items()
        ),
        skipped=tuple(Counted(name, calls) for name, calls in sorted(counter.skipped().items())),
    )


_MISSING = "fvcore is not installed: pip install 'tui-profiler[fvcore]'"

_PRODUCTS = frozenset({"conv", "linear", "addmm", "bmm", "einsum", "matmul", "mm"})
"""fvcore's operators that are multiply-accumulates."""


def by_fvcore(model: torch.nn.Module, inputs: Inputs) -> SecondOpinion:
    """Count a jit trace of ``model`` with fvcore."""
    try:
        fvcore = importlib.import_module("fvcore.nn")
    except ModuleNotFoundError:
        return SecondOpinion("fvcore", "", 0.0, error=_MISSING)
    flat = _Flat(model, inputs)
    analysis = fvcore.FlopCountAnalysis(flat, flat.leaves)
    analysis.unsupported_ops_warnings(False).uncalled_modules_warnings(False)
    analysis.tracer_warnings("none")
    amounts = {str(name): int(amount) for name, amount in analysis.by_operator().items()}
    skipped = sorted((str(name), int(calls)) for name, calls in analysis.unsupported_ops().items())
    return SecondOpinion(
        counter="fvcore",
        version=f"fvcore {importlib.metadata.version('fvcore')}",
        seconds=0.0,
        parameters=int(fvcore.parameter_count(model)[""]),
        macs=sum(amount for name, amount in amounts.items() if name in _PRODUCTS),
        flops=Unknown("what it calls FLOPs are multiply-accumulates"),
        operators=tuple(Counted(n, None, a) for n, a in amounts.items() if n in _PRODUCTS),
        others=tuple(Counted(n, None, a) for n, a in amounts.items() if n not in _PRODUCTS),
        skipped=tuple(Counted(name, calls) for name, calls in skipped),
    )


class _Flat(torch.nn.Module):
    """The model with only tensors as arguments and outputs, for a jit trace."""

    def __init__(self, model: torch.nn.Module, inputs: Inputs) -> None:
        super().__init__()
        self.model = model
        values, self._layout = pytree.tree_flatten((inputs.args, inputs.kwargs))
        self._is_tensor = [isinstance(value, torch.Tensor) for value in values]
        self._others = [value for value in values if not isinstance(value, torch.Tensor)]
        self.leaves = tuple(value for value in values if isinstance(value, torch.Tensor))
        self.training = (
            model.training
        )  # Not train(): it would set the flags of the model's modules.

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Call the model with these tensors in its inputs."""
        given, others = iter(tensors), iter(self._others)
        values: list[Any] = [next(given if is_one else others) for is_one in self._is_tensor]
        args, kwargs = pytree.tree_unflatten(values, self._layout)
        return tuple(tensors_in(self.model(*args, **kwargs)))


def allocated(model: torch.nn.Module, inputs: Inputs) -> SecondOpinion:
    """Measure the peak of a forward, plus parameters and buffers.

    Raises:
        ForwardError: the model raised.
    """
    if any(tensor.is_meta for tensor in (*model.parameters(), *tensors_in(inputs.args))):
        return SecondOpinion("measured", "", 0.0, error="nothing is allocated on meta")
    measured = measured_peak(model, inputs)
    # After the forward: a model may make its layers in its first one.
    held = sum(sum(storages.values()) for storages in weight_storages(model))
    by = "allocator statistics" if torch.device(measured.device).type == "cuda" else "profiler"
    return SecondOpinion(
        counter="measured",
        version=f"torch {torch.__version__} {by}",
        seconds=0.0,
        peak_bytes=held + measured.peak_bytes,
    )


_COUNTERS: Mapping[Counter, Callable[[torch.nn.Module, Inputs], SecondOpinion]] = {
    "flop_counter": by_torch,
    "fvcore": by_fvcore,
    "measured": allocated,
}


def count(counter: Counter, spec: LoadSpec) -> SecondOpinion:
    """Return the figures of a counter, or its error.

    Raises:
        LoadError, TraceError: the model cannot be loaded, or takes none of its inputs.
    """
    model, inputs = _model_with_values(spec)
    began = time.perf_counter()
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            opinion = _COUNTERS[counter](model, inputs)
    # A foreign counter: what it raises is its result.
    except (Exception, SystemExit) as error:
        opinion = SecondOpinion(counter, "", 0.0, error=_told(error))
    return replace(opinion, seconds=time.perf_counter() - began)


def _model_with_values(spec: LoadSpec) -> tuple[torch.nn.Module, Inputs]:
    loaded = load(spec)
    given = of_batch(loaded.model, loaded.candidates, loaded.batch)
    inputs = trace(loaded.model, tuple(given), name=spec.model).inputs
    return loaded.model if loaded.initialise is None else loaded.initialise(), inputs


def _told(error: BaseException) -> str:
    cause = error.error if isinstance(error, ForwardError) else error
    wanted = wanted_memory(cause)
    return f"out of memory: tried to allocate {wanted}" if wanted else one_line(cause)
