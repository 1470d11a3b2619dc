"""A machine whose processor draws a fixed power, by the counter that Linux shows."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.probe.measure.energy.test_rapl import domain

WATTS = 30.0


@contextmanager
def moving_counter(folder: Path) -> Iterator[None]:
    """Move a package counter every few milliseconds; ``HOST_SYS`` is to be the folder."""
    powercap = folder / "class" / "powercap"
    powercap.mkdir(parents=True)
    package = domain(powercap, "0", "package-0", energy=0)
    is_over = threading.Event()

    def move() -> None:
        while not is_over.wait(0.005):
            (package / "next").write_text(f"{round(time.monotonic() * WATTS * 1e6)}\n")
            os.replace(package / "next", package / "energy_uj")

    thread = threading.Thread(target=move)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
