"""The configuration as a file: every setting with what it means, to be kept and changed."""

from __future__ import annotations

import msgspec

from tui_profiler.queries.tree.columns import COLUMN_WORDS
from tui_profiler.queries.tree.focus import SORT_KEYS

from ..actions.names import action_name, written
from ..actions.table import DEPTHS, EXPLORER, Key
from .appearance import GLYPH_SETS, THEME_NAMES
from .config import LEAST_RATE, MOST_RATE, Config, Settings


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
