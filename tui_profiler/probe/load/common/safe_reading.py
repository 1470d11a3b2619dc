"""Files opened without trust: held from check to load, and unpickled as weights only."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tui_profiler.probe.load.common.errors import model_failed

_DESCRIPTORS = Path("/proc/self/fd")


@contextmanager
def held(path: Path, shown: str) -> Iterator[Path]:
    """Return a path that leads to the same file whatever takes the place of the file meanwhile.

    Where the system has no such paths, the file is only compared.

    Args:
        path: The file.
        shown: As the user typed it.

    Yields:
        The path, valid within the context.

    Raises:
        LoadError: The file was written to or replaced within the context.
    """
    with path.open("rb") as stream:
        descriptor = stream.fileno()
        before = _state(os.fstat(descriptor))
        same = _DESCRIPTORS / str(descriptor)
        is_held = same.exists()
        yield same if is_held else path
        now = os.fstat(descriptor) if is_held else path.stat()
    if _state(now) != before:
        raise model_failed(
            f"{shown} was changed while it was read", (f"tui-profiler {shown}", "reads it again")
        )


def _state(status: os.stat_result) -> tuple[int, ...]:
    # Not the time of its last change of state: a file that is replaced loses a link.
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


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
