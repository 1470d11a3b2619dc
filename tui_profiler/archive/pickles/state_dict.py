"""Finds the named tensors and modules in what a pickle describes.

Names are those that ``load_state_dict`` would take: what training scripts wrap around a state dict
(``{"model": …, "epoch": 3}``) is taken off, and told as metadata.
"""

from __future__ import annotations

from collections.abc import Iterator

from tui_profiler.archive.pickles.contents import Gathering
from tui_profiler.archive.pickles.modules import gather_module, is_module
from tui_profiler.archive.pickles.rebuild import is_tensor
from tui_profiler.archive.pickles.values import Made, Mapping, Named, Skipped
from tui_profiler.archive.reading.file_contents import Content

INNER_NAMES = ("state_dict", "model_state_dict", "model", "module", "net", "ema", "model_ema")
"""Where training scripts put the weights beside their optimizer's state, the usual ones first."""

_MOST_METADATA = 50
_LONGEST_VALUE = 200


def gather(value: object, gathering: Gathering) -> tuple[Content, dict[str, str]]:
    """Gather what a pickle holds, and give what it is and what else it says.

    Raises:
        ArchiveError: It goes beyond any model's structure.
    """
    if is_module(value):
        gather_module(value, gathering)
        return "module", {}
    if is_tensor(value) and isinstance(value, Made):
        gathering.tensor("tensor", value)
        return "parameters", {"holds": "one tensor without a name"}
    under = _module_under(value)
    if under is not None:
        gather_module(_last(value, under), gathering)
        return "module", {"under": under, **_beside(value, under)}
    inner = _weights_under(value)
    if inner is None:
        _flatten(value, gathering)
        metadata = _beside(value, None)
    else:
        _flatten(_last(value, inner), gathering)
        metadata = {"under": inner, **_beside(value, inner)}
    if gathering.tensors or gathering.problems:
        return "parameters", metadata
    return "other", metadata


def children(value: object) -> Iterator[tuple[str, object]]:
    """Give what lies under the keys of a mapping, or the indices of a list; each key once."""
    if isinstance(value, Mapping | Made) and value.pairs is not None:
        flat = iter(value.pairs)
        # As in a dict: a key that comes again keeps its place and takes the later value.
        found: dict[str, object] = {}
        for key, item in zip(flat, flat, strict=True):
            if isinstance(key, str):
                found[key] = item
            elif isinstance(key, int):
                found[str(key)] = item
        yield from found.items()
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield str(number), item


def _last(value: object, wanted: str) -> object:
    return dict(children(value)).get(wanted)


def _module_under(value: object) -> str | None:
    if not isinstance(value, Mapping | Made):
        return None
    found = [key for key, item in children(value) if is_module(item)]
    for name in INNER_NAMES:
        if name in found:
            return name
    return found[0] if found else None


def _weights_under(value: object) -> str | None:
    if not isinstance(value, Mapping | Made):
        return None
    items = dict(children(value))
    if any(is_tensor(item) for item in items.values()):
        return None
    for name in INNER_NAMES:
        item = items.get(name)
        if isinstance(item, Mapping | Made) and any(is_tensor(part) for _, part in children(item)):
            return name
    return None


def _beside(value: object, under: str | None) -> dict[str, str]:
    if not isinstance(value, Mapping | Made):
        return {}
    told: dict[str, str] = {}
    for key, item in children(value):
        if key == under or is_tensor(item) or len(told) >= _MOST_METADATA:
            continue
        text = _in_words(item)
        if under is not None or text:
            told[key[:_LONGEST_VALUE]] = text or "not read"
    return told


def _in_words(value: object) -> str:
    match value:
        case None | bool() | int() | float():
            return str(value)
        case str():
            return value[:_LONGEST_VALUE]
        case Skipped():
            return f"{value.bytes} bytes"
        case Made(maker=Named(name=name)):
            return name[:_LONGEST_VALUE]
    return ""


def _flatten(value: object, gathering: Gathering) -> None:
    # Depth first in the order of the file, without recursion.
    waiting: list[tuple[str, Iterator[tuple[str, object]]]] = [("", children(value))]
    while waiting:
        above, items = waiting[-1]
        for key, item in items:
            if not isinstance(item, Mapping | list | tuple | Made):
                continue
            if is_tensor(item) and isinstance(item, Made):
                gathering.visit()
                gathering.tensor(gathering.path(above, key), item)
            else:
                gathering.visit(length_of(item))
                waiting.append((gathering.path(above, key), children(item)))
                break
        else:
            waiting.pop()


def length_of(value: object) -> int:
    """Give how many values a mapping, list or tuple holds, keys included."""
    if isinstance(value, Mapping | Made):
        return len(value.pairs or ())
    return len(value) if isinstance(value, list | tuple) else 0
