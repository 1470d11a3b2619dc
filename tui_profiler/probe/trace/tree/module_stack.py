"""The stack of modules that are running, kept by replacing ``nn.Module.__call__``.

Hooks would switch off the fused path of ``nn.TransformerEncoderLayer`` and could not be told apart
from the user's; the replacement leaves both as they are. It sees nothing of classes whose own
``__call__`` never reaches ``nn.Module``'s, nor of direct calls of ``forward``: their operators
belong to the module around them.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from types import AsyncGeneratorType, CoroutineType, GeneratorType

import torch

from tui_profiler.messages import Caller
from tui_profiler.probe.cost.rollup import SelfCost
from tui_profiler.probe.process import source_line
from tui_profiler.probe.torch_compat import module_call
from tui_profiler.probe.trace.tree.growing_tree import Frame, Place, Places
from tui_profiler.probe.trace.tree.tensors import described, described_arguments
from tui_profiler.probe.trace.tree.torchscript import ScriptWalker, run_as_a_whole
from tui_profiler.probe.trace.tree.weights import held_tensors

LATER = "returns a generator or coroutine: what it runs later is neither recorded nor timed"
_FRAMES_PER_CALL = 2
"""Python frames that the replacement adds to each nested call, rounded up."""


class ModuleStack:
    """Which module is running, and the modules around it."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.frames = [Frame(places.root)]
        self.line: Callable[[], str] = source_line.calling_line
        """Returns the line of the user's that is running."""
        self.callers: Callable[[], tuple[Caller, ...]] = source_line.running_callers
        """Returns the lines that led to what is running."""
        self.raised_in: Place | None = None
        """The innermost module that an exception came out of."""
        self._root_awaits_call = True
        self._thread = threading.get_ident()
        self._is_held = False

    @cached_property
    def weights(self) -> frozenset[int]:
        """The ``id`` of every parameter and buffer, as they are while it runs."""
        model = self.places.root.module
        return frozenset(map(id, held_tensors(model))) if model is not None else frozenset()

    @property
    def running(self) -> Frame:
        """The innermost call."""
        return self.frames[-1]

    def is_watching(self) -> bool:
        """Tell whether a call is ours to see: of this thread, and not while Dynamo compiles."""
        if self._is_held or threading.get_ident() != self._thread:
            return False
        return not torch.compiler.is_dynamo_compiling()

    @contextmanager
    def held(self) -> Iterator[None]:
        """See no calls while the block runs."""
        before, self._is_held = self._is_held, True
        try:
            yield
        finally:
            self._is_held = before

    def enter(
        self, module: torch.nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> Place:
        """Put a call on the stack."""
        place = self._place_of_call(module)
        if place.calls == 0:
            place.inputs = described_arguments(module, args, kwargs)
            place.called_from = self.line()
            place.callers = self.callers()
        place.calls += 1
        return place

    def begin(self, module: torch.nn.Module, lines: list[source_line.Line]) -> Frame:
        """Count a call that is only known by what was traced in it; it is not put on the stack.

        Args:
            module: that was called.
            lines: that led to the call, outermost first.
        """
        place = self.places.of_module(self.running, module)
        place.called_from = place.called_from or (str(lines[-1]) if lines else "")
        place.callers = place.callers or source_line.callers_in(lines)
        place.calls += 1
        return Frame(place)

    def leave(self, place: Place, output: object) -> None:
        """Note what a call gave; it is taken off by ``end``."""
        if place.calls == 1 and not place.outputs:
            place.outputs = described(output)
            if isinstance(output, GeneratorType | AsyncGeneratorType | CoroutineType):
                place.note = place.note or LATER
                place.own.take(SelfCost(ops=1, uncosted=1))

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
def watched(stack: ModuleStack, depth: int, walker: ScriptWalker | None = None) -> Iterator[None]:
    """Keep ``stack`` while the block runs.

    Args:
        stack: told of every call of a module in this thread.
        depth: how deep the model's modules nest. Python's recursion limit is raised by what the
            replacement adds to a call of each, so that a model that fits under it still does.
        walker: carries out scripted modules, so that the calls inside them are seen.
    """
    limit = sys.getrecursionlimit()
    with module_call.CHANGING:
        original = torch.nn.Module.__call__
        replacement = _replacement(stack, original, walker)
        module_call.put_call(replacement)
    sys.setrecursionlimit(limit + _FRAMES_PER_CALL * depth + 100)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
        module_call.take_off(replacement, original)


def _replacement(
    stack: ModuleStack, original: Callable[..., object], walker: ScriptWalker | None
) -> Callable[..., object]:
    def call(self: torch.nn.Module, *args: object, **kwargs: object) -> object:
        if not stack.is_watching():
            return original(self, *args, **kwargs)
        place = stack.enter(self, args, kwargs)
        try:
            if walker is not None and walker.can_walk(self):
                place.note = place.note or walker.note
                output = walker.call(self, args, kwargs)
            else:
                place.note = place.note or run_as_a_whole(self)
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
