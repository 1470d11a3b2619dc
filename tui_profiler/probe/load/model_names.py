"""Names of the models that can be asked for."""

from __future__ import annotations

from fnmatch import fnmatchcase

from tui_profiler.messages import Listed
from tui_profiler.probe.load.architectures.timm_models import PREFIX as TIMM
from tui_profiler.probe.load.architectures.timm_models import timm_names
from tui_profiler.probe.load.architectures.torchvision_architectures import architecture_names
from tui_profiler.probe.load.ultralytics.yaml import yaml_names
from tui_profiler.system.demos import PREFIX, demo_names


def list_models(pattern: str) -> Listed:
    """Give every name that matches, demo models first.

    Args:
        pattern: Part of a name, or a glob with ``*``, ``?`` or ``[``; case does not matter. Empty
            is every name.
    """
    names = [("demo", PREFIX + name) for name in demo_names()]
    names += [("torchvision", name) for name in architecture_names()]
    names += [("timm", TIMM + name) for name in timm_names()]
    names += [("ultralytics", name) for name in yaml_names()]
    folded = pattern.casefold()
    is_glob = any(sign in folded for sign in "*?[")
    return Listed(
        names=tuple(
            (source, name)
            for source, name in names
            if (fnmatchcase(name, folded) if is_glob else folded in name)
        )
    )
