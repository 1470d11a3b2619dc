"""Names that tracers mangled, resolved against the modules that there really are.

``self_attn`` is one name: that a path of ``L__self___layers_0_self_attn`` reads
``layers.0.self_attn`` can only be told by walking the model. What more than one path would fit is
not resolved.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import torch

from tui_profiler.probe.torch_compat.internals import children_of

_MOST_CHARACTERS = 2_000
_MOST_STEPS = 10_000
"""A model may be built so that most of a name fits everywhere."""

_ROOTS = re.compile(r"^(?:[LlGg]\[['\"]\w+['\"]\]|self|_export_root)(?:\.|$)")
"""What stands for the model itself in front of a path that is not mangled."""
_SCOPE = re.compile(r"^(?:getattr_)*(?:[LlGg]__\w+?___|self_)?")
_WORD = re.compile(r"[^\W_]+")
_HOLDS = ("modules",)
"""An attribute on the way to a child that a path does not name: ``_modules``."""


def module_at(model: torch.nn.Module, path: str) -> torch.nn.Module | None:
    """Give the module at a dotted path; None where there is none."""
    module: torch.nn.Module | None = model
    for name in path.split(".") if path else ():
        module = children_of(module).get(name) if module is not None else None
    return module


def resolved(model: torch.nn.Module, name: str) -> str | None:
    """Give the path that a tracer's name for a module stands for.

    Args:
        model: whose modules are meant.
        name: a path, as it is or mangled: ``L['self'].layers.0``, ``L__self___layers_0``.

    Gives:
        a dotted path, empty for the model itself; None where no path fits, or several do.
    """
    for plain in (name, _ROOTS.sub("", name)):
        if module_at(model, plain) is not None:
            return plain
    if len(name) > _MOST_CHARACTERS:
        return None
    for rest in dict.fromkeys((_SCOPE.sub("", name), name)):
        words = _WORD.findall(rest)
        found = list(_first_two(_fitting(model, words))) if words else []
        if found:
            return found[0] if len(found) == 1 else None
    return None


def _first_two(paths: Iterator[str]) -> Iterator[str]:
    for _, path in zip(range(2), paths, strict=False):
        yield path


def _fitting(model: torch.nn.Module, words: list[str]) -> Iterator[str]:
    """Give every path whose names, cut at what is no letter or digit, are these words."""
    pending: list[tuple[torch.nn.Module, int, tuple[str, ...]]] = [(model, 0, ())]
    steps = 0
    while pending:
        module, done, path = pending.pop()
        if done == len(words):
            yield ".".join(path)
            continue
        for name, child in children_of(module).items():
            steps += 1
            if steps > _MOST_STEPS:
                return
            if child is None:
                continue
            for start in (done, done + 1) if words[done] in _HOLDS else (done,):
                own = _WORD.findall(name)
                end = start + len(own)
                if own and words[start:end] == own:
                    pending.append((child, end, (*path, name)))
