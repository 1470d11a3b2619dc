"""The only place where state changes: a session and a message make the next session."""

import math
from typing import assert_never

from msgspec.structs import astuple, replace

from tui_profiler import messages
from tui_profiler.formatting.text import safe, without_escapes
from tui_profiler.messages.failure import SCRIPT
from tui_profiler.session import columns, slow_forward_context, training
from tui_profiler.session import tree as trees
from tui_profiler.session.history import with_sample, with_tick
from tui_profiler.session.parameters import with_parameters, with_sensitivity
from tui_profiler.session.state import History, Jump, Log, Remembered, Session, StageRecord
from tui_profiler.session.tree import Tree

MAX_NODES = 1_000_000
MAX_EDGES = 4_000_000
MAX_TICKS = 480
MOST_SLOW = 8
MAX_TICK_BYTES = 64 * 1024 * 1024
"""Memory of all ticks that are kept; the newest is kept however large it is."""
MAX_SAMPLES = 300
MAX_LOG_LINES = 5000
MAX_LINE = 2000
MAX_REPLAYS = 1000
MAX_TRIALS = 1000


def apply(session: Session, message: messages.Message | Jump | Remembered) -> Session:
    """Return the session as it is after ``message``."""
    if isinstance(message, columns.Columns) and not columns.columns_agree(message):
        return session
    match message:
        case messages.Hello():
            return replace(session, hello=message, failure=None, ended=None)
        case messages.StageStarted() | messages.StageDone():
            return _stage(session, message)
        case messages.Environment():
            return replace(session, environment=message)
        case messages.FileFacts():
            return replace(session, file=message)
        case messages.ModelFacts():
            return replace(session, model=message)
        case messages.TraceStarted():
            return _trace(replace(session, real=None, partial=None), message)
        case messages.RealCost():
            return _real(session, message)
        case messages.PartialTree():
            return replace(session, partial=message)
        case messages.NoDecode():
            return replace(session, no_decode=message)
        case messages.Nodes() | messages.Edges() | messages.MemorySteps() | messages.TraceDone():
            return _trace(session, message)
        case messages.Listed():
            return replace(session, listed=message)
        case messages.SecondOpinion():
            return replace(session, opinion=message)
        case messages.Exported():
            return replace(session, exported=message)
        case messages.Ceilings():
            return replace(session, ceilings=message)
        case messages.LoopState():
            return _loop(session, message)
        case messages.Heartbeat():
            return replace(session, heard_at=message.at, forward_seconds=message.forward_seconds)
        case messages.Tick():
            return _tick(session, message)
        case messages.OperatorTimes():
            return replace(session, host_operators=columns.Operators(message), heard_at=message.at)
        case messages.WindowTimes():
            return replace(session, host_windows=columns.Windows(message))
        case messages.MemoryWindow():
            return replace(session, memory_window=columns.MeasuredMemory(message))
        case messages.DeviceTimes():
            return _on_device(session, columns.DeviceTimings(message))
        case messages.StepTimes():
            return replace(session, steps=message, heard_at=message.at)
        case (
            messages.TrainingStep()
            | messages.SlowStep()
            | messages.TrainingCost()
            | messages.TrainingMemory()
            | messages.BackwardOperators()
            | messages.ModelValues()
        ):
            return _trained(session, message)
        case messages.ModeSeen() | messages.Generation() | messages.ExpertTokens():
            return _ran(session, message)
        case messages.Compilations():
            return replace(session, compilations=message)
        case messages.Sample():
            return _sample(session, message)
        case messages.Overhead():
            return replace(session, overhead=message)
        case messages.Replayed():
            others = tuple(one for one in session.replays if one.node != message.node)
            return replace(session, replays=(*others, message)[-MAX_REPLAYS:])
        case messages.TrialProgress():
            return replace(session, trial=message)
        case messages.TrialResult():
            return _tried(session, message)
        case (
            messages.ParametersStarted()
            | messages.TensorStatistics()
            | messages.ParametersProgress()
            | messages.ParametersDone()
        ):
            return replace(session, parameters=with_parameters(session.parameters, message))
        case messages.SensitivityStarted() | messages.Sensitivity() | messages.SensitivityDone():
            known = with_sensitivity(session.sensitivity, message)
            return replace(session, sensitivity=known)
        case messages.Failed():
            return replace(session, failure=without_colours(message))
        case messages.OutOfMemory():
            return replace(session, out_of_memory=message)
        case messages.Printed():
            return replace(session, log=_printed(session.log, message))
        case messages.Ended():
            return replace(session, ended=message, trial=None)
        case messages.TorchChildren():
            return replace(session, children=message)
        case messages.SlowForward():
            return _slow(session, message)
        case messages.ProgramsSeen() | messages.ServingSeen():
            return _beside(session, message)
        case messages.Playback():
            return replace(session, playback=message)
        case Jump():
            return message.session
        case Remembered():
            return _remembered(session, message)
        case _:
            assert_never(message)


def _stage(session: Session, message: messages.StageStarted | messages.StageDone) -> Session:
    others = tuple(record for record in session.stages if record.stage != message.stage)
    if isinstance(message, messages.StageStarted):
        record = StageRecord(message.stage, message.at, None, message.detail)
    else:
        record = StageRecord(
            message.stage, message.at - message.seconds, message.seconds, message.detail
        )
    return replace(session, stages=(*others, record), heard_at=message.at)


def _trace(
    session: Session,
    message: messages.TraceStarted
    | messages.Nodes
    | messages.Edges
    | messages.MemorySteps
    | messages.TraceDone,
) -> Session:
    if isinstance(message, messages.TraceStarted):
        # The model is tried again: what failed before is over. A script that failed stays so: the
        # tree of its only forward comes when it has ended.
        failed = session.failure
        kept = failed if failed is not None and failed.stage == SCRIPT else None
        return replace(session, arriving=trees.started(message), failure=kept)
    arriving = session.arriving
    if arriving is None:
        return session
    if isinstance(message, messages.Nodes):
        if len(arriving.nodes) + len(message.nodes) > MAX_NODES:
            why = messages.Failed("trace", f"the trace has more than {MAX_NODES:,} nodes")
            return replace(session, arriving=None, failure=why)
        return replace(session, arriving=trees.grown(arriving, message))
    if isinstance(message, messages.Edges):
        if len(arriving.edges) + len(message.pairs) > MAX_EDGES:
            why = messages.Failed("trace", f"the trace has more than {MAX_EDGES:,} edges")
            return replace(session, arriving=None, failure=why)
        return replace(session, arriving=trees.connected(arriving, message.pairs))
    if isinstance(message, messages.MemorySteps):
        return replace(session, arriving=trees.filled(arriving, message))
    tree = trees.completed(arriving, message)
    if tree is None:  # What came is no tree: the one before stays, with its figures.
        return replace(session, arriving=None)
    if tree.phase == "decode":
        phases = tuple(other for other in session.phases if other.phase != tree.phase)
        return replace(session, arriving=None, phases=(*phases, tree))
    phases = (tree,) if tree.phase else ()
    return _looking_at(replace(session, arriving=None, phases=phases, no_decode=None), tree)


def _real(session: Session, message: messages.RealCost) -> Session:
    """Take the cost of a real forward, which may confirm the tree that it was traced as."""
    told = replace(session, real=message)
    if message.cost is None or session.tree is None:
        return told
    tree = trees.confirmed(session.tree, message.cost)
    phases = tuple(tree if one is session.tree else one for one in session.phases)
    return replace(told, tree=tree, phases=phases)


def _looking_at(session: Session, tree: Tree) -> Session:
    """Figures of the previous tree are of other nodes: they are dropped with it."""
    return replace(
        session,
        tree=tree,
        history=replace(session.history, ticks=(), tick_bytes=0),
        timings=None,
        host=None,
        host_operators=None,
        host_windows=None,
        device=None,
        sensitivity=None,
        mode=None,
        memory_window=None,
        replays=(),
        trials=(),
        trial=None,
        slow=(),
        training=None,
        generation=None,
        experts=None,
        slow_steps=(),
        around_slow=(),
        backward=None,
        values=None,
        training_cost=None,
        training_memory=None,
    )


def _remembered(session: Session, remembered: Remembered) -> Session:
    """Look at the tree of last time until there is another."""
    session = replace(session, remembered=remembered)
    if session.tree is not None or remembered.tree is None:
        return session
    model = session.model or remembered.model
    return replace(session, tree=remembered.tree, phases=remembered.phases, model=model)


def _tried(session: Session, result: messages.TrialResult) -> Session:
    """Take in how a trial came out, in the place of the one before of the same kind and node."""
    others = (one for one in session.trials if (one.kind, one.node) != (result.kind, result.node))
    return replace(session, trial=None, trials=(*others, result)[-MAX_TRIALS:])


def _loop(session: Session, message: messages.LoopState) -> Session:
    """Apply the state of the loop; if it runs another phase, that phase is shown."""
    session = replace(session, loop=message, heard_at=message.at)
    for tree in session.phases:
        if tree.phase == message.phase and tree is not session.tree:
            return _looking_at(session, tree)
    return session


def _tick(session: Session, tick: messages.Tick) -> Session:
    if tick.forwards == 0:  # Still warming up: a sign of life, no figures yet.
        return replace(session, heard_at=tick.at)
    host = columns.Timings(tick, session.host)
    session = replace(session, host=host, heard_at=tick.at)
    if session.is_timed_on_gpu and tick.as_traced and not tick.cold:
        return session  # The times of the GPU come right after those of the host.
    return _timed(session, host)


def _on_device(session: Session, device: columns.DeviceTimings) -> Session:
    """Take in the times of a GPU: they take the place of those of the thread, which enqueues."""
    before, host = session.timings, session.host
    session = replace(session, device=device)
    if before is None or host is None:
        return session
    timings = device.timings(host.tick, before if session.is_timed_on_gpu else None)
    if timings is None:
        return _timed(session, host) if session.is_timed_on_gpu else session
    return _timed(session, timings)


def _timed(session: Session, timings: columns.Timings) -> Session:
    """Take in new times, and keep what the screens draw of the past."""
    tick, before, history = timings.tick, session.tick, session.history
    is_other = before is not None and before.cold and not tick.cold
    if is_other or (timings.device is not None) != session.is_timed_on_gpu:
        # The steady state counts from 0 again, and a GPU for itself: nothing is set against it.
        before, history = None, replace(history, ticks=(), tick_bytes=0)
    if timings.device is not None and session.timings is not None and not session.is_timed_on_gpu:
        history = replace(history, latencies=())  # Of the host: after a seek, all those before.
    latencies = history.latencies if tick.cold else with_tick(history.latencies, tick, before)
    ticks = (*history.ticks, timings)
    total = history.tick_bytes + timings.bytes_beside(history.ticks[-1] if history.ticks else None)
    first = 0
    while len(ticks) - first > 1 and (len(ticks) - first > MAX_TICKS or total > MAX_TICK_BYTES):
        total -= ticks[first].bytes_beside(ticks[first + 1])
        first += 1
    return replace(
        session,
        timings=timings,
        history=replace(history, ticks=ticks[first:], tick_bytes=total, latencies=latencies),
    )


def _beside(session: Session, message: messages.ProgramsSeen | messages.ServingSeen) -> Session:
    """Take in what the viewer has seen beside the program."""
    if isinstance(message, messages.ServingSeen):
        return replace(session, serving=message)
    around = (slow_forward_context.with_programs(one, message) for one in session.around_slow)
    return replace(session, programs=message, around_slow=tuple(around))


def _slow(session: Session, slow: messages.SlowForward) -> Session:
    slowest, *last = session.slow or (slow,)
    kept = (max(slowest, slow, key=lambda one: one.seconds), *(slow, *last)[:MOST_SLOW])
    device = session.model.device if session.model is not None else "cpu"
    new = slow_forward_context.begun(slow, session.history.samples, session.programs, device)
    forwards = {one.forward for one in kept}
    older = (one for one in session.around_slow if one.forward != slow.forward)
    around = (one for one in (*older, new) if one and one.forward in forwards)
    return replace(session, slow=kept, around_slow=tuple(around))


def _trained(
    session: Session,
    message: messages.TrainingStep
    | messages.SlowStep
    | messages.TrainingCost
    | messages.TrainingMemory
    | messages.BackwardOperators
    | messages.ModelValues,
) -> Session:
    match message:
        case messages.TrainingStep():
            agree = training.step_columns_agree(message)
            return replace(session, training=training.StepColumns(message)) if agree else session
        case messages.TrainingCost():
            agree = training.cost_columns_agree(message)
            costs = training.CostColumns(message) if agree else session.training_cost
            return replace(session, training_cost=costs)
        case messages.TrainingMemory():
            agree = training.memory_columns_agree(message)
            memory = training.MemoryColumns(message) if agree else session.training_memory
            return replace(session, training_memory=memory)
        case messages.BackwardOperators():
            agree = training.backward_agrees(message)
            backward = training.BackwardColumns(message) if agree else session.backward
            return replace(session, backward=backward)
        case messages.ModelValues():
            agree = training.value_columns_agree(message)
            return replace(session, values=training.ValueColumns(message)) if agree else session
    slowest, *last = session.slow_steps or (message,)
    first = max(slowest, message, key=lambda one: one.seconds)
    return replace(session, slow_steps=(first, *(message, *last)[:MOST_SLOW]))


def _ran(
    session: Session, message: messages.ModeSeen | messages.Generation | messages.ExpertTokens
) -> Session:
    """Take in how forwards ran; threads are those of the thread that runs them."""
    if isinstance(message, messages.ExpertTokens):
        return replace(session, experts=message)
    if isinstance(message, messages.Generation):
        return replace(session, generation=message) if _is_sound(message) else session
    machine = session.environment
    if machine is not None and message.settings:
        machine = replace(machine, threads=message.settings[0].threads)
    return replace(session, mode=message, environment=machine)


def _is_sound(told: messages.Generation) -> bool:
    """Tell whether layers are whole and figures finite: a probe may send anything."""
    cache = told.cache
    parts = (told, told.prefill, told.decode, *(() if cache is None else (cache,)))
    figures = (figure for part in parts for figure in astuple(part) if isinstance(figure, float))
    return all(map(math.isfinite, figures)) and (cache is None or len(cache.layers) % 8 == 0)


def _sample(session: Session, sample: messages.Sample) -> Session:
    samples = (*session.history.samples, sample)[-MAX_SAMPLES:]
    device = session.model.device if session.model is not None else "cpu"
    loads = with_sample(session.history.loads, sample, device)
    history: History = replace(session.history, samples=samples, loads=loads)
    around = tuple(slow_forward_context.with_sample(one, sample) for one in session.around_slow)
    session = replace(session, sample=sample, history=history, heard_at=sample.at)
    return replace(session, around_slow=around) if around else session


def _printed(log: Log, message: messages.Printed) -> Log:
    whole, ended, partial = (log.partial + message.text).replace("\r\n", "\n").rpartition("\n")
    new = [safe_line(line) for line in whole.split("\n")] if ended else []
    return Log(
        lines=(*log.lines, *new)[-MAX_LOG_LINES:],
        partial=_newest(partial),
        total_lines=log.total_lines + len(new),
        dropped_bytes=log.dropped_bytes + message.dropped_bytes,
    )


def _newest(partial: str) -> str:
    """Return what a line shows before it ends: a progress bar never ends, and returns for ever."""
    # A return at the very end may be the first half of a line end.
    text = partial.removesuffix("\r")
    return text.rpartition("\r")[2][:MAX_LINE] + partial[len(text) :]


def safe_line(line: str) -> str:
    """Return one printed line made safe, without colours and what a carriage return overwrote."""
    return safe(without_escapes(line.rstrip("\r").rpartition("\r")[2]))


def without_colours(failed: messages.Failed) -> messages.Failed:
    """Return a failure without escape sequences, as of messages that torch colours."""
    return replace(
        failed,
        what=without_escapes(failed.what),
        why=without_escapes(failed.why),
        likely=without_escapes(failed.likely),
        traceback=without_escapes(failed.traceback),
    )
