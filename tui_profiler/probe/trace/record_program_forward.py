"""One forward of a program that is not ours, recorded while that program runs it.

1. The model is called by its program alone, once, with what the program passes: nothing is run
   again, copied or put back. Gradients, training flags and random numbers are as without us.
2. Whatever fails in recording stays here: the forward goes on, and ``trouble`` says what failed.
3. It is slower than others, once: every operator passes through Python.
4. Where ``torch.compile`` made code of the model, only its modules are recorded: a dispatch mode
   around compiled code would see some operators and not others.
5. Nothing of the process is changed but what ends with the forward: torch's own flags of a mode
   being on are for all threads, and are left alone. ``torch._dynamo`` is not imported for it.
6. A module whose forward is a whole loop around another one, such as one that trains, may not
   return for hours. It is known by what it has run again and again, and recorded no further.
"""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TypeAlias

import torch
from msgspec.structs import replace

from tui_profiler.messages import Attempt, InputSpec, TraceDone, Unknown
from tui_profiler.probe.cost.call import Call, signature_of, tensors_in
from tui_profiler.probe.torch_compat import composite, modules, threads
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.forward_kind import Kind, kind_of
from tui_profiler.probe.torch_compat.internals import Operator
from tui_profiler.probe.trace.fake.data_dependent import Bounds
from tui_profiler.probe.trace.record import Recording
from tui_profiler.probe.trace.recorder import RecorderAroundCompiler
from tui_profiler.probe.trace.trace import Trace, finished
from tui_profiler.probe.trace.tracers import DISPATCH_REAL, Program
from tui_profiler.probe.trace.tree import weights
from tui_profiler.probe.trace.tree.growing_tree import Frame, Place, Places
from tui_profiler.probe.trace.tree.lifetimes import Lifetimes
from tui_profiler.probe.trace.tree.module_stack import ModuleStack
from tui_profiler.probe.trace.tree.torchscript import run_as_a_whole
from tui_profiler.system import real_time as time

Forward: TypeAlias = Callable[..., object]

LOOP_SECONDS = 10.0
"""A forward that takes no longer, recorded, is one of a model."""
LOOP_CALLS = 8
"""What is called so often from a longer one, and has parameters, is the model inside of a loop."""
_IN_THE_ROOT = 2
"""Frames while the root runs, and nothing inside of it."""

OWN_FORWARD = "its own forward"
"""What tells this way of tracing from a real run of ours."""
USUAL_DEPTH = 20
"""Nested modules that are far from Python's recursion limit with our frames between them too."""
_FRAMES_PER_CALL = 2
_FRAMES_PER_OPERATOR = 100
COMPILED = "compiled by torch.compile: its operators are not seen"
BESIDE_COMPILED = "not recorded: another part of the model is compiled by torch.compile"
REPLAYED = "replayed as a CUDA graph: its operators are not seen"


class ProgramForwardRecorder:
    """Records the next forward of one model that ``run`` is given.

    Args:
        root: the model.
        name: of the root node; its class where empty.
        left_early: told why where the forward turned out to be a loop around another model's, which
            is recorded no further; on the thread that runs it, so it must be quick.
        loop_seconds: how long such a forward is recorded.
    """

    def __init__(
        self,
        root: torch.nn.Module,
        name: str,
        left_early: Callable[[str], None] = lambda why: None,
        loop_seconds: float = LOOP_SECONDS,
    ) -> None:
        self._root: torch.nn.Module | None = root
        self._name = name
        self._left_early = left_early
        self._loop_seconds = loop_seconds
        self._stack: _GuardedStack | None = None
        self._recorder: _GuardedRecorder | None = None
        self._is_compiled = False
        self.seconds = 0.0
        """What the forward took."""
        self.kind: Kind | None = None
        """What forwards that cost the same have in common with it."""
        self.threads = 0
        """Intra-operator threads of torch on the thread that ran it."""
        self.trouble = ""
        """Why nothing, or not all, was recorded."""
        self.nested: Forward | None = None
        """What calls of modules go through meanwhile, whichever thread they are on."""

    def run(
        self,
        forward: Forward,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        nested: Forward | None = None,
    ) -> object:
        """Run ``forward(root, *args, **kwargs)``, which is what the program asked for.

        Args:
            forward: ``nn.Module.__call__``, or a method that the program calls in its place.
            args: what it is given.
            kwargs: likewise.
            nested: runs calls of modules inside; None: ``forward``.

        Raises:
            BaseException: whatever the forward raises; then nothing is recorded.
        """
        try:
            assert self._root is not None
            self.kind = kind_of(self._root, args, kwargs)  # As it is before it runs.
            with ExitStack() as around:  # Whatever interrupts us, it is left again.
                place = self._begin(around, nested or forward, args, kwargs)
                began = time.perf_counter()
                output = forward(self._root, *args, **kwargs)
            self.seconds = time.perf_counter() - began
            self.threads = torch.get_num_threads()
            if self._stack is not None and place is not None:
                self._stack.leave(place, output)
        except BaseException as error:
            stack, self._stack, self._root = self._stack, None, None
            if stack is not None:
                stack.places.free()
            self.trouble = self.trouble or f"that forward raised {type(error).__name__}"
            raise
        finally:
            self.nested = None
        return output

    @property
    def is_of_this_thread(self) -> bool:
        """Whether a forward is recorded on the thread that asks."""
        return (stack := self._stack) is not None and stack.is_of_this_thread

    def leave_early(self) -> bool:
        """Record no more of a forward that goes on, on its own thread; False where that failed."""
        stack, recorder = self._stack, self._recorder
        if stack is None or recorder is None or not recorder.leave_early():
            return False
        self._stack = self._recorder = self.nested = None
        inner = stack.repeated
        why = "its recording was cancelled"
        if inner is not None:
            what = f"its forward is still running, and has called {inner.path} {inner.calls} times"
            why = f"{what}: that may be the model to watch"
        try:
            stack.places.free()
            self._left_early(why)
        except Exception as error:  # Ours, in the middle of the program's forward.
            why = f"{type(error).__name__}: {error}"
        self.trouble = why  # Last: whoever sees it must find what came of it.
        return True

    def trace(self) -> Trace | None:
        """Return the tree of the forward that ran, None where ``trouble`` says why there is none.

        May run on another thread. Afterwards nothing here holds the model.
        """
        stack, recorder, root = self._stack, self._recorder, self._root
        self._stack = self._recorder = self._root = None
        if stack is None or recorder is None or root is None:
            return None
        self.trouble = self.trouble or stack.trouble or recorder.trouble
        try:
            return None if self.trouble else self._finished(root, stack, recorder)
        except Exception as error:  # The border: a program's model may hold anything.
            self.trouble = f"{type(error).__name__}: {error}"
            return None
        finally:
            stack.places.free()
            recorder.free()

    def _finished(
        self, root: torch.nn.Module, stack: _GuardedStack, recorder: _GuardedRecorder
    ) -> Trace:
        specs = tuple(
            InputSpec(tensor.name, tensor.shape, tensor.dtype, "of the forward that was recorded")
            for tensor in stack.places.root.inputs
        )
        inputs = Inputs((), {}, specs)
        recording = Recording(stack.places, recorder, (), None, Program(_nothing))
        attempts = (Attempt("dispatch:real", self.seconds, "", OWN_FORWARD),)
        if not self._is_compiled:
            return finished(root, recording, DISPATCH_REAL, attempts, inputs, has_grown=False)
        _note_unrecorded(stack.places, recorder)
        trace = finished(root, recording, DISPATCH_REAL, attempts, inputs, has_grown=False)
        return dataclasses.replace(trace, done=_without_activations(trace.done))

    def _begin(
        self,
        around: ExitStack,
        forward: Forward,
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> Place | None:
        """Listen from now on and return the root's place, None where that failed."""
        try:
            with ExitStack() as entered:
                place = self._listen(entered, forward, args, kwargs)
                around.push(entered.pop_all())
                return place
        except Exception as error:  # Ours, whatever it is: it must not reach the program.
            self._stack = None
            self.trouble = f"{type(error).__name__}: {error}"
            return None

    def _listen(
        self,
        around: ExitStack,
        forward: Forward,
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> Place:
        """Put everything in place around a forward and return the root's place."""
        root = self._root
        assert root is not None
        places = Places(root, self._name)
        inside = list(modules.each_module(root))
        self._stack = _GuardedStack(places, self._loop_seconds)
        parameters, buffers = weights.weight_storages(root)
        lifetimes = Lifetimes(weights.stored_tensors(root), tensors_in((args, kwargs)))
        lifetimes.hold(weights.kept_tensors(root))
        kind = _GuardedRecorder if "torch._dynamo" not in sys.modules else _HiddenRecorder
        self._recorder = kind(
            self._stack, {*parameters, *buffers}, lifetimes, None, Bounds(truth=False)
        )
        compiled = [module for module in inside if threads.is_compiled_module(module)]
        captured = [module for module in inside if modules.why_opaque(module) == modules.CAPTURED]
        self._is_compiled = bool(compiled) or any(one is root for one in captured)
        place = self._stack.enter(root, args, kwargs)
        around.enter_context(_room_for(places.depth))
        self._note_unseen(places, captured, REPLAYED)
        self._note_unseen(places, compiled, COMPILED)
        if not self._is_compiled:
            around.enter_context(self._recorder)
        self.nested = _stacked(self._stack, forward, self.leave_early)
        return place

    def _note_unseen(self, places: Places, unseen: Sequence[torch.nn.Module], why: str) -> None:
        """Count each of these modules as one operator without a formula."""
        assert self._recorder is not None
        known = {id(module) for module in unseen}
        for place in places.in_preorder() if known else ():
            if id(place.module) in known:
                self._recorder.uncosted[why] = None
                place.note = place.note or why
                place.own.uncosted += 1
                place.own.ops += 1


def _note_unrecorded(places: Places, recorder: _GuardedRecorder) -> None:
    """Count each module called beside compiled code likewise: nothing of it was recorded."""
    for place in places.in_preorder():
        if place.calls and not place.own.ops and place.parent is not None:
            recorder.uncosted[BESIDE_COMPILED] = None
            place.note = place.note or BESIDE_COMPILED
            place.own.uncosted += 1
            place.own.ops += 1


def _without_activations(done: TraceDone) -> TraceDone:
    """Return it without what only recorded operators tell."""
    unseen = Unknown(COMPILED)
    peak = replace(done.peak_memory, activations=unseen, workspace=unseen, at=-1, alive=())
    return replace(done, peak_memory=peak)


@contextmanager
def _room_for(depth: int) -> Iterator[None]:
    """Raise Python's recursion limit where a deep model might fit under it only without us."""
    if depth <= USUAL_DEPTH:
        yield
        return
    before = sys.getrecursionlimit()
    raised = before + _FRAMES_PER_CALL * depth + _FRAMES_PER_OPERATOR
    sys.setrecursionlimit(raised)
    try:
        yield
    finally:
        if sys.getrecursionlimit() == raised:  # Else the program has set one of its own.
            sys.setrecursionlimit(before)


def _nothing(given: Inputs, stack: ModuleStack) -> object:
    raise AssertionError("a recorded forward of a program is not run again")


class _GuardedStack(ModuleStack):
    """Keeps its own mistakes from the program that it listens to."""

    def __init__(self, places: Places, loop_seconds: float) -> None:
        super().__init__(places)
        self._loop_seconds = loop_seconds
        self.trouble = ""
        self.repeated: Place | None = None
        """A model that the root has run again and again."""
        self._began = time.perf_counter()

    @property
    def is_of_this_thread(self) -> bool:
        """Whether the forward runs on the thread that asks."""
        return self._thread == threading.get_ident()

    @property
    def is_around_a_loop(self) -> bool:
        """Whether the root is a program's loop around a model; asked before each call."""
        if self.repeated is None or len(self.frames) != _IN_THE_ROOT:
            return False
        return time.perf_counter() - self._began >= self._loop_seconds

    def enter(
        self, module: torch.nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> Place:
        """Put a call on the stack, or what stands for it where that failed."""
        depth = len(self.frames)
        try:
            place = super().enter(module, args, kwargs)
            place.note = place.note or run_as_a_whole(module)
            if (
                place.calls == LOOP_CALLS
                and depth == _IN_THE_ROOT
                and modules.has_parameters(module)
            ):
                self.repeated = place
            return place
        except Exception as error:
            self.trouble = self.trouble or f"{type(error).__name__}: {error}"
            if len(self.frames) == depth:  # What ``end`` takes off again.
                self.frames.append(Frame(self.running.place))
            return self.running.place

    def leave(self, place: Place, output: object) -> None:
        """Note what a call gave, where that can be done."""
        try:
            super().leave(place, output)
        except Exception as error:
            self.trouble = self.trouble or f"{type(error).__name__}: {error}"


class _GuardedRecorder(RecorderAroundCompiler):  # type: ignore[no-untyped-call] # torch has no types
    """Runs every operator exactly once, as it is; its own mistakes stay its own."""

    trouble = ""
    _is_on = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Torch would import torch._dynamo to hide us from it, at the first operator: two seconds,
        # in which the program's threads wait for the interpreter again and again.
        return False

    def __enter__(self) -> _GuardedRecorder:
        threads.push_mode(self)
        self._is_on = True
        return self

    def __exit__(self, *raised: object) -> None:
        if self._is_on:
            threads.pop_mode()
            self._is_on = False

    def leave_early(self) -> bool:
        """Record no more, on the thread that is recorded; False: another mode is in the way."""
        if self._is_on and threads.innermost_mode() is not self:
            return False
        self.__exit__()
        return True

    def __torch_dispatch__(
        self,
        func: Operator,
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        keywords = kwargs or {}
        if not self.trouble and self._runs_as_parts(func, types, args, keywords):
            return composite.run_parts(self, func, args, keywords)
        result = func(*args, **keywords)
        if not self.trouble:
            try:
                self._note(func, args, keywords, result)
            except Exception as error:
                self.trouble = f"{func}: {type(error).__name__}: {error}"
        return result

    def _runs_as_parts(
        self,
        func: Operator,
        types: Sequence[type],
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> bool:
        try:
            return composite.is_composite(func, types, args, kwargs)
        except Exception as error:
            self.trouble = f"{func}: {type(error).__name__}: {error}"
            return False

    def _note(
        self, func: Operator, args: tuple[object, ...], kwargs: dict[str, object], result: object
    ) -> None:
        if func is torch.ops.prim.device.default:
            return
        call = Call(signature_of(func), args, kwargs, ())
        written = [t for name in call.signature.written for t in tensors_in(call.get(name))]
        self._record(func, call, written, result)


class _HiddenRecorder(_GuardedRecorder):  # type: ignore[no-untyped-call] # torch has no types
    """The same where ``torch._dynamo`` is imported: it must not compile us."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return True

    def __torch_dispatch__(
        self,
        func: Operator,
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        return super().__torch_dispatch__(func, types, args, kwargs)


def _stacked(stack: _GuardedStack, forward: Forward, leave_early: Callable[[], bool]) -> Forward:
    """Return what runs a call of a module, and keeps the stack on the stack's own thread."""

    def call(self: torch.nn.Module, /, *args: object, **kwargs: object) -> object:
        if not stack.is_watching() or (stack.is_around_a_loop and leave_early()):
            return forward(self, *args, **kwargs)
        place = stack.enter(self, args, kwargs)
        try:
            output = forward(self, *args, **kwargs)
            stack.leave(place, output)
        finally:
            stack.end()
        return output

    return call
