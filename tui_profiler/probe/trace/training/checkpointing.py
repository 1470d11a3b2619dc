"""Activation checkpointing of chosen modules, put on a model and taken off again.

A checkpointed module keeps what it is given, and is run again in the backward. Its ``forward`` is
replaced on the instance: the first run is the call itself, the second is a call of the module, as
Hugging Face does it, so that whoever watches calls sees what is computed again.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase

import torch
from torch.utils.checkpoint import checkpoint

from tui_profiler.messages import Remedy
from tui_profiler.probe.torch_compat.internals import children_of
from tui_profiler.probe.trace.failure import refused

BLOCKS = "blocks"
"""Instead of a pattern: the repeated blocks of the model, the outermost ones."""

_CONTAINERS = (torch.nn.Sequential, torch.nn.ModuleList, torch.nn.ModuleDict)


def chosen_modules(model: torch.nn.Module, wish: str) -> list[tuple[str, torch.nn.Module]]:
    """Return what is checkpointed: (path, module).

    Args:
        model: whose modules they are.
        wish: ``blocks``, or a pattern of paths such as ``layers.*``, where ``*`` is one name.

    Raises:
        TraceError: it chooses none.
    """
    found = _blocks(model) if wish == BLOCKS else _matching(model, wish)
    if found:
        return found
    if wish == BLOCKS:
        what = "the model has no repeated blocks to checkpoint"
        raise refused(what, Remedy("--checkpoint 'layers.*'", "chooses modules by their paths"))
    what = f"no module's path is like {wish!r}"
    raise refused(what, Remedy("--checkpoint blocks", "chooses the repeated blocks"))


@contextmanager
def checkpointed(modules: Sequence[torch.nn.Module]) -> Iterator[None]:
    """Have these modules checkpointed while the block runs."""
    missing = object()
    before = [(module, vars(module).get("forward", missing)) for module in modules]
    try:
        for module in modules:
            vars(module)["forward"] = _checkpointing(module, module.forward)
        yield
    finally:
        for module, forward in before:
            if forward is missing:
                vars(module).pop("forward", None)
            else:
                vars(module)["forward"] = forward


def _checkpointing(
    module: torch.nn.Module, forward: Callable[..., object]
) -> Callable[..., object]:
    def outer(*args: object, **kwargs: object) -> object:
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        is_first = True

        def run(*args: object, **kwargs: object) -> object:
            nonlocal is_first
            if is_first:
                is_first = False
                return forward(*args, **kwargs)
            vars(module)["forward"] = forward
            try:
                return module(*args, **kwargs)
            finally:
                vars(module)["forward"] = outer

        # A caller may append to its list before the second run, as DenseNet does.
        args = tuple(list(one) if type(one) is list else one for one in args)
        found: object = checkpoint(run, *args, use_reentrant=False, **kwargs)  # type: ignore[call-overload] # args of any type
        return found

    return outer


def _blocks(model: torch.nn.Module) -> list[tuple[str, torch.nn.Module]]:
    """Return the outermost modules of which several of one class stand beside each other."""
    found: list[tuple[str, torch.nn.Module]] = []
    pending = [("", model)]
    seen: set[int] = set()
    while pending:
        path, module = pending.pop()
        children = [
            (f"{path}.{name}" if path else name, child)
            for name, child in children_of(module).items()
            if child is not None and id(child) not in seen
        ]
        seen.update(id(child) for _, child in children)
        kinds = Counter(type(child) for _, child in children if _is_block(child))
        is_list = isinstance(module, _CONTAINERS)
        for child_path, child in reversed(children):
            if is_list and kinds[type(child)] > 1:
                found.append((child_path, child))
            else:
                pending.append((child_path, child))
    return sorted(found, key=lambda one: _by_number(one[0]))


def _by_number(path: str) -> list[tuple[bool, int, str]]:
    return [
        (name.isdecimal(), int(name) if name.isdecimal() else 0, name) for name in path.split(".")
    ]


def _is_block(module: torch.nn.Module) -> bool:
    """A block has parts of its own, and is more than a list of them."""
    return bool(children_of(module)) and not isinstance(module, _CONTAINERS)


def _matching(model: torch.nn.Module, wish: str) -> list[tuple[str, torch.nn.Module]]:
    names = wish.split(".")
    return [
        (path, module)
        for path, module in model.named_modules()
        if len(parts := path.split(".")) == len(names)
        and all(map(fnmatchcase, parts, names))
        and path
    ]
