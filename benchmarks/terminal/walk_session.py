"""What the walk types: every key that a screen of ours is bound to, as the program itself has them.

A screen that is not among ``PLACES`` nor ``ELSEWHERE`` is a screen whose keys nobody walks; the
suite asks ``unwalked`` for those.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module

from msgspec import Struct
from msgspec.structs import replace
from textual.actions import parse
from textual.binding import Binding
from textual.keys import _character_to_key

import screens
from screens.actions.commands import commands
from screens.actions.table import EXPLORER
from screens.common.copy_export import KINDS
from screens.settings.theme import THEMES, short_name
from screens.views.view_screen import side_screen
from tui_profiler.session import EMPTY

ESCAPE = "\x1b"
_SEQUENCES = {
    "enter": "\r",
    "escape": ESCAPE,
    "backspace": "\x7f",
    "tab": "\t",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "home": "\x1b[H",
    "end": "\x1b[F",
    "pageup": "\x1b[5~",
    "pagedown": "\x1b[6~",
    "shift+up": "\x1b[1;2A",
    "shift+down": "\x1b[1;2B",
    "shift+left": "\x1b[1;2D",
    "shift+right": "\x1b[1;2C",
}
_CHARACTERS = {_character_to_key(chr(code)): chr(code) for code in range(32, 127)}


def typed(key: str) -> str:
    """Return the bytes that a terminal sends for a key, as Textual names it."""
    if key in _SEQUENCES:
        return _SEQUENCES[key]
    if key.startswith("ctrl+"):
        return chr(ord(key[-1]) & 0x1F)
    return _CHARACTERS[key]


_EXPORTS = tuple(("\x15", f"walked{kind}", "\r") for kind in KINDS)
_PROMPTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "filter": (("conv", "\r"), ("type:(", ESCAPE), ("\x15", "\r")),
    "batch": (("2", "\r"), ("x", "\r")),
    "device": (("\x15nonsense", "\r"), (ESCAPE,)),
    "seek_to": (("50%", "\r"),),
    "copy": (("y",), ("p",), ("r",), ("l",), ("s",), (ESCAPE,)),
    "export": (*_EXPORTS, (*_EXPORTS[0], "o"), (ESCAPE,)),
    "compare": ((ESCAPE,), ("no-such-model --batch x", "\r")),
}
"""Action that asks for something to all that is answered, each after a key of its own."""
_AFTERWARDS = {"hold": ("P", ".", "P"), "keys": (ESCAPE,), "pause": ("p",)}
"""What is pressed after the key of an action, to undo it."""
_LEAVING = re.compile(r"leave|\bback|dismiss|app\.|choose|keep|undo|\bopen|zoom|clear_or_leave")
SECOND = "demo:lstm"
"""What the model is compared with."""


class Place(Struct, frozen=True):
    """A screen that is opened from the explorer."""

    name: str
    opening: tuple[str, ...]
    """What is typed for it, in the explorer."""
    mark: str
    """What only this screen shows, as a pattern; ``^`` is the beginning of a row."""
    kind: type
    """Its class."""
    typing: tuple[str, ...] = ()
    """What is typed besides its keys, where it takes text."""


def _kind(module: str, name: str) -> type:
    found: type = getattr(import_module(f"screens.{module}"), name)
    return found


def _key(action: str) -> str:
    return typed(next(key for key in EXPLORER if key.action == action).keys.split(",")[0])


def _side(name: str, mark: str) -> Place:
    return Place(name, (_key(f"side('{name}')"),), mark, side_screen(name))


_TEXT = ("conv", "\x7f", "\x15")
PLACES = (
    Place("keys", (_key("keys"),), r"\A keys( of|  )", _kind("actions.help", "KeysScreen"), _TEXT),
    Place(
        "columns",
        (_key("columns"),),
        "from left to right",
        _kind("common.column_list", "ColumnsScreen"),
    ),
    Place("palette", (":",), r"^ : ", _kind("actions.palette", "PaletteScreen"), _TEXT),
    Place(
        "compare",
        (_key("compare"), SECOND, "\r"),
        r"\A A  ",
        _kind("views.compare.explorer_comparison", "CompareWithExplored"),
    ),
    Place("log", (_key("log"),), r"\A log  ", _kind("views.log", "LogScreen")),
    Place(
        "machine",
        (_key("machine"),),
        r"↑↓ scroll  g top  G end",
        _kind("views.machine.screen", "MachineScreen"),
    ),
    Place(
        "node",
        (_key("node"),),
        r"^ (tensors|modules|operators|weights|source) ─|\[ \] sibling",
        _kind("views.node.screen", "NodeScreen"),
    ),
    _side(
        "timeline",
        r"^ (one (forward|prefill|decode step|step)|(slowest|last slow) (forward|step)).* ─",
    ),
    _side("flat", r"^ (modules|classes|operators), flat"),
    _side("roofline", r"\A.*\n( *\n)? roofline( of the backward)?  "),
    _side("memory", r"^ memory over one"),
    _side("weights", r"\A.*\n( *\n)? weights  "),
    _side("health", r"n first NaN"),
    Place(
        "compilation",
        (":", "compilation", "\r"),
        r"^ (torch.compile compiled nothing|[\d,]+ graphs?  )",
        side_screen("compilation"),
    ),
    _side("findings", r"^ (findings, by|no findings|[\d,]+ checks of)"),
)
AT_ONCE = tuple(place for place in PLACES if len(place.opening) == 1)
"""Those that one key opens."""
PALETTE = next(place for place in PLACES if place.name == "palette")
EXPLORER_MARK = r" 0─+ ?\d+ %"
"""The scale above the bars of the tree: its title gives way to the modules above the first row."""
ELSEWHERE = {
    "ExplorerScreen": "its keys are walked one by one",
    "ThemedApp": "ctrl+z ends each walk",
    "BaseApp": "ctrl+q and ctrl+c, and q, end the walks in turn",
    "CompareScreen": "walked as CompareWithExplored",
    "ScrollingScreen": "walked in the screens that are made of it",
    "SideScreen": "walked in the views",
    "RanksScreen": "needs a run of several ranks: benchmarks/times/ranks.py",
    "DifferenceScreen": "needs a run of several ranks: benchmarks/times/ranks.py",
    "ProcessesScreen": "needs a script with child processes: tests/screens/start/test_processes.py",
    "Picker": "needs several programs that run: tests/end_to_end/test_attach.py",
    "StartScreen": "no model is named: tests/end_to_end/test_start.py",
    "StartApp": "no model is named: tests/end_to_end/test_start.py",
}
"""Classes with keys that no place has, and why."""


class Press(Struct, frozen=True):
    """A key, and what goes with it."""

    key: str
    answer: tuple[str, ...] = ()
    """What is typed into the prompt that it opens; nothing where it opens none."""
    undo: tuple[str, ...] = ()
    """What is pressed afterwards, in any case."""
    leads: Place | None = None
    """What it opens."""


class Step(Struct, frozen=True):
    """What is done between two looks at the explorer."""

    why: str
    presses: tuple[Press, ...]
    place: Place | None = None
    """Where it is done; None: in the explorer."""
    leaves: bool = False
    """Its last press leads out of the place, wherever to."""


def bound(kind: type) -> dict[str, str]:
    """Return key to action of every binding of a screen, its own before inherited."""
    found: dict[str, str] = {}
    for parent in kind.__mro__:
        if parent.__module__.startswith("screens"):
            for binding in vars(parent).get("BINDINGS", ()):
                assert isinstance(binding, Binding)
                _, name, given = parse(binding.action)
                # What a part of the explorer does, the screen hands on to it.
                action = str(given[0]) if name == "do" else binding.action
                for key in binding.key.split(","):
                    found.setdefault(key, action)
    return found


def unwalked() -> set[str]:
    """Return the names of classes in ``screens`` whose keys are in no walk."""
    kinds = set()
    for module in pkgutil.walk_packages(screens.__path__, "screens."):
        if not module.name.endswith("__main__"):
            kinds |= {one for one in vars(import_module(module.name)).values() if _has_keys(one)}
    walked = {parent for place in PLACES for parent in place.kind.__mro__}
    return {one.__name__ for one in kinds - walked} - set(ELSEWHERE)


def _has_keys(one: object) -> bool:
    return (
        isinstance(one, type) and one.__module__.startswith("screens") and "BINDINGS" in vars(one)
    )


def _name(action: str) -> str:
    return action.partition("(")[0]


def _presses(key: str, action: str) -> Iterator[Press]:
    """Return everything that is typed with a key."""
    undo = _AFTERWARDS.get(_name(action), ())
    for answer in _PROMPTS.get(_name(action), ((),)):
        yield Press(typed(key), answer, undo)


def session() -> Iterator[Step]:
    """Return the walk through one program."""
    keys = bound(_kind("explorer.screen", "ExplorerScreen"))
    actions = {typed(key): action for key, action in keys.items()}
    opened = {actions[place.opening[0]]: place for place in AT_ONCE}
    for key, action in keys.items():
        if _name(action) not in ("restart", "leave", "app.suspend_process"):
            for press in _presses(key, action):
                yield Step(f"{key}: {action}", (replace(press, leads=opened.get(action)),))
    for place in PLACES:
        yield from _inside(place)
    for command in commands(EMPTY, [short_name(theme.name) for theme in THEMES]):
        if not command.key:
            named = (Press(":", leads=PALETTE), Press(command.name), Press("\r"))
            yield Step(f"the command {command.name}", named)
    yield Step("restart", (Press(typed("ctrl+r")),))


def _inside(place: Place) -> Iterator[Step]:
    """Return the keys of a screen: those that stay on it first, then the others."""
    keys = bound(place.kind)
    staying = {key: action for key, action in keys.items() if not _LEAVING.search(action)}
    presses: list[Press] = []
    for key, action in staying.items():
        several = list(_presses(key, action))  # Every kind of file is written in the explorer.
        presses += several[:2] if _name(action) == "export" else several
    presses += [Press(one) for one in place.typing]
    yield Step(f"{place.name}, every key", tuple(presses), place)
    for key in keys:
        if key not in staying and key != "ctrl+z":
            yield Step(f"{place.name}, left by {key}", (Press(typed(key)),), place, leaves=True)
