"""Fake tensors without Dynamo, which torch imports for a few names.

Importing ``torch._dynamo`` takes 0.8 s of CPU, five times what most models take to be traced. A
forward on fake tensors needs of it: two settings of ``config``; ``disable``, so that Dynamo passes
over functions of torch's own; and classes of ``source`` that name tensors, which nobody reads where
no shape is symbolic. While a block runs, something with these names stands for the package.

1. Whatever else is asked of it, by the model say, imports Dynamo, in whose place nothing stands
   from then on.
2. Nothing of it is left after the block but the module of settings, which Dynamo takes over when
   it is imported.
3. Where Dynamo is imported already, or its file of settings cannot be read, nothing is put there.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec, spec_from_file_location, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

_DYNAMO, _CONFIG, _SOURCE = "torch._dynamo", "torch._dynamo.config", "torch._dynamo.source"
_DISABLED = "__dynamo_disable"
"""Where a function of torch's keeps what ``disable`` made of it: torch/_compile.py."""


@contextlib.contextmanager
def dynamo_later() -> Iterator[None]:
    """Have fake tensors not import Dynamo while the block runs."""
    stand_in = _put() if _DYNAMO not in sys.modules else None
    try:
        yield
    finally:
        if stand_in is not None:
            stand_in.take_out()


def _put() -> _Dynamo | None:
    config = sys.modules.get(_CONFIG)
    if config is None:
        try:
            config = _read_config()
        except Exception:
            return None
    return _Dynamo(config)


def _read_config() -> ModuleType:
    """Run Dynamo's file of settings, which needs nothing else of the package."""
    file = Path(torch.__file__).parent / "_dynamo" / "config.py"
    spec = spec_from_file_location(_CONFIG, file)
    assert spec is not None
    assert spec.loader is not None
    config = module_from_spec(spec)
    sys.modules[_CONFIG] = config  # It replaces the class of the module that is there.
    try:
        spec.loader.exec_module(config)
    except BaseException:
        del sys.modules[_CONFIG]
        raise
    return config


class _Named:
    """The name of a tensor, which nobody reads."""

    def __init__(self, *_: object) -> None:
        pass


class _Source(ModuleType):
    """Stands for ``torch._dynamo.source``."""

    AttrSource = ConstantSource = EphemeralSource = _Named
    RandomValueSource = type("RandomValueSource", (), {})

    def __init__(self, dynamo: _Dynamo) -> None:
        super().__init__(_SOURCE)
        self._dynamo = dynamo

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python's own questions, as whether it is a package
            raise AttributeError(name)
        self._dynamo.imported()
        return getattr(importlib.import_module(_SOURCE), name)


class _Dynamo(ModuleType):
    """Stands for ``torch._dynamo``, from when it is made until it is taken out."""

    def __init__(self, config: ModuleType) -> None:
        super().__init__(_DYNAMO)
        self.__path__: list[str] = []
        self.config = config
        self.source = _Source(self)
        self._undisabled: list[Any] = []
        """Functions that keep themselves as what ``disable`` made of them."""
        self._finder = _Finder(self)
        sys.modules[_DYNAMO], sys.modules[_SOURCE] = self, self.source
        sys.meta_path.insert(0, self._finder)
        vars(torch)["_dynamo"] = self

    def disable(self, fn: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Return the function as it is: there is no compiler yet that could compile it."""
        if not callable(fn) or kwargs.get("wrapping", True):  # not as torch itself calls it
            return self.imported().disable(fn, *args, **kwargs)
        self._undisabled.append(fn)
        return fn

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.imported(), name)

    def imported(self) -> Any:
        """Give up the place, and import Dynamo."""
        self.take_out()
        dynamo = importlib.import_module(_DYNAMO)
        vars(dynamo).setdefault("config", self.config)
        return dynamo

    def take_out(self) -> None:
        """Leave nothing but the settings."""
        for name, module in ((_DYNAMO, self), (_SOURCE, self.source)):
            if sys.modules.get(name) is module:
                del sys.modules[name]
        if vars(torch).get("_dynamo") is self:
            del vars(torch)["_dynamo"]
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self._finder)
        while self._undisabled:
            vars(self._undisabled.pop()).pop(_DISABLED, None)


class _Finder(MetaPathFinder):
    """Imports Dynamo for whoever imports a module of it."""

    def __init__(self, dynamo: _Dynamo) -> None:
        self._dynamo = dynamo

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(f"{_DYNAMO}."):
            return None
        dynamo = self._dynamo.imported()
        module = sys.modules.get(fullname)
        if module is None:
            return PathFinder.find_spec(fullname, dynamo.__path__)
        return spec_from_loader(fullname, _Imported(module))


class _Imported(Loader):
    """Loads what is there already: importing the package has imported this module of it."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__
        module.__spec__ = None  # else Python would follow it, and load the module a second time

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec
