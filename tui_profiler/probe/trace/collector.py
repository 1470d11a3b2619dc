"""Python's garbage collector, held while a forward on fake tensors is recorded.

Torch and the model's library are half a million objects, which a full collection looks at: it
takes as long as tracing a model, and when it comes is chance. A fake forward takes no memory worth
freeing early; and a tensor in a cycle would otherwise live longer in one trace than in the next.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_held() -> Iterator[None]:
    """Hold the collector, where it was not held before."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
