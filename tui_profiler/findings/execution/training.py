"""Findings of a training step: from shares of the measured one, its memory, its values.

``loader-workers``, ``optimizer-loop``, ``slow-line``, ``recompute``, ``accumulate``;
``checkpoint``; ``first-nan``. Of ``pin-memory`` and ``zero-grad``:

- CUDA copies batches from pageable memory through a buffer of its own, and the thread waits; from
  pinned memory the copy runs beside what the GPU computes (``torch.utils.data``, "Memory Pinning").
  That batches are copied is told by the lines in which the thread is, or by the part ``transfer``.
- Setting gradients to zero writes them once; the backward then reads them and what it adds, and
  writes the sum, where it would have kept what it made (``Optimizer.zero_grad``, documentation of
  torch).
"""

import re
from math import prod

from tui_profiler.figures.units import duration, size
from tui_profiler.findings.evidence import quantities
from tui_profiler.findings.evidence.affected_operators import memory_roof
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check, counted
from tui_profiler.findings.evidence.memory import NO_PEAK
from tui_profiler.findings.evidence.time_share import LEAST_SHARE, share_of
from tui_profiler.findings.evidence.training_step import (
    at_most,
    of_step,
    recorded_step,
    seconds_of,
    share_of_step,
    step_seconds,
    usable_step,
)
from tui_profiler.formatting.text import safe
from tui_profiler.messages import (
    Checkpointing,
    Figure,
    KeptGradients,
    ModelFacts,
    OptimizerSettings,
    SourceLine,
    TrainingStep,
    Unknown,
    known,
)
from tui_profiler.queries.time.modes import runs_own_steps
from tui_profiler.queries.training import step_costs, step_quantities, values
from tui_profiler.queries.training.source_lines import line_name, whole_line_name
from tui_profiler.queries.training.step import LEAST_SET, PartName
from tui_profiler.session import Session

LOADER_SHARE = 0.1
"""Of a step, in ``next()`` of the loader, that workers would take off it."""
WORKER_BATCH_SECONDS = 0.5e-3
"""What the thread takes to receive a batch that a worker has loaded
(``benchmarks/training/advice.py``)."""


@check(
    "loader-workers",
    holds_in="training",
    reads=(*step_quantities.STEP, step_quantities.LOADER, step_quantities.DATA),
)
def loader_workers(session: Session) -> Finding | None:
    """Find a loader that the program waits for, by how many processes load."""
    step = recorded_step(session)
    if step is None or step.loader is None:
        return None
    seconds = seconds_of(step, "data")
    workers = step.loader.workers
    saved = seconds - WORKER_BATCH_SECONDS * step.fetches
    if share_of_step(step, saved) < LOADER_SHARE:
        return None
    title = "load batches in worker processes"
    why = (
        "The thread that trains loads each batch (num_workers=0); the model waits meanwhile."
        " Workers need free cores, and are started anew for each pass over the data unless"
        " persistent_workers=True."
    )
    if workers:
        title = f"load batches faster: {workers} workers do not keep up"
        why = (
            "Batches are used faster than the workers load them. More workers help where cores are"
            " free; otherwise the work per item has to become less."
        )
    return Finding(
        kind="loader-workers",
        title=title,
        why=why,
        nodes=(0,),
        evidence=(
            *of_step(step, seconds, "waiting for the data loader"),
            Evidence("DataLoader workers", float(workers), "count", "measured"),
        ),
        gains=(
            at_most(
                step, saved, "are spent waiting for the data loader, without receiving batches"
            ),
        ),
        why_no_trial="the loader is the program's, which a trial does not run",
        is_of_step=True,
    )


OPTIMIZER_SHARE = 0.1
"""Of a step, in ``step()`` of optimizers."""
FUSED = ("Adam", "AdamW", "SGD", "Adagrad")
"""Classes of ``torch.optim`` with ``fused`` on the CPU and on CUDA (documentation of torch 2.6)."""


@check(
    "optimizer-loop",
    holds_in="training",
    reads=(*step_quantities.STEP, step_quantities.SETTINGS, step_quantities.OPTIMIZER),
    uses=(quantities.TREE,),
)
def optimizer_loop(session: Session) -> Finding | None:
    """Find an optimizer that could update with one kernel, and does not."""
    step = recorded_step(session)
    if step is None or step.on_device:  # Its time there is not that of the thread.
        return None
    if len(step.optimizer_settings) != 1:  # Of several the time is not divided.
        return None
    settings, seconds = step.optimizer_settings[0], seconds_of(step, "optimizer")
    if share_of_step(step, seconds) < OPTIMIZER_SHARE or not _loops(session, settings):
        return None
    name = safe(settings.name)
    return Finding(
        kind="optimizer-loop",
        title=f"fuse the optimizer: {name}(…, fused=True)",
        why=(
            "It updates tensor by tensor with several operators each; fused, one kernel updates"
            " them. Results differ by rounding only."
        ),
        nodes=(0,),
        evidence=(
            *of_step(step, seconds, f"in step() of {name}"),
            *_parameters(session),
        ),
        gains=(at_most(step, seconds, "are spent in the optimizer"),),
        is_of_step=True,
        is_beside=not runs_own_steps(session),
    )


def _loops(session: Session, settings: OptimizerSettings) -> bool:
    """Tell whether it steps by loop; left to torch, it does on the CPU, and not on CUDA."""
    if settings.name not in FUSED or settings.fused or settings.foreach or settings.why_not_fused:
        return False
    on_cpu = session.model is not None and session.model.device.startswith("cpu")
    return settings.foreach is False or on_cpu


def _parameters(session: Session) -> tuple[Evidence, ...]:
    tree = session.tree
    if tree is None or not len(tree):
        return ()
    count = sum(len(node.weights) for node in tree.nodes if node.kind == "module")
    return (Evidence("tensors of parameters and buffers", float(count), "count", "derived"),)


LINE_SHARE = 0.1
"""Of a step, in the line."""
_READS = re.compile(r"\.(item|cpu|tolist|numpy)\(|\bfloat\(|\bprint\(")
"""What reads a tensor's value, or may."""


@check(
    "slow-line",
    holds_in="training",
    reads=(*step_quantities.STEP, step_quantities.LINES, step_quantities.OTHER),
)
def slow_line(session: Session) -> Finding | None:
    """Find the line in which most of the time outside of the known parts is spent."""
    step = recorded_step(session)
    if step is None or not step.lines:
        return None
    line, other = step.lines[0], seconds_of(step, "other")
    seconds = line.share * other
    if share_of_step(step, seconds) < LINE_SHARE:
        return None
    at = f"of that time, at {whole_line_name(line)}"
    return Finding(
        kind="slow-line",
        title=f"run less often: {line_name(line)}",
        why=_why(line),
        nodes=(0,),
        evidence=(
            Evidence("samples outside of all parts", float(step.samples), "count", "measured"),
            Evidence(at, line.share, "share", "measured"),
            *of_step(step, other, "outside the named parts"),
        ),
        gains=(_gain(step, seconds),),
        why_no_trial="the line is the program's, which a trial does not run",
        is_of_step=True,
    )


def _gain(step: TrainingStep, seconds: float) -> Gain:
    if step.on_device:
        why = Unknown("part of that time is the wait for the GPU, which stays")
        return Gain("time", why, "the line's time without that wait")
    return at_most(step, seconds, "are spent in that line, by samples")


def _why(line: SourceLine) -> str:
    if _READS.search(line.text):
        return (
            "It reads a tensor's value: on a GPU all queued work has to finish first. Read it once"
            " in many steps, or keep the tensor and read it later."
        )
    return "Neither the model nor the optimizer runs then. Run it less often, or in another thread."


RECOMPUTE_SHARE = 0.1
"""Of a step, in modules that checkpointing runs again."""


@check(
    "recompute",
    holds_in="training",
    reads=(quantities.TREE, *step_quantities.STEP, step_quantities.RECOMPUTE),
)
def recompute(session: Session) -> Finding | None:
    """Find modules that are computed twice in each step."""
    step = recorded_step(session)
    tree, training = session.tree, session.training
    if step is None or tree is None or training is None or step.on_device:
        return None
    seconds = known(step.recompute)
    if seconds is None or share_of_step(step, seconds) < RECOMPUTE_SHARE:
        return None
    again = {
        node: found.own_recomputed
        for node in range(len(tree))
        if (found := training.of(node)) is not None and found.own_recomputed > 0
    }
    return Finding(
        kind="recompute",
        title="checkpoint fewer modules, where memory allows it",
        why=(
            "Activation checkpointing runs them again in the backward, to save memory. What is not"
            " checkpointed keeps its activations: see the memory of a step (m)."
        ),
        nodes=tuple(sorted(again, key=lambda node: -again[node])) or (0,),
        evidence=of_step(step, seconds, "computed again in the backward"),
        gains=(at_most(step, seconds, "are spent on recomputation"),),
        why_no_trial="checkpointing is the program's, which a trial does not run",
        is_of_step=True,
    )


UPDATE_SHARE = 0.25
"""Of a step, in clipping, optimizer and communication."""
_UPDATE: dict[PartName, str] = {
    "clip": "clipping",
    "optimizer": "optimizer",
    "communication": "communication",
}


@check(
    "accumulate",
    holds_in="training",
    reads=(*step_quantities.STEP, step_quantities.ITEMS, step_quantities.OPTIMIZER),
    uses=(step_quantities.CLIP, step_quantities.COMMUNICATION),
)
def accumulate(session: Session) -> Finding | None:
    """Find steps of one backward pass whose update takes much of the time.

    The gain is of a larger batch: of two passes the second one reads and adds all gradients, which
    takes as long as a fused update (``benchmarks/training/advice.py``).
    """
    step = recorded_step(session)
    if (
        step is None
        or step.on_device
        or step.ended_by != "optimizer"
        or not 0.5 < step.passes < 1.5
        or isinstance(step.items, Unknown)
    ):
        return None
    parts = tuple(part for part in _UPDATE if known(getattr(step.parts, part)) is not None)
    seconds = seconds_of(step, *parts)
    share = share_of_step(step, seconds)
    if share < UPDATE_SHARE:
        return None
    formula = (
        f"half of {duration(seconds)} of {duration(step_seconds(step))}, per item, with twice the"
        " items per batch; forward and backward may gain too"
    )
    return Finding(
        kind="accumulate",
        title="use a larger batch: the update takes as long for any",
        why=(
            "Clipping, update and communication cost the same for any batch. With twice the items"
            " they run half as often; the learning rate may have to change. Accumulating over two"
            " backward passes saves less, or nothing: the second one reads and adds all gradients."
        ),
        nodes=(0,),
        evidence=(
            *of_step(step, seconds, ", ".join(_UPDATE[part] for part in parts)),
            Evidence("backward passes per step", step.passes, "count", "measured"),
        ),
        gains=(Gain("time", share / 2, formula, "derived"),),
        why_no_trial="it changes the training, which a trial does not run",
        is_of_step=True,
    )


PEAK_SHARE = 0.1
"""Of the peak of a step, that it saves."""


@check(
    "checkpoint",
    holds_in="training",
    reads=(quantities.TREE, quantities.STEP_MEMORY),
    uses=step_quantities.STEP,
)
def checkpoint(session: Session) -> Finding | None:
    """Find the modules whose checkpointing lowers the peak most."""
    found, whole = step_costs.best_checkpointing(session), known(step_costs.peak_bytes(session))
    if not found or not whole:
        return None
    best = found[0]
    share = share_of(whole - best.peak, whole)
    if share < PEAK_SHARE:
        return None
    is_own = runs_own_steps(session)
    formula = f"a peak of {size(best.peak)} instead of {size(whole)}, on paper"
    return Finding(
        kind="checkpoint",
        title=f"checkpoint {counted(len(best.nodes), 'module')}, if memory is short",
        why=(
            "They keep only their inputs, and run their forward again in the backward: the step"
            " takes longer, and gradients stay the same."
        ),
        nodes=best.nodes,
        evidence=(
            Evidence(
                "activations no longer saved for the backward", best.saved_bytes, "B", "derived"
            ),
            Evidence("recomputed FLOPs per pass, at most", best.flops, "count", "derived"),
            *_again(session, best),
        ),
        gains=(Gain("memory", share, formula, "derived"),),
        why_no_trial="" if is_own else "the model is the program's, which a trial does not run",
        is_of_step=True,
    )


def _again(session: Session, best: Checkpointing) -> tuple[Evidence, ...]:
    """Return the time of their forward, which each step then has once more."""
    step, training = usable_step(session), session.training
    if step is None or training is None:
        return ()
    times = [training.of(node) for node in best.nodes]
    seconds = sum(one.forward for one in times if one is not None)
    whole = step_seconds(step)
    what = f"one more forward of these modules per step of {duration(whole)}"
    return (Evidence(what, seconds, "s", "derived"),) if all(times) else ()


_WHY_NAN: dict[str, str] = {
    "input": "It is in the input of the model: in the data, or made by preprocessing.",
    "activation": "No child module returned one before: it comes from the module's own operators or"
    " parameters.",
    "gradient": "Gradients later in the model have none: it comes from the backward of what reads"
    " this output, or from the loss.",
    "parameter gradient": "Gradients of activations have none: it comes from computing this"
    " gradient, from summing it over ranks, or from unscaling or clipping.",
}


@check(
    "first-nan",
    holds_in="both",
    reads=(quantities.TREE, quantities.VALUES),
)
def first_nan(session: Session) -> Finding | None:
    """Find the module and the step in which a NaN was seen first."""
    found = values.first_nan(session)
    if found is None:
        return None
    return Finding(
        kind="first-nan",
        title=values.nan_words(session),
        why=f"{_WHY_NAN[found.kind]} Only some steps are read: it may be older than its step.",
        nodes=(found.node,),
        evidence=(
            Evidence("share of its elements", found.share, "share", "measured"),
            Evidence("step", float(found.step), "count", "measured"),
        ),
        gains=(
            Gain("time", Unknown("a NaN is an error, not a cost"), "nothing is saved", "measured"),
        ),
        why_no_trial="its cause is in the program, which a trial does not run",
    )


COPY_SHARE = 0.01
"""Of a step, in lines that copy."""
_COPIES = re.compile(r"\.(to|cuda)\(")
_BITS = re.compile(r"\d+")


@check(
    "pin-memory",
    holds_in="training",
    reads=(*step_quantities.STEP, step_quantities.LOADER),
    uses=(step_quantities.TRANSFER, step_quantities.OTHER, step_quantities.LINES),
)
def pin_memory(session: Session) -> Finding | Unknown | None:
    """Find a loader without pinned memory, whose batches are copied to a GPU."""
    step, model = recorded_step(session), session.model
    if step is None or step.loader is None or step.loader.pin_memory or model is None:
        return None
    if not model.device.startswith("cuda"):
        return None
    seconds = _copying(step)
    if isinstance(seconds, Unknown) or share_of_step(step, seconds) < COPY_SHARE:
        return seconds if isinstance(seconds, Unknown) else None
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


def _copying(step: TrainingStep) -> Figure:
    """Return the seconds of a step in which the thread copies."""
    seen, other = step.parts.transfer, step.parts.other
    if not isinstance(seen, Unknown):
        return seen
    if isinstance(other, Unknown):
        return Unknown(f"{step_quantities.OTHER.name}: {other.reason}")
    if not step.lines:
        both = f"{step_quantities.TRANSFER.name}, {step_quantities.LINES.name}"
        return Unknown(f"{both}: {seen.reason}")
    return other * sum(line.share for line in step.lines if _COPIES.search(line.text))


def _bytes_of_inputs(model: ModelFacts) -> float:
    """Return the bytes of all inputs, by the bits in the names of their dtypes (``bool``: 8)."""
    total = 0
    for one in model.inputs:
        bits = _BITS.search(one.dtype)
        total += prod(one.shape) * (int(bits[0]) if bits else 8) // 8
    return float(total)


OF_STEPS = 0.9
"""Of the steps looked at, in which gradients were set to zero."""
_MOVED = 4
"""Times the bytes of the gradients: written; read twice and written."""
_SETS_TO_ZERO = re.compile(r"\bzero_grad\(|\.zero_\(")


@check(
    "zero-grad",
    holds_in="training",
    reads=(*step_quantities.STEP, step_quantities.KEPT),
    uses=(
        quantities.MEMORY_ROOF,
        quantities.STEP_MEMORY,
        step_quantities.OTHER,
        step_quantities.LINES,
    ),
)
def zero_grad(session: Session) -> Finding | None:
    """Find gradients that are the same tensors, set to zero, when the next backward begins."""
    step = recorded_step(session)
    seen = None if step is None else step.kept_gradients
    if step is None or seen is None or seen.steps < LEAST_SET:
        return None
    if seen.zeroed < OF_STEPS * seen.steps:
        return None
    time = _zeroing_time(session, step, seen)
    if isinstance(time.share, float) and time.share < LEAST_SHARE:
        return None
    return Finding(
        kind="zero-grad",
        title="set gradients to None: zero_grad(set_to_none=True)",
        why=(
            "They are set to zero in place, as set_to_none=False does: the backward adds to them,"
            " and they take memory in the forward. Code that reads .grad finds None instead of"
            " zeros."
        ),
        nodes=(0,),
        evidence=(
            Evidence(
                "steps in which gradients were compared", float(seen.steps), "count", "measured"
            ),
            Evidence(
                "in which gradients were overwritten", float(seen.zeroed), "count", "measured"
            ),
            Evidence("in which one was read: all zero", float(seen.read), "count", "measured"),
            Evidence("gradients", float(seen.bytes), "B", "derived"),
            *_zeroing_lines(step),
            *_rest(step),
        ),
        gains=(time, _zeroing_memory(session, seen)),
        why_no_trial="zero_grad is called by the program, which a trial does not run",
        is_of_step=True,
    )


def _zeroing_time(session: Session, step: TrainingStep, seen: KeptGradients) -> Gain:
    formula = f"{size(_MOVED * seen.bytes)} less memory traffic, at the memory roof"
    bandwidth = memory_roof(session.ceilings)
    if bandwidth is None:
        return Gain("time", Unknown("the memory roof is missing, or not good enough"), formula)
    seconds = _MOVED * seen.bytes / bandwidth
    whole = duration(step_seconds(step))
    formula = f"{formula}: {duration(seconds)} of {whole} per step"
    return Gain("time", share_of_step(step, seconds), formula, "estimated")


def _zeroing_memory(session: Session, seen: KeptGradients) -> Gain:
    formula = f"{size(seen.bytes)} of gradients, where the peak is in the forward"
    whole = known(step_costs.peak_bytes(session))
    if not whole:
        return Gain("memory", NO_PEAK, formula)
    return Gain("memory", share_of(seen.bytes, whole), formula, "derived", is_bound=True)


def _rest(step: TrainingStep) -> tuple[Evidence, ...]:
    other, what = step.parts.other, "outside the named parts"
    if isinstance(other, Unknown):
        return (Evidence(what, other, "s", "measured"),)
    return of_step(step, other, what)


def _zeroing_lines(step: TrainingStep) -> tuple[Evidence, ...]:
    """Return the time of the lines that say so, by samples of the stack."""
    share = sum(line.share for line in step.lines if _SETS_TO_ZERO.search(line.text))
    other = known(step.parts.other)
    if not share or other is None:
        return ()
    what = "in lines that set them to zero, by samples"
    return (Evidence(what, share * other, "s", "measured"),)
