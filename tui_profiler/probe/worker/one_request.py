"""One request of a worker that does not run a model.

1. Nothing here imports torch before the request needs it: listing models does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from tui_profiler import messages
from tui_profiler.probe.process.link import Link
from tui_profiler.probe.process.memory_limit import lift, with_limit
from tui_profiler.probe.process.wire_names import writable

if TYPE_CHECKING:
    from tui_profiler.probe.worker.stages import Stages

Errand: TypeAlias = (
    messages.ListModels
    | messages.MeasureCeilings
    | messages.CountWith
    | messages.TryAlone
    | messages.TryOptimizer
    | messages.ExportOnnx
)


def carry_out(
    errand: Errand, stages: Stages, link: Link, import_torch: Callable[[messages.LoadSpec], None]
) -> None:
    """Carry out a request, and send the answer."""
    try:
        if not isinstance(errand, messages.ListModels):
            import_torch(errand.spec)
        link.send(_answer(errand, stages, link))
    # The border of the probe: every error is reported.
    except (Exception, SystemExit) as error:
        link.send(
            failed(error, "load model" if isinstance(errand, messages.CountWith) else "worker")
        )


def _answer(errand: Errand, stages: Stages, link: Link) -> messages.Message:
    match errand:
        case messages.ListModels(pattern=pattern):
            from tui_profiler.probe.load.load import list_models  # noqa: PLC0415 # rule 1

            return list_models(pattern)
        case messages.MeasureCeilings(spec=spec, again=again):
            return _ceilings(spec, stages, again=again)
        case messages.CountWith(spec=spec, counter=counter):
            from tui_profiler.probe.worker.counters import count  # noqa: PLC0415

            return count(counter, spec)
        case messages.TryAlone():
            from tui_profiler.probe.trials.experiment import try_alone  # noqa: PLC0415

            return try_alone(errand, link.send, link.next_request)
        case messages.TryOptimizer():
            from tui_profiler.probe.trials.experiment import try_optimizer  # noqa: PLC0415

            return try_optimizer(errand, link.send, link.next_request)
        case messages.ExportOnnx():
            from tui_profiler.probe.worker.onnx import export_onnx  # noqa: PLC0415

            return export_onnx(errand, stages)


def _ceilings(spec: messages.LoadSpec, stages: Stages, *, again: bool) -> messages.Ceilings:
    import torch  # noqa: PLC0415 # rule 1

    from tui_profiler.probe.measure.ceilings.ceilings import ceilings, measure_again  # noqa: PLC0415

    measure = measure_again if again else ceilings
    refused: list[str] = []
    with stages.stage("ceilings") as details:
        found = measure(spec.device, torch.get_num_threads(), refused=refused.append)
        details.append("measured" if found.seconds > 0 else "cached for this host")
        details += [f"and not cached: {why}" for why in refused]
    return found


def failed(error: BaseException, stage: str = "worker") -> messages.Failed:
    """Return the message for an error; one that carries a message needs no torch."""
    lift()
    carried = getattr(error, "failed", None)
    if not isinstance(carried, messages.Failed):
        try:
            from tui_profiler.probe.worker.failures import failure  # noqa: PLC0415
        except Exception:  # torch itself cannot be imported.
            carried = messages.Failed(stage, writable(f"{type(error).__name__}: {error}")[:500])
        else:
            carried = failure(error, stage)
    return with_limit(carried, error)
