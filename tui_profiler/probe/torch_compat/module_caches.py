"""KV caches that modules of a model keep: buffers or attributes that each forward writes.

gpt-fast, torchtune and Llama's reference code pass tokens and positions alone: keys and values lie
in the modules. They are recognised by what runs, not by their names.

1. Searched where a forward is given one token per row and no cache: candidates are the tensors of
   three axes or more that modules hold and that are no parameters; caches are those that such a
   forward wrote, or replaced by one that is longer by its tokens. Other models are never searched.
2. Later forwards read one of them, before and after: attributes, no values. No operator runs.
3. Nothing here keeps a module or a tensor alive. Caches that are made anew for each request are
   searched again, at most ``SEARCH_SHARE`` of the time.

| private name of torch | what for | when it is gone |
|---|---|---|
| ``Tensor._version`` | whether a forward wrote into a tensor | caches in modules are not seen |
"""

import weakref
from array import array
from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor, nn

from tui_profiler.probe.torch_compat.forward_tokens import CacheSize, ForwardTokens
from tui_profiler.probe.torch_compat.modules import each_module
from tui_profiler.probe.torch_compat.threads import without_torch_function
from tui_profiler.system.real_time import perf_counter

POSITIONS = ("start_pos", "input_pos", "cache_position", "position", "offset")
"""Names of an argument that is the number of tokens before those of the forward, where an int."""
SEARCH_SHARE = 1 / 100
MOST_CANDIDATES = 4_000
_LEAST_AXES = 3
_UNTRACKED = -1
"""Version of a tensor made in inference mode."""


class _Slot(NamedTuple):
    """Where a module holds a tensor."""

    module: weakref.ref[nn.Module]
    name: str

    @property
    def is_there(self) -> bool:
        """Whether the module is there and has the name, be it None."""
        module = self.module()
        if module is None:
            return False
        return self.name in module.__dict__ or self.name in module.__dict__.get("_buffers", {})

    def tensor(self) -> Tensor | None:
        """Return what is held there now; None where nothing is."""
        module = self.module()
        if module is None:
            return None
        inside = module.__dict__
        found = inside.get("_buffers", {}).get(self.name, inside.get(self.name))
        return found if isinstance(found, Tensor) else None


class _State(NamedTuple):
    """A tensor before a forward."""

    id: int
    version: int
    shape: tuple[int, ...]


class Marks(NamedTuple):
    """What was held before a forward, to be compared with what is held after it."""

    slots: tuple[_Slot, ...]
    states: tuple[_State | None, ...]
    is_search: bool


class ModuleCaches:
    """The caches in the modules of one model, once they are known."""

    def __init__(self) -> None:
        self._slots: tuple[_Slot, ...] = ()
        self._is_growing = False
        """Whether tensors are replaced by longer ones, not written."""
        self._were_known = False
        self._search_after = 0.0

    def before(self, root: nn.Module, tokens: ForwardTokens) -> Marks | None:
        """Return the state of the caches before a forward without one; None if there are none.

        Args:
            root: the model.
            tokens: that the forward is given.
        """
        if self._slots:
            first = self._slots[:1]
            if first[0].is_there:
                return Marks(first, (_state_of(first[0]),), is_search=False)
            self._slots = ()
        began = perf_counter()
        if (tokens.tokens != 1 and not self._were_known) or began < self._search_after:
            return None
        slots = _candidates(root)
        marks = Marks(slots, tuple(map(_state_of, slots)), is_search=True)
        now = perf_counter()
        self._search_after = now + (now - began) / SEARCH_SHARE
        return marks if slots else None

    def are_written(self, marks: Marks, tokens: int) -> bool:
        """Return whether the forward wrote its tokens into the caches.

        Args:
            marks: before it.
            tokens: of each row that it was given.
        """
        written = [
            slot
            for slot, before in zip(marks.slots, marks.states, strict=True)
            if _is_written(before, slot.tensor(), tokens)
            or (not marks.is_search and before is None and slot.tensor() is not None)
        ]
        if marks.is_search and written:
            self._slots, self._were_known = tuple(written), True
            states = dict(zip(marks.slots, marks.states, strict=True))
            first, now = states[written[0]], _state_of(written[0])
            self._is_growing = first is not None and now is not None and first.shape != now.shape
        return bool(written)

    def size(self) -> CacheSize | None:
        """Return the bytes of the caches, by the module that holds them."""
        layers: dict[int, int] = {}
        name = ""
        for slot in self._slots:
            module, tensor = slot.module(), slot.tensor()
            if module is None or tensor is None:
                return None
            name = name or type(module).__qualname__
            layers[id(module)] = layers.get(id(module), 0) + tensor.nbytes
        if not layers:
            return None
        return CacheSize(name, array("q", layers.values()).tobytes(), None, not self._is_growing)

    @property
    def id(self) -> int:
        """``id`` of the module that holds the first cache; 0 without one."""
        module = self._slots[0].module() if self._slots else None
        return 0 if module is None else id(module)


def position_in(root: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> int | None:
    """Return the number of tokens before those of a forward, where an int says so."""
    for name in POSITIONS:
        if type(found := kwargs.get(name)) is int:
            return found
    code = getattr(getattr(type(root), "forward", None), "__code__", None)
    names: Sequence[str] = code.co_varnames[1 : code.co_argcount] if code is not None else ()
    return next(
        (
            value
            for name, value in zip(names, args, strict=False)
            if name in POSITIONS and type(value) is int
        ),
        None,
    )


def _candidates(root: nn.Module) -> tuple[_Slot, ...]:
    found: list[_Slot] = []
    for module in each_module(root):
        inside = module.__dict__
        for held in (inside.get("_buffers", {}), inside):
            for name, value in [*dict.items(held)]:
                is_cache = isinstance(value, Tensor) and not isinstance(value, nn.Parameter)
                if is_cache and value.dim() >= _LEAST_AXES:
                    found.append(_Slot(weakref.ref(module), name))
        if len(found) > MOST_CANDIDATES:
            return ()
    return tuple(found)


def _state_of(slot: _Slot) -> _State | None:
    tensor = slot.tensor()
    return None if tensor is None else _state(tensor)


def _state(tensor: Tensor) -> _State:
    with without_torch_function():
        version = _UNTRACKED if tensor.is_inference() else tensor._version
        return _State(id(tensor), version, tuple(tensor.shape))


def _is_written(before: _State | None, tensor: Tensor | None, tokens: int) -> bool:
    if before is None or tensor is None:
        return False
    after = _state(tensor)
    if len(after.shape) != len(before.shape):
        return False
    grown = [new - old for new, old in zip(after.shape, before.shape, strict=True) if new != old]
    if grown or after.id != before.id:
        return grown == [tokens]
    return before.version == _UNTRACKED or after.version > before.version
