"""Engine of the profiler: everything except the screens.

The probe (the only part that imports torch) loads, traces, costs and measures a model, and sends
messages. The screens (the only part that imports Textual) draw a session folded from them.
Data moves one way, and requests are the only way back:

    probe: load -> trace -> cost -> measure -> link
    wire -> source -> session -> queries -> screens

Everything between the halves is plain data, tested without either.
"""

import importlib
from typing import TYPE_CHECKING

__all__ = [
    "Compared",
    "Profile",
    "ProfileError",
    "__version__",
    "open_recording",
    "profile",
    "watch",
]

if TYPE_CHECKING:
    from tui_profiler.api import Compared, Profile, ProfileError, open_recording, profile
    from tui_profiler.probe.watch.watch import watch
    from tui_profiler.system.version import __version__

_PLACES = {
    "__version__": "tui_profiler.system.version",
    "watch": "tui_profiler.probe.watch.watch",
}
"""Of names that are not in ``tui_profiler.api``."""


def __getattr__(name: str) -> object:
    """Import a name when it is asked for: importing the package alone imports nothing."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(_PLACES.get(name, "tui_profiler.api"))
    found: object = getattr(module, name)
    return found
