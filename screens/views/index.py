"""The screens beside the explorer, by name; each is imported when it is opened."""

from __future__ import annotations

from importlib import import_module

from .view_screen import SideScreen

_CLASSES = {
    "timeline": "TimelineScreen",
    "roofline": "RooflineScreen",
    "memory": "MemoryScreen",
    "findings": "FindingsScreen",
    "weights": "WeightsScreen",
}


def side_screen(name: str) -> type[SideScreen]:
    """Give the class of a screen that ``keys.SIDE_SCREENS`` names."""
    module = import_module(f".{name}.screen", __package__)
    found: type[SideScreen] = getattr(module, _CLASSES[name])
    return found
