"""Exceptions to ``Failed`` messages: what, where, why, and what to try."""

from __future__ import annotations

import traceback
from types import TracebackType

import torch

from tui_profiler.messages import Failed, Remedy
from tui_profiler.probe.trace.failure import one_line, wanted_memory

_TORCH_FOLDER = torch.__path__[0]


class StageError(Exception):
    """A stage failed, with the message that says so."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.what)
        self.failed = failed


def failure(error: BaseException, stage: str, root: torch.nn.Module | None = None) -> Failed:
    """Return the message for an exception that came out of ``stage``.

    Args:
        error: what was raised; one with a message of its own (``failed``) speaks for itself.
        stage: the stage that was under way.
        root: the model, to name the module whose ``forward`` was running.
    """
    carried = getattr(error, "failed", None)
    if isinstance(carried, Failed):
        return carried
    wanted = wanted_memory(error)
    # Before a model is loaded its batch takes no memory.
    has_batch = stage not in ("load model", "initialise")
    where = _running_module(error.__traceback__, root) if root is not None else ""
    if isinstance(error, MemoryError):
        # Python 3.13 and later parse the source for a traceback, in the memory that the locals of
        # the model's forward still fill.
        traceback.clear_frames(error.__traceback__)
    return Failed(
        stage=stage,
        what=f"out of memory: tried to allocate {wanted}" if wanted else one_line(error),
        where=where,
        at=_line_of_the_model(error.__traceback__),
        remedies=(Remedy("--batch 1", "the least memory"),) if wanted and has_batch else (),
        traceback="".join(traceback.format_exception(error))[-20_000:],
    )


def _running_module(frames: TracebackType | None, root: torch.nn.Module) -> str:
    """Return the path of the deepest module of the model whose code was running."""
    paths = {id(module): path for path, module in root.named_modules()}
    deepest = ""
    while frames is not None:
        path = paths.get(id(frames.tb_frame.f_locals.get("self")))
        deepest = path or deepest
        frames = frames.tb_next
    return deepest


def _line_of_the_model(frames: TracebackType | None) -> str:
    """Return ``file:line`` of the last frame outside torch and outside this package."""
    found = ""
    ours = __file__.rsplit("/", 2)[0]
    for frame, line in traceback.walk_tb(frames):
        name = frame.f_code.co_filename
        if not name.startswith((_TORCH_FOLDER, ours, "<")):
            found = f"{name}:{line}"
    return found
