"""Tells when a program imports a package, from its first line to its last.

1. The package is found and loaded as without us. What importlib says on the package's specification
   while it loads it is heard, by a class of the specification's for so long.
2. Afterwards nothing of this is left, on ``sys.meta_path`` or in the package. Where the package
   could not be imported, the next try is heard as well.
3. When ``ended`` is called, the thread that imports holds the package's lock, but importlib says
   already that it is loaded: others that import it do not ask for that lock.
"""

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


class FirstImport:
    """Hears of one package, from ``listen`` until it is imported.

    Args:
        name: of the package.
        begins: called when its first line is to run, on the thread that imports it.
        ended: called when its last line has run, or one has raised, and told whether it is there.
            What either of them raises, the import raises.
    """

    def __init__(
        self, name: str, begins: Callable[[], None], ended: Callable[[bool], None]
    ) -> None:
        self._name = name
        self._begins = begins
        self._ended = ended

    def listen(self) -> None:
        """Stand before all that finds packages."""
        sys.meta_path.insert(0, self)

    def leave(self) -> None:
        """Hear no more. An import that is under way is still heard."""
        # Another list: who goes through the present one, on another thread, misses none.
        sys.meta_path = [one for one in sys.meta_path if one is not self]

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return what those behind us find of the package; None for any other."""
        if name != self._name or self not in sys.meta_path:
            return None
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None else None
            if isinstance(spec, ModuleSpec):
                if type(spec) is ModuleSpec:  # It may be asked for, and never loaded.
                    vars(spec)[_LISTENER] = self
                    spec.__class__ = _Heard
                return spec
        return None

    def heard(self, spec: ModuleSpec, *, is_loading: bool) -> None:
        """Take what importlib says of the package."""
        if is_loading:
            self._begins()
            return
        del vars(spec)[_LISTENER]
        spec.__class__ = ModuleSpec
        is_there = getattr(sys.modules.get(self._name), "__spec__", None) is spec
        if is_there:
            self.leave()
        self._ended(is_there)


_LISTENER = "_tui_profiler"


class _Heard(ModuleSpec):
    """A specification on which importlib says whether its package is being loaded.

    Source: ``_load_unlocked`` in Lib/importlib/_bootstrap.py, Python 3.4 to 3.14.
    """

    @property
    def _initializing(self) -> bool:
        return bool(vars(self)["_initializing"])

    @_initializing.setter
    def _initializing(self, is_loading: bool) -> None:
        vars(self)["_initializing"] = is_loading
        listener: FirstImport = vars(self)[_LISTENER]
        listener.heard(self, is_loading=is_loading)
