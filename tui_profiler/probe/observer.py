"""One model of a program that is not ours, and the viewers that look at it.

1. The model is never called by us. Its tree is recorded from one of its program's own forwards; its
   times come from the module clock.
2. While nobody looks, nothing is replaced in the program; some time after the last viewer has left,
   so that one that comes back finds its figures.
3. Everything here runs on one thread of the probe's own (``serving.py``), which never holds up a
   forward: what is recorded waits in bounded queues, and what did not fit is counted.
4. Messages are made once and go to every viewer; a viewer that does not read loses ticks, and holds
   up no one.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Iterable

import torch
from msgspec.structs import replace

from tui_profiler.messages import (
    Failed,
    Heartbeat,
    Hello,
    LoopState,
    Message,
    ModelFacts,
    Observe,
    Program,
    Request,
    Sample,
    StageDone,
    StageStarted,
    TraceAgain,
)
from tui_profiler.messages.live import WIRE_VERSION, State
from tui_profiler.probe.environment import environment
from tui_profiler.probe.link import Link
from tui_profiler.probe.listener import Listener
from tui_profiler.probe.measure.ceilings import kept_ceilings
from tui_profiler.probe.measure.overhead import TICK_SECONDS
from tui_profiler.probe.recorded_times import RecordedTimes
from tui_profiler.probe.trace.overheard import warm_up
from tui_profiler.probe.trace.places import class_name
from tui_profiler.probe.trace.trace import Trace, messages

ACCEPTS = ("Observe", "TraceAgain")
REFUSAL = "this program is not ours: it can only be looked at"
GRACE_SECONDS = 10.0
"""How long after the last viewer the program stays as it is looked at."""
IDLE_SECONDS = 2.0
"""Without a forward for so long, the program is said to wait."""
HEARTBEAT_SECONDS = 1.0

Wanted = Callable[[torch.nn.Module], bool]


class Observer:
    """Looks at one model while someone wants to see it.

    Args:
        program: who it is, but for ``at``.
        name: of the model; empty for its class.
        wanted: tells whether a call of a module is the beginning of a forward of this model.
        budget: what watching may cost, as a share.
        wake: makes the thread that calls ``step`` call it soon; may be called from any thread.
    """

    def __init__(
        self, program: Program, name: str, wanted: Wanted, budget: float, wake: Callable[[], None]
    ) -> None:
        self._name = name
        self.program = program
        self._wanted = wanted
        self._budget = budget
        self._wake = wake
        self._links: list[Link] = []
        self._viewers: list[Link] = []
        self._left_at = 0.0
        self._listener: Listener | None = None
        self._tree: Trace | None = None
        self._has_failed = False
        self._root: weakref.ref[torch.nn.Module] | None = None
        self._times: RecordedTimes | None = None
        self._said: dict[type[Message], tuple[Message, ...]] = {}
        """What a later viewer must be told, by kind, in the order in which it was said first."""
        self._state: State = "starting"
        self._next_beat = 0.0

    def now(self) -> float:
        """Give seconds since the program is watched."""
        return time.time() - self.program.started_at

    @property
    def is_looked_at(self) -> bool:
        """Whether anyone wants to be told."""
        return bool(self._viewers)

    @property
    def connections(self) -> int:
        """How many have called, whether they look or not."""
        return len(self._links)

    @property
    def is_active(self) -> bool:
        """Whether anything of the program is replaced at present."""
        return self._listener is not None or self._times is not None

    def admit(self, link: Link, role: str) -> None:
        """Take a new connection; it is told who this is, and nothing else before it asks."""
        # In a forked child it is another process.
        program = replace(self.program, at=self.now(), role=role, pid=os.getpid())
        link.send(Hello(WIRE_VERSION, program.pid, ACCEPTS, REFUSAL, program))
        self._links.append(link)

    def tell(self, message: Message) -> None:
        """Send a message to every viewer: a sample of the machine, say."""
        if isinstance(message, Sample):
            self._said[Sample] = (message,)
        for link in self._viewers:
            link.send(message)

    def step(self) -> float | None:
        """Look after viewers and figures; gives in how many seconds to do so again, None: not."""
        self._hear_viewers()
        if not self._viewers:
            return self._rest()
        if self._root is not None and self._root() is None:
            self._end("the model was deleted")
        elif self._times is not None:
            self._tick(self._times)
        elif not self._has_failed:
            self._find_tree()
        self._beat()
        return self._times.pause if self._times is not None else TICK_SECONDS

    def close(self, why: str = "") -> None:
        """Put everything back, and hang up; ``why`` is told to those who still look."""
        self._hear_viewers()
        if self._times is not None and self._viewers:
            self._tick(self._times)  # What was measured last.
        self._let_go()
        if why:
            self._end(why)
        for link in self._links:
            link.flush(0.2)
            link.close()
        self._links, self._viewers = [], []

    def forget(self) -> None:
        """Drop connections without a word: in a forked child they are the parent's."""
        self._let_go()
        for link in self._links:
            link.abandon()
        self._links, self._viewers = [], []

    def _hear_viewers(self) -> None:
        for link in self._links:
            while (request := link.next_request(0.0)) is not None:
                self._carry_out(link, request)
        before = bool(self._viewers)
        self._links = [link for link in self._links if not link.is_closed]
        self._viewers = [link for link in self._viewers if not link.is_closed]
        if before and not self._viewers:
            self._left_at = time.monotonic()

    def _carry_out(self, link: Link, request: Request) -> None:
        match request:
            case Observe() if link not in self._viewers:
                self._viewers.append(link)
                for known in self._said.values():
                    for message in known:
                        link.send(message)
            case TraceAgain() if self._listener is None:
                self._let_go()
                self._root, self._has_failed = None, False
            case _:
                pass  # Hello says what is carried out; the rest is for probes of the viewer's own.

    def _rest(self) -> float | None:
        """Wait for a viewer; put things back when none came for a while."""
        if not self.is_active:
            return None
        if self._listener is None and time.monotonic() - self._left_at < GRACE_SECONDS:
            if self._times is not None:
                self._times.take()  # Its queues are bounded, but full ones would drop.
            return TICK_SECONDS
        self._let_go()
        return None

    def _let_go(self) -> None:
        if self._listener is not None:
            self._listener.uninstall()
            self._listener = None
        if self._times is not None:
            self._times.close()
            self._times = None
        self._state = "starting"

    def _find_tree(self) -> None:
        if self._root is not None:  # It was let go, and someone looks again: the tree stands.
            self._follow()
            return
        if self._listener is None:
            self._said.clear()
            self._say(environment())
            self._say(StageDone("worker", 0.0, 0.0, f"attached to pid {os.getpid()}"))
            self._say(StageStarted("trace", self.now(), "waits for the program's next forward"))
            warm_up()
            self._listener = Listener(self._wanted, self._name, self._wake)
            self._listener.install()
        elif self._listener.is_over:
            listener, self._listener = self._listener, None
            listener.uninstall()
            self._take_tree(listener)
        elif self._listener.waits_because:
            because = f"waits: {self._listener.waits_because}"
            self._say(StageStarted("trace", self._stage_began(), because))

    def _stage_began(self) -> float:
        (stage,) = self._said[StageStarted]
        assert isinstance(stage, StageStarted)
        return stage.at

    def _take_tree(self, listener: Listener) -> None:
        hearing, root = listener.hearing, listener.root
        trace = hearing.trace() if hearing is not None else None
        if hearing is None or root is None or trace is None:
            why = listener.gave_up or (hearing.trouble if hearing is not None else "")
            self._say(Failed("trace", "no forward of the program could be recorded", why=why))
            self._has_failed = True
            return
        self._root = root
        model = root()
        if model is None:
            return
        self._said.pop(StageStarted, None)
        self._tree = trace
        self._say(self._facts(model, trace))
        self._say(*messages(trace), under=type(trace.done))
        took = f"{len(trace.nodes):,} nodes, from one of its own forwards"
        self._say(StageDone("trace", self.now(), hearing.seconds, took))
        found = kept_ceilings(_device(model), torch.get_num_threads())
        if found is not None:
            self._say(found)
        self._follow()

    def _follow(self) -> None:
        """Put the clock on."""
        model = self._root() if self._root is not None else None
        if model is not None and self._tree is not None:
            self._times = RecordedTimes(model, self._tree.nodes, self._budget)

    def _tick(self, times: RecordedTimes) -> None:
        idle = times.take()
        self._become("waiting" if idle > IDLE_SECONDS else "running", idle)
        for message in times.messages(self.now(), sum(link.dropped for link in self._viewers)):
            self._say(message)

    def _become(self, state: State, idle: float) -> None:
        if state != self._state:
            self._state = state
            self._say(LoopState(state, self.now() - (idle if state == "waiting" else 0.0)))

    def _beat(self) -> None:
        if time.monotonic() >= self._next_beat:
            self._next_beat = time.monotonic() + HEARTBEAT_SECONDS
            self.tell(Heartbeat(self.now(), 0.0))

    def _end(self, why: str) -> None:
        if self._state != "finished":
            self._let_go()
            self._state = "finished"
            self._say(LoopState("finished", self.now(), detail=why))

    def _say(self, *said: Message, under: type[Message] | None = None) -> None:
        """Tell every viewer, and keep it for later ones in place of what it replaces."""
        self._said[under or type(said[0])] = said
        for link in self._viewers:
            for message in said:
                link.send(message)

    def _facts(self, model: torch.nn.Module, trace: Trace) -> ModelFacts:
        return ModelFacts(
            name=self._name or class_name(model),
            type=class_name(model),
            source=f"{self.program.command}, pid {os.getpid()}",
            weights="its own",
            inputs=trace.inputs.specs,
            batch=None,
            device=_device(model),
            training=model.training,
        )


def _device(model: torch.nn.Module) -> str:
    parameters: Iterable[torch.nn.Parameter] = model.parameters()
    return str(next((parameter.device for parameter in parameters), "cpu"))
