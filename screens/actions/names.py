"""How actions and keys are called where a user writes them: ``hottest``, ``ctrl+d``, ``?``."""

import re
import string
import unicodedata

_NAMED = {
    "move(1)": "down",
    "move(-1)": "up",
    "page(1)": "page-down",
    "page(-1)": "page-up",
    "seek(-5)": "seek-back",
    "seek(5)": "seek-on",
    "seek(-60)": "minute-back",
    "seek(60)": "minute-on",
    "speed(2)": "faster",
    "speed(0.5)": "slower",
    "match(1)": "next-match",
    "match(-1)": "former-match",
    "sibling(1)": "next-sibling",
    "sibling(-1)": "former-sibling",
    "app.suspend_process": "suspend",
}
_WITHOUT_CHARACTER = frozenset(
    "up down left right home end pageup pagedown insert delete backspace escape enter tab space"
    f" {' '.join(f'f{number}' for number in range(1, 25))}".split()
)
_MODIFIERS = ("ctrl", "shift", "alt")
_SHORT = {
    "solidus": "slash",
    "reverse_solidus": "backslash",
    "commercial_at": "at",
    "hyphen_minus": "minus",
    "plus_sign": "plus",
    "low_line": "underscore",
}
"""Where Textual's name is not Unicode's."""
TAKEN = ("ctrl+c", "ctrl+q")
"""They leave, whatever happens."""


def action_name(action: str) -> str:
    """Return what a user calls an action: ``side('memory')`` is memory, ``depth(3)`` is depth-3."""
    if action in _NAMED:
        return _NAMED[action]
    name, _, arguments = action.partition("(")
    if not arguments:
        return name.replace("_", "-")
    words = re.findall(r"\w+", arguments)
    return "-".join(words if name == "side" else [name, *words])


def key_name(written: str) -> str:
    """Return Textual's name of a key: ``/`` is slash, ``ctrl+d`` and ``f2`` are called so.

    Raises:
        ValueError: there is no such key.
    """
    *modifiers, key = written.split("+") if written != "+" else ["+"]
    if len(key) == 1:
        key = _character_name(key)
    elif key not in _WITHOUT_CHARACTER and key not in _CHARACTER_NAMES:
        raise ValueError(f"there is no key {written!r}")
    if any(modifier not in _MODIFIERS for modifier in modifiers):
        raise ValueError(f"there is no key {written!r}")
    return "+".join([*modifiers, key])


def _character_name(character: str) -> str:
    if character.isalnum():
        return character
    name = unicodedata.name(character, "")
    if not name:
        raise ValueError(f"there is no key {character!r}")
    name = name.lower().replace("-", "_").replace(" ", "_")
    return _SHORT.get(name, name)


_CHARACTER_NAMES = {_character_name(c): c for c in string.punctuation}


def written(key: str) -> str:
    """Return how a key is written on screen and in a file: ``slash`` is ``/``."""
    *modifiers, last = key.split("+")
    return "+".join([*modifiers, _CHARACTER_NAMES.get(last, last)])
