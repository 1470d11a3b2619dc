"""The ultralytics library: imported so that nothing else is touched.

On its own it makes a settings file in the user's home, asks the network whether it is online, wraps
``torch.save``, sets how torch and numpy print and how OpenCV and OpenMP count threads, and would
install what it misses. What must be said before its import is said by environment variables;
everything that it changed is put back after it.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tui_profiler.probe.load.common.optional_libraries import library, not_imported

NAME = "ultralytics"

_FROM_TORCH = ("save", "set_printoptions")


def ultralytics_tasks(*, offline: bool = True) -> Any:
    """Give ``ultralytics.nn.tasks``, the module that builds its models.

    Args:
        offline: Whether its first import, which decides for the whole process, is told so.

    Raises:
        LoadError: It is not installed, or its import fails.
    """
    if NAME not in sys.modules:
        with _kept_as_it_is(), tempfile.TemporaryDirectory(prefix="tui-profiler-") as folder:
            os.environ |= {
                "YOLO_CONFIG_DIR": folder,
                "YOLO_AUTOINSTALL": "false",
                "YOLO_VERBOSE": "false",
            } | ({"YOLO_OFFLINE": "true"} if offline else {})
            library(NAME, "YOLO models", NAME)
            return _tasks()
    return _tasks()


def _tasks() -> Any:
    try:
        return importlib.import_module("ultralytics.nn.tasks")
    except ImportError as error:
        raise not_imported(NAME, error) from error


@contextmanager
def _kept_as_it_is() -> Iterator[None]:
    """Put back what importing ultralytics changes outside itself."""
    environment = dict(os.environ)
    kept = {name: getattr(torch, name) for name in _FROM_TORCH}
    torch.set_printoptions = lambda *_, **__: None
    threads = sys.modules["cv2"].getNumThreads() if "cv2" in sys.modules else -1
    # What it prints on its first import is of its settings file, which is not kept.
    try:
        with np.printoptions():
            yield
    finally:
        for name, value in kept.items():
            setattr(torch, name, value)
        if "cv2" in sys.modules:
            sys.modules["cv2"].setNumThreads(threads)
        os.environ.clear()
        os.environ.update(environment)


def downloaded(file_name: str) -> Path:
    """Fetch published weights into torch's own cache, where they are not there already.

    Raises:
        OSError: They cannot be had.
    """
    ultralytics_tasks(offline=False)
    downloads: Any = importlib.import_module("ultralytics.utils.downloads")
    path = Path(torch.hub.get_dir()) / "checkpoints" / file_name
    path.parent.mkdir(parents=True, exist_ok=True)
    downloads.attempt_download_asset(path)
    if not path.is_file():
        raise FileNotFoundError(f"Ultralytics publishes no {file_name}, or cannot be reached")
    return path
