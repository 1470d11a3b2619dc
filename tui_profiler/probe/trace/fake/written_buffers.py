"""Real tensors that a fake run writes into: fake from then on.

A forward that fills ``torch.zeros(...)`` with what it computed holds a real tensor, as nothing fake
was among the arguments of ``zeros``. An operator that writes fake values into it cannot change it,
and what follows would be computed from zeros: for real, slowly, and with other shapes wherever they
depend on values. Such a tensor gets a fake twin, which takes its place in every later operator.

1. The model keeps its own tensor: only the arguments of operators are exchanged, and what an
   operator would give of the twin's in place is given as the model's own.
2. A twin lives as long as the storage that it stands for, and as its own views. Memory is counted
   once, for as long as one of both lives.
"""

import weakref
from collections.abc import Sequence
from typing import TypeVar

import torch

from tui_profiler.probe.cost.call import tensors_in
from tui_profiler.probe.torch_compat import internals
from tui_profiler.probe.trace.tree.dataflow import Dataflow
from tui_profiler.probe.trace.tree.lifetimes import Lifetimes

_T = TypeVar("_T")


class FakeBuffers:
    """The fake twins of one run."""

    def __init__(self, lifetimes: Lifetimes, dataflow: Dataflow) -> None:
        self._lifetimes = lifetimes
        self._dataflow = dataflow
        self._bases: dict[int, torch.Tensor] = {}
        self._guards: dict[int, weakref.ref[torch.UntypedStorage]] = {}

    def before_write(self, written: Sequence[torch.Tensor], arguments: object) -> None:
        """Make twins of the real tensors that an operator writes into, if it writes fake values."""
        real = [tensor for tensor in written if not isinstance(tensor, internals.FakeTensor)]
        if not real:
            return
        mode = next(
            (t.fake_mode for t in tensors_in(arguments) if isinstance(t, internals.FakeTensor)),
            None,
        )
        for tensor in real if mode is not None else ():
            assert mode is not None
            self._make(tensor, mode)

    def put_in(self, arguments: _T) -> _T:
        """Return the arguments with the twin of every tensor that has one."""
        return internals.tree_map(self._twin, arguments) if self._bases else arguments

    def take_out(self, result: object, written: Sequence[torch.Tensor]) -> object:
        """Return what an operator returned, with the model's own tensors if it wrote in place."""
        if not self._bases:
            return result
        own = {
            internals.storage_key(base): tensor
            for tensor in written
            if (base := self._bases.get(internals.storage_key(tensor) or 0)) is not None
        }
        if not own:
            return result

        def of_model(value: object) -> object:
            if not isinstance(value, torch.Tensor):
                return value
            tensor = own.get(internals.storage_key(value))
            return value if tensor is None or tensor.shape != value.shape else tensor

        return internals.tree_map(of_model, result)

    def _make(self, tensor: torch.Tensor, mode: internals.FakeTensorMode) -> None:
        key = internals.storage_key(tensor)
        if key is None or key in self._bases or tensor.device.type == "meta":
            return
        storage = tensor.untyped_storage()
        count = storage.nbytes() // tensor.element_size()
        empty = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        whole = empty.set_(storage, 0, (count,), (1,))
        self._bases[key] = base = mode.from_tensor(whole, static_shapes=True)
        self._lifetimes.hand_over(key, base.untyped_storage())
        self._dataflow.alias(int(base.untyped_storage()._cdata), key)
        self._guards[key] = weakref.ref(storage, lambda _: self._forget(key))

    def _forget(self, key: int) -> None:
        """Let go of a twin whose storage is gone: its address can be another's now."""
        base = self._bases.pop(key)
        self._dataflow.forget(int(base.untyped_storage()._cdata))
        del self._guards[key]

    def _twin(self, value: object) -> object:
        if not isinstance(value, torch.Tensor) or isinstance(value, internals.FakeTensor):
            return value
        base = self._bases.get(internals.storage_key(value) or 0)
        if base is None or base.dtype != value.dtype:
            return value
        return base.as_strided(value.shape, value.stride(), value.storage_offset())
