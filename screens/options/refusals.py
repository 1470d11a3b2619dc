"""What is typed beside something that is what it was, and could change nothing: it is refused."""

from __future__ import annotations

from collections.abc import Iterable

import click

from tui_profiler.recording.kind import is_recording

from .model import Chosen

RECORDING = "A recording is what it was when it was made"
REPORT = "A report is what it was when it was written"
PROGRAM = "A program that is attached to runs as it was started"
_HARMLESS = frozenset({"--no-run", "--debug"})
"""Nothing is run anyway, and what went wrong is always told."""


def refuse_options(chosen: Chosen, why: str) -> None:
    """Refuse options of a model where none is loaded.

    Args:
        chosen: what was typed.
        why: what is there instead, as the beginning of a sentence.

    Raises:
        UsageError: there are such options.
    """
    typed = [option for option in chosen.typed if option not in _HARMLESS]
    if typed:
        raise click.UsageError(f"{why}: leave out {', '.join(typed)}.")


def require_models(names: Iterable[str], done: str) -> None:
    """Refuse a recording where a model is to be run.

    Args:
        names: what was typed.
        done: what cannot be done to a recording, as a participle.

    Raises:
        UsageError: one is a recording.
    """
    if any(map(is_recording, names)):
        raise click.UsageError(f"A recording cannot be {done}: give a model.")
