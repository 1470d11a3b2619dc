"""The one recorder: whatever runs under it becomes nodes with costs, edges and lifetimes.

1. Every operator that the dispatcher sees is recorded under the module that is running, views and
   allocations too; ``prim::device``, which asks a fake tensor where it lives, is not one.
2. It keeps no tensor: what it kept would live longer than in the model, and peak memory would be
   the recorder's.
3. An allocation of no elements, which batch norm makes each time, is left out.
4. ``aten::detach`` and ``aten::alias`` that autograd's bookkeeping inserts are recorded as the
   views that they are: they cost nothing, and a real run has the same ones.
5. Composite operators, which arrive whole under ``inference_mode``, are recorded as their parts, as
   under ``no_grad``.
"""

from collections.abc import Container, Hashable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Protocol

import torch

from tui_profiler.probe.cost.call import Call, signature_of, tensors_in
from tui_profiler.probe.cost.cost import CallCosts
from tui_profiler.probe.cost.rollup import SelfCost
from tui_profiler.probe.torch_compat import composite, internals
from tui_profiler.probe.trace.fake.data_dependent import ANSWERED_BEFOREHAND, Bounds
from tui_profiler.probe.trace.fake.shortcuts import Key, ShapeCache, quick_fake, shortcut
from tui_profiler.probe.trace.fake.written_buffers import FakeBuffers
from tui_profiler.probe.trace.higher_order import Inside, inside_of, listed
from tui_profiler.probe.trace.snapshot import Snapshot
from tui_profiler.probe.trace.tree.dataflow import Dataflow
from tui_profiler.probe.trace.tree.growing_tree import Place
from tui_profiler.probe.trace.tree.lifetimes import Lifetimes
from tui_profiler.probe.trace.tree.module_stack import ModuleStack
from tui_profiler.probe.trace.tree.tensors import described, described_by_name

UNSEEN = "operators that were not seen (of another thread?)"
"""Among those without a formula: what made a tensor that no operator seen here has made."""

_SMALL_ELEMENTS = 1 << 20
"""Of all arguments of an operator: more are worth several threads."""

_DEVICE = torch.ops.prim.device.default
_LAYOUT = torch.ops.prim.layout.default


class StepCosts(Protocol):
    """Counts what follows the forward of a model that is trained.

    Its own recorder (``training/backward_costs.py``) is above this one.
    """

    @property
    def is_after_model(self) -> bool:
        """Whether operators are no part of the forward any more."""
        ...

    def note(self, place: Place, call: Call, scratch: int | None) -> None:
        """Take note of an operator of the forward."""
        ...

    def record(
        self, operator: internals.Operator, call: Call, costs: CallCosts, key: Hashable | None
    ) -> None:
        """Count an operator that follows it."""
        ...


class Recorder(internals.TorchDispatchMode):  # type: ignore[no-untyped-call] # torch has no types here
    """Records what is dispatched while it is entered."""

    supports_higher_order_operators = True

    def __init__(
        self,
        stack: ModuleStack,
        weights: Container[int],
        lifetimes: Lifetimes,
        snapshot: Snapshot | None,
        bounds: Bounds,
    ) -> None:
        """Record under ``stack``; keep what is written into in ``snapshot``, if there is one."""
        super().__init__()  # type: ignore[no-untyped-call] # torch has no types here
        self._stack = stack
        self._keys = internals.dispatch_keys()
        self._costs = CallCosts(weights)
        self._snapshot = snapshot
        self.lifetimes = lifetimes
        self.bounds = bounds
        self.dataflow = Dataflow()
        self._twins = FakeBuffers(lifetimes, self.dataflow)
        self._shapes = ShapeCache()
        self._strangers = False
        self.step: StepCosts | None = None
        """Counts what follows the forward of the model, where it is trained."""
        self.uncosted: dict[str, None] = {}
        """Operators without a formula, in order of first use."""

    def __torch_dispatch__(
        self,
        func: internals.Operator,
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Run one operator, or answer for it, and record it."""
        keywords = kwargs or {}
        if func is _DEVICE:
            asked = args[0]
            return asked.device if type(asked) is internals.FakeTensor else func(*args, **keywords)
        if func is _LAYOUT and isinstance(args[0], torch.Tensor):
            return args[0].layout  # of a jagged tensor: it has no kernel that could be run
        if composite.is_composite(func, types, args, keywords):
            return composite.run_parts(self, func, args, keywords)
        call = Call(signature_of(func), args, keywords, ())
        if isinstance(func, internals.HigherOrderOperator):
            inside = inside_of(func, args)
            if inside is not None:
                return self._run_inside(call, inside)
        written = [t for name in call.signature.written for t in tensors_in(call.get(name))]
        if self._snapshot is not None:
            self._snapshot.before_write(t for t in written if not self._began_here(t))
        self._twins.before_write(written, (args, keywords))
        exchanged, named = self._twins.put_in((args, keywords))
        key = self._shapes.key(func, exchanged, named)
        result = self._run(func, Call(call.signature, exchanged, named, ()), key)
        result = self._twins.take_out(result, written)
        self._record(func, call, written, result, key)
        return result

    def free(self) -> None:
        """Drop what was recorded, a few places at a time."""
        self.dataflow.free()
        self.lifetimes.free()

    def _run(self, operator: internals.Operator, call: Call, key: Key | None) -> object:
        if call.signature.name in ANSWERED_BEFOREHAND and isinstance(
            call.first(), internals.FakeTensor
        ):
            return self.bounds.answer(operator, call)
        result = self._shapes.answer(key, call.args)
        if result is not None:
            return result
        result = shortcut(operator, call.args)
        if result is None:
            result = quick_fake(operator, call.args, call.kwargs)
        if result is None:
            try:
                with _by_one_thread() if self._is_small_and_real(call) else nullcontext():
                    result = operator(*call.args, **call.kwargs)
            except internals.DATA_DEPENDENT:
                return self.bounds.answer(operator, call)
        self._shapes.keep(key, call.args, result)
        return result

    def _is_small_and_real(self, call: Call) -> bool:
        """Tell whether real values are computed beside fake ones: a table of positions, a mask."""
        if not self._shapes.has_seen_fakes:
            return False
        tensors = call.tensors()
        if any(isinstance(tensor, internals.FakeTensor) for tensor in tensors):
            return False
        return 0 < sum(tensor.numel() for tensor in tensors) <= _SMALL_ELEMENTS

    def _run_inside(self, call: Call, inside: Inside) -> object:
        """Record what a higher-order operator runs, in place of the operator."""
        name = call.signature.name
        place = self._stack.places.of_op(self._stack.running, name, call.signature.type)
        place.inputs = place.inputs or described(inside.operands)
        place.source = place.source or self._stack.line()
        place.calls += 1
        with internals.passing(self._keys):
            ran = inside.run(self, self._stack)
        place.outputs = place.outputs or described(ran.result)
        place.own.take(SelfCost(ops=1, uncosted=int(ran.is_less)))
        if ran.is_less:
            self.uncosted[f"{name} (not every turn is counted)"] = None
        if ran.is_bound:
            self.bounds.names[name] = None
        return ran.result

    def _record(
        self,
        operator: internals.Operator,
        call: Call,
        written: list[torch.Tensor],
        result: object,
        key: Key | None = None,
    ) -> None:
        signature = call.signature
        outputs = tuple(tensors_in(result))
        if _is_nothing(signature.name, outputs):
            return
        if self.step is not None and self.step.is_after_model:
            self.step.record(
                operator, Call(signature, call.args, call.kwargs, outputs), self._costs, key
            )
            return
        place = self._stack.places.of_op(self._stack.running, signature.name, signature.type)
        if place.calls == 0:
            place.inputs = described_by_name(
                (*signature.arguments[: len(call.args)], *call.kwargs),
                (*call.args, *call.kwargs.values()),
            )
            place.outputs = described(result)
            place.source = self._stack.line()
        place.calls += 1
        given = Call(signature, call.args, call.kwargs, outputs)
        read = given.tensors()
        cost, scratch = self._costs.of(operator, given, key)
        place.own.take(cost)
        if cost.uncosted:
            self.uncosted[listed(operator, signature.name, call.args)] = None
        self.note_strangers(read, place)
        self.dataflow.add(place, read, outputs, written)
        self.lifetimes.add(place, outputs, scratch)
        if self.step is not None:
            self.step.note(place, given, scratch)

    def note_strangers(self, value: object, place: Place) -> None:
        """Count what made the tensors in ``value``, where no operator that was seen did.

        Only of fake tensors it is certain that they were made in this forward.
        """
        if self._strangers:
            return
        for tensor in tensors_in(value):
            if isinstance(tensor, internals.FakeTensor):
                key = internals.storage_key(tensor)
                if key is not None and not self.lifetimes.is_known(key):
                    self._strangers = True
                    place.own.take(SelfCost(ops=1, uncosted=1))
                    self.uncosted[UNSEEN] = None
                    return

    def _began_here(self, tensor: torch.Tensor) -> bool:
        return self.lifetimes.began_here(internals.storage_key(tensor))


class RecorderAroundCompiler(Recorder):  # type: ignore[no-untyped-call] # torch has no types here
    """Steps aside while ``torch.compile`` works, and records what the compiled code dispatches.

    With another recorder a compiled model falls back to its own operators, which tells more; but
    what is made to be compiled (flex attention) then fails.
    """

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let the compiler run."""
        return True


@contextmanager
def _by_one_thread() -> Iterator[None]:
    """Run operators by this thread alone: on busy cores it waits milliseconds for others."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _is_nothing(name: str, outputs: tuple[torch.Tensor, ...]) -> bool:
    return name == "aten::empty" and not any(output.numel() for output in outputs)
