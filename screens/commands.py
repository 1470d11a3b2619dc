"""Everything that can be done by name: the keys of the one table, and what has no key."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from tui_profiler.queries.accepts import refusal
from tui_profiler.queries.focus import SORT_KEYS, SORT_LABELS, SortKey
from tui_profiler.queries.fuzzy import best_first
from tui_profiler.session import Session

from .keys import DEPTHS, EXPLORER, Key, shown

_ORDERS: dict[SortKey, str] = {
    "order": "siblings as the model runs them",
    "parameters": "siblings with the most parameters first",
    "macs": "siblings with the most multiply-accumulates first",
    "seconds": "the slowest siblings first",
    "share": "siblings with the largest share first",
    "name": "siblings by the alphabet",
}


class Command(Struct, frozen=True):
    """One thing that can be done, by name."""

    name: str
    help: str
    action: str
    """As Textual runs it: ``sort_by('macs')``."""
    key: str = ""
    """Empty where it has none."""
    why_not: str = ""
    """Why it is not done now; empty where it is."""


def commands(session: Session, themes: Iterable[str], *, has_mouse: bool) -> tuple[Command, ...]:
    """Give all commands, those with a key first.

    Args:
        session: what the probe is known to accept.
        themes: names of the themes.
        has_mouse: whether the screen can turn the mouse off and on.
    """
    keys = tuple(_of_key(key, session) for key in (*EXPLORER, *DEPTHS) if key.action != "palette")
    found = [*keys]
    found += [
        Command(f"sort {SORT_LABELS[key]}", _ORDERS[key], f"sort_by('{key}')") for key in SORT_KEYS
    ]
    found += [
        Command(f"theme {theme}", "draw in these colours", f"use_theme('{theme}')")
        for theme in sorted(themes)
    ]
    if has_mouse and not any(command.action == "toggle_mouse" for command in keys):
        found.append(Command("mouse", "mouse off, or on again", "toggle_mouse"))
    return tuple(found)


def matching(typed: str, found: Iterable[Command]) -> tuple[Command, ...]:
    """Give the commands that fit what was typed, the best first; refused ones last."""
    fitting = best_first(typed, found, lambda command: (command.name, command.help))
    return tuple(sorted(fitting, key=lambda command: bool(command.why_not)))


def _of_key(key: Key, session: Session) -> Command:
    return Command(key.label, key.help, key.action, shown(key), refusal(session, key.request))
