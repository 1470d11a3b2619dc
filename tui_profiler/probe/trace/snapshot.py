"""What a forward may change in a model, and how it was before.

1. Attributes: the ``__dict__`` of every module and of the plain objects, lists, dictionaries and
   sets that it holds. A cache that kept a fake tensor would give one back in the next real call.
2. Values: small buffers are copied beforehand, because some operators write into them without
   saying so (``native_batch_norm`` in training). Anything else is copied when an operator that says
   so is about to write into it, so that a model of many gigabytes costs nothing.
3. Random generators of torch, Python and numpy.
4. Out of reach: what compiled code keeps to itself, and objects of the standard library that are
   not containers (queues, locks, loggers).
"""

import random
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Container, Iterable
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from tui_profiler.probe.torch_compat import internals

_SMALL_BUFFER_BYTES = 1 << 20
_MOST_OBJECTS = 200_000
"""Objects looked into beside modules; a model that holds a data set is not walked to its end."""

_LEAVES = (
    torch.Tensor,
    torch.dtype,
    torch.device,
    str,
    bytes,
    int,
    float,
    complex,
    type,
    ModuleType,
    FunctionType,
    MethodType,
    BuiltinFunctionType,
    type(None),
)


class Snapshot:
    """How a model was when this was made."""

    def __init__(self, model: torch.nn.Module, *, without: Container[int] = ()) -> None:
        """Look at ``model`` and all it holds; modules whose ``id`` is in ``without`` may change."""
        self._without = without
        self._restore: list[Callable[[], None]] = []
        self._structures: list[tuple[torch.nn.Module, dict[str, object]]] = []
        self._values: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}
        self._walk(model)
        self._random = _random_states()

    def before_write(self, tensors: Iterable[torch.Tensor]) -> None:
        """Copy what an operator is about to write into, if it was there before."""
        for tensor in tensors:
            self._keep_value(tensor)

    def grown(self) -> tuple[torch.nn.Module, ...]:
        """Return the modules that have gained a submodule or parameter since."""
        return tuple(
            module
            for module, before in self._structures
            if any(before.get(name) is not now for name, now in _structure(module).items())
        )

    def restore(self) -> None:
        """Make the model what it was."""
        for put_back in self._restore:
            put_back()
        for storage, before in self._values.values():
            _put_back(storage, before)
        for set_state in self._random:
            set_state()

    def _walk(self, model: torch.nn.Module) -> None:
        """Visit everything that the model holds, without recursion."""
        seen: set[int] = set()
        pending: list[object] = [model]
        others = 0
        while pending:
            item = pending.pop()
            if isinstance(item, _LEAVES) or id(item) in seen:
                continue
            seen.add(id(item))
            if isinstance(item, torch.nn.Module):
                pending.extend(self._take_module(item))
            elif others < _MOST_OBJECTS:
                others += 1
                pending.extend(self._take(item))

    def _take_module(self, module: torch.nn.Module) -> list[object]:
        if id(module) not in self._without:
            self._structures.append((module, _structure(module)))
            for buffer in internals.buffers_of(module).values():
                if buffer is not None and _is_small(buffer):
                    self._keep_value(buffer)
            return self._take_attributes(vars(module))
        return list(internals.children_of(module).values())

    def _take(self, item: object) -> list[object]:
        """Remember one object that is not a module, and give what it holds."""
        match item:
            case dict():
                return self._take_attributes(item)
            case list() | deque():
                self._restore.append(_sequence_restorer(item, list(item)))
            case set():
                self._restore.append(_set_restorer(item, set(item)))
            case tuple() | frozenset():
                pass
            case _:
                attributes = getattr(item, "__dict__", None)
                if not isinstance(attributes, dict) or _is_from_standard_library(item):
                    return []
                return self._take_attributes(attributes)
        return list(item)

    def _take_attributes(self, attributes: dict[Any, Any]) -> list[object]:
        before = dict(attributes)
        self._restore.append(_dict_restorer(attributes, before))
        return list(before.values())

    def _keep_value(self, tensor: torch.Tensor) -> None:
        key = internals.storage_key(tensor)
        if key is None or key in self._values or _has_no_values(tensor):
            return
        storage = tensor.untyped_storage()
        before: torch.UntypedStorage = storage.clone()  # type: ignore[no-untyped-call] # torch has no types here
        self._values[key] = (storage, before)


def _put_back(storage: torch.UntypedStorage, before: torch.UntypedStorage) -> None:
    """Write only what differs: weights can be mapped from a file."""
    if storage.nbytes() != before.nbytes():
        storage.resize_(before.nbytes())
    if not torch.equal(_raw(storage), _raw(before)):
        storage.copy_(before)


def _raw(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def _structure(module: torch.nn.Module) -> dict[str, object]:
    return {**internals.children_of(module), **internals.parameters_of(module)}


def _is_small(tensor: torch.Tensor) -> bool:
    return internals.storage_key(tensor) is not None and (
        tensor.untyped_storage().nbytes() <= _SMALL_BUFFER_BYTES
    )


def _has_no_values(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "meta" or isinstance(tensor, internals.FakeTensor)


def _is_from_standard_library(item: object) -> bool:
    return str(type(item).__module__).partition(".")[0] in sys.stdlib_module_names


def _dict_restorer(now: dict[Any, Any], before: dict[Any, Any]) -> Callable[[], None]:
    """Put items back by the base class's own methods, past what a subclass adds to them."""

    def put_back() -> None:
        unchanged = len(now) == len(before) and all(
            key is old_key and value is old
            for (key, value), (old_key, old) in zip(now.items(), before.items(), strict=True)
        )
        if unchanged:
            return
        base: type[dict[Any, Any]] = OrderedDict if isinstance(now, OrderedDict) else dict
        base.clear(now)
        for key, value in before.items():
            base.__setitem__(now, key, value)

    return put_back


def _sequence_restorer(
    now: list[object] | deque[object], before: list[object]
) -> Callable[[], None]:
    def put_back() -> None:
        same = len(now) == len(before) and all(a is b for a, b in zip(now, before, strict=True))
        if not same:
            now.clear()
            now.extend(before)

    return put_back


def _set_restorer(now: set[object], before: set[object]) -> Callable[[], None]:
    def put_back() -> None:
        if now != before:
            now.clear()
            now.update(before)

    return put_back


def _random_states() -> list[Callable[[], None]]:
    """Return what sets each random generator back to its present state."""
    of_torch, of_python = torch.get_rng_state(), random.getstate()
    restore: list[Callable[[], None]] = [
        lambda: torch.set_rng_state(of_torch),
        lambda: random.setstate(of_python),
    ]
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call] # torch has no types here
        of_devices = torch.cuda.get_rng_state_all()
        restore.append(lambda: torch.cuda.set_rng_state_all(of_devices))
    if "numpy" in sys.modules:
        import numpy as np  # noqa: PLC0415 - only where the model's process has it already

        of_numpy = np.random.get_state()
        restore.append(lambda: np.random.set_state(of_numpy))
    return restore
