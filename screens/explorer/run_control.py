"""What the keys ask of the worker: hold, step, another batch size, a new start."""

from __future__ import annotations

from collections.abc import Callable
from glob import escape

from textual.reactive import var
from textual.screen import Screen

from tui_profiler.formatting.text import safe
from tui_profiler.messages import (
    LoadSpec,
    Pause,
    Request,
    Resume,
    SetPhase,
    ShowModel,
    Step,
    TraceAgain,
)
from tui_profiler.queries.compare.difference import difference
from tui_profiler.queries.panel.accepted_requests import refusal, why_gone
from tui_profiler.queries.panel.failure import trouble
from tui_profiler.queries.time.forward_kinds import (
    model_label,
    next_model,
    other_phase,
    run_models,
    why_one_phase,
)
from tui_profiler.session import EMPTY, Session

from ..widgets.prompt import Choice, Prompt
from .try_remedy import with_option

HOLD_SECONDS = 3.0
DIFFERENCE_SECONDS = 5.0
_KEY_ACTIONS = {"ctrl+r": "restart", "L": "log"}
"""Remedies that are a key of ours."""


class RunActions(Screen[None]):
    """Actions of a screen that shows a session and may send requests."""

    session: var[Session] = var(EMPTY)
    before: var[Session] = var(EMPTY)
    """The session as it was before the last change of batch, input, device or dtype."""
    _difference: tuple[Session, float, tuple[str, ...]] = (EMPTY, 0.0, ())

    def __init__(
        self,
        spec: LoadSpec,
        now: Callable[[], float],
        send: Callable[[Request], None],
        restart: Callable[[LoadSpec | None], None],
    ) -> None:
        super().__init__()
        self.spec = spec
        self.now = now
        self._send = send
        self._restart = restart
        self._hold_asked_at = -1e9
        self.marked = 0
        """Which remedy of a failure the cursor is on."""

    def say(self, text: str) -> None:
        """Put an event into the status line."""
        raise NotImplementedError

    def open_prompt(self, prompt: Prompt | Choice) -> None:
        """Ask in the last row."""
        raise NotImplementedError

    def forget_pause(self) -> None:
        """Let the view go on."""
        raise NotImplementedError

    def difference(self, session: Session) -> tuple[str, ...]:
        """Give what the last change changed, found anew every few seconds; none without one."""
        before, at, forms = self._difference
        tick = session.tick
        if tick is None:
            return ()
        if before is not self.before or not forms or not 0 <= tick.at - at < DIFFERENCE_SECONDS:
            found = difference(self.before, session)
            self._difference = (self.before, tick.at, found)
        return self._difference[2]

    def action_hold(self) -> None:
        """Hold the model when asked twice, or let it run."""
        loop = self.session.loop
        if why_not := refusal(self.session, "Pause") or self._not_yet():
            self.say(why_not)
        elif why := self._waits_for():
            self.say(why)
        elif loop is not None and loop.state == "paused":
            self._request(Resume(), "the model runs again")
        elif self.now() - self._hold_asked_at <= HOLD_SECONDS:
            self._hold_asked_at = -1e9
            self._request(Pause(), "the model is held: P lets it run, . steps")
        else:
            self._hold_asked_at = self.now()
            self.say("P again holds the model")

    def action_step(self) -> None:
        """Run one forward of a model that is held."""
        loop = self.session.loop
        if why_not := refusal(self.session, "Step"):
            self.say(why_not)
        elif why := self._waits_for():
            self.say(why)
        elif loop is not None and loop.state == "paused":
            self._request(Step(), "one forward")
        else:
            self.say("the model runs; P P holds it, then . steps")

    def _not_yet(self) -> str:
        """Say why nobody can be asked yet; empty where a worker has answered."""
        if self.session.hello is not None or self.session.playback is not None:
            return ""
        who = "program" if self.spec.observed else "worker"
        return f"the {who} has not answered yet"

    def _waits_for(self) -> str:
        """Say what the model is held for, where that was not the user's key; else empty."""
        loop = self.session.loop
        if loop is None or loop.state != "paused" or not loop.detail:
            return ""
        return f"the model waits meanwhile: {loop.detail}"

    def action_phase(self) -> None:
        """Ask for the other forward of a model that generates."""
        other = other_phase(self.session)
        if other:
            self._request(SetPhase(other), f"{other} asked for")
        else:
            self.say(why_one_phase(self.session))

    def action_next_model(self) -> None:
        """Show the next model that the program calls, and keep it."""
        model = next_model(self.session)
        if why_not := refusal(self.session, "ShowModel"):
            self.say(why_not)
        elif self.session.tree is None:
            self._request(ShowModel(""), "the next model that runs is shown")
        elif model is None:
            self.say("the program has called no other model yet")
        else:
            self.forget_pause()
            label = model_label(model, run_models(self.session))
            pattern = escape(f"{model.type}#{model.index}")
            self._request(ShowModel(pattern), f"{label} is shown from its next forward")

    def _request(self, request: Request, said: str) -> None:
        session = self.session
        is_gone = session.ended is not None and session.playback is None
        if why_not := refusal(session, type(request).__name__) or self._not_yet():
            self.say(why_not)
        elif session.hello is None or is_gone:
            self.say(why_gone(session))
        else:
            self._send(request)
            self.say(said)

    def action_restart(self) -> None:
        """Start a new worker; of a program that is not ours, record the tree anew."""
        hello = self.session.hello
        if hello is not None and hello.program is not None:
            self._request(TraceAgain(), "the tree is recorded anew, from its next forward")
        elif self.spec.observed and self.session.ended is not None:
            self.say(why_gone(self.session))
        elif self.spec.observed:
            self.say(refusal(self.session, "Start") or self._not_yet())
        else:
            self._start_again(None, "a new worker is started")

    async def action_try(self) -> None:
        """Restart the worker with the marked remedy of a failure."""
        found = trouble(self.session)
        remedies = found.remedies if found is not None else ()
        if not remedies:
            self.say("there is nothing to try: nothing failed that has a remedy")
            return
        remedy = remedies[min(self.marked, len(remedies) - 1)]
        if remedy.command in _KEY_ACTIONS:
            await self.run_action(_KEY_ACTIONS[remedy.command])
            return
        changed = with_option(self.spec, remedy.command)
        if changed is None:
            self.say(f"{safe(remedy.command)} is to be typed in a shell")
        else:
            self._start_again(changed, f"started again with {safe(remedy.command)}")

    def _start_again(self, spec: LoadSpec | None, said: str) -> None:
        if why_not := refusal(self.session, "Start"):
            self.say(why_not)
            return
        self.marked = 0
        self.forget_pause()
        self.spec = spec or self.spec
        self._restart(self.spec)
        self.say(said)
