"""Everything that can be done by name: the keys of the one table, and what has no key."""

from collections.abc import Iterable

from msgspec import Struct

from tui_profiler.queries.cost.bound_classes import IN_ORDER
from tui_profiler.queries.fuzzy import best_first
from tui_profiler.queries.tree.columns import COLUMN_WORDS
from tui_profiler.queries.tree.focus import SORT_KEYS, SORT_LABELS, SortKey
from tui_profiler.session import Session

from .table import BY_NAME, DEPTHS, EXPLORER, Key, refusal, shown

_ORDERS: dict[SortKey, str] = {
    **{name: f"siblings by {what}, most first" for name, (_, what) in COLUMN_WORDS.items()},
    "in": "siblings by elements of the first input, most first",
    "out": "siblings by elements of the first output, most first",
    "bound": f"siblings by bound: {IN_ORDER}",
    "order": "siblings in execution order",
    "name": "siblings in alphabetical order",
}
_ORDERED_BY = tuple(key for key in SORT_KEYS if key != "bar")


class Command(Struct, frozen=True):
    """One thing that can be done, by name."""

    name: str
    help: str
    action: str
    """As its row names it: ``sort_by('macs')``."""
    key: str = ""
    """Empty where it has none."""
    why_not: str = ""
    """Why it is not done now; empty where it is."""
    under: str = ""
    """The key that goes through all of them in turn, where it has none of its own."""


def commands(
    session: Session, themes: Iterable[str], keys: tuple[Key, ...] = (*EXPLORER, *DEPTHS)
) -> tuple[Command, ...]:
    """Return all commands, those with a key first.

    Args:
        session: what the probe is known to accept.
        themes: names of the themes.
        keys: as the user has them.
    """
    of_keys = tuple(_of_key(key, session) for key in keys if key.action != "palette")
    found = [*of_keys]
    sort, theme, *others = BY_NAME
    in_turn = {key.action: shown(key) for key in keys}
    by_sort, by_theme = in_turn.get("sort", ""), in_turn.get("theme", "")
    found += [
        Command(
            f"{sort.label} {'in ' * (key == 'order')}{SORT_LABELS[key]}",
            _ORDERS[key],
            f"{sort.action}('{key}')",
            under=by_sort,
        )
        for key in _ORDERED_BY
    ]
    found += [
        Command(f"{theme.label} {name}", theme.help, f"{theme.action}('{name}')", under=by_theme)
        for name in sorted(themes)
    ]
    found += [_of_key(key, session) for key in others]
    return tuple(found)


def matching(typed: str, found: Iterable[Command]) -> tuple[Command, ...]:
    """Return the commands that fit what was typed, the best first; refused ones last.

    What has a key of that name, or is gone through with it, comes before all others.
    """
    every = tuple(found)
    of_key = [one for one in every if typed and typed in (*one.key.split(), one.under)]
    others = best_first(typed, every, lambda command: (command.name, command.help))
    fitting = (*of_key, *(one for one in others if one not in of_key))
    return tuple(sorted(fitting, key=lambda command: bool(command.why_not)))


def _of_key(key: Key, session: Session) -> Command:
    why_not = refusal(session, key.request)
    return Command(key.label, key.help, key.action, shown(key), why_not=why_not)
