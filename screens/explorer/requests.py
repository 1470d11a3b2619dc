"""What the keys ask of the worker, or of a recording: hold, step, other inputs, a new start.

What a key asks for as a whole is refused before its function is called (``Key.request``).
"""

import math
import re
import shlex
from collections.abc import Callable
from glob import escape

from msgspec.structs import replace

from tui_profiler import messages
from tui_profiler.formatting.text import safe
from tui_profiler.queries.cost.totals import batch_axis
from tui_profiler.queries.panel.cached_tree import is_remembered
from tui_profiler.queries.panel.state import awaited_forward
from tui_profiler.queries.time.forward_kinds import (
    model_label,
    next_model,
    other_phase,
    run_models,
    why_one_phase,
)
from tui_profiler.session import Session

from ..actions.table import refusal, why_gone, why_not_now
from ..common.model_pause import ModelPause
from ..common.view_pause import ViewPause
from ..options.model import MOST_BATCH
from ..widgets.prompt import Prompt


class Requests:
    """Asks for what a key stands for; returns what is to be said of it, or to be asked first.

    Args:
        spec: what was asked for on the command line.
        session: returns the newest session.
        now: returns seconds on its clock.
        send: sends a request to the probe.
        restart: starts a new worker.
        view_pause: ends where something else is shown from now on.
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
        self._model_pause = ModelPause()
        self._batch_asked: int | None = None
        self._speed_asked: tuple[messages.Playback | None, float] = (None, 1.0)
        """What was told when a speed was asked for last, and that speed."""

    # A model that runs.

    def hold(self) -> str:
        """Pause the model when asked twice, or resume it."""
        if why_not := self._not_yet():
            return why_not
        request, said = self._model_pause.press(self._session(), self._now())
        if request is None:
            return said
        return self._request(request, f"{said}, . steps" if request == messages.Pause() else said)

    def step(self) -> str:
        """Run one forward of a paused model."""
        loop = self._session().loop
        if loop is None or loop.state != "paused":
            return "the model is running; P P pauses it, then . steps"
        if loop.detail:  # What it waits for was not the user's key.
            return f"model paused: {loop.detail}"
        return self._request(messages.Step(), "one forward")

    def _not_yet(self) -> str:
        """Say why nobody can be asked yet; empty where a worker has answered."""
        if self._session().hello is not None or self._session().playback is not None:
            return ""
        who = "program" if self.spec.observed else "worker"
        return f"the {who} has not answered yet"

    def phase(self) -> str:
        """Ask for the other forward of a model that generates."""
        other = other_phase(self._session())
        if not other:
            return why_one_phase(self._session())
        return self._request(messages.SetPhase(other), f"{other} requested")

    def next_model(self) -> str:
        """Show the next model that the program calls, and keep it."""
        model = next_model(self._session())
        if self._session().tree is None or awaited_forward(self._session()) is not None:
            return self._request(messages.ShowModel(""), "the next model that runs is shown")
        if model is None and run_models(self._session()):
            return "the other models were deleted"
        if model is None:
            return "the program has called no other model yet"
        self._view_pause.held = None
        label = model_label(model, run_models(self._session()))
        pattern = escape(f"{model.type}#{model.index}")
        return self._request(messages.ShowModel(pattern), f"{label} is shown from its next forward")

    def _request(self, request: messages.Request, said: str) -> str:
        """Send a request; return why not, else what is said of it."""
        why_not = why_not_now(self._session(), type(request).__name__, "ctrl+r")
        if why_not := why_not or self._not_yet():
            return why_not
        self._send(request)
        return said

    def replay(self, node: int) -> str:
        """Ask for the energy of a node, run by itself."""
        if is_remembered(self._session()):
            return "this tree is cached: the worker has not traced the model yet"
        if self._session().tree is None:
            return "energy needs the tree, which is not known yet"
        return self._request(messages.ReplayNode(node), "running it alone: o shows its energy")

    # Run otherwise.

    def batch(self) -> Prompt:
        """Ask for a batch size, or the shapes of inputs."""
        hint = "8  or  1,3,96,96  or  tokens=1,16:int64"
        return Prompt("batch or input ", done=self._change_input, hint=hint)

    def device(self) -> Prompt:
        """Ask for a device, a dtype, or both."""
        now = f"{self.spec.device} {self.spec.dtype}".strip()
        hint = f"cpu cuda cuda:1  {' '.join(DTYPES.values())}"
        return Prompt("device and dtype ", now, done=self._change_device, hint=hint)

    def _change_input(self, text: str) -> str:
        """Run with the batch size that was typed, or start again with the inputs."""
        words = text.split()
        if not words:
            return ""
        if len(words) == 1 and words[0].isdecimal():
            return self._set_batch(words[0])
        if not are_inputs(words):
            return f"a batch is 8, an input 1,3,96,96 or tokens=1,16:int64; not {safe(text)!r}"
        # A batch size that was asked for before would take the place of the first axis.
        spec = replace(self.spec, inputs=tuple(words), batch=None)
        return self._start_again(spec, f"started again with {' '.join(words)}")

    def _set_batch(self, digits: str) -> str:
        if len(digits) >= 11 or not 0 < int(digits) <= MOST_BATCH:
            return f"a batch size is a whole number from 1 to {MOST_BATCH}, not {safe(digits)!r}"
        model = self._session().model
        found = batch_axis(model)
        if model is not None and isinstance(found, messages.Unknown) and not self._not_yet():
            return f"the batch cannot be changed: {safe(found.reason)}"
        self._batch_asked = int(digits)
        return self._request(messages.SetBatch(int(digits)), f"batch {digits} requested")

    def _change_device(self, text: str) -> str:
        """Start again on the device, and in the dtype, that was typed."""
        if not text.strip():
            return ""
        spec = placed(self.as_it_runs(), text)
        if isinstance(spec, str):
            return spec
        if (spec.device, spec.dtype) == (self.spec.device, self.spec.dtype):
            return "nothing to change: already in use"
        return self._start_again(spec, f"started again on {spec.device} {spec.dtype}".rstrip())

    def as_it_runs(self) -> messages.LoadSpec:
        """Return what was asked for, with the batch size that it runs with by now."""
        model = self._session().model
        if self._batch_asked is None or model is None or model.batch != self._batch_asked:
            return self.spec
        return replace(self.spec, batch=self._batch_asked)

    # A recording.

    def speed(self, playback: messages.Playback, times: float) -> str:
        """Play so many times as fast as before."""
        # Keys may come faster than the source answers: each goes on from what was asked last.
        before, asked = self._speed_asked
        wanted = (asked if before is playback else playback.speed) * times
        self._speed_asked = (playback, wanted)
        return self._request(messages.SetSpeed(wanted), "faster" if times > 1 else "slower")

    def seek(self, seconds: float) -> str:
        """Go forward or back by so many seconds of a recording."""
        direction = "forward" if seconds > 0 else "back"
        at = messages.Seek(self._now() + seconds)
        return self._request(at, f"{abs(seconds)} s {direction}")

    def seek_to(self) -> Prompt:
        """Ask which position of a recording to go to."""
        return Prompt("go to ", done=self._seek_to)

    def _seek_to(self, text: str) -> str:
        playback = self._session().playback
        at = typed_position(text, playback) if playback is not None else None
        if at is not None:
            return self._request(messages.Seek(at), f"at {safe(text)}")
        return f"a position is 12.5, 1:30, 50% or end, not {safe(text)!r}" if text else ""

    # A new start.

    def restart(self) -> str:
        """Start a new worker; where a program is attached to, record its tree again."""
        hello = self._session().hello
        if hello is not None and hello.program is not None:
            said = "recording the tree again, from the next forward"
            return self._request(messages.TraceAgain(), said)
        if self.spec.observed and self._session().ended is not None:
            return why_gone(self._session())
        if self.spec.observed:
            return refusal(self._session(), "Start") or self._not_yet()
        return self._start_again(None, "restarting the worker")

    def try_remedy(self, remedy: messages.Remedy) -> str:
        """Restart the worker with a remedy of a failure."""
        changed = with_option(self.spec, remedy.command)
        if changed is None:
            return f"{safe(remedy.command)} must be typed in a shell"
        self._tried.add(remedy.command)
        return self._start_again(changed, f"started again with {safe(remedy.command)}")

    def was_tried(self, remedy: messages.Remedy) -> bool:
        """Tell whether the worker was started with a remedy, by its key or as typed."""
        changed = with_option(self.spec, remedy.command)
        return remedy.command in self._tried or changed in (*self._started, self.spec)

    def _start_again(self, spec: messages.LoadSpec | None, said: str) -> str:
        if why_not := refusal(self._session(), "Start"):
            return why_not
        self._view_pause.held = None
        if spec is not None:
            self._started.append(self.spec)
            self.spec = spec
        self._restart(self.spec)
        return said


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


def typed_position(text: str, playback: messages.Playback) -> float | None:
    """Return the time of a typed position; None where it is none.

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
            seconds = length * float(words[:-1]) / 100
        else:
            seconds = 0.0
            for part in words.split(":"):
                seconds = seconds * 60 + float(part)
    except ValueError:
        return None
    return playback.begins + seconds if math.isfinite(seconds) else None
