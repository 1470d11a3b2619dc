"""The formulas of ``torch.utils.flop_counter``, without triton, which a program may do without.

1. That module imports triton only to accept its kernels as keys: 41 modules, 0.08 s of CPU time,
   76 MiB of resident memory (triton 3.8), and the longest pauses of a program that is attached to.
   So a copy of it is run from its own file, in which triton is replaced as torch does where it is
   not installed, and which nobody else sees: the program's own import finds its module as ever.
2. What the program registers there later (``register_flop_formula``) is asked first.
"""

import builtins
import functools
import importlib.util
import sys
from collections.abc import Callable, Mapping
from types import NoneType, SimpleNamespace
from typing import Any

_MODULE = "torch.utils.flop_counter"


def flop_formula(operator: object) -> Callable[..., int] | None:
    """Return torch's formula for the FLOPs of an operator; None where it has none."""
    registered = getattr(sys.modules.get(_MODULE), "flop_registry", {})
    found: Callable[..., int] | None = registered.get(operator)
    return _formulas().get(operator) if found is None else found


@functools.cache
def _formulas() -> Mapping[object, Callable[..., int]]:
    spec = importlib.util.find_spec(_MODULE)
    if spec is None or spec.loader is None:
        return {}
    module = importlib.util.module_from_spec(spec)
    vars(module)["__builtins__"] = vars(builtins) | {"__import__": _import}
    spec.loader.exec_module(module)
    formulas: Mapping[object, Callable[..., int]] = module.flop_registry
    return formulas


def _import(name: str, *rest: Any) -> object:  # Any: as ``__import__`` takes them.
    if name == "triton.runtime.jit" and name not in sys.modules:
        return SimpleNamespace(JITFunction=NoneType)
    return builtins.__import__(name, *rest)


_formulas()  # Its import is torch's, which a program must not do later (preload).
