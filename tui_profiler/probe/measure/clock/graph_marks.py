"""When the backward reaches the calls of modules, by marks on nodes of autograd's graph.

Autograd's engine runs the nodes of one graph by falling sequence number, the number in the order
of which a thread made them. So the nodes that a module's call made, from the number at its entry
up to that at its exit, run in one stretch. A mark on the node of its output tells when the stretch
begins; the mark on the highest node below its entry, when it has ended.

1. A mark is a hook of a node, not of a tensor or module: it goes with the graph, in-place operators
   and fused paths stay on, nothing is pickled with it.
2. A hook that raises would end the program's backward. Ours reads the timer and appends to a
   bounded queue. On a CPU it runs no line of Python, and is the same for all nodes of a thread.
3. No tensor and no node is kept: a node is told from others by its number.
4. No code of the program runs here: modes and subclasses of tensors are passed by. A view that was
   written to is not asked for its node, because that may make a new one.
5. What made a call's inputs is marked at its entry. Nodes that were made between two calls and lead
   to no input of the second (a gate, a residual, a loss before the second forward) are looked for
   from later inputs and from what the caller returns, through nodes that the caller made itself.
6. Compiled autograd would compile hooks with the graph: ours are removed before. It may compile
   reentrant checkpointing into its graphs: if a pass reaches such a node, its recomputation is
   unknown.

Source of the order: torch/csrc/autograd/engine.cpp, ``CompareNodeTaskTime``.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, islice, repeat
from operator import methodcaller
from threading import get_ident
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

from torch import Tensor
from torch.autograd.graph import Node
from torch.nn import Parameter

from tui_profiler.probe.measure.clock.device_clock import DeviceClock, DeviceMark, DeviceSpan, Marks
from tui_profiler.probe.process.interpreter_lock import copied, running_threads
from tui_profiler.probe.torch_compat.internals import (
    current_node,
    is_autograd_compiled,
    plain_tensor,
    sequence_number,
)
from tui_profiler.probe.torch_compat.threads import has_function_mode, without_torch_function
from tui_profiler.system.real_time import perf_counter

MOST_REACHED = 1_000_000
"""Marks of one thread that wait to be taken."""
MOST_TENSORS = 8
"""Of one value, that are marked: the first half and the last."""
MOST_DEPTH = 4
"""Of lists in lists."""
MOST_HOOKS = 64
"""Kinds of marks of a thread that can be taken off again."""
MOST_WALKED = 4_000
"""Nodes of one forward, or of a compiled pass, that a search visits."""
_REENTRANT = "CheckpointFunctionBackward"
"""Node of ``torch.utils.checkpoint.CheckpointFunction``, and of classes of that name elsewhere."""
MOST_IDLE = 8
"""Threads, above which those that have ended are forgotten."""
INNER_BEGAN, INNER_ENDED = -1, -2
"""Instead of a node's number: a pass inside of the pass began, or ended."""

Hooks: TypeAlias = dict[int, Callable[[object], object]]
_Came: TypeAlias = tuple[int, float, DeviceMark | None]


class Reached(NamedTuple):
    """A marked node that a backward came to."""

    number: int
    """Or ``INNER_BEGAN``, ``INNER_ENDED``."""
    seconds: float
    """Of ``time.perf_counter``."""
    mark: DeviceMark | None
    """Where the device was then; None without one, or where it could not be set."""
    thread: int
    """That made the node."""


_LEAVES = frozenset({type(None), bool, int, float, complex, str, bytes})
"""Have no tensors in them."""


class CallValues(Protocol):
    """Who reads the values of a forward; nothing of it raises."""

    def given(self, values: Iterable[object]) -> None:
        """Read what the root is given."""
        ...

    def after_call(self, output: object) -> None:
        """Read what a call returned, in the order in which calls end; None where it raised."""
        ...

    def reached(self, number: int, gradient: object) -> None:
        """Read the gradient of the first output of a node."""
        ...


class StepReader(Protocol):
    """Who reads the values of a step."""

    def begin_forward(self) -> CallValues:
        """Return who reads those of a forward."""
        ...


class Place:
    """How far a thread has come in the graph, and which nodes callers made themselves."""

    def __init__(self, device: DeviceClock | None = None, outer: Self | None = None) -> None:
        self._device = device
        self.reached: deque[_Came] = deque(maxlen=MOST_REACHED) if outer is None else outer.reached
        self._mark: Hooks = {} if outer is None else outer._mark
        """The one of all nodes whose gradients nobody reads."""
        self.carrier: Tensor = _carrier(self._mark) if outer is None else outer.carrier
        """Hands it to them."""
        self._others: deque[Hooks] = deque(maxlen=MOST_HOOKS) if outer is None else outer._others
        """Marks of nodes of this step, whose gradients are read."""
        self.bound = sequence_number()
        """Number at the last entry or exit of a call."""
        self.given = 0
        """``id`` of a tensor that is marked: a call was given it alone, or returned it; or 0."""
        self.own: list[int] = []
        """First number and the one after the last of what callers at present made between calls, by
        turns and rising."""
        self.gaps: list[int] = []
        """Likewise, of those whose highest node is not marked."""
        self.walked: set[int] = set()
        self.begin()

    def carrier_for(self, values: CallValues) -> Tensor:
        """Return what hands a mark to nodes of this step whose gradients are read."""
        hooks: Hooks = {0: partial(self._note_node, values)}
        self._others.append(hooks)
        return _carrier(hooks)

    def take_off(self) -> None:
        """Take off all marks that a pass may come to."""
        for hooks in (self._mark, *copied(self._others)):
            hooks.clear()

    def forget_marks(self) -> None:
        """Forget which marks of the step before can be taken off, but for those of all steps."""
        self._others.clear()

    def _note_node(self, values: CallValues | None, gradient: object) -> None:
        """Note the node that a pass has come to, and have its gradient read."""
        node = current_node()
        if node is None:
            return
        number, device = node._sequence_nr(), self._device
        self.reached.append((number, perf_counter(), None if device is None else device.mark()))
        if values is not None:
            values.reached(number, gradient)

    def begin(self) -> None:
        """Separate what was made so far from what is made from now on."""
        self._mark[0] = self._new_mark()
        self.bound = sequence_number()
        self.given = 0
        self.own.clear()
        self.gaps.clear()
        self.walked.clear()

    def _new_mark(self) -> Callable[[object], object]:
        if self._device is not None:
            return partial(self._note_node, None)
        # Where the engine is at no node, the iterators end, and ``next`` returns the gradient, as
        # if no mark were there: until the next step.
        numbers = map(methodcaller("_sequence_nr"), iter(current_node, None))
        came = zip(numbers, iter(perf_counter, None), repeat(None), strict=False)
        return partial(next, map(self.reached.append, came))

    def last_reached(self) -> float:
        """Return the second of the last mark that waits to be taken; 0 where none does."""
        try:
            return self.reached[-1][1]
        except IndexError:
            return 0.0


class MarkedEvents(Marks):
    """Events of calls that are recorded with the sequence numbers of what they made."""

    def __init__(self, place: Place, values: CallValues | None = None) -> None:
        super().__init__()
        self.values = values
        """Who reads what calls return and what they are given as gradients; None: nobody does."""
        self.numbers: list[int] = []
        """At entry and at exit of each call, in the order of the exits."""
        self.place = place
        self.carrier = place.carrier if values is None else place.carrier_for(values)
        """Hands the mark to its nodes."""
        self.seen: set[int] = set()
        """Numbers of nodes that are marked."""


class Recomputed(NamedTuple):
    """Calls of modules inside of a backward pass, on one thread."""

    thread: int
    events: list[object]
    """Module, start and end of each in turn."""
    numbers: list[int]
    """As of ``MarkedEvents``."""
    marks: list[tuple[DeviceMark, DeviceMark]]
    """On a device, before and after each call; else none."""


class PassSeen(NamedTuple):
    """What was seen of an outermost backward pass."""

    recomputed: tuple[Recomputed, ...] = ()
    """None where no module was called in it, or its step was not recorded."""
    is_reached: bool = False
    """Whether it came to a marked node."""
    device: DeviceSpan | None = None
    """Of the pass, on a device; None without one."""
    is_compiled: bool = False
    """Whether it went through compiled autograd, past all marks."""
    is_all_seen: bool = True
    """Whether every recomputation in it was observed."""


class GraphMarks:
    """Puts marks on the nodes that made what modules are given and return."""

    def __init__(self, device: DeviceClock | None = None) -> None:
        self._device = device
        self.values: StepReader | None = None
        """Who reads the values of the step that is recorded; None: nobody does."""
        self.trouble = ""
        """Why some nodes are not marked, since the last time; empty where all are."""
        self._places: dict[int, Place] = {}
        """By thread."""
        self._is_compiled = False
        """Whether the last pass went through compiled autograd."""
        self._pass_began = 0.0
        self._pass_mark: DeviceMark | None = None
        self._ended_pass = PassSeen()
        self._roots: object = None
        """Roots of the last pass through compiled autograd, until it is taken."""
        self.before_next: deque[Callable[[], None]] = deque(maxlen=1)
        """What is called before the next marked forward, on its thread; must not raise."""

    def new_events(self) -> MarkedEvents | None:
        """Return the list for the events of a forward on this thread; None: it is not marked."""
        if self._is_compiled:
            return None
        if self.before_next:
            self._run_before()
        values = self.values
        return MarkedEvents(self._place(), None if values is None else values.begin_forward())

    def other_events(self) -> MarkedEvents | None:
        """Return the same for a call of another model, whose values nobody reads."""
        return None if self._is_compiled else MarkedEvents(self._place())

    def _place(self) -> Place:
        place = self._places.get(get_ident())
        if place is None:
            place = self._places[get_ident()] = Place(self._device)
        return place

    def _run_before(self) -> None:
        try:
            begin = self.before_next.pop()
        except IndexError:
            return  # Another thread was sooner.
        begin()

    def begin_step(self) -> None:
        """Take note that a step that is recorded begins on this thread."""
        place = self._places.get(get_ident())
        if place is not None:
            place.begin()
        for other in list(self._places.values()):
            other.forget_marks()

    def begin_pass(self, roots: object) -> None:
        """Take note that a backward from ``roots`` begins on this thread."""
        self._is_compiled = is_autograd_compiled()
        self._roots = roots if self._is_compiled else None
        self._pass_began = perf_counter()
        self._pass_mark = None if self._device is None else self._device.mark()
        place = self._places.get(get_ident())
        if place is None:
            return
        if self._is_compiled:
            place.take_off()
        else:
            self._find_unmarked(MarkedEvents(place), roots)

    def end_pass(self, inner: Mapping[int, MarkedEvents]) -> None:
        """Take note that it has ended.

        Args:
            inner: events of what was run again inside of it, by thread.
        """
        self.begin_step()
        device, span = self._device, None
        if device is not None:
            began, self._pass_mark = self._pass_mark, None
            span = DeviceSpan(began, device.mark())
        recomputed = tuple(
            Recomputed(
                thread, [*events], events.numbers, [] if device is None else device.lend(events)
            )
            for thread, events in inner.items()
        )
        last = max((place.last_reached() for place in [*self._places.values()]), default=0.0)
        self._ended_pass = PassSeen(recomputed, last >= self._pass_began, span, self._is_compiled)

    def take_pass(self) -> PassSeen:
        """Return what was seen of the pass that ended last."""
        found, self._ended_pass = self._ended_pass, PassSeen()
        roots, self._roots = self._roots, None
        if found.is_compiled:
            # Here, and not in the pass, which is timed.
            return found._replace(is_all_seen=_is_without_reentrant(roots))
        return found

    def close(self) -> None:
        """Forget all threads: what is compiled may keep the rest of this alive."""
        self._places.clear()
        self._roots = None

    def new_inner_events(self) -> MarkedEvents:
        """Return a list for calls that are run again inside of the pass on this thread."""
        return MarkedEvents(Place(self._device, self._place()))

    def begin_inner_pass(self, events: MarkedEvents | None, roots: object) -> None:
        """Take note that a pass inside of the pass on this thread begins.

        Args:
            events: of what was run again, None where nothing was.
            roots: what it begins with.
        """
        self._note(INNER_BEGAN)
        if events is not None:
            self._find_unmarked(events, roots)

    def end_inner_pass(self) -> None:
        """Take note that it has ended."""
        self._note(INNER_ENDED)

    def take(self) -> tuple[list[Reached], str]:
        """Return the marked nodes that backward passes came to since the last time.

        And why others were not marked; empty where all were.
        """
        places = list(self._places.items())
        if len(places) > MOST_IDLE:
            running = running_threads()
            for thread, _ in places:
                if thread not in running:
                    self._places.pop(thread, None)
        trouble, self.trouble = self.trouble, ""
        found = [
            Reached(*place.reached.popleft(), thread)
            for thread, place in places
            for _ in range(len(place.reached))
        ]
        return found, trouble

    def enter(
        self,
        events: MarkedEvents,
        first: int,
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> None:
        """Mark the nodes that made what a module is given; ``first`` is the number at its entry."""
        place = events.place
        # A new tensor may lie where one was that is gone, but then it has no node that was made on
        # this thread; a new list of old tensors may have any, so those are always looked into.
        is_tensor = len(args) == 1 and type(args[0]) is Tensor and not kwargs
        given = id(args[0]) if is_tensor else 0
        if given and given == place.given and first == place.bound:
            return  # What the call before returned, or was given: it is marked.
        try:
            if has_function_mode():
                with without_torch_function():
                    self._mark(events, (*args, *kwargs.values()))
            else:
                self._mark(events, args)
                if kwargs:
                    self._mark(events, kwargs.values())
            if first > place.bound:
                self._note_own(events, first, (args, kwargs))
        except Exception as error:  # Ours, whatever it is: it must not reach the program.
            self.trouble = f"{type(error).__name__}: {error}"
        place.bound, place.given = first, given

    def leave(self, events: MarkedEvents, first: int, output: object) -> None:
        """Mark the nodes that made what a module returns, and keep the numbers of the call.

        Args:
            events: of the forward.
            first: the number at its entry.
            output: None where the call raised.
        """
        place, last, numbers = events.place, sequence_number(), events.numbers
        numbers.append(first)
        numbers.append(last)
        if events.values is not None:
            events.values.after_call(output)
        if last > first:  # Else it made no node.
            try:
                if has_function_mode():
                    with without_torch_function():
                        self._mark(events, (output,))
                elif type(output) is Tensor:
                    # The commonest case, without the loop of ``_mark``.
                    if output.requires_grad and not (output._version and output._is_view()):
                        node = output.grad_fn
                        if node is not None:
                            number = node._sequence_nr()
                            if number not in events.seen:
                                events.seen.add(number)
                                node._register_hook_dict(events.carrier)
                else:
                    self._mark(events, (output,))
                own = place.own
                if own and own[-1] > first:
                    self._forget_own(events, first, last, output)
            except Exception as error:  # As above.
                self.trouble = f"{type(error).__name__}: {error}"
            place.bound = last
            place.given = id(output) if type(output) is Tensor else 0

    def _note(self, number: int) -> None:
        place = self._places.get(get_ident())
        if place is not None:
            mark = None if self._device is None else self._device.mark()
            place.reached.append((number, perf_counter(), mark))

    def _mark(self, events: MarkedEvents, values: Iterable[object]) -> None:
        seen = events.seen
        for value in values:
            if type(value) is Tensor:
                # The commonest case without a generator.
                if value.requires_grad and not (value._version and value._is_view()):
                    node = value.grad_fn
                    if node is not None:
                        number = node._sequence_nr()
                        if number not in seen:
                            seen.add(number)
                            node._register_hook_dict(events.carrier)
            elif type(value) not in _LEAVES:
                for node in _nodes(value):
                    number = node._sequence_nr()
                    if number not in seen:
                        seen.add(number)
                        node._register_hook_dict(events.carrier)

    def _note_own(self, events: MarkedEvents, first: int, inputs: object) -> None:
        """Keep which nodes a caller made since the last call, and look for unmarked ones."""
        place = events.place
        place.own += (place.bound, first)
        if first - 1 not in events.seen:
            place.gaps += (place.bound, first)
        if place.gaps:
            self._walk(events, inputs)

    def _forget_own(self, events: MarkedEvents, first: int, last: int, output: object) -> None:
        """Forget what a call that ends made itself; before, look for what is not marked of it."""
        place = events.place
        if place.gaps and place.gaps[-1] > first:
            if last > place.bound:
                place.own += (place.bound, last)
            self._walk(events, output)
            _cut(place.gaps, first)
        _cut(place.own, first)

    def _find_unmarked(self, events: MarkedEvents, roots: object) -> None:
        """Look for what is not marked of what was made outside of all calls."""
        place = events.place
        try:
            if place.gaps:
                self._note_own(events, sequence_number(), roots)
        except Exception as error:  # As above.
            self.trouble = f"{type(error).__name__}: {error}"
        place.begin()

    def _walk(self, events: MarkedEvents, values: object) -> None:
        """Mark the highest node of each gap that is found from tensors through own nodes."""
        place = events.place
        own, gaps, walked = place.own, place.gaps, place.walked
        highest: dict[int, tuple[int, Node]] = {}
        with without_torch_function():
            pending = list(_nodes(values))
        while pending and len(walked) < MOST_WALKED:
            node = pending.pop()
            number = node._sequence_nr()
            if number in walked or not bisect_right(own, number) % 2:
                continue
            walked.add(number)
            gap = bisect_right(gaps, number)
            if gap % 2 and number >= highest.get(gap, (0, node))[0]:
                highest[gap] = number, node
            pending += [before for before, _ in node.next_functions if before is not None]
        for gap in sorted(highest, reverse=True):
            number, node = highest[gap]
            if number not in events.seen:
                events.seen.add(number)
                node._register_hook_dict(events.carrier)
            gaps[gap - 1] = number + 1
            if number + 1 == gaps[gap]:
                del gaps[gap - 1 : gap + 1]


def _is_without_reentrant(roots: object) -> bool:
    """Return whether no node is of reentrant checkpointing; false if not all were visited."""
    try:
        if not isinstance(roots, tuple) or len(roots) > MOST_WALKED:
            return False
        pending: list[Node] = []
        with without_torch_function():
            for root in roots:
                if not isinstance(root, Tensor):
                    return False
                nodes = _node(root)
                if not nodes and not (root.is_leaf and not (root._version and root._is_view())):
                    return False
                pending += nodes  # A leaf has none.
        seen = set(pending)
        while pending:
            node = pending.pop()
            if node.name() == _REENTRANT or len(seen) > MOST_WALKED:
                return False
            new = {before for before, _ in node.next_functions if before is not None} - seen
            seen |= new
            pending += new
    except Exception:  # An internal error: it must not reach the program.
        return False
    return True


def _carrier(hooks: Hooks) -> Tensor:
    """Return what hands hooks to nodes, at a quarter of what ``Node.register_prehook`` costs."""
    carrier = plain_tensor()
    with without_torch_function():
        carrier._backward_hooks = hooks  # type: ignore[assignment]  # any dictionary
    return carrier


def _cut(numbers: list[int], first: int) -> None:
    """Drop the pairs that begin at ``first`` or later."""
    length = len(numbers)
    while length and numbers[length - 2] >= first:
        length -= 2
    del numbers[length:]


def plain_tensors(value: object, depth: int = 0) -> Iterator[Tensor]:
    """Yield the tensors in a value that are of no subclass, without running the program's code."""
    kind = type(value)
    if kind is Tensor or kind is Parameter:
        yield value  # type: ignore[misc]  # a tensor
    elif not issubclass(kind, Tensor) and depth < MOST_DEPTH:
        for part in _parts(value, kind):
            yield from plain_tensors(part, depth + 1)


def _nodes(value: object, depth: int = 0) -> Iterator[Node]:
    """Yield the nodes that made the tensors in a value."""
    kind = type(value)
    if kind is Tensor or kind is Parameter:
        yield from _node(value)  # type: ignore[arg-type]  # a tensor
    elif issubclass(kind, Tensor):
        with without_torch_function():
            yield from _node(value)  # type: ignore[arg-type]  # likewise
    elif depth < MOST_DEPTH:
        for part in _parts(value, kind):
            yield from _nodes(part, depth + 1)


def _node(tensor: Tensor) -> tuple[Node, ...]:
    # A view that was written through its base would be given a new node, or raise.
    if not tensor.requires_grad or (tensor._version and tensor._is_view()):
        return ()
    node = tensor.grad_fn
    return () if node is None else (node,)


def _parts(value: object, kind: type) -> Iterable[object]:
    """Return what is in a collection, without calling what its class may have defined anew."""
    if issubclass(kind, tuple):
        return _ends(tuple.__len__(value), value, tuple.__getitem__)  # type: ignore[arg-type]  # one
    if issubclass(kind, list):
        return _ends(list.__len__(value), value, list.__getitem__)  # type: ignore[arg-type]  # one
    if issubclass(kind, dict):
        return islice(dict.values(value), MOST_TENSORS)  # type: ignore[arg-type]  # one
    names = getattr(kind, "__dataclass_fields__", ())
    return [object.__getattribute__(value, name) for name in islice(names, MOST_TENSORS)]


def _ends(
    length: int, value: object, get: Callable[[Any, slice], Iterable[object]]
) -> Iterable[object]:
    """Return the first and the last of a list, or all where there are few."""
    if length <= MOST_TENSORS:
        return get(value, slice(None))
    half = MOST_TENSORS // 2
    return chain(get(value, slice(half)), get(value, slice(length - half, length)))
