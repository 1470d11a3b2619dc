"""Operators of the backward, from windows of one training step: what each module's nodes ran.

Autograd's engine marks each node that it runs with its sequence number and the thread that made it.
The number says which call of a module made the node (``clock/graph_marks.py``): the backward of a
module is laid onto the tree without a hook, and exactly.

1. A node belongs to the innermost call whose numbers hold its own. Operators belong to the node
   that they began in; what a node takes outside of operators is under its own name.
2. ``AccumulateGrad`` has no number: it runs at once after the node whose gradient it takes, and
   belongs to the same module, which is its parameter's.
3. What checkpointing runs again inside of a node belongs to the call that is run again, apart.
4. What no model made (the loss), and what other models did, is told as such.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import NamedTuple

from torch import nn

from tui_profiler.messages import BackwardOperators, CalledOperators, Node
from tui_profiler.messages.live import OPERATOR_WINDOWS
from tui_profiler.messages.training import OTHER_MODELS, OUTSIDE
from tui_profiler.probe.measure.clock.call_recorder import OtherCall
from tui_profiler.probe.measure.clock.forward import Forward
from tui_profiler.probe.measure.clock.forward_pattern import event_nodes
from tui_profiler.probe.measure.clock.tree_index import NOWHERE, TreeIndex
from tui_profiler.probe.measure.operators.operators import columns_of, means_of, uninterrupted
from tui_profiler.probe.measure.step.backward_calls import calls_again
from tui_profiler.probe.measure.step.recorder import Pass
from tui_profiler.probe.torch_compat.kineto import GraphOperator

EVALUATED = "autograd::engine::evaluate_function: "
"""Before the name of a node. Source: torch/csrc/autograd/engine.cpp, ``evaluate_function``."""
_TORCHS = "torch::autograd::"
MOST_ROWS = 30_000
"""In one message, of the backward and of what is run again each: 20 bytes each."""
MOST_NAMES = 2_000
LONGEST_NAME = 200
"""A program may give marks of its own any name."""


class Place(NamedTuple):
    """What an operator's seconds are told by."""

    node: int
    """``OUTSIDE`` where no model made it, ``OTHER_MODELS`` where another one did."""
    name: str
    is_again: bool
    """Whether checkpointing ran it again."""


class Calls:
    """Which call is the innermost at a number, or at a second."""

    def __init__(self, calls: Iterable[tuple[float, float, int]]) -> None:
        """Take calls, nested in one another: where each began and ended, and its node."""
        self._from: list[float] = []
        self._nodes: list[int] = []
        running: list[tuple[float, int]] = []
        for began, ended, node in sorted(calls, key=lambda call: (call[0], -call[1])):
            self._leave(running, began)
            inner = running[-1][1] if node == NOWHERE and running else node
            self._put(began, inner)
            running.append((ended, inner))
        self._leave(running, float("inf"))

    def _leave(self, running: list[tuple[float, int]], until: float) -> None:
        while running and running[-1][0] <= until:
            ended, _ = running.pop()
            self._put(ended, running[-1][1] if running else NOWHERE)

    def _put(self, place: float, node: int) -> None:
        self._from.append(place)
        self._nodes.append(node)

    def at(self, place: float) -> int:
        """Return the node of the innermost call, ``NOWHERE`` outside of all."""
        found = bisect_right(self._from, place) - 1
        return self._nodes[found] if found >= 0 else NOWHERE

    def began(self, place: float) -> float:
        """Return where the present stretch of the innermost call began."""
        return self._from[bisect_right(self._from, place) - 1]


class Owners(NamedTuple):
    """Which calls of modules there were in a step."""

    made: Calls
    """By numbers, of the thread that ran the forwards."""
    made_again: Calls
    """By numbers, of calls that were run again on another thread."""
    again: Calls
    """By seconds, of calls that were run again."""


def owners_of(
    forwards: Sequence[Forward],
    passes: Sequence[Pass],
    index: TreeIndex,
    others: Sequence[OtherCall] = (),
    *,
    is_one_thread: bool,
) -> Owners:
    """Return the calls of a step's forwards and of what was run again in its backward.

    Args:
        forwards: of the model.
        passes: backward passes.
        index: of the model's tree.
        others: calls of other models.
        is_one_thread: whether the engine runs on the thread of the forwards, as on a CPU.
    """
    made: list[tuple[float, float, int]] = []
    made_again: list[tuple[float, float, int]] = []
    again: list[tuple[float, float, int]] = []
    for forward in forwards:
        if forward.numbers is not None:
            nodes = event_nodes(forward.modules, forward.call_times()[0], index)
            made += zip(forward.numbers[::2], forward.numbers[1::2], nodes, strict=True)
    threads = {forward.thread for forward in forwards}
    for other in others:
        if other.thread in threads and len(other.numbers) > 1:
            made.append((min(other.numbers), max(other.numbers), OTHER_MODELS))
    for one in passes:
        for (began, ended, nodes), recomputed in calls_again(one, index):
            again += zip(began.tolist(), ended.tolist(), nodes, strict=True)
            numbers = recomputed.numbers
            of_numbers = zip(numbers[::2], numbers[1::2], nodes, strict=True)
            (made if is_one_thread else made_again).extend(of_numbers)
    return Owners(
        Calls(call for call in made if call[0] < call[1]),
        Calls(call for call in made_again if call[0] < call[1]),
        Calls(again),
    )


@dataclass
class BackwardJoined:
    """The backward of one window."""

    seconds: dict[Place, float] = field(default_factory=dict)
    """With what each calls, less what is inside one of the same place."""
    own: dict[Place, float] = field(default_factory=dict)
    calls: dict[Place, int] = field(default_factory=dict)
    numbered: float = 0.0
    """Seconds of nodes with a number, without nodes and calls run again inside of them."""
    outside: float = 0.0
    """Of them, of nodes that no call of the model made."""


@dataclass
class _Running:
    """An event that has begun and not ended."""

    event: GraphOperator
    place: Place
    is_node: bool
    """Whether it is the engine's, around a node."""
    is_numbered: bool
    inside: float = 0.0
    """Seconds of what it calls."""
    apart: float = 0.0
    """Of them, of other nodes and of what is run again."""


def join_backward(seen: Sequence[GraphOperator], owners: Owners, thread: int) -> BackwardJoined:
    """Lay what the engine ran onto the modules of a tree.

    Args:
        seen: all of the window, in the order in which they began; each before those it calls.
        owners: calls of modules.
        thread: number of the one that ran the forwards.
    """
    found = BackwardJoined()
    for on in dict.fromkeys(one.thread for one in seen):
        running: list[_Running] = []
        last = OUTSIDE
        for event in seen:
            if event.thread != on:
                continue
            _end(running, event.start, found)
            new = _begun(event, running, owners, last, thread)
            if new is None:
                continue
            if new.is_numbered:
                last = new.place.node
            _begin(running, new, found)
        _end(running, float("inf"), found)
    return found


def _begun(
    event: GraphOperator, running: list[_Running], owners: Owners, last: int, thread: int
) -> _Running | None:
    """Return an event of the backward with its place; None of what is not in a backward."""
    if event.name.startswith(EVALUATED):
        name = _name(event.name.removeprefix(EVALUATED))
        if event.number < 0:
            return _Running(event, Place(last, name, is_again=False), True, False)
        made = owners.made if event.forward_thread == thread else owners.made_again
        node = made.at(event.number)
        place = Place(OUTSIDE if node == NOWHERE else node, name, is_again=False)
        return _Running(event, place, True, True)
    if not running:
        return None
    around = running[-1]
    name = _name(event.name)
    node = owners.again.at(event.start)
    if node != NOWHERE and owners.again.began(event.start) >= _node_around(running).event.start:
        return _Running(event, Place(node, name, is_again=True), False, False)
    return _Running(event, Place(around.place.node, name, around.place.is_again), False, False)


def _name(name: str) -> str:
    return name.removeprefix(_TORCHS)[:LONGEST_NAME]


def _node_around(running: list[_Running]) -> _Running:
    return next(one for one in reversed(running) if one.is_node)


def _begin(running: list[_Running], new: _Running, found: BackwardJoined) -> None:
    seconds = new.event.end - new.event.start
    if running:
        around = running[-1]
        around.inside += seconds
        if new.is_node or new.place.is_again != around.place.is_again:
            around.apart += seconds
    if all(one.place != new.place for one in running):
        found.seconds[new.place] = found.seconds.get(new.place, 0.0) + seconds
        found.calls[new.place] = found.calls.get(new.place, 0) + 1
    running.append(new)


def _end(running: list[_Running], until: float, found: BackwardJoined) -> None:
    while running and running[-1].event.end <= until:
        over = running.pop()
        seconds = over.event.end - over.event.start
        found.own[over.place] = found.own.get(over.place, 0.0) + seconds - over.inside
        if running and not over.is_node and over.place.is_again == running[-1].place.is_again:
            running[-1].apart += over.apart
        if over.is_numbered:
            found.numbered += seconds - over.apart
            if over.place.node == OUTSIDE:
                found.outside += seconds - over.apart


class BackwardOperatorClock:
    """The backward of the last windows of one model.

    Args:
        nodes: of its tree.
        model: it is not kept alive.
    """

    def __init__(self, nodes: Sequence[Node], model: nn.Module) -> None:
        self._index = TreeIndex(nodes, model)
        self._joined: deque[BackwardJoined] = deque(maxlen=OPERATOR_WINDOWS)
        self.windows = 0
        """Taken in so far."""
        self._step_seconds = self._pass_seconds = 0.0

    def add(
        self,
        forwards: Sequence[Forward],
        passes: Sequence[Pass],
        seen: Sequence[GraphOperator],
        step_seconds: float,
        others: Sequence[OtherCall] = (),
    ) -> None:
        """Take in one window.

        Args:
            forwards: in it, as the module clock recorded them.
            passes: backward passes in it.
            seen: all that ran in it, in the order in which they began.
            step_seconds: what it lasted.
            others: calls of other models in it.
        """
        # The window was opened on the thread of the forwards, before the first of them.
        thread = seen[0].thread if seen else 0
        is_one_thread = all(one.thread == thread for one in seen)
        owners = owners_of(forwards, passes, self._index, others, is_one_thread=is_one_thread)
        self._joined.append(join_backward(seen, owners, thread))
        self.windows += 1
        self._step_seconds = step_seconds
        self._pass_seconds = sum(one.ended - one.began for one in passes)

    def message(self, at: float) -> BackwardOperators:
        """Return the means of the last windows, ``at`` seconds since the command was started."""
        kept = uninterrupted([(one, sum(one.own.values())) for one in self._joined])
        seconds, own = means_of(one.seconds for one in kept), means_of(one.own for one in kept)
        calls = self._joined[-1].calls if self._joined else {}

        names: set[str] = set()

        def has_room(place: Place) -> bool:
            if len(names) < MOST_NAMES:
                names.add(place.name)
            return place.name in names

        def columns(*, is_again: bool) -> CalledOperators:
            places = (place for place in own if place.is_again == is_again)
            by_time = sorted(places, key=lambda one: -own[one])[:MOST_ROWS]
            shown = sorted(filter(has_room, by_time))
            return columns_of(
                [(place.node, place.name) for place in shown],
                [calls.get(place, 0) for place in shown],
                [seconds.get(place, 0.0) for place in shown],
                [own[place] for place in shown],
            )

        return BackwardOperators(
            at=at,
            windows=self.windows,
            step_seconds=self._step_seconds,
            pass_seconds=self._pass_seconds,
            numbered=fmean(one.numbered for one in kept) if kept else 0.0,
            outside=fmean(one.outside for one in kept) if kept else 0.0,
            operators=columns(is_again=False),
            recomputed=columns(is_again=True),
        )
