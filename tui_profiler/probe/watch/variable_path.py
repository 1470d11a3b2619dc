"""The variable through which a script reaches a model: ``model``, ``trainer.model``, ``nets[0]``.

1. Only dictionaries, lists and tuples are read, and the ``__dict__`` of instances: no attribute is
   asked for, and no code of the script runs.
2. Local variables are read under the rules of ``torch_compat/entry_method.py``.
3. What is looked at is bounded: some 1 ms, once per model.
"""

from __future__ import annotations

import os
import sys
import types
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType

import torch
from torch import nn

from tui_profiler.probe.process.wire_names import writable
from tui_profiler.probe.torch_compat.entry_method import locals_of
from tui_profiler.probe.torch_compat.internals import children_of

MOST_LOOKED_AT = 600
"""Of the globals, and as many of the locals of all functions."""
MOST_DEPTH = 3
"""Dots and brackets of a path, at most."""
_MOST_ITEMS = 32
_MOST_FRAMES, _MOST_FUNCTIONS = 256, 20
_OURS = str(Path(__file__).resolve().parents[2]) + os.sep
_NO_CONTAINERS = (
    *(types.ModuleType, type, types.FunctionType, types.MethodType, types.BuiltinFunctionType),
    *(torch.Tensor, str, bytes, int, float, complex, set, frozenset),
)


def variable_path(model: nn.Module) -> str:
    """Return the shortest path to a model from the script's variables; empty where none is found.

    Globals of the script come first, then locals of its functions that are on this thread's stack,
    outermost first.
    """
    main = sys.modules.get("__main__")
    found = _path_in(vars(main), model, MOST_LOOKED_AT) if main is not None else ""
    if found:
        return found
    for frame in list(_functions(sys._getframe(1)))[-_MOST_FUNCTIONS:][::-1]:
        names = locals_of(frame)
        names.pop("self", None)
        found = _path_in(names, model, MOST_LOOKED_AT // _MOST_FUNCTIONS)
        if found:
            return found
    return ""


def _functions(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames of the user's own functions, innermost first."""
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return
        file = frame.f_code.co_filename
        if not file.startswith((_OURS, "<frozen")) and "site-packages" not in file:
            yield frame
        frame = frame.f_back


def _path_in(names: Mapping[str, object], model: nn.Module, most: int) -> str:
    pending: deque[tuple[str, object, int]] = deque([("", dict(names), 0)])
    seen, left = set[int](), most
    while pending:
        path, inside, depth = pending.popleft()
        for name, value in _parts(path, inside):
            left -= 1
            if value is model:
                return writable(name)
            if left <= 0:
                return ""
            if depth < MOST_DEPTH and id(value) not in seen and _may_contain(value):
                seen.add(id(value))
                pending.append((name, value, depth + 1))
    return ""


def _may_contain(value: object) -> bool:
    return not issubclass(type(value), _NO_CONTAINERS)


def _parts(path: str, value: object) -> Iterator[tuple[str, object]]:
    if not path:
        assert isinstance(value, dict)
        for name, part in value.items():
            if name.isidentifier() and name[:2] != "__":
                yield name, part
    elif type(value) is dict:
        for key, part in list(value.items())[:_MOST_ITEMS]:
            if type(key) in (str, int):
                yield f"{path}[{key!r}]", part
    elif type(value) in (list, tuple):
        assert isinstance(value, list | tuple)
        yield from ((f"{path}[{at}]", part) for at, part in enumerate(value[:_MOST_ITEMS]))
    else:
        if issubclass(type(value), nn.Module):
            assert isinstance(value, nn.Module)
            yield from ((f"{path}.{name}", one) for name, one in (children_of(value) or {}).items())
        try:
            own = object.__getattribute__(value, "__dict__")
        except AttributeError:
            return
        if type(own) is dict:
            yield from ((f"{path}.{name}", part) for name, part in list(own.items()))
