"""What code costs where other programs run beside it: the CPU time of this thread alone."""

from __future__ import annotations

import time
from collections.abc import Callable


def cpu_seconds(action: Callable[[], object], rounds: int = 1) -> float:
    """Return the least of some rounds."""
    spent = []
    for _ in range(rounds):
        began = time.thread_time()
        action()
        spent.append(time.thread_time() - began)
    return min(spent)
