"""What ``B`` and ``D`` ask for: another batch or input, another device or dtype."""

from __future__ import annotations

import re

from msgspec.structs import replace

from tui_profiler.formatting.text import safe
from tui_profiler.messages import LoadSpec, SetBatch
from tui_profiler.queries.panel.accepted_requests import refusal

from ..options.model import MOST_BATCH
from ..widgets.prompt import Prompt
from .run_control import RunActions

DTYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "f64": "float64"}
"""How the header writes them to how torch does."""
_INPUT = re.compile(r"(?:[A-Za-z_]\w{0,99}=)?[1-9]\d{0,9}(?:,[1-9]\d{0,9}){0,15}(?::[a-z0-9]+)?")
_DEVICE = re.compile(r"cpu|cuda(?::\d{1,3})?")


class ChangeActions(RunActions):
    """Actions of a screen that may run its model otherwise, and compare."""

    _batch_asked: int | None = None

    def action_batch(self) -> None:
        """Ask for a batch size, or the shapes of inputs."""
        if why_not := refusal(self.session, "SetBatch"):
            self.say(why_not)
            return
        hint = "8  or  1,3,96,96  or  tokens=1,16:int64"
        self.open_prompt(
            Prompt("batch or input ", "", lambda text: None, self.change_input, lambda text: hint)
        )

    def action_device(self) -> None:
        """Ask for a device, a dtype, or both."""
        if why_not := refusal(self.session, "Start"):
            self.say(why_not)
            return
        now = f"{self.spec.device} {self.spec.dtype}".strip()
        hint = f"cpu cuda cuda:1  {' '.join(DTYPES.values())}"
        self.open_prompt(
            Prompt(
                "device and dtype ", now, lambda text: None, self.change_device, lambda text: hint
            )
        )

    def change_input(self, text: str) -> None:
        """Run with the batch size that was typed, or start again with the inputs."""
        words = text.split()
        if len(words) == 1 and words[0].isdecimal():
            self.set_batch(words[0])
        elif words and all(_INPUT.fullmatch(word) for word in words):
            # A batch size that was asked for before would take the place of the first axis.
            spec = replace(self.spec, inputs=tuple(words), batch=None)
            self._start_again(spec, f"started again with {' '.join(words)}")
        elif words:
            self.say(f"a batch is 8, an input 1,3,96,96 or tokens=1,16:int64; not {safe(text)!r}")

    def set_batch(self, text: str) -> None:
        """Ask for the batch size that was typed."""
        if text.isdecimal() and len(text) < 11 and 0 < int(text) <= MOST_BATCH:
            self._batch_asked = int(text)
            self._request(SetBatch(int(text)), f"batch {text} asked for")
        else:
            self.say(f"a batch size is a whole number from 1 to {MOST_BATCH}, not {safe(text)!r}")

    def change_device(self, text: str) -> None:
        """Start again on the device, and in the dtype, that was typed."""
        if not text.strip():
            return
        spec = placed(self._as_it_runs(), text)
        if isinstance(spec, str):
            self.say(spec)
        elif (spec.device, spec.dtype) == (self.spec.device, self.spec.dtype):
            self.say("nothing to change: it was started so")
        else:
            self._start_again(spec, f"started again on {spec.device} {spec.dtype}".rstrip())

    def _as_it_runs(self) -> LoadSpec:
        """Give what was asked for, with the batch size that it runs with by now."""
        model = self.session.model
        if self._batch_asked is None or model is None or model.batch != self._batch_asked:
            return self.spec
        return replace(self.spec, batch=self._batch_asked)


def placed(spec: LoadSpec, text: str) -> LoadSpec | str:
    """Give ``spec`` on another device or in another dtype, or what is wrong with the text.

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
