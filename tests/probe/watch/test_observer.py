"""What is looked at once a model is gone, or to be recorded again, while another is recorded."""

from __future__ import annotations

import socket
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from threading import Thread

import pytest
import torch
from torch import Tensor, nn

from tests.viewer import wait_until
from tui_profiler.connection.wire import encode, message_decoder
from tui_profiler.messages import (
    LoopState,
    Observe,
    Printed,
    ReadValues,
    RunModel,
    Sample,
    ShowModel,
    TraceAgain,
)
from tui_profiler.messages.live import WAITS
from tui_profiler.probe.measure.sampler import Sampler
from tui_profiler.probe.process.interpreter_lock import is_locked
from tui_profiler.probe.process.link import Link
from tui_profiler.probe.watch.model_choice import SETTLED_SECONDS, ModelChoice, variable_path
from tui_profiler.probe.watch.observer import Observer
from tui_profiler.probe.watch.program_times import ProgramTimes
from tui_profiler.probe.watch.watch import program
from tui_profiler.queries.cost.totals import why_no_times
from tui_profiler.queries.panel.phrases import last_events
from tui_profiler.queries.panel.state import awaited_forward, state
from tui_profiler.queries.time import forward_kinds
from tui_profiler.session import EMPTY, Session, apply

TORCHS_OWN = nn.Module.__call__
X = torch.zeros(1, 2)


def spin(seconds: float) -> None:
    ends = time.perf_counter() + seconds
    while time.perf_counter() < ends:
        pass


class First(nn.Linear):
    def __init__(self, meanwhile: Callable[[], object]) -> None:
        super().__init__(2, 2)
        self.meanwhile = meanwhile

    def forward(self, x: Tensor) -> Tensor:
        self.meanwhile()
        return super().forward(x)


class Second(First):
    pass


class Script:
    """A script whose probe goes on only when it is told to, on a thread of its own."""

    def __init__(self) -> None:
        where = ModelChoice()
        who = program("script")
        self.observer = Observer(who, "", where.is_model, 0.02, lambda: None, 0.0, elsewhere=where)
        ours, self._socket = socket.socketpair()
        self._link = Link(ours, on_close=lambda: None)
        self._socket.settimeout(5)
        self._decoder, self._session = message_decoder(), EMPTY
        self.observer.admit(self._link, "")

    def ask(self, request: Observe | ReadValues | ShowModel | TraceAgain) -> None:
        self._socket.sendall(encode(request))
        wait_until(lambda: self._link._requests)
        self.step()

    def step(self) -> None:
        thread = Thread(target=self.observer.step)
        thread.start()
        thread.join()

    def until_model(self, name: str) -> None:
        self.until(lambda session: _model(session) == name)

    def until(self, is_reached: Callable[[Session], bool]) -> Session:
        while not is_reached(self._session):
            for message in self._decoder.feed(self._socket.recv(1 << 20)):
                self._session = apply(self._session, message)
        return self._session

    def look(self) -> Session:
        """Return the session with all that was sent so far."""
        self._socket.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                self.until(lambda session: False)
        self._socket.settimeout(5)
        return self._session

    @property
    def wants_values(self) -> bool:
        times = self.observer._times
        return times is not None and times._training.values.is_wanted

    def leave(self) -> None:
        self._socket.close()
        wait_until(lambda: self._link.is_closed)

    def close(self) -> None:
        self.observer.close()
        self._socket.close()


def rest(times: ProgramTimes) -> None:
    """Let the model have rested for longer than one that is still run does."""
    times._last_forward -= 2 * SETTLED_SECONDS
    times._waits_since -= 2 * SETTLED_SECONDS
    last_step = times._training._before
    if last_step is not None:
        times._training._before = last_step._replace(at=last_step.at - 2 * SETTLED_SECONDS)


def _model(session: Session) -> str:
    return session.model.type if session.model is not None else ""


@pytest.mark.skipif(not is_locked(), reason="Python runs without the GIL")
@pytest.mark.parametrize("is_deleted", [True, False])
def test_a_forward_that_is_recorded_is_waited_for(is_deleted: bool) -> None:
    script, during = Script(), list[tuple[int, bool]]()
    firsts = [First(script.step)]

    def meanwhile() -> None:
        if is_deleted:
            firsts.clear()
        else:
            script.observer._next_trace = 0.0
        script.step()
        modes = torch._C._len_torch_dispatch_stack()
        during.append((modes, script.observer._search.is_recording))

    try:
        script.ask(Observe())
        firsts[0](X)
        script.step()  # Its tree.
        script.ask(TraceAgain())
        nn.Sequential(*firsts)(X)  # Where another one than it is waited for.
        second = Second(meanwhile)
        second(X)
        assert during == [(1, True)]
        script.step()  # To record again is to record the next one.
        if not is_deleted:
            second(X)
            script.step()
        script.until_model("Second")
    finally:
        script.close()
    assert nn.Module.__call__ is TORCHS_OWN


def test_of_forwards_with_other_inputs_no_time_is_taken_for_the_traced_one_s() -> None:
    # Long enough that one forward that waits for a core does not make up nearly all of the time.
    script, model = Script(), First(lambda: spin(5e-4))
    try:
        script.ask(Observe())
        model(X)
        script.step()  # Its tree, and the clock.
        for _ in range(30):
            model(X)
            model(X.expand(64, 2))
        script.step()
        session = script.until(lambda session: session.tick is not None)
    finally:
        script.close()
    tick = session.tick
    assert tick is not None
    assert tick.as_traced
    assert tick.forwards + tick.others + tick.warmup_forwards == 60
    assert tick.others >= 25


def test_another_model_is_shown_when_it_is_asked_for_and_stays() -> None:
    script, first, second = Script(), First(lambda: None), Second(lambda: None)
    try:
        script.ask(Observe())
        first(X)
        script.step()
        shows(script, "First")
        script.ask(ShowModel("Sec*"))
        script.step()
        for _ in range(4):
            first(X)
            second(X)
            script.step()
        shows(script, "Second")
        for _ in range(12):
            first(X)
        script.step()
        shows(script, "Second")  # Though the other one runs more.
    finally:
        script.close()


def shows(script: Script, name: str) -> None:
    script.until(lambda session: session.model is not None and session.model.type == name)


def test_other_models_that_are_run_are_told_and_parts_are_not() -> None:
    script, inner, other = Script(), First(lambda: None), Second(lambda: None)
    model = nn.Sequential(inner)
    try:
        script.ask(Observe())
        model(X)
        script.step()
        for one in (model, other, inner, nn.ReLU(), other):
            one(X)
        script.step()
        session = script.until(lambda session: session.loop is not None)
        assert forward_kinds.other_models(session) == ("Second",)
        script.observer.close("the script ended")
        session = script.until(
            lambda session: session.loop is not None and session.loop.state == "finished"
        )
        assert forward_kinds.models_words(session) == "also ran Second, not shown"
    finally:
        script.close()


@pytest.mark.parametrize("forwards", [1, 2, 3])
def test_of_a_script_shorter_than_the_warm_up_times_are_cold(forwards: int) -> None:
    script, model = Script(), First(lambda: None)
    try:
        script.ask(Observe())
        for _ in range(forwards):  # Meanwhile the probe's thread has no turn.
            model(X)
        script.observer.close("the script ended")
        session = script.until(
            lambda session: session.loop is not None and session.loop.state == "finished"
        )
    finally:
        script.close()
    assert nn.Module.__call__ is TORCHS_OWN
    if forwards == 1:
        assert session.timings is None
        assert "no forward has times; the recorded one took" in why_no_times(session)
        return
    assert session.tick is not None
    assert (session.tick.forwards, session.tick.cold) == (forwards - 1, True)
    assert forward_kinds.cold_words(session).startswith(f"cold: {forwards - 1} forward")
    assert session.timings is not None
    assert session.timings.of(0) is not None


def test_times_of_a_model_that_is_gone_are_cold_before_the_next_is_looked_at() -> None:
    script, models = Script(), [First(lambda: None)]
    try:
        script.ask(Observe())
        for _ in range(3):
            models[0](X)
        models.clear()
        script.step()  # Its tree.
        script.step()
        script.step()
        session = script.until(lambda session: session.tick is not None)
    finally:
        script.close()
    assert session.tick is not None
    assert (session.tick.forwards, session.tick.cold) == (2, True)


def train(script: Script, model: nn.Module, steps: int) -> None:
    """Train a model, with the probe going on after each step."""
    sgd = torch.optim.SGD(model.parameters())
    for _ in range(steps):
        sgd.zero_grad()
        model(X).sum().backward()
        sgd.step()
        script.step()


def test_a_model_that_is_evaluated_first_is_recorded_again_where_it_is_trained() -> None:
    script, model = Script(), First(lambda: None)
    try:
        script.ask(Observe())
        with torch.no_grad():
            model.eval()(X)
        script.step()  # Its tree.
        model.train()
        train(script, model, 30)
        session = script.until(lambda session: session.training is not None)
    finally:
        script.close()
    assert session.model is not None
    assert session.model.training
    assert session.training is not None
    assert session.training.step.items == 1
    assert nn.Module.__call__ is TORCHS_OWN


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_copy_that_is_tested_takes_no_trained_models_place(is_deleted: bool) -> None:
    script, models, copy = Script(), [First(lambda: None)], Second(lambda: None).eval()
    try:
        script.ask(Observe())
        models[0](X)
        script.step()
        train(script, models[0], 20)
        script.until(lambda session: session.training is not None)
        if is_deleted:
            last = weakref.ref(models.pop())
            wait_until(lambda: script.step() or last() is None)
        elif script.observer._times is not None:
            rest(script.observer._times)
        for _ in range(8):
            script.step()
            with torch.no_grad():
                copy(X)
        script.step()
        shows(script, "First")
        assert script.look().training is not None
        train(script, copy.train(), 2)
        script.step()
        shows(script, "Second")  # One that is trained takes it.
    finally:
        script.close()
    assert nn.Module.__call__ is TORCHS_OWN


@pytest.mark.parametrize("is_trained", [True, False])
def test_of_two_models_that_are_trained_the_one_with_the_most_time_is_shown(
    *, is_trained: bool
) -> None:
    """A discriminator of 0.5 ms that is called first, a generator of 3 ms; a teacher is none."""
    script = Script()
    small, large = First(lambda: spin(5e-4)), Second(lambda: spin(3e-3))
    large.requires_grad_(is_trained)
    optimizer = torch.optim.SGD([*small.parameters(), *large.parameters()], lr=1e-3)
    try:
        script.ask(Observe())
        small(X)
        script.step()
        shows(script, "First")
        for _ in range(30):
            (small(X).sum() + large(X).sum()).backward()
            optimizer.step()
            script.step()
        shows(script, "Second" if is_trained else "First")
        for _ in range(12):
            small(X).sum().backward()
            optimizer.step()
            script.step()
        shows(script, "Second" if is_trained else "First")  # It is changed once.
    finally:
        script.close()


def test_the_share_of_a_model_is_unknown_where_it_was_not_called_since() -> None:
    where, root, other = ModelChoice(), nn.Linear(2, 2), nn.Linear(3, 3)
    for one in (root, other):
        where.note(one)

    assert where.shares(root, {id(root): 1.0}) == ()
    assert [one.share for one in where.models(root, {id(root): 1.0})] == [1.0, None]
    assert where.shares(root, {id(root): 1.0, id(other): 1.0}) == (0.5,)


def test_why_no_forward_is_recorded_is_told_at_the_end_too() -> None:
    script, model = Script(), First(lambda: None)
    try:
        script.ask(Observe())
        torch.func.vmap(model)(X)
        script.observer.close("the script ended")
        stage = script.until(lambda session: "torch.func" in str(session.stages)).stages[-1]
    finally:
        script.close()
    assert stage.detail == f"{WAITS}it runs under a transform of torch.func"


def test_a_clock_that_nobody_takes_is_taken_off() -> None:
    script, model = Script(), First(lambda: None)
    script.ask(Observe())
    model(X)
    assert nn.Module.__call__ is not TORCHS_OWN
    script.leave()
    script.step()
    assert nn.Module.__call__ is TORCHS_OWN
    script.close()


def test_a_search_that_ends_during_the_recorded_forward_leaves_no_clock() -> None:
    def end() -> None:
        thread = Thread(target=script.observer._search.end)
        thread.start()
        thread.join()

    script = Script()
    script.ask(Observe())
    First(end)(X)
    assert nn.Module.__call__ is TORCHS_OWN
    script.close()


def test_the_clock_is_not_put_over_anothers_replacement() -> None:
    def another(self: nn.Module, *args: object, **kwargs: object) -> object:
        return below(self, *args, **kwargs)

    script = Script()
    script.ask(Observe())
    below = nn.Module.__call__
    try:
        nn.Module.__call__ = another  # type: ignore[method-assign]
        model = First(lambda: None)
        model(X)
        assert nn.Module.__call__ is another
        model(X)
    finally:
        nn.Module.__call__ = below  # type: ignore[method-assign]
        script.close()
    assert nn.Module.__call__ is TORCHS_OWN


class Gan:
    def __init__(self) -> None:
        self.generator, self.discriminator = First(lambda: None), First(lambda: None)


class Trainer:
    def __init__(self, model: Gan) -> None:
        self.model = model

    def fit(self, script: Script, turns: int) -> None:
        for _ in range(turns):
            self.model.generator(X)
            self.model.discriminator(X)
            script.step()


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("trainer.model.generator", "trainer.model.generator"),
        ("*.discriminator", "trainer.model.discriminator"),
        ("First#2", "trainer.model.discriminator"),
    ],
)
def test_a_model_is_chosen_by_the_variable_that_reaches_it(pattern: str, path: str) -> None:
    def main() -> Session:
        trainer = Trainer(Gan())
        trainer.fit(script, 4)
        return script.until(lambda session: bool(forward_kinds.run_models(session)))

    script = Script()
    try:
        script.ask(ShowModel(pattern))
        script.ask(Observe())
        models = forward_kinds.run_models(main())
    finally:
        script.close()
    assert [(one.type, one.parameters) for one in models] == [("First", 6), ("First", 6)]
    assert {one.index for one in models} == {1, 2}
    assert models[0].path == path
    assert (
        models[1].path
        == ({"trainer.model.generator", "trainer.model.discriminator"} - {path}).pop()
    )
    assert (
        forward_kinds.model_label(models[1], models) == f"First#{models[1].index} {models[1].path}"
    )


def test_a_pattern_that_no_model_has_says_which_there_are() -> None:
    script, model = Script(), First(lambda: None)
    try:
        script.ask(ShowModel("Nope"))
        script.ask(Observe())
        model(X)
        script.step()
        script.until(
            lambda session: (
                session.stages != ()
                and session.stages[-1].detail
                == "waits: no model called so far is Nope: First#1 model"
            )
        )
    finally:
        script.close()


def test_a_chosen_model_that_was_deleted_is_said_to_be_awaited_in_vain() -> None:
    """The older figures stay on screen: the header must not call them live."""
    script, model = Script(), First(lambda: None)
    try:
        script.ask(Observe())
        for _ in range(2):
            other = Second(lambda: None)
            for _ in range(4):
                model(X)
                other(X)
                script.step()
            del other

        def is_told() -> bool:  # Not at every step.
            model(X)
            script.step()
            session = script.look()
            return [one.deleted for one in forward_kinds.run_models(session)] == [False, True]

        wait_until(is_told)
        assert forward_kinds.next_model(script.look()) is None

        script.ask(ShowModel("Second#1"))

        def is_awaited_in_vain() -> bool:
            model(X)
            script.step()
            shown = state(session := script.look(), script.observer.now())
            is_waiting = (shown.kind, shown.words) == ("waiting", "waiting for a forward")
            return is_waiting and "Second#1 was deleted" in last_events(session)[0]

        wait_until(is_awaited_in_vain)
        script.ask(ShowModel(""))
        for _ in range(3):
            model(X)
            script.step()
        script.until(lambda session: awaited_forward(session) is None)
    finally:
        script.close()


def test_the_next_model_of_two_of_one_class_is_the_other_one() -> None:
    one, two = (RunModel("Net", index, f"nets[{index}]", 6) for index in (1, 2))
    for models, other in (((one, two), two), ((two, one), one)):
        session = apply(EMPTY, LoopState("running", 1.0, others=("Net",), models=models))
        assert forward_kinds.next_model(session) == other
        assert (
            forward_kinds.models_words(session)
            == f"also ran {forward_kinds.model_label(other, models)}, not shown"
        )
    assert forward_kinds.next_model(EMPTY) is None


def test_a_path_is_found_without_running_code_of_the_script() -> None:
    class Hostile:
        def __init__(self, inside: nn.Module) -> None:
            self.inside = inside

        def __getattribute__(self, name: str) -> object:
            raise AssertionError(name)

        __eq__ = __hash__ = __bool__ = __len__ = __iter__ = __getattribute__  # type: ignore[assignment]

    def main() -> str:  # Without an assert: as pytest has it, that asks for locals().
        nets = {"a": [Hostile(First(lambda: None))]}
        return variable_path(object.__getattribute__(nets["a"][0], "inside"))

    assert main() == "nets['a'][0].inside"
    assert variable_path(First(lambda: None)) == ""


def test_why_there_are_no_counters_is_told_until_there_are_some() -> None:
    script = Script()
    try:
        script.ask(Observe())
        script.observer.post(Printed("unread\n"))
        script.step()
        (kept,) = [one for one in script.observer._viewers.said() if isinstance(one, Printed)]
        assert kept.text == "unread\n"
        script.observer.post(Sampler(0.0).sample())
        script.step()
        said = {type(one) for one in script.observer._viewers.said()}
        assert Sample in said
        assert Printed not in said
        script.observer.post(kept)
        script.step()
        script.until(lambda session: len(session.log.lines) == 2)
        script.leave()
        script.step()
        assert kept not in script.observer._viewers.said()
    finally:
        script.close()


def test_values_are_read_while_a_viewer_wants_them() -> None:
    script, model = Script(), nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        for _ in range(6):
            optimizer.zero_grad()
            model(X + 1).sum().backward()
            optimizer.step()
            script.step()

    try:
        script.ask(Observe())
        train()
        assert script.until(lambda session: session.tree is not None).values is None
        script.ask(ReadValues())
        train()
        values = script.until(lambda session: session.values is not None).values
        assert values is not None
        root = values.of(0)
        assert root is not None
        assert root.gradient is not None
        assert root.gradient.largest == 1.0
        assert values.values.why_not_all == ""
        script.ask(ReadValues(wanted=False))
        assert not script.wants_values
        script.ask(ReadValues())
        assert script.wants_values
        script.leave()
        script.step()
        assert not script.wants_values
    finally:
        script.close()
