"""Finds the named tensors and modules in what a pickle describes.

Names are those that ``load_state_dict`` would take: what training scripts wrap around a state dict
(``{"model": …, "epoch": 3}``) is taken off, and told as metadata.

A module is known by what ``nn.Module`` keeps in every instance: mappings named ``_parameters``,
``_buffers`` and ``_modules``.
"""

from collections.abc import Iterator

from msgspec import Struct

from tui_profiler.archive.pickles.contents import Gathering
from tui_profiler.archive.pickles.reader import Made, Mapping, Named, Persistent, Skipped
from tui_profiler.archive.pickles.tensors import is_tensor
from tui_profiler.archive.reading.file_contents import Content, Role

INNER_NAMES = ("state_dict", "model_state_dict", "model", "module", "net", "ema", "model_ema")
"""Where training scripts put the weights beside their optimizer's state, the usual ones first."""

_MOST_METADATA = 50
_LONGEST_VALUE = 200


def gather(value: object, gathering: Gathering) -> tuple[Content, dict[str, str]]:
    """Gather what a pickle holds, and give what it is and what else it says."""
    if _is_module(value):
        _gather_module(value, gathering)
        return "module", {}
    if is_tensor(value) and isinstance(value, Made):
        gathering.tensor("tensor", value)
        return "parameters", {"holds": "one tensor without a name"}
    under = _module_under(value)
    if under is not None:
        _gather_module(_last(value, under), gathering)
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
    """Yield what lies under the keys of a mapping, or the indices of a list; each key once."""
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
    found = [key for key, item in children(value) if _is_module(item)]
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
    """Return how many values a mapping, list or tuple holds, keys included."""
    if isinstance(value, Mapping | Made):
        return len(value.pairs or ())
    return len(value) if isinstance(value, list | tuple) else 0


_DEEPEST = 20_000


class _Parts(Struct, frozen=True, gc=False):
    """What an ``nn.Module`` keeps, each as key, value, key, value."""

    parameters: list[object]
    buffers: list[object]
    modules: list[object]


def _is_module(value: object) -> bool:
    return isinstance(value, Made) and _parts(value) is not None


def _gather_module(root: object, gathering: Gathering) -> None:
    """Gather a module, its parameters and buffers, and all modules below it, in preorder.

    A module that lies inside of itself is told as a problem and not entered again.
    """
    inside: set[int] = set()
    waiting: list[tuple[Made, str, Iterator[tuple[str, object]]]] = []

    def enter(path: str, module: Made) -> None:
        gathering.visit()
        gathering.module(path, _class_name(module))
        parts = _parts(module)
        # A module with a pickle of its own (ScriptModule) has none: it is named, and not entered.
        if parts is not None:
            _gather_tensors(path, parts, gathering)
            inside.add(id(module))
            waiting.append((module, path, _items(parts.modules)))

    if isinstance(root, Made):
        enter("", root)
    while waiting:
        module, path, below = waiting[-1]
        for key, child in below:
            if not isinstance(child, Made):
                continue
            child_path = gathering.path(path, key)
            if id(child) in inside:
                gathering.problem(f"module {child_path[:200]!a}", "contains itself")
            elif len(waiting) >= _DEEPEST:
                raise gathering.region.error(f"has modules nested deeper than {_DEEPEST}")
            else:
                enter(child_path, child)
                break
        else:
            waiting.pop()
            inside.discard(id(module))


def _class_name(module: Made) -> str:
    maker: object = module.maker
    # copyreg._reconstructor(cls, object, None), as protocols 0 and 1 have it.
    if isinstance(maker, Named) and maker.name == "copyreg._reconstructor":
        arguments = module.arguments
        maker = arguments[0] if isinstance(arguments, tuple) and arguments else None
    # Legacy files keep the source of a class beside it: ("module", class, file, source).
    if isinstance(maker, Persistent):
        match maker.key:
            case ("module", Named() as inner, *_):
                maker = inner
    return maker.name if isinstance(maker, Named) else "?"


def _parts(module: Made) -> _Parts | None:
    state = module.state
    # (attributes, slots) where the class has both.
    if isinstance(state, tuple) and state:
        state = state[0]
    if not isinstance(state, Mapping) or state.pairs is None:
        return None
    keys = state.pairs[::2]
    # By equality: the hash of a hostile key, a tuple nested deep enough, overflows the stack.
    if "_parameters" not in keys or "_modules" not in keys:
        return None
    pairs = state.pairs
    return _Parts(
        _kept(keys, "_parameters", pairs),
        _kept(keys, "_buffers", pairs),
        _kept(keys, "_modules", pairs),
    )


def _kept(keys: list[object], name: str, pairs: list[object]) -> list[object]:
    if name not in keys:
        return []
    # As in a dict, the last one counts.
    at = len(keys) - 1 - keys[::-1].index(name)
    value = pairs[2 * at + 1]
    return value.pairs or [] if isinstance(value, Mapping) else []


def _items(pairs: list[object]) -> Iterator[tuple[str, object]]:
    if not pairs:
        return iter(())
    # As in a dict: a key that comes again keeps its place and takes the later value.
    flat = iter(pairs)
    last = {key: value for key, value in zip(flat, flat, strict=True) if isinstance(key, str)}
    return iter(last.items())


def _gather_tensors(path: str, parts: _Parts, gathering: Gathering) -> None:
    roles: tuple[tuple[list[object], Role], ...] = (
        (parts.parameters, "parameter"),
        (parts.buffers, "buffer"),
    )
    for pairs, role in roles:
        for key, value in _items(pairs) if pairs else ():
            gathering.visit()
            name = gathering.path(path, key)
            if isinstance(value, Made) and is_tensor(value):
                gathering.tensor(name, value, role)
            elif value is not None:
                gathering.problem(f"tensor {name[:200]!a}", f"is of a kind not understood: {role}")
