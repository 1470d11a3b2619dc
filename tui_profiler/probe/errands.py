"""What a worker is started for when it is not to run a model: one request, and its end.

1. Nothing here imports torch before the request asks for it: names of models need none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from tui_profiler.messages import (
    CountWith,
    ExportOnnx,
    Failed,
    ListModels,
    LoadSpec,
    Message,
    TryAlone,
)
from tui_profiler.probe.link import Link

if TYPE_CHECKING:
    from tui_profiler.probe.run import Stages

Errand: TypeAlias = ListModels | CountWith | TryAlone | ExportOnnx


def carry_out(
    errand: Errand, stages: Stages, link: Link, import_torch: Callable[[LoadSpec], None]
) -> None:
    """Do what was asked, and tell what came of it.

    Args:
        errand: what to do.
        stages: tells the viewer where it is.
        link: where the answer goes.
        import_torch: imports torch, and tells so.
    """
    try:
        if not isinstance(errand, ListModels):
            import_torch(errand.spec)
        link.send(_answer(errand, stages, link))
    # The border of the probe: nothing may go by unsaid, nor end the worker.
    except (Exception, SystemExit) as error:
        link.send(failed(error, "load model" if isinstance(errand, CountWith) else "worker"))


def _answer(errand: Errand, stages: Stages, link: Link) -> Message:
    match errand:
        case ListModels(pattern=pattern):
            from tui_profiler.probe.load.names import list_models  # noqa: PLC0415 # rule 1

            return list_models(pattern)
        case CountWith(spec=spec, counter=counter):
            from tui_profiler.probe.counters.count import count_with  # noqa: PLC0415

            return count_with(counter, spec)
        case TryAlone():
            from tui_profiler.probe.trials.alone import try_alone  # noqa: PLC0415

            return try_alone(errand, link.send)
        case ExportOnnx():
            from tui_profiler.probe.onnx import export_onnx  # noqa: PLC0415

            return export_onnx(errand, stages)


def failed(error: BaseException, stage: str = "worker") -> Failed:
    """Give the message for what went wrong; what says so itself needs no torch for it."""
    carried = getattr(error, "failed", None)
    if isinstance(carried, Failed):
        return carried
    from tui_profiler.probe.failures import failure  # noqa: PLC0415

    return failure(error, stage)
