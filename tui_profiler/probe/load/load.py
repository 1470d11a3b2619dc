"""Load whatever the user named."""

from __future__ import annotations

from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.loaded import Loaded
from tui_profiler.probe.load.own_code import is_own_code, load_own_code
from tui_profiler.probe.load.settings import set_threads, settings_of


def load(spec: LoadSpec) -> Loaded:
    """Load a model and find out what may be passed to it.

    A name without a colon is an architecture of torchvision's, ``demo:NAME`` one of our demo
    models, anything else the user's own file or module. The model is in eval mode: what is
    profiled is inference. Nothing is run, unless a layer needs its first input to get its shape.

    Raises:
        LoadError: It cannot be had; the error says what to try.
    """
    settings = settings_of(spec)
    set_threads(spec.threads)
    if is_own_code(spec.model):
        return load_own_code(spec, settings)
    # Importing torchvision takes two seconds, which the user's own code need not wait for.
    from tui_profiler.probe.load.named import load_named  # noqa: PLC0415

    return load_named(spec, settings)
