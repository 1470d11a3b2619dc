"""``pin-memory``: batches that are copied to a GPU from pageable memory.

CUDA copies them through a buffer of its own, and the thread waits; from pinned memory the copy runs
beside what the GPU computes (``torch.utils.data``, "Memory Pinning"). That batches are copied is
told by the lines in which the thread is, or by the part ``transfer``.
"""

import re
from math import prod

from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check
from tui_profiler.findings.evidence.training_step import (
    of_step,
    recorded_step,
    seconds_of,
    share_of_step,
)
from tui_profiler.messages import ModelFacts, TrainingStep, Unknown, known
from tui_profiler.session import Session

COPY_SHARE = 0.01
"""Of a step, in lines that copy."""
_COPIES = re.compile(r"\.(to|cuda)\(")
_BITS = re.compile(r"\d+")


@check("pin-memory", holds_in="training")
def pin_memory(session: Session) -> Finding | None:
    """Find a loader without pinned memory, whose batches are copied to a GPU."""
    step, model = recorded_step(session), session.model
    if step is None or step.loader is None or step.loader.pin_memory or model is None:
        return None
    seconds = _copying(step)
    if not model.device.startswith("cuda") or share_of_step(step, seconds) < COPY_SHARE:
        return None
    return Finding(
        kind="pin-memory",
        title="pin the batches: DataLoader(…, pin_memory=True), .to(…, non_blocking=True)",
        why=(
            "The loader leaves batches in pageable memory: the thread waits until they are copied"
            " to the GPU."
        ),
        nodes=(0,),
        evidence=(
            *of_step(step, seconds, "copying, by samples of lines with .to( or .cuda("),
            Evidence("DataLoader workers", float(step.loader.workers), "count", "measured"),
            Evidence("inputs of a forward", _bytes_of_inputs(model), "B", "derived"),
        ),
        gains=(
            Gain(
                "time",
                Unknown("copies are not timed on the GPU: the thread also waits for earlier work"),
                "time of the copies",
            ),
        ),
        why_no_trial="the loader is the program's, which a trial does not run",
        is_of_step=True,
    )


def _copying(step: TrainingStep) -> float:
    """Return the seconds of a step in which the thread copies."""
    seen = known(step.parts.transfer)
    if seen is not None:
        return seen
    share = sum(line.share for line in step.lines if _COPIES.search(line.text))
    return share * seconds_of(step, "other")


def _bytes_of_inputs(model: ModelFacts) -> float:
    """Return the bytes of all inputs, by the bits in the names of their dtypes (``bool``: 8)."""
    total = 0
    for one in model.inputs:
        bits = _BITS.search(one.dtype)
        total += prod(one.shape) * (int(bits[0]) if bits else 8) // 8
    return float(total)
