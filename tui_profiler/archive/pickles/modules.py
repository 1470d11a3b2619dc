"""Walks the pickled ``nn.Module``s that a pickle describes, without their classes.

A module is known by what ``nn.Module`` keeps in every instance: mappings named ``_parameters``,
``_buffers`` and ``_modules``.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from tui_profiler.archive.pickles.contents import Gathering
from tui_profiler.archive.pickles.rebuild import is_tensor
from tui_profiler.archive.pickles.values import Made, Mapping, Named, Persistent
from tui_profiler.archive.reading.file_contents import Role

_DEEPEST = 20_000


class _Parts(Struct, frozen=True, gc=False):
    """What an ``nn.Module`` keeps, each as key, value, key, value."""

    parameters: list[object]
    buffers: list[object]
    modules: list[object]


def is_module(value: object) -> bool:
    """Say if a pickle's value would become an ``nn.Module``."""
    return isinstance(value, Made) and _parts(value) is not None


def gather_module(root: object, gathering: Gathering) -> None:
    """Gather a module, its parameters and buffers, and all modules below it, in preorder.

    A module that lies inside of itself is told as a problem and not entered again.

    Raises:
        ArchiveError: It is larger or deeper than any model.
    """
    inside: set[int] = set()
    waiting: list[tuple[Made, str, Iterator[tuple[str, object]]]] = []

    def enter(path: str, module: Made) -> None:
        gathering.visit()
        gathering.module(path, class_name(module))
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
                gathering.problem(f"module {child_path[:200]!a}", "holds itself")
            elif len(waiting) >= _DEEPEST:
                raise gathering.region.error(f"has modules nested deeper than {_DEEPEST}")
            else:
                enter(child_path, child)
                break
        else:
            waiting.pop()
            inside.discard(id(module))


def class_name(module: Made) -> str:
    """Give the name of a module's class as the file has it."""
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
    count = keys.count(name)
    if not count:
        return []
    at = keys.index(name)
    # As in a dict, the last one counts.
    for _ in range(count - 1):
        at = keys.index(name, at + 1)
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
