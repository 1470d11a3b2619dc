"""How well a name fits what was typed: every word of it must be found.

A word counts most where the name begins with it, then at the beginning of a word of the name, then
inside one, then where they are equal but for what separates their parts (``mobilenetv3``,
``mobilenet_v3``), then where its letters and its numbers are in the name, in any order (``res50``,
``resnet50``), then in what else is said of it, and least where only its letters come in that order.
"""

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

_BEGINS, _BEGINS_A_WORD, _INSIDE, _JOINED, _IN_PARTS, _SAID = 400, 300, 200, 175, 150, 100
SCATTERED = 50
"""The most that a word counts of which only the letters are found."""
_SEPARATORS = str.maketrans("", "", "_-.:/ ")
_PARTS = re.compile(r"[^\W\d_]+|\d+")
_Item = TypeVar("_Item")


def fit(typed: str, name: str, said: str = "") -> int | None:
    """Return how well a name fits, higher is better; None where it does not, 0 for nothing typed.

    Args:
        typed: words, in any order and any case.
        name: what is looked for.
        said: what else is said of it: a word may be in it, as it is.
    """
    total = 0
    for word in typed.casefold().split():
        found = _fit_word(word, name.casefold(), said.casefold())
        if not found:
            return None
        total += found
    return total


def best_first(
    typed: str, items: Iterable[_Item], texts: Callable[[_Item], tuple[str, str]]
) -> list[_Item]:
    """Return the items that fit, the best first; equal ones in their order.

    Args:
        typed: words.
        items: to choose from.
        texts: returns the name of an item, and what else is said of it.
    """
    found = [(fit(typed, *texts(item)), item) for item in items]
    fitting = [(score, item) for score, item in found if score is not None]
    return [item for _, item in sorted(fitting, key=lambda one: -one[0])]


def _fit_word(word: str, name: str, said: str) -> int:
    at = name.find(word)
    if at == 0:
        return _BEGINS + (name == word)
    if at > 0 and _begins_a_word(word, name):
        return _BEGINS_A_WORD
    if at > 0:
        return _INSIDE
    joined = word.translate(_SEPARATORS)
    if joined and joined in name.translate(_SEPARATORS):
        return _JOINED
    parts = _PARTS.findall(word)
    if len(parts) > 1 and all(part in name for part in parts):
        return _IN_PARTS + name.startswith(parts[0])
    if word in said:
        return _SAID + _begins_a_word(word, said)
    return _scattered(word, name)


def _begins_a_word(word: str, text: str) -> bool:
    at = text.find(word)
    while at > 0 and text[at - 1].isalnum():
        at = text.find(word, at + 1)
    return at >= 0


def _scattered(word: str, name: str) -> int:
    """Return how close together the letters of a word lie in a name, 0 where they do not."""
    first = at = name.find(word[0])
    for letter in word[1:]:
        if at < 0:
            return 0
        at = name.find(letter, at + 1)
    if at < 0:
        return 0
    return max(SCATTERED - (at - first + 1 - len(word)), 1)
