"""The stack of modules that are running, kept by replacing ``nn.Module.__call__``.

Hooks would switch off the fused path of ``nn.TransformerEncoderLayer`` and could not be told apart
from the user's; the replacement leaves both as they are. It sees nothing of classes whose own
``__call__`` never reaches ``nn.Module``'s, nor of direct calls of ``forward``: their operators
belong to the module around them.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from tui_profiler.probe.trace.frames import calling_line
from tui_profiler.probe.trace.places import Frame, Place, Places
from tui_profiler.probe.trace.tensors import described, described_arguments

_FRAMES_PER_CALL = 2
"""Python frames that the replacement adds to each nested call, rounded up."""


class ModuleStack:
    """Which module is running, and the modules around it."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.frames = [Frame(places.root)]
        self.raised_in: Place | None = None
        """The innermost module that an exception came out of."""
        self._root_awaits_call = True
        self._thread = threading.get_ident()

    @property
    def running(self) -> Frame:
        """The innermost call."""
        return self.frames[-1]

    def is_watching(self) -> bool:
        """Tell whether a call is ours to see: of this thread, and not while Dynamo compiles."""
        return threading.get_ident() == self._thread and not torch.compiler.is_dynamo_compiling()

    def enter(
        self, module: torch.nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> Place:
        """Put a call on the stack."""
        place = self._place_of_call(module)
        if place.calls == 0:
            place.inputs = described_arguments(module, args, kwargs)
            place.called_from = calling_line()
        place.calls += 1
        return place

    def leave(self, place: Place, output: object) -> None:
        """Note what a call gave; it is taken off by ``end``."""
        if place.calls == 1 and not place.outputs:
            place.outputs = described(output)

    def end(self) -> None:
        """Take the innermost call off the stack."""
        if len(self.frames) > 1:
            self.frames.pop()

    def _place_of_call(self, module: torch.nn.Module) -> Place:
        if self._root_awaits_call and module is self.places.root.module:
            self._root_awaits_call = False
            place = self.places.root
        else:
            place = self.places.of_module(self.running, module)
        self.frames.append(Frame(place))
        return place


@contextmanager
def watched(stack: ModuleStack, depth: int) -> Iterator[None]:
    """Keep ``stack`` while the block runs.

    Args:
        stack: told of every call of a module in this thread.
        depth: how deep the model's modules nest. Python's recursion limit is raised by what the
            replacement adds to a call of each, so that a model that fits under it still does.
    """
    original = torch.nn.Module.__call__
    limit = sys.getrecursionlimit()
    replacement = _replacement(stack, original)
    torch.nn.Module.__call__ = replacement  # type: ignore[method-assign] # that is what it is for
    sys.setrecursionlimit(limit + _FRAMES_PER_CALL * depth + 100)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
        if torch.nn.Module.__call__ is replacement:
            torch.nn.Module.__call__ = original  # type: ignore[method-assign]


def _replacement(stack: ModuleStack, original: Callable[..., object]) -> Callable[..., object]:
    def call(self: torch.nn.Module, *args: object, **kwargs: object) -> object:
        if not stack.is_watching():
            return original(self, *args, **kwargs)
        place = stack.enter(self, args, kwargs)
        try:
            output = original(self, *args, **kwargs)
            stack.leave(place, output)
        except BaseException:
            if stack.raised_in is None:
                stack.raised_in = place
            raise
        finally:
            stack.end()
        return output

    return call
