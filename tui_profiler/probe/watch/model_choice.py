"""Which model a script runs.

A script does not say what its model is. It is the outermost module with parameters that it calls:
a layer may be called alone first, to learn the shape of what it gives, and a model may be put aside
for the next one and stay alive. A module whose forward is a whole loop around another one, such as
one that trains, is no model: what it calls is.
"""

import os
import sys
import types
import weakref
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from types import FrameType

import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter

from tui_profiler.messages.live import RunModel
from tui_profiler.probe.process.interpreter_lock import readable_frames
from tui_profiler.probe.process.wire_names import writable
from tui_profiler.probe.torch_compat.entry_method import locals_of
from tui_profiler.probe.torch_compat.internals import children_of
from tui_profiler.probe.torch_compat.modules import each_module, each_parameter, has_parameters
from tui_profiler.probe.torch_compat.threads import modules_called, without_torch_function
from tui_profiler.probe.trace.tree.growing_tree import class_name
from tui_profiler.probe.watch.listener import Loop
from tui_profiler.system import real_time as time

_MOST_LOOKS = 8
"""For the path of one model: it may be called before it is assigned to a variable."""
_MOST_NAMED = 8
MOST_MET = 64
"""Models that are told apart."""
SETTLED_SECONDS = 2.0
"""A model that was called sooner than this ago is still the one that is run."""
WAIT_SECONDS = 10.0
FAR_MORE = 1.5
"""Times the shown model's time in forwards, from which on another one that is trained is shown."""


@dataclass(eq=False)
class _CalledModel:
    """A model that was called."""

    ref: weakref.ref[nn.Module]
    kind: str
    key: int
    """Its id, also when it is gone; 0 once another model has that."""
    index: int
    """Among those of its class, in the order of their first calls."""
    is_run: bool = False
    """False: it may be a part, or a loop around a model."""
    path: str = ""
    parameters: int = -1
    """Negative: not counted yet."""
    looks: int = 0
    """How often its path was looked for."""

    @property
    def alike(self) -> tuple[str, str, int]:
        """What those that are gone have in common where they count as one."""
        return self.kind, self.path, self.parameters

    def matches(self, pattern: str) -> bool:
        names = (self.kind, f"{self.kind}#{self.index}", self.path)
        return any(name == pattern or fnmatchcase(name, pattern) for name in names if name)

    @property
    def label(self) -> str:
        """What it is called in a sentence."""
        return f"{self.kind}#{self.index} {self.path}".rstrip()

    def count(self) -> int:
        """Return the number of parameters; 0 where it was gone before they were counted."""
        model = self.ref()
        if model is not None and self.parameters < 0:
            with without_torch_function():
                every = {id(one): one for one in each_parameter(model)}.values()
                self.parameters = sum(
                    one.numel() for one in every if not isinstance(one, UninitializedParameter)
                )
        return max(self.parameters, 0)


class ModelChoice:
    """Tells models from their parts, and notices that another than the one looked at is run.

    Args:
        wait_seconds: how long the other one's next forward is waited for, and how long nothing is
            noticed after one was waited for in vain.
    """

    def __init__(self, wait_seconds: float = WAIT_SECONDS) -> None:
        self._wait_seconds = wait_seconds
        self.chosen = ""
        """Pattern of the model that the user wants to see; empty: of whatever runs."""
        self._preferred: weakref.ref[nn.Module] | None = None
        """The model with the most time, until it is shown or waited for in vain."""
        self._preferred_until = 0.0
        self._has_preferred = False
        """Whether one was preferred so far: the model is changed for it once."""
        self._until = 0.0
        self._not_before = 0.0
        self._rested = False
        """Whether it was noticed by what is looked at not being called."""
        self._loops: tuple[Loop, ...] = ()
        self._seen: list[_CalledModel] = []
        """Models that were called, by any thread; of so many those that are gone are forgotten."""
        self._called: Counter[str] = Counter()
        """How many models of each class were called."""

    def is_model(self, module: nn.Module) -> bool:
        """Tell whether a call that begins on this thread is one of a model, not of its part."""
        if not has_parameters(module) or self._is_loop(module):
            return False
        return self._outermost([*modules_called(sys._getframe())]) is None

    def is_chosen(self, model: nn.Module) -> bool:
        """Tell whether a model is one that the user wants to see; on the thread that calls it."""
        met = self._known(model)
        if not self.chosen:
            return (preferred := self.preferred) is None or preferred is model
        if met is None:  # Of too many.
            return fnmatchcase(class_name(model), self.chosen)
        self.note(model)
        return met.matches(self.chosen)

    @property
    def preferred(self) -> nn.Module | None:
        """The model that is waited for because it has the most time; None where none is."""
        if self._preferred is None or time.monotonic() >= self._preferred_until:
            return None
        return self._preferred()

    def prefer_busiest(
        self, root: nn.Module, seconds: Mapping[int, float], trained: Set[int]
    ) -> bool:
        """Wait for the trained model with the most time where that is far more than the shown one.

        Once, and not where the user has chosen: of a generator and a discriminator the one that is
        called first is shown first, whatever its share is.

        Args:
            root: what is looked at.
            seconds: spent in calls of each model, by id.
            trained: other models that are trained in the same steps, by id.

        Returns:
            Whether another model is waited for now.
        """
        if self.chosen or self._has_preferred or id(root) not in seconds:
            return False
        least = FAR_MORE * seconds[id(root)]
        if max(seconds.values()) <= least:
            return False
        met = {one.key: model for one in self._run(root) if (model := one.ref()) is not None}
        busier = [key for key in met if key in trained and seconds.get(key, 0.0) > least]
        if not busier:
            return False
        self._has_preferred = True
        self._preferred = weakref.ref(met[max(busier, key=lambda key: seconds[key])])
        self._preferred_until = time.monotonic() + self._wait_seconds
        return True

    def meet(self, module: nn.Module) -> bool:
        """Take note of a call that begins on this thread; tell whether it is one of a model."""
        is_model = self.is_model(module)
        if is_model:
            self._known(module)
            self.note(module)
        return is_model

    def note(self, model: nn.Module) -> None:
        """Take note of a model that is run."""
        met = self._find(model) or self._add(model)
        if met is not None:
            met.is_run = True

    def show(self, model: nn.Module) -> None:
        """Take note of the model that is shown from now on."""
        self._preferred = None
        self.note(model)

    def _find(self, model: nn.Module) -> _CalledModel | None:
        return next((one for one in list(self._seen) if one.ref() is model), None)

    def _add(self, model: nn.Module) -> _CalledModel | None:
        """Return what is known of a model that was not met before; None of too many."""
        if len(self._seen) >= MOST_MET and not self._forget_one():
            return None
        kind = class_name(model)
        for gone in list(self._seen):
            if gone.key == id(model):
                gone.key = 0
        self._called[kind] += 1
        met = _CalledModel(weakref.ref(model), kind, id(model), self._called[kind])
        self._seen.append(met)
        return met

    def _forget_one(self) -> bool:
        """Forget one that is gone, of those that count as one the first; False where none is."""
        gone = [one for one in list(self._seen) if one.ref() is None]
        if not gone:
            return False
        alike = Counter(one.alike for one in gone)
        with suppress(ValueError):  # Another thread has forgotten it.
            self._seen.remove(next((one for one in gone if alike[one.alike] > 1), gone[0]))
        return True

    def _known(self, model: nn.Module) -> _CalledModel | None:
        """Return what is known of a model, with its path where this thread's stack tells it."""
        met = self._find(model) or self._add(model)
        if met is not None and not met.path and met.looks < _MOST_LOOKS:
            met.looks += 1
            met.path = variable_path(model)
        return met

    def _run(self, root: nn.Module) -> list[_CalledModel]:
        """Return the models that were met, but for parts of ``root``, which comes first.

        Of models that are gone, those of one class, size and path count as one: a new one per fold.
        """
        met = [one for one in list(self._seen) if one.is_run or one.ref() is root]
        own = {id(module) for module in each_module(root)} if len(met) > 1 else {id(root)}
        found: dict[object, _CalledModel] = {}
        for one in sorted(met, key=lambda one: one.ref() is not root):
            model = one.ref()
            if model is root or id(model) not in own:
                found.setdefault(one.alike if model is None else one, one)
        return list(found.values())

    def others(self, root: nn.Module) -> tuple[str, ...]:
        """Return the classes of the models that were met, but for ``root`` and its parts."""
        return tuple({one.kind: None for one in self._run(root) if one.ref() is not root})

    def models(self, root: nn.Module, seconds: dict[int, float]) -> tuple[RunModel, ...]:
        """Return every model that was met, ``root`` first; empty where it is alone.

        Args:
            root: what is looked at.
            seconds: spent in calls of each model, by id.
        """
        for one in list(self._seen):
            one.count()  # On this thread, and before it is gone.
        met, whole = self._run(root), sum(seconds.values())
        if len(met) < 2:
            return ()
        return tuple(
            RunModel(
                one.kind,
                one.index,
                one.path,
                one.count(),
                # One that was not called since the clock is on may have been before.
                round(seconds[one.key] / whole, 2) if whole > 0 and one.key in seconds else None,
                one.ref() is None,
            )
            for one in met
        )

    def shares(self, root: nn.Module, seconds: dict[int, float]) -> tuple[float, ...]:
        """Return the share of the time of each of ``others``; none where one was not measured.

        Args:
            root: what is looked at.
            seconds: spent in calls of each model, by id.
        """
        whole = sum(seconds.values())
        if whole <= 0:
            return ()
        spent: dict[str, float] = {}
        for one in list(self._seen):
            if one.key in seconds and one.ref() is not root:
                spent[one.kind] = spent.get(one.kind, 0.0) + seconds[one.key]
        others = self.others(root)
        if not spent.keys() >= set(others):
            return ()
        return tuple(round(spent[kind] / whole, 2) for kind in others)

    @property
    def waits_because(self) -> str:
        """Why models that are called are not shown; empty where any is wanted, or none was."""
        met = [one for one in list(self._seen) if one.is_run]
        if not self.chosen or not met:
            return ""
        chosen = [one for one in met if one.matches(self.chosen)]
        if chosen:
            is_gone = all(one.ref() is None for one in chosen)
            return writable(f"{chosen[0].label} {'was deleted' if is_gone else 'is not called'}")
        names = (one.label for one in met[:_MOST_NAMED])
        more = f" and {len(met) - _MOST_NAMED} more" if len(met) > _MOST_NAMED else ""
        return writable(f"no model called so far is {self.chosen}: {', '.join(names)}{more}")

    def pass_over(self, loop: Loop) -> None:
        """Take what a module calls for models, and itself for none."""
        self._loops = (*(one for one in self._loops if one.module() is not None), loop)

    @property
    def patience(self) -> int:
        """How many times as long the next forward is recorded before it is taken for a loop.

        It doubles with each that was taken for one and returned soon: those were slow models.
        """
        return 1 << sum(one.is_model for one in self._loops)

    @property
    def innermost_loop(self) -> nn.Module | None:
        """What was passed over last, of all whose forwards still go on."""
        return next((one.module() for one in self._loops[::-1] if one.goes_on), None)

    def is_elsewhere(self, root: nn.Module, idle_seconds: float) -> bool:
        """Tell whether a forward of another model is to be waited for.

        Args:
            root: what is looked at.
            idle_seconds: since its last forward ended.
        """
        now = time.monotonic()
        if self.chosen or now < self._not_before:
            return False
        self._rested = idle_seconds >= SETTLED_SECONDS
        if not self._rested and not self._is_inside(root):
            return False
        self._until = now + self._wait_seconds
        return True

    @property
    def is_rested(self) -> bool:
        """Whether another model was last waited for because what is looked at was not called."""
        return self._rested

    def is_in_vain(self, idle_seconds: float) -> bool:
        """Tell whether it is not waited for any more: for too long, or who rested is run again.

        Whoever is run meanwhile is slower: each call of a part is looked at.
        """
        is_back = self._rested and idle_seconds < SETTLED_SECONDS
        return is_back or time.monotonic() >= self._until

    def give_up(self) -> None:
        """Notice nothing for a while."""
        self._not_before = time.monotonic() + self._wait_seconds

    def _is_inside(self, root: nn.Module) -> bool:
        """Tell whether a thread is in a call of another model that called ``root``."""
        frames = readable_frames()
        found = False
        # One by one: held by a name of ours, our own frame would hold itself, and what is below it.
        while frames:
            calls = [*modules_called(frames.popitem()[1])]
            around = self._outermost(calls)
            found |= around is not None and around is not root and any(one is root for one in calls)
        return found

    def _outermost(self, calls: list[nn.Module]) -> nn.Module | None:
        """Return the model among calls inside of each other, innermost first."""
        models = (one for one in calls[::-1] if has_parameters(one) and not self._is_loop(one))
        return next(models, None)

    def _is_loop(self, module: nn.Module) -> bool:
        return any(one.module() is module and not one.is_model for one in self._loops)


MOST_LOOKED_AT = 600
"""Of the globals, and as many of the locals of all functions."""
MOST_DEPTH = 3
"""Dots and brackets of a path, at most."""
_MOST_ITEMS = 32
_MOST_FRAMES, _MOST_FUNCTIONS = 256, 20
_OURS = str(Path(__file__).resolve().parents[2]) + os.sep
_NO_CONTAINERS = (
    *(types.ModuleType, type, types.FunctionType, types.MethodType, types.BuiltinFunctionType),
    *(torch.Tensor, str, bytes, int, float, complex, set, frozenset),
)


def variable_path(model: nn.Module) -> str:
    """Return the shortest path to a model from the script's variables; empty where none is found.

    Globals of the script come first, then locals of its functions that are on this thread's stack,
    outermost first.
    """
    main = sys.modules.get("__main__")
    found = _path_in(vars(main), model, MOST_LOOKED_AT) if main is not None else ""
    if found:
        return found
    for frame in list(_functions(sys._getframe(1)))[-_MOST_FUNCTIONS:][::-1]:
        names = locals_of(frame)
        names.pop("self", None)
        found = _path_in(names, model, MOST_LOOKED_AT // _MOST_FUNCTIONS)
        if found:
            return found
    return ""


def _functions(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames of the user's own functions, innermost first."""
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return
        file = frame.f_code.co_filename
        if not file.startswith((_OURS, "<frozen")) and "site-packages" not in file:
            yield frame
        frame = frame.f_back


def _path_in(names: Mapping[str, object], model: nn.Module, most: int) -> str:
    pending: deque[tuple[str, object, int]] = deque([("", dict(names), 0)])
    seen, left = set[int](), most
    while pending:
        path, inside, depth = pending.popleft()
        for name, value in _parts(path, inside):
            left -= 1
            if value is model:
                return writable(name)
            if left <= 0:
                return ""
            if depth < MOST_DEPTH and id(value) not in seen and _may_contain(value):
                seen.add(id(value))
                pending.append((name, value, depth + 1))
    return ""


def _may_contain(value: object) -> bool:
    return not issubclass(type(value), _NO_CONTAINERS)


def _parts(path: str, value: object) -> Iterator[tuple[str, object]]:
    if not path:
        assert isinstance(value, dict)
        for name, part in value.items():
            if name.isidentifier() and name[:2] != "__":
                yield name, part
    elif type(value) is dict:
        for key, part in list(value.items())[:_MOST_ITEMS]:
            if type(key) in (str, int):
                yield f"{path}[{key!r}]", part
    elif type(value) in (list, tuple):
        assert isinstance(value, list | tuple)
        yield from ((f"{path}[{at}]", part) for at, part in enumerate(value[:_MOST_ITEMS]))
    else:
        if issubclass(type(value), nn.Module):
            assert isinstance(value, nn.Module)
            yield from ((f"{path}.{name}", one) for name, one in (children_of(value) or {}).items())
        try:
            own = object.__getattribute__(value, "__dict__")
        except AttributeError:
            return
        if type(own) is dict:
            yield from ((f"{path}.{name}", part) for name, part in list(own.items()))
