"""Keeps ``torch.load`` from unpickling more than weights, whatever its caller asks for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def weights_only() -> Iterator[None]:
    """Let ``torch.load`` unpickle nothing but weights, whatever its caller asks for.

    torch.export.load asks for everything where ``weights_only`` fails, and torch.hub at once.
    """
    name = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
