"""The tree while it grows: one place for each module and operator under each parent.

1. Every registered module has a place under the module that registers it, in registration order.
   Where a module is registered twice under one parent it has one place, named by the first name.
2. A module that is registered again elsewhere has a place there too; what is below it is added when
   it is called there. Containers that are never called themselves (``ModuleList``) are followed at
   once, so that what they hold can be found.
3. A module that is called while another runs belongs to its registered place below that one; if it
   has none, to a new place directly below it.
4. An operator's place is its ordinal within the running call of its module, and its name. Repeated
   calls of the module meet in the same places.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch.export.unflatten import InterpreterModule

from tui_profiler.messages import Caller, Kind, Tensor
from tui_profiler.probe.cost.rollup import SelfCost
from tui_profiler.probe.process.yielding import free, rest
from tui_profiler.probe.torch_compat.internals import children_of

Module = torch.nn.Module


@dataclass(slots=True, eq=False)
class Place:
    """A node to be: what was seen of it so far."""

    parent: Place | None
    kind: Kind
    name: str
    path: str
    type: str
    module: Module | None = None
    """None for an operator."""
    is_registered: bool = True
    """Its parameters are the model's."""
    is_expanded: bool = False
    """The modules below it have places."""
    modules: dict[int, Place] = field(default_factory=dict)
    """By ``id`` of the module."""
    strangers: dict[tuple[int, str], Place] = field(default_factory=dict)
    """Modules registered nowhere, by ordinal within a call and class name."""
    ops: dict[tuple[int, str], Place] = field(default_factory=dict)
    """By ordinal within a call, and type."""
    aliases: tuple[str, ...] = ()
    """Other names under the same parent."""
    calls: int = 0
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    source: str = ""
    called_from: str = ""
    callers: tuple[Caller, ...] = ()
    note: str = ""
    own: SelfCost = field(default_factory=SelfCost)


@dataclass(slots=True)
class Frame:
    """A call that is running."""

    place: Place
    ops: int = 0
    """Operators seen so far in this call."""
    strangers: int = 0
    """Unregistered modules called so far in this call."""


class Places:
    """The places of one model, found by what runs."""

    def __init__(self, model: Module, name: str) -> None:
        self.root = Place(None, "module", name or class_name(model), "", class_name(model), model)
        self._by_module: dict[int, list[Place]] = {id(model): [self.root]}
        self._found: dict[tuple[int, int], Place] = {}
        self.depth = 1
        """Modules nested in each other, at most."""
        self._expand(self.root, {id(model)})

    def of_module(self, frame: Frame, module: Module) -> Place:
        """Return the place of a module that is called while ``frame`` runs."""
        here = frame.place
        place = here.modules.get(id(module)) or self._below(here, module)
        if place is None:
            place = self._added(frame, module)
        elif not place.is_registered:
            frame.strangers += 1
        if not place.is_expanded:
            self._expand(place, {id(module)})
        return place

    def of_op(self, frame: Frame, name: str, type_: str) -> Place:
        """Return the place of an operator that runs while ``frame`` does."""
        key = (frame.ops, type_)
        frame.ops += 1
        place = frame.place.ops.get(key)
        if place is None:
            place = Place(frame.place, "op", name, "", type_)
            frame.place.ops[key] = place
        return place

    def elsewhere(self, place: Place) -> tuple[str, ...]:
        """Return the paths at which a place's module stands as well."""
        others = (other.path for other in self._by_module.get(id(place.module), ()))
        below = "" if place.parent is None else place.parent.path
        aliases = (joined(below, alias) for alias in place.aliases)
        return tuple(path for path in (*aliases, *others) if path and path != place.path)

    def in_preorder(self) -> Iterator[Place]:
        """Yield every place, parents first: modules as registered, then as called, then operators.

        Operators stand in the order of their first execution.
        """
        pending = [self.root]
        while pending:
            place = pending.pop()
            yield place
            pending.extend(reversed((*distinct_modules(place), *place.ops.values())))

    def free(self) -> None:
        """Drop every module and every place but the root, a few at a time.

        Places reference one another: only a full collection would find them, and until then they
        would keep the model.
        """
        pending = [self.root]
        while pending:
            place = pending.pop()
            below = (place.modules, place.strangers, place.ops)
            for places in below:
                pending += places.values()
            free(*below)
            place.parent = place.module = None
            rest()
        free(self._by_module, self._found)

    def _below(self, here: Place, module: Module) -> Place | None:
        """Find the registered place of ``module`` below ``here``, through what was not called."""
        key = (id(here), id(module))
        if key not in self._found:
            steps = [
                (found, place)
                for place in self._by_module.get(id(module), ())
                if (found := _steps_below(place, here)) is not None
            ]
            if steps:
                self._found[key] = min(steps, key=lambda one: one[0])[1]
        return self._found.get(key)

    def _added(self, frame: Frame, module: Module) -> Place:
        """Make a place directly below the running one."""
        here = frame.place
        known = self._by_module.get(id(module))
        if known:
            name = known[0].path or class_name(module)  # A model that calls itself has no path.
            return self._add(here, module, name, known[0].path, note="called from here")
        if here.module is not None:
            for name, child in children_of(here.module).items():
                if child is module:
                    return self._add(here, module, name, joined(here.path, name))
        return self._stranger(frame, module)

    def _stranger(self, frame: Frame, module: Module) -> Place:
        here, name = frame.place, class_name(module)
        key = (frame.strangers, name)
        frame.strangers += 1
        if key not in here.strangers:
            place = self._add(here, module, name, joined(here.path, name), note="not registered")
            place.is_registered = False
            here.strangers[key] = place
        return here.strangers[key]

    def _add(self, here: Place, module: Module, name: str, path: str, note: str = "") -> Place:
        place = Place(here, "module", name, path, class_name(module), module, note=note)
        here.modules[id(module)] = place
        self._by_module.setdefault(id(module), []).append(place)
        return place

    def _expand(self, top: Place, seen: set[int]) -> None:
        """Add places for everything registered below ``top``, without recursion."""
        top.is_expanded = True
        walks = [(top, iter(list(_registered(top))))]
        while walks:
            self.depth = max(self.depth, len(walks))
            place, children = walks[-1]
            name, module = next(children, ("", None))
            if module is None:
                walks.pop()
            elif id(module) in place.modules:
                place.modules[id(module)].aliases += (name,)
            else:
                child = self._add(place, module, name, joined(place.path, name))
                child.is_registered = top.is_registered
                if id(module) not in seen or _is_passed_through(child):
                    seen.add(id(module))
                    child.is_expanded = True
                    walks.append((child, iter(list(_registered(child)))))


def class_name(module: Module) -> str:
    """Return the class of a module; of a scripted or exported one, the class it was made from."""
    if isinstance(module, torch.jit.ScriptModule):
        return str(module.original_name)
    exported = module.type_name() if isinstance(module, InterpreterModule) else None
    return (exported or type(module).__name__).rpartition(".")[2]


def joined(path: str, name: str) -> str:
    """Return the path of a submodule."""
    return f"{path}.{name}" if path else name


def distinct_modules(place: Place) -> Iterator[Place]:
    """Return the module places below one, each once."""
    return iter(dict.fromkeys(place.modules.values()))


def _registered(place: Place) -> Iterator[tuple[str, Module]]:
    if place.module is not None:
        for name, module in children_of(place.module).items():
            if module is not None:
                yield name, module


def _steps_below(place: Place, here: Place) -> tuple[int, int] | None:
    """Return how many modules between could have called it themselves, and how many there are.

    None where ``place`` is not below ``here``. A shared module belongs to the nearest of its
    places: one inside of a block stands for the calls of that block.
    """
    callable_, between = 0, 0
    above = place.parent
    while above is not None and above is not here:
        callable_ += not isinstance(above.module, torch.nn.ModuleList | torch.nn.ModuleDict)
        between += 1
        above = above.parent
    return None if above is None else (callable_, between)


def _is_passed_through(place: Place) -> bool:
    """Tell whether a module cannot be called, and does not hold itself."""
    if not isinstance(place.module, torch.nn.ModuleList | torch.nn.ModuleDict):
        return False
    above = place.parent
    while above is not None:
        if above.module is place.module:
            return False
        above = above.parent
    return True
