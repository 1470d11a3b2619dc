"""The modules and parameters of a model without asking the model, and which modules are opaque.

Its own ``modules()`` and ``parameters()`` may want arguments, raise, or recurse too deep.

Opaque modules are compiled, scripted or captured: their parts are never called on their own. What
is inside runs without ``nn.Module.__call__``, so the clock sees one call and nothing in it. An
operator window sees more: the operators that such a region still calls.
"""

import sys
from collections.abc import Callable, Iterator

import torch

from tui_profiler.probe.torch_compat.internals import children_of, parameters_of


def each_module(model: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """Yield every module once, without recursion: 3,000 may be nested."""
    seen: set[int] = set()
    pending = [model]
    while pending:
        module = pending.pop()
        if id(module) not in seen:
            seen.add(id(module))
            yield module
            children = children_of(module)
            if children:
                pending.extend(child for child in children.values() if child is not None)


def modules_in_order(model: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module]]:
    """Yield (path, module) in registration order, each module once.

    Without recursion: ``named_modules`` fails on models that are nested 1,000 deep.
    """
    seen: set[int] = set()
    waiting: list[tuple[str, torch.nn.Module]] = [("", model)]
    while waiting:
        path, module = waiting.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        yield path, module
        prefix = f"{path}." if path else ""
        children = [
            (prefix + name, child)
            for name, child in children_of(module).items()
            if child is not None
        ]
        waiting += reversed(children)


def each_parameter(model: torch.nn.Module) -> Iterator[torch.nn.Parameter]:
    """Yield every parameter; one that two modules share twice."""
    for module in each_module(model):
        yield from (one for one in parameters_of(module).values() if one is not None)


def has_parameters(model: torch.nn.Module) -> bool:
    """Tell whether there is any."""
    return next(each_parameter(model), None) is not None


COMPILED = "compiled by torch.compile: timed as a whole"
SCRIPTED = "TorchScript runs it: timed as a whole"
CAPTURED = "replayed as a CUDA graph: timed as a whole"

_CAPTURED_IN = f"{torch.cuda.make_graphed_callables.__qualname__}.<locals>"
"""Where torch makes the function that it puts in place of a captured module's ``forward``."""


def why_opaque(module: torch.nn.Module) -> str:
    """Return the reason why a module's parts are not called on their own; empty where they are.

    A region that the compiler had to break into several calls its parts between them: those are
    seen.
    """
    if _is_optimized(module) or module._compiled_call_impl is not None:
        return COMPILED
    if isinstance(module, torch.jit.ScriptModule):
        return SCRIPTED
    forward: Callable[..., object] | None = vars(module).get("forward")
    if getattr(forward, "__qualname__", "").startswith(_CAPTURED_IN):
        return CAPTURED
    return ""


def is_generated(module: torch.nn.Module) -> bool:
    """Return whether a module is a captured graph, compiled or not."""
    if _is_optimized(module):
        module = module._orig_mod  # type: ignore[assignment]  # what it compiled
    return isinstance(module, torch.fx.GraphModule)


def _is_optimized(module: torch.nn.Module) -> bool:
    # Importing it takes two seconds; where nothing was compiled, it is not imported.
    compiler = sys.modules.get("torch._dynamo.eval_frame")
    return compiler is not None and isinstance(module, compiler.OptimizedModule)


def part_of(path: str) -> str:
    """Return the note for a module inside of the opaque one at a path."""
    return f"timed as a whole with {path or 'the model'}"
