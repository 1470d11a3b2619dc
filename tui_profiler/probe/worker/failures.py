"""``Failed`` messages of exceptions: what, where, why, and remedies."""

import traceback
from types import TracebackType

import torch
from torch.optim import Optimizer

from tui_profiler.figures.units import UNAVAILABLE, size
from tui_profiler.messages import Failed, Figure, Remedy, Unknown
from tui_profiler.probe.trace.failure import one_line, wanted_memory
from tui_profiler.probe.trace.out_of_memory import alive, raising_frames, under_way
from tui_profiler.probe.trace.tree.weights import held_bytes

_TORCH_FOLDER = torch.__path__[0]


class StageError(Exception):
    """A stage failed; carries its message."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.what)
        self.failed = failed


def failure(error: BaseException, stage: str, root: torch.nn.Module | None = None) -> Failed:
    """Return the message of an exception.

    Args:
        error: the exception; one that carries a message (``failed``) keeps it.
        stage: the stage that was running.
        root: the model, to name the module whose ``forward`` was running.
    """
    carried = getattr(error, "failed", None)
    if isinstance(carried, Failed):
        return carried
    wanted = wanted_memory(error)
    # Before a model is loaded, its batch takes no memory.
    has_batch = stage not in ("load model", "initialise")
    where = _running_module(error.__traceback__, root) if root is not None else ""
    in_step = _in_step(error.__traceback__, root) if wanted and root is not None else ""
    if isinstance(error, MemoryError):
        # Python 3.13 and later parse the source for a traceback, in the memory that locals of the
        # model's forward still occupy.
        traceback.clear_frames(error.__traceback__)
    return Failed(
        stage=stage,
        what=f"out of memory: tried to allocate {wanted}{in_step}" if wanted else one_line(error),
        where=where,
        at=_line_of_the_model(error.__traceback__),
        remedies=(Remedy("--batch 1", "the least memory"),) if wanted and has_batch else (),
        traceback="".join(traceback.format_exception(error))[-20_000:],
    )


def _in_step(frames: TracebackType | None, root: torch.nn.Module) -> str:
    """Return where in a step of training an error was raised, and what is alive by category.

    Empty where no optimizer is in sight: then it was a forward alone.
    """
    seen = [value for frame, _ in traceback.walk_tb(frames) for value in frame.f_locals.values()]
    optimizer = next((one for one in reversed(seen) if isinstance(one, Optimizer)), None)
    if optimizer is None:
        return ""
    part = under_way(raising_frames(frames)).part
    found = alive(root, [optimizer])
    words = {
        "parameters and buffers": float(held_bytes(root)),
        "gradients": found.gradients,
        "optimizer state": found.optimizer_state,
    }
    told = ", ".join(f"{name} {_size(figure)}" for name, figure in words.items())
    phase = part if part in ("backward", "optimizer") else "forward or loss"
    return f" in the {phase} of a training step; alive: {told}, and activations"


def _size(figure: Figure) -> str:
    return UNAVAILABLE if isinstance(figure, Unknown) else size(figure)


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
