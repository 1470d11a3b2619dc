"""Why a trace could not be made: an error of the model's code as a message."""

import re
import traceback

import torch

from tui_profiler.messages import Attempt, Failed, PartialTree, Remedy
from tui_profiler.probe.process.source_line import raising_line
from tui_profiler.probe.process.wire_names import writable
from tui_profiler.probe.torch_compat.forward_inputs import Inputs

_MOST_CHARACTERS = 300
_WANTED = re.compile(r"(?:allocate (\d+) bytes|Tried to allocate ([\d.]+ [KMG]i?B))")
"""What torch's allocators say; on the CPU their error is a plain RuntimeError."""
_MOST_FRAMES = 60
_MOST_TRACEBACK = 12_000


class ForwardError(Exception):
    """The model's forward raised; the cause is what it raised."""

    graphs: int | None = None
    graph_breaks: int | None = None

    def __init__(
        self,
        error: BaseException,
        where: str,
        partial: PartialTree | None = None,
        *,
        during: str = "forward",
    ) -> None:
        super().__init__(str(type(error)))
        self.error = error
        self.during = during
        """What raised: ``forward``, or ``backward`` of a training step."""
        self.where = where
        """Path of the innermost module that it came out of."""
        self.partial = partial
        """How far it came; None where the model itself was not run, or there is no memory."""


class NoGraphError(ForwardError):
    """A tracer could make no graph of the model; the cause is what it, or the model, raised."""

    def __init__(
        self,
        error: BaseException,
        graphs: int | None = None,
        graph_breaks: int | None = None,
    ) -> None:
        super().__init__(error, "")
        self.graphs = graphs
        """That it would be, where it cannot be one; None where not known."""
        self.graph_breaks = graph_breaks


class TraceError(Exception):
    """No way of tracing gave a tree."""

    def __init__(
        self,
        failed: Failed,
        attempts: tuple[Attempt, ...] = (),
        partial: PartialTree | None = None,
    ) -> None:
        super().__init__(failed.what)
        self.failed = failed
        self.attempts = attempts
        self.partial = partial
        """How far the forward came that ``failed`` is of; None where none ran."""


def one_line(error: BaseException) -> str:
    """Return an error as ``Type: first line of its message``, shortened."""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001, RUF100 - its own __str__ fails: its type must do
        message = ""
    first = next((line.strip() for line in message.splitlines() if line.strip()), "")
    text = writable(f"{type(error).__name__}: {first}" if first else type(error).__name__)
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"


def wanted_memory(error: BaseException) -> str:
    """Return the memory asked for in vain, such as ``4.69 GiB``; empty for other errors."""
    if not (match := _WANTED.search(one_line(error))):
        return ""
    count, written = match.groups()
    return f"{int(count) / 2**30:,.2f} GiB" if count else str(written)


def forward_failed(failed: ForwardError, inputs: Inputs) -> Failed:
    """Describe what ``forward``, or the backward, raised."""
    error = failed.error
    wanted = wanted_memory(error)
    raised = f"{failed.during} raised {one_line(error)}"
    return Failed(
        stage="trace",
        what=f"out of memory: {failed.during} tried to allocate {wanted}" if wanted else raised,
        where=writable(failed.where),
        at=writable(raising_line(error.__traceback__)),
        remedies=_remedies(failed, inputs),
        traceback=_traceback(error),
    )


def no_graph(failed: NoGraphError, way: str) -> Failed:
    """Describe why a tracer made no graph of a model; ``way`` is how it was to be made."""
    breaks = "1 break" if failed.graph_breaks == 1 else f"{failed.graph_breaks} breaks"
    split = f"Dynamo would split it into {failed.graphs} graphs, with {breaks} between them"
    error = failed.error
    return Failed(
        stage="trace",
        what=f"{way} cannot build a graph: {one_line(error)}",
        at=writable(raising_line(error.__traceback__)),
        why=split if failed.graphs and failed.graph_breaks else "",
        remedies=(Remedy("--tracer auto", "records what forward dispatches, without a graph"),),
        traceback=_traceback(error),
    )


def refused(what: str, remedy: Remedy) -> TraceError:
    """Describe a request that cannot be carried out."""
    return TraceError(Failed(stage="trace", what=what, remedies=(remedy,), bad_argument=True))


def _traceback(error: BaseException) -> str:
    lines = traceback.format_exception(error, limit=-_MOST_FRAMES)
    return writable("".join(lines)[-_MOST_TRACEBACK:])


def _remedies(failed: ForwardError, inputs: Inputs) -> tuple[Remedy, ...]:
    error = failed.error
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or wanted_memory(error):
        # Without a batch axis the option is refused, and at 1 it changes nothing.
        smaller = (Remedy("--batch 1", "the least memory"),) if (inputs.batch or 1) > 1 else ()
        return (*smaller, Remedy("--device meta", "traces without memory for parameters"))
    if isinstance(error, RecursionError):
        deeper = "in the file that makes it: its modules nest deeper than Python's recursion limit"
        return (Remedy("sys.setrecursionlimit(20_000)", deeper),)
    if failed.during == "backward":
        return ()  # Forward took these inputs.
    if not inputs.specs:
        return (Remedy("--input 1,3,224,224", "passes one tensor of this shape to forward"),)
    typed = " ".join(_option(spec.name, spec.shape, spec.dtype) for spec in inputs.specs)
    reasons = ", ".join(dict.fromkeys(spec.why for spec in inputs.specs if spec.why))
    raised = f"{failed.during} raised on these" + (f" ({reasons})" if reasons else "")
    return (Remedy(typed, raised, is_tried=True),)


def _option(name: str, shape: tuple[int, ...], dtype: str) -> str:
    sizes = ",".join(str(size) for size in shape)
    label = f"{name}=" if name else ""
    return f"--input {label}{sizes}" + ("" if dtype == "float32" else f":{dtype}")
