"""``relay``, put together: which program, and standard input and output."""

from __future__ import annotations

import sys

from tui_profiler.formatting.text import safe
from tui_profiler.source.attached import AttachError, connect
from tui_profiler.source.relay import relay
from tui_profiler.verbs.outcome import DONE, MODEL_FAILED

from ...start.programs import choose
from ...terminal.standard_output import say


def run_relay(who: str) -> int:
    """Carry bytes between one program and standard input and output; gives the exit code."""
    try:
        connected = connect(choose(who).place)
    except (OSError, AttachError) as error:
        say("relay", safe(str(error)))
        return MODEL_FAILED
    relay(connected, sys.stdin.fileno(), sys.stdout.fileno())
    return DONE
