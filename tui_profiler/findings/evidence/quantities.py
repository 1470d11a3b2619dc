"""Quantities that findings declare: what they read of a session, and why it may be unknown."""

from tui_profiler.messages import known
from tui_profiler.queries.cost.ceilings import MEMORY, OPERATOR, usable_roofs
from tui_profiler.queries.cost.rules import UNKNOWN, Quantity, reason_of
from tui_profiler.queries.cost.totals import batch_axis, counted_rate, peak_bytes, why_no_times
from tui_profiler.queries.time.forward_kinds import why_times_do_not_fit
from tui_profiler.queries.training import step_quantities as of_step
from tui_profiler.session import History, Session

NO_TREE = "no forward was traced"
NO_WINDOW = "no operator window yet"


def _why_no_tree(session: Session) -> str:
    return "" if session.tree is not None and len(session.tree) else NO_TREE


def _why_no_peak(session: Session) -> str:
    tree = session.tree
    if tree is None or tree.done is None or not tree.has_forward:
        return NO_TREE
    if why := reason_of(peak_bytes(tree.done.peak_memory), NO_TREE):
        return why
    if tree.depends(0) == "about":
        return "it depends on values that were not computed"
    return ""


def _why_no_real_cost(session: Session) -> str:
    """Return why the operators of a forward are not known, where the trace does not decide."""
    tree = session.tree
    if tree is None or not len(tree):
        return NO_TREE
    if tree.depends(0) is None or (session.real is not None and session.real.cost is not None):
        return ""
    return "it depends on the data"


def _why_no_batch(session: Session) -> str:
    if session.loop is not None and session.loop.batch:
        return ""
    return reason_of(batch_axis(session.model), "")


def _why_no_time(session: Session) -> str:
    return why_no_times(session) or why_times_do_not_fit(session)


def _why_no_operator_times(session: Session) -> str:
    operators = session.host_operators
    if operators is None:
        return NO_WINDOW
    if operators.times.why_none:
        return operators.times.why_none
    return why_times_do_not_fit(session)


def _why_no_windows(session: Session) -> str:
    windows = session.host_windows
    if windows is None or windows.shares(0) is None:
        return NO_WINDOW
    return why_times_do_not_fit(session)


def _why_no_compute_roof(session: Session) -> str:
    if session.ceilings is None:
        return "not calibrated"
    roofs = usable_roofs(session.ceilings)
    if roofs.compute:
        return ""
    return next((roofs.sentence(one.dtype) for one in session.ceilings.compute), "not measured")


def _why_no_memory_roof(session: Session) -> str:
    if session.ceilings is None:
        return "not calibrated"
    roofs = usable_roofs(session.ceilings)
    is_good = bool(roofs.levels and roofs.levels[-1].bytes_per_second)
    return "" if is_good else roofs.sentence(MEMORY)


def _why_no_operator_roof(session: Session) -> str:
    if session.ceilings is None:
        return "not calibrated"
    roofs = usable_roofs(session.ceilings)
    return "" if roofs.op_seconds is not None else roofs.sentence(OPERATOR)


def _why_no_fault_cost(session: Session) -> str:
    if session.ceilings is None:
        return "not calibrated"
    return reason_of(session.ceilings.fault_seconds, "")


def _why_no_kernels(session: Session) -> str:
    if session.ceilings is None:
        return "not calibrated"
    return "" if session.ceilings.kernels is not None else "not measured on this device"


def _why_no_machine(session: Session) -> str:
    return "" if session.environment is not None else "not read yet"


def _why_no_sample(session: Session) -> str:
    return "" if session.sample is not None else "not sampled yet"


def _why_no_busy(session: Session) -> str:
    samples = session.history.samples
    if not samples:
        return "not sampled yet"
    if any(known(one.process_cpu) is not None for one in samples):
        return ""
    return reason_of(samples[-1].process_cpu, "")


def _why_no_rate(session: Session) -> str:
    return reason_of(counted_rate(session), "")


def _why_no_overhead(session: Session) -> str:
    return "" if session.overhead is not None else "it is not known whether all were counted"


def _why_no_rank_steps(session: Session) -> str:
    steps = session.steps
    if steps is None:
        return "not a rank of a distributed run"
    return reason_of(steps.step, "") or reason_of(steps.host, "")


def _why_no_compilations(session: Session) -> str:
    return "" if session.compilations is not None else "torch.compile compiled nothing yet"


def _why_no_statistics(session: Session) -> str:
    found = session.parameters
    if found is None:
        return "not requested (p, or --parameters)"
    if found.started.is_random:
        return "randomly initialised"
    return "" if found.done is not None else "not read to the end yet"


def _why_no_values(session: Session) -> str:
    return "" if session.values is not None else "not requested"


def _why_no_step_memory(session: Session) -> str:
    memory = session.training_memory
    if memory is None:
        return "no training step was recorded"
    return reason_of(memory.memory.workspace, "")


TREE = Quantity("traced forward", {"tree": None}, _why_no_tree)
PEAK = Quantity(
    "peak memory of a forward",
    {
        f"tree.done.peak_memory.{name}": UNKNOWN
        for name in ("parameters", "buffers", "activations", "workspace")
    },
    _why_no_peak,
)
REAL = Quantity("number of operators", {"real": None}, _why_no_real_cost)
BATCH = Quantity("batch size", {"model.batch": None, "loop.batch": None}, _why_no_batch)
TIMES = Quantity(
    "time of a forward",
    {"timings": None, "host": None, "device": None},
    _why_no_time,
    "forward",
)
OPERATORS = Quantity(
    "times of operators", {"host_operators": None}, _why_no_operator_times, "forward"
)
WINDOWS = Quantity("Python overhead", {"host_windows": None}, _why_no_windows, "forward")
COMPUTE_ROOF = Quantity("compute roof", {"ceilings.compute": ()}, _why_no_compute_roof)
MEMORY_ROOF = Quantity(
    "memory roof",
    {"ceilings.bytes_per_second": UNKNOWN, "ceilings.caches": ()},
    _why_no_memory_roof,
)
OPERATOR_ROOF = Quantity(
    "minimum time of an operator", {"ceilings.op_seconds": UNKNOWN}, _why_no_operator_roof
)
FAULT_COST = Quantity(
    "cost of a page fault", {"ceilings.fault_seconds": UNKNOWN}, _why_no_fault_cost
)
KERNELS = Quantity("cost of kernels", {"ceilings.kernels": None}, _why_no_kernels)
MACHINE = Quantity("threads and cores", {"environment": None}, _why_no_machine)
SAMPLE = Quantity("free memory and GPU utilisation", {"sample": None}, _why_no_sample)
BUSY = Quantity("busy cores", {"history": History()}, _why_no_busy)
RATE = Quantity("rate of forwards", {"overhead": None}, _why_no_overhead)
RANK_STEPS = Quantity(
    "steps of a rank", {"steps": None}, _why_no_rank_steps, "forward", is_usual=False
)
COMPILATIONS = Quantity(
    "record of torch.compile", {"compilations": None}, _why_no_compilations, is_usual=False
)
STATISTICS = Quantity(
    "statistics of parameters", {"parameters": None}, _why_no_statistics, is_usual=False
)
VALUES = Quantity("values in training steps", {"values": None}, _why_no_values, is_usual=False)
STEP_MEMORY = Quantity(
    "memory of a training step", {"training_memory": None}, _why_no_step_memory, is_usual=False
)
READ_BY_NONE = Quantity(
    "figures that no rule reads",
    {
        "memory_window": None,
        "slow_steps": (),
        "backward": None,
        "generation": None,
        "experts": None,
        "replays": (),
        "sensitivity": None,
        "slow": (),
        "around_slow": (),
        "programs": None,
        "serving": None,
        "opinion": None,
        "exported": None,
    },
    lambda session: "",
)
"""Taken out of the session of every rule."""

TIME_OF_NODES = (TIMES, OPERATORS, COMPUTE_ROOF, MEMORY_ROOF, OPERATOR_ROOF)
"""Share of a forward in some nodes: measured, or by the roofs."""
PYTHON = (TIMES, WINDOWS, OPERATOR_ROOF)
"""Python and operator overhead; with ``REAL`` where the data decide how many operators run."""
EVERY = (
    *(TREE, PEAK, REAL, BATCH, TIMES, OPERATORS, WINDOWS),
    *(
        COMPUTE_ROOF,
        MEMORY_ROOF,
        OPERATOR_ROOF,
        FAULT_COST,
        KERNELS,
        MACHINE,
        SAMPLE,
        BUSY,
        RATE,
        RANK_STEPS,
    ),
    *(COMPILATIONS, STATISTICS, VALUES, STEP_MEMORY, READ_BY_NONE),
    *of_step.EVERY,
)
"""All that there are."""
