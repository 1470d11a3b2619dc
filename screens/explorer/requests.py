"""What the keys ask of the worker, or of a recording: hold, step, other inputs, a new start.

What a key asks for as a whole is refused before its function is called (``Key.request``).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from glob import escape

from msgspec.structs import replace

from tui_profiler import messages
from tui_profiler.formatting.text import safe
from tui_profiler.queries.panel.accepted_requests import refusal, why_gone
from tui_profiler.queries.panel.remembered_tree import is_remembered
from tui_profiler.queries.time.forward_kinds import (
    model_label,
    next_model,
    other_phase,
    run_models,
    why_one_phase,
)
from tui_profiler.session import Session

from ..common.view_pause import ViewPause
from ..options.model import MOST_BATCH
from ..widgets.prompt import Choice, Prompt

HOLD_SECONDS = 3.0


class Requests:
    """Asks for what a key stands for, or says why not.

    Args:
        spec: what was asked for on the command line.
        session: gives the newest session.
        now: gives seconds on its clock.
        send: sends a request to the probe.
        restart: starts a new worker.
        view_pause: ends where something else is shown from now on.
        say: tells the user.
        ask: asks the user.
    """

    def __init__(
        self,
        spec: messages.LoadSpec,
        *,
        session: Callable[[], Session],
        now: Callable[[], float],
        send: Callable[[messages.Request], None],
        restart: Callable[[messages.LoadSpec | None], None],
        view_pause: ViewPause,
        say: Callable[[str], None],
        ask: Callable[[Prompt | Choice], None],
    ) -> None:
        self.spec = spec
        """What was asked for last: the command line, changed by keys."""
        self._tried: set[str] = set()
        """The remedies that the worker was restarted with."""
        self._started: list[messages.LoadSpec] = []
        """What was asked for before."""
        self._session = session
        self._now = now
        self._send = send
        self._restart = restart
        self._view_pause = view_pause
        self._say = say
        self._ask = ask
        self._hold_asked_at = -1e9
        self._batch_asked: int | None = None
        self._speed_asked: tuple[messages.Playback | None, float] = (None, 1.0)
        """What was told when a speed was asked for last, and that speed."""

    # A model that runs.

    def hold(self) -> None:
        """Hold the model when asked twice, or let it run."""
        loop = self._session().loop
        if why_not := self._not_yet():
            self._say(why_not)
        elif why := self._waits_for():
            self._say(why)
        elif loop is not None and loop.state == "paused":
            self._request(messages.Resume(), "model resumed")
        elif self._now() - self._hold_asked_at <= HOLD_SECONDS:
            self._hold_asked_at = -1e9
            self._request(messages.Pause(), "model paused: P resumes, . steps")
        else:
            self._hold_asked_at = self._now()
            self._say("P again pauses the model")

    def step(self) -> None:
        """Run one forward of a model that is held."""
        loop = self._session().loop
        if why := self._waits_for():
            self._say(why)
        elif loop is not None and loop.state == "paused":
            self._request(messages.Step(), "one forward")
        else:
            self._say("the model is running; P P pauses it, then . steps")

    def _not_yet(self) -> str:
        """Say why nobody can be asked yet; empty where a worker has answered."""
        if self._session().hello is not None or self._session().playback is not None:
            return ""
        who = "program" if self.spec.observed else "worker"
        return f"the {who} has not answered yet"

    def _waits_for(self) -> str:
        """Say what the model is held for, where that was not the user's key; else empty."""
        loop = self._session().loop
        if loop is None or loop.state != "paused" or not loop.detail:
            return ""
        return f"model paused: {loop.detail}"

    def phase(self) -> None:
        """Ask for the other forward of a model that generates."""
        other = other_phase(self._session())
        if other:
            self._request(messages.SetPhase(other), f"{other} asked for")
        else:
            self._say(why_one_phase(self._session()))

    def next_model(self) -> None:
        """Show the next model that the program calls, and keep it."""
        model = next_model(self._session())
        if self._session().tree is None:
            self._request(messages.ShowModel(""), "the next model that runs is shown")
        elif model is None:
            self._say("the program has called no other model yet")
        else:
            self._view_pause.held = None
            label = model_label(model, run_models(self._session()))
            pattern = escape(f"{model.type}#{model.index}")
            self._request(messages.ShowModel(pattern), f"{label} is shown from its next forward")

    def _request(self, request: messages.Request, said: str) -> None:
        session = self._session()
        is_gone = session.ended is not None and session.playback is None
        if why_not := refusal(session, type(request).__name__) or self._not_yet():
            self._say(why_not)
        elif session.hello is None or is_gone:
            self._say(why_gone(session))
        else:
            self._send(request)
            self._say(said)

    def replay(self, node: int) -> None:
        """Ask for the energy of a node, run by itself."""
        if is_remembered(self._session()):
            self._say("this tree is cached: the worker's own is not known yet")
        elif self._session().tree is None:
            self._say("energy needs the tree, which is not known yet")
        else:
            self._request(messages.ReplayNode(node), "running it alone: o shows its energy")

    # Run otherwise.

    def batch(self) -> None:
        """Ask for a batch size, or the shapes of inputs."""
        hint = "8  or  1,3,96,96  or  tokens=1,16:int64"
        self._ask(
            Prompt("batch or input ", "", lambda text: None, self._change_input, lambda text: hint)
        )

    def device(self) -> None:
        """Ask for a device, a dtype, or both."""
        now = f"{self.spec.device} {self.spec.dtype}".strip()
        hint = f"cpu cuda cuda:1  {' '.join(DTYPES.values())}"
        self._ask(
            Prompt(
                "device and dtype ", now, lambda text: None, self._change_device, lambda text: hint
            )
        )

    def _change_input(self, text: str) -> None:
        """Run with the batch size that was typed, or start again with the inputs."""
        words = text.split()
        if len(words) == 1 and words[0].isdecimal():
            self._set_batch(words[0])
        elif are_inputs(words):
            # A batch size that was asked for before would take the place of the first axis.
            spec = replace(self.spec, inputs=tuple(words), batch=None)
            self._start_again(spec, f"started again with {' '.join(words)}")
        elif words:
            self._say(f"a batch is 8, an input 1,3,96,96 or tokens=1,16:int64; not {safe(text)!r}")

    def _set_batch(self, text: str) -> None:
        """Ask for the batch size that was typed."""
        if text.isdecimal() and len(text) < 11 and 0 < int(text) <= MOST_BATCH:
            self._batch_asked = int(text)
            self._request(messages.SetBatch(int(text)), f"batch {text} asked for")
        else:
            self._say(f"a batch size is a whole number from 1 to {MOST_BATCH}, not {safe(text)!r}")

    def _change_device(self, text: str) -> None:
        """Start again on the device, and in the dtype, that was typed."""
        if not text.strip():
            return
        spec = placed(self.as_it_runs(), text)
        if isinstance(spec, str):
            self._say(spec)
        elif (spec.device, spec.dtype) == (self.spec.device, self.spec.dtype):
            self._say("nothing to change: it was started so")
        else:
            self._start_again(spec, f"started again on {spec.device} {spec.dtype}".rstrip())

    def as_it_runs(self) -> messages.LoadSpec:
        """Return what was asked for, with the batch size that it runs with by now."""
        model = self._session().model
        if self._batch_asked is None or model is None or model.batch != self._batch_asked:
            return self.spec
        return replace(self.spec, batch=self._batch_asked)

    # A recording.

    def speed(self, playback: messages.Playback, times: float) -> None:
        """Play so many times as fast as before."""
        # Keys may come faster than the source answers: each goes on from what was asked last.
        before, asked = self._speed_asked
        wanted = (asked if before is playback else playback.speed) * times
        self._speed_asked = (playback, wanted)
        self._request(messages.SetSpeed(wanted), "faster" if times > 1 else "slower")

    def seek(self, seconds: float) -> None:
        """Go on or back by so many seconds of a recording."""
        self._request(
            messages.Seek(self._now() + seconds),
            f"{abs(seconds)} s {'on' if seconds > 0 else 'back'}",
        )

    def seek_to(self) -> None:
        """Ask which place of a recording to go to."""
        self._ask(Prompt("go to ", "", lambda text: None, self._go_to))

    def _go_to(self, text: str) -> None:
        """Go to the place that was typed."""
        playback = self._session().playback
        at = typed_place(text, playback) if playback is not None else None
        if at is not None:
            self._request(messages.Seek(at), f"at {safe(text)}")
        elif text:
            self._say(f"a position is 12.5, 1:30, 50% or end, not {safe(text)!r}")

    # A new start.

    def restart(self) -> None:
        """Start a new worker; of a program that is not ours, record the tree anew."""
        hello = self._session().hello
        if hello is not None and hello.program is not None:
            self._request(messages.TraceAgain(), "recording the tree again, from the next forward")
        elif self.spec.observed and self._session().ended is not None:
            self._say(why_gone(self._session()))
        elif self.spec.observed:
            self._say(refusal(self._session(), "Start") or self._not_yet())
        else:
            self._start_again(None, "restarting the worker")

    def try_remedy(self, remedy: messages.Remedy) -> None:
        """Restart the worker with a remedy of a failure."""
        changed = with_option(self.spec, remedy.command)
        if changed is None:
            self._say(f"{safe(remedy.command)} is to be typed in a shell")
        else:
            self._tried.add(remedy.command)
            self._start_again(changed, f"started again with {safe(remedy.command)}")

    def was_tried(self, remedy: messages.Remedy) -> bool:
        """Tell whether the worker was started with a remedy, by its key or as typed."""
        changed = with_option(self.spec, remedy.command)
        return remedy.command in self._tried or changed in (*self._started, self.spec)

    def _start_again(self, spec: messages.LoadSpec | None, said: str) -> None:
        if why_not := refusal(self._session(), "Start"):
            self._say(why_not)
            return
        self._view_pause.held = None
        if spec is not None:
            self._started.append(self.spec)
            self.spec = spec
        self._restart(self.spec)
        self._say(said)


DTYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "f64": "float64"}
"""How the header writes them to how torch does."""
_INPUT = re.compile(r"(?:[A-Za-z_]\w{0,99}=)?[1-9]\d{0,9}(?:,[1-9]\d{0,9}){0,15}(?::[a-z0-9]+)?")
_DEVICE = re.compile(r"cpu|cuda(?::\d{1,3})?")


def are_inputs(words: list[str]) -> bool:
    """Whether words are shapes of inputs, such as ``1,3,96,96`` and ``tokens=1,16:int64``."""
    return bool(words) and all(_INPUT.fullmatch(word) for word in words)


def placed(spec: messages.LoadSpec, text: str) -> messages.LoadSpec | str:
    """Return ``spec`` on another device or in another dtype, or what is wrong with the text.

    Args:
        spec: what was asked for.
        text: such as ``cuda``, ``bfloat16`` or ``cuda:1 f16``.
    """
    devices = [word for word in text.split() if _DEVICE.fullmatch(word)]
    others = [word for word in text.split() if not _DEVICE.fullmatch(word)]
    dtypes = [DTYPES.get(word, word) for word in others]
    unknown = [word for word in dtypes if word not in DTYPES.values()]
    if unknown:
        known = ", ".join(DTYPES.values())
        return f"{safe(unknown[0])!r} is neither a device (cpu, cuda, cuda:N) nor a dtype ({known})"
    if len(devices) > 1 or len(dtypes) > 1:
        return "one device and one dtype at most"
    device = devices[0] if devices else spec.device
    return replace(spec, device=device, dtype=dtypes[0] if dtypes else spec.dtype)


def with_option(spec: messages.LoadSpec, command: str) -> messages.LoadSpec | None:
    """Return ``spec`` with the options of ``command``; None where it is no option of ours.

    Args:
        spec: what was asked for.
        command: such as ``--batch 512``, ``--input 1,3,64,64`` or ``tui-profiler resnet50``.
    """
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    match words:
        case ["tui-profiler", model] if model != "models":
            # The same one is offered again where its arguments were wrong.
            arguments = "" if model == spec.model else spec.arguments
            return replace(spec, model=model, arguments=arguments)
    inputs: list[str] = []
    while words:
        option = words.pop(0)
        if option == "--trust":
            spec = replace(spec, trust=True)
        elif option == "--no-run":
            spec = replace(spec, run=False)
        elif not words:
            return None
        elif option == "--batch" and words[0].isdecimal():
            spec = replace(spec, batch=int(words.pop(0)))
        elif option == "--input":
            inputs.append(words.pop(0))
        elif option in ("--dtype", "--device", "--weights", "--tracer"):
            spec = replace(spec, **{option[2:]: words.pop(0)})
        elif option == "--args":
            spec = replace(spec, arguments=words.pop(0))
        else:
            return None
    return replace(spec, inputs=tuple(inputs)) if inputs else spec


def typed_place(text: str, playback: messages.Playback) -> float | None:
    """Return the time of a typed place; None where it is none.

    Args:
        text: ``12.5`` or ``1:30`` or ``1:02:03`` since the beginning, ``50%`` of it, ``end``.
        playback: of the recording.
    """
    length = playback.ends - playback.begins
    words = text.strip().casefold()
    if words == "end":
        return playback.ends
    try:
        if words.endswith("%"):
            return playback.begins + length * float(words[:-1]) / 100
        seconds = 0.0
        for part in words.split(":"):
            seconds = seconds * 60 + float(part)
    except ValueError:
        return None
    return playback.begins + seconds
