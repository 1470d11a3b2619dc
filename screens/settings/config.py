"""The configuration file: read once at start, and written out with comments.

1. Nothing in the file stops the program: an invalid setting is named, and ignored.
2. Reading imports only what a file that exists needs: without one it costs one system call.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias, TypeVar

import msgspec
import platformdirs
from msgspec import Struct

from tui_profiler.formatting.text import safe
from tui_profiler.queries.tree.columns import COLUMN_NAMES, COLUMN_WORDS, ColumnName
from tui_profiler.queries.tree.focus import SORT_KEYS, SortKey

from ..actions.names import TAKEN, action_name, key_name, written
from ..actions.table import DEPTHS, EXPLORER, Key
from .appearance import GLYPH_SETS, THEME_NAMES, GlyphSet, ThemeName

NAME = "tui-profiler"
LEAST_RATE, MOST_RATE = 0.5, 10.0
"""Redraws per second."""
_MOST_WRONG_LINES = 20
_Name = TypeVar("_Name", bound=str)
_Keys: TypeAlias = dict[str, tuple[str, ...]]


class Settings(Struct, frozen=True):
    """What can be configured, and what holds where it is not."""

    theme: ThemeName = "auto"
    glyphs: GlyphSet = "auto"
    columns: tuple[ColumnName, ...] = ()
    """From left to right; none: those that the width has room for."""
    sort: SortKey = "order"
    rate: float = 4.0
    """Redraws per second."""
    mouse: bool = True
    keys: _Keys = {}
    """Name of an action to its keys, as Textual names them."""


class Problem(Struct, frozen=True):
    """Something in the file that does not hold."""

    line: int
    """From 1; 0 where it is not known."""
    what: str


class Config(Struct, frozen=True):
    """What was read."""

    path: Path = Path("config.toml")
    settings: Settings = Settings()
    problems: tuple[Problem, ...] = ()
    typed: frozenset[str] = frozenset()
    """Names of settings that were typed instead: they come before what is remembered."""

    def sentences(self) -> tuple[str, ...]:
        """Return each problem as one line, beginning with its place."""
        return tuple(
            f"{self.path.name}{f':{one.line}' if one.line else ''}: {one.what}"
            for one in sorted(self.problems, key=lambda one: one.line)
        )


USUAL = Config()
"""Without a file."""


def config_path() -> Path:
    """Return where the file is looked for."""
    return Path(platformdirs.user_config_dir(NAME)) / "config.toml"


def read_config(path: Path) -> Config:
    """Read a file; without one, everything has its default."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Config(path)
    except (OSError, UnicodeDecodeError) as error:
        return Config(path, problems=(Problem(0, f"cannot be read: {safe(str(error))}"),))
    found, problems = _parsed(text)
    values: dict[str, object] = {}
    for name, value in found.items():
        if name == "keys":
            values[name] = _keys(value, text, problems)
        elif name in _CHECKS:
            try:
                values[name] = _CHECKS[name](value)
            except ValueError as error:
                problems.append(Problem(line_of(text, name), f"{name}: {error}"))
        else:
            known = ", ".join((*_CHECKS, "keys"))
            what = f"there is no setting {safe(name)!r}; there are {known}"
            problems.append(Problem(line_of(text, name), what))
    return Config(path, Settings(**values), tuple(problems))  # type: ignore[arg-type] # checked


def line_of(text: str, name: str, table: str = "") -> int:
    """Return the line that sets a name in a table, 0 where it cannot be found."""
    here = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[+\s*[\"']?([^\]\"']*)", line):
            here = header[1].strip()
            if here == name and not table:
                return number
        elif assigned := re.match(r"\s*[\"']?([^=\"']*?)[\"']?\s*=", line):
            full = f"{here}.{assigned[1]}" if here else assigned[1]
            if full == (f"{table}.{name}" if table else name):
                return number
    return line_of(text, table) if table else 0


def _parsed(text: str) -> tuple[dict[str, object], list[Problem]]:
    """Parse what can be: a line that is not valid TOML is left out, and named."""
    import tomllib  # noqa: PLC0415 # rule 2

    lines = text.splitlines()
    problems: list[Problem] = []
    while len(problems) < _MOST_WRONG_LINES:
        try:
            return tomllib.loads("\n".join(lines)), problems
        except tomllib.TOMLDecodeError as error:
            what = str(error)
        except RecursionError:
            what = "it is nested too deep"
        place = re.search(r"line (\d+)", what)
        what = f"not valid TOML: {safe(what.partition(' (at ')[0])}"
        line = int(place[1]) if place else _last_with_text(lines)
        problems.append(Problem(line, what))
        if not line or not lines[line - 1].strip():
            break
        lines[line - 1] = ""
    problems.append(Problem(0, "the file is ignored: too much of it is not valid TOML"))
    return {}, problems


def _last_with_text(lines: list[str]) -> int:
    return max((number for number, line in enumerate(lines, start=1) if line.strip()), default=0)


def _one_of(names: tuple[_Name, ...]) -> Callable[[object], _Name]:
    def check(value: object) -> _Name:
        for name in names:
            if name == value:
                return name
        given = safe(repr(value))
        raise ValueError(f"there is no {given}; there are {', '.join(names)}")

    return check


def _rate(value: object) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not LEAST_RATE <= value <= MOST_RATE:  # type: ignore[operator] # a number
        raise ValueError(
            f"refreshes per second are a number from {LEAST_RATE:g} to {MOST_RATE:g},"
            f" not {safe(repr(value))}"
        )
    return float(value)  # type: ignore[arg-type] # a number


def _switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"it is true or false, not {safe(repr(value))}")
    return value


def _columns(value: object) -> tuple[ColumnName, ...]:
    if not isinstance(value, list):
        raise ValueError(f"it is a list of names, not {safe(repr(value))}")
    names = tuple(map(_one_of(COLUMN_NAMES), value))
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise ValueError(f"{twice} is listed twice")
    return names


_CHECKS: dict[str, Callable[[object], object]] = {
    "theme": _one_of(THEME_NAMES),
    "glyphs": _one_of(GLYPH_SETS),
    "columns": _columns,
    "sort": _one_of(SORT_KEYS),
    "rate": _rate,
    "mouse": _switch,
}


def _keys(value: object, text: str, problems: list[Problem]) -> _Keys:
    if not isinstance(value, dict):
        what = "keys: it is a table, [keys], of actions and their keys"
        problems.append(Problem(line_of(text, "keys"), what))
        return {}
    found: _Keys = {}
    known = actions()
    given: dict[str, str] = {}
    for action, keys in value.items():
        line = line_of(text, action, "keys")
        try:
            found[action] = _keys_of(action, keys, known, given)
        except ValueError as error:
            problems.append(Problem(line, f"keys: {error}"))
    return found


def _keys_of(
    action: str, written_as: object, known: Mapping[str, str], given: dict[str, str]
) -> tuple[str, ...]:
    """Check the keys of one action, and add them to those that are taken."""
    if action not in known:
        raise ValueError(f"there is no action {safe(repr(action))}; tui-profiler config lists them")
    listed = written_as if isinstance(written_as, list) else [written_as]
    several = [key for key in listed if isinstance(key, str) and key]
    if not several or len(several) < len(listed):
        raise ValueError(f"{action}: a key is a text or a list of texts")
    names = tuple(key_name(key) for key in several)
    for key, name in zip(several, names, strict=True):
        if name in TAKEN:
            raise ValueError(f"{action}: {key} always leaves the program")
        if given.get(name, action) != action:
            raise ValueError(f"{action}: {key} is taken by {given[name]} already")
    given.update(dict.fromkeys(names, action))
    return names


def actions() -> dict[str, str]:
    """Return the name of every action that keys may be given to, with what it does."""
    found: dict[str, str] = {}
    for key in (*EXPLORER, *DEPTHS):
        name = action_name(key.action)
        # Of a recording, a key may mean something else.
        found[name] = f"{found[name]}; {key.help}" if name in found else key.help
    return found


def as_toml(config: Config) -> str:
    """Return the settings that hold as TOML, each with what it may be."""
    settings = config.settings
    lines = [
        f"# tui-profiler reads {_toml(str(config.path))} when it starts.",
        "# These are the current settings; omitted ones have their defaults.",
        "",
        f"# Colours: {', '.join(THEME_NAMES)}.",
        "# terminal takes the terminal's own 16; auto takes them where there are no more.",
        f"theme = {_toml(settings.theme)}",
        "",
        f"# Characters to draw with: {', '.join(GLYPH_SETS)}; auto goes by locale and terminal.",
        f"glyphs = {_toml(settings.glyphs)}",
        "",
        "# Columns of the tree from left to right; where it is narrow the last ones are left out.",
        "# None: those that the width has room for.",
        *(f"#   {name:<12}{what}" for name, (_, what) in COLUMN_WORDS.items()),
        f"columns = {_toml(list(settings.columns))}",
        "",
        f"# Siblings are sorted by one of the columns, or {SORT_KEYS[0]}, or {SORT_KEYS[-1]}.",
        f"sort = {_toml(settings.sort)}",
        "",
        f"# Refreshes per second, {LEAST_RATE:g} to {MOST_RATE:g}.",
        f"rate = {settings.rate:g}",
        "",
        "# Clicks and the wheel; without it the terminal's own selection works.",
        f"mouse = {_toml(settings.mouse)}",
        "",
        "# An action's key, or a list of keys: characters, names (f2, enter, pagedown), ctrl+x.",
        "# A key assigned to one action is removed from all others.",
        "[keys]",
        *_key_lines(settings),
    ]
    return "\n".join(lines) + "\n"


def _key_lines(settings: Settings) -> list[str]:
    usual: dict[str, Key] = {}
    for key in (*EXPLORER, *DEPTHS):
        usual.setdefault(action_name(key.action), key)
    lines = []
    helps = actions()
    for action, key in usual.items():
        own = settings.keys.get(action)
        names = [written(name) for name in own or key.keys.split(",")]
        value = _toml(names[0] if len(names) == 1 else names)
        setting = f"{'' if own else '# '}{action} = {value}"
        lines.append(f"{setting:<38} # {helps[action]}")
    return lines


def _toml(value: object) -> str:
    # JSON's texts, lists and truth values are TOML's as well.
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()
