"""Share of a forward's time, measured or by the roofs: of nodes, of Python and overhead."""

from collections.abc import Iterable
from functools import lru_cache
from statistics import median

from msgspec import Struct

from tui_profiler.figures.units import duration
from tui_profiler.findings.evidence.affected_operators import call_seconds
from tui_profiler.findings.evidence.finding import Evidence, Gain, Provenance
from tui_profiler.messages import Ceilings, Unknown
from tui_profiler.queries.cost.bound import (
    ceilings_of,
    floors,
    has_roofs,
    largest_floor,
    open_roof,
)
from tui_profiler.queries.time.node_seconds import node_seconds, root_seconds, unwaited_seconds
from tui_profiler.session import Session, Tree

NO_TIMES = Unknown("not measured yet, and the roofline is not calibrated")
NO_CALL_TIME = Unknown("minimum time of an operator: it was not calibrated well enough")
NO_TIME = Unknown("time of a forward: it is not known")
BUSY_GPU = Unknown(
    "the GPU does not wait for the host: it still has queued work when most forwards return"
)
NOT_ASKED = Unknown("it is not known whether the GPU waits for the host")
NO_COUNT = Unknown("the number of operators depends on the data")
WINDOWS_WAITED = Unknown("the thread waited for a core in every operator window so far")
WINDOW_DOUBT = 0.25
"""Of the Python overhead in operator windows, either way: recording makes it longer, and one
forward is not like another."""
NO_WINDOW = Unknown("no operator window yet: Python overhead is not known")
OWN_CODE = Unknown(
    "most of the time outside operators is in other code that the model runs, such as NumPy, files"
    " or an extension: Python overhead is not known"
)
MOST_PYTHON_SECONDS = 2e-4
"""Of Python for each operator and each call of a module: ten times what torch and its modules take
on a slow core. What takes longer is no overhead of theirs, and no compiler removes it."""
LEAST_SHARE = 0.01
"""Share of what the user waits for: a finding that saves less at most is not listed."""


class TimeSpent(Struct, frozen=True):
    """Seconds of one forward: in some nodes, and in all."""

    seconds: float
    whole: float
    is_measured: bool
    """False: minimum times by the roofs, of the nodes and of the whole alike."""
    is_of_window: bool = False
    """Whether operators are among them, whose times are derived from operator windows."""

    @property
    def share(self) -> float:
        """Part of the forward, 0 to 1."""
        return share_of(self.seconds, self.whole)

    @property
    def provenance(self) -> Provenance:
        """Provenance of the seconds."""
        if self.is_of_window:
            return "derived"
        return "measured" if self.is_measured else "estimated"

    @property
    def text(self) -> str:
        """Both: ``0.41 ms of 5.20 ms``."""
        return f"{self.seconds_text} of {self.whole_text}"

    @property
    def seconds_text(self) -> str:
        """The seconds, with ``~`` where they are by the roofs."""
        return ("" if self.is_measured else "~") + duration(self.seconds)

    @property
    def whole_text(self) -> str:
        """The forward's seconds likewise."""
        return ("" if self.is_measured else "~") + duration(self.whole)


def gain(
    found: TimeSpent | Unknown, formula: str, otherwise: str, *, is_bound: bool = False
) -> Gain:
    """Return the gain of a forward in which these seconds are saved.

    Args:
        found: the seconds.
        formula: how it is computed; ``{}`` stands for both times.
        otherwise: what it would be computed from, where they are unknown.
        is_bound: at most these seconds are saved.
    """
    if isinstance(found, Unknown):
        return Gain("time", found, otherwise)
    provenance: Provenance = "derived" if found.is_measured else "estimated"
    return Gain("time", found.share, formula.replace("{}", found.text), provenance, is_bound)


def ranged(
    whole: TimeSpent, seconds: tuple[float, float, float], formula: str, *, is_bound: bool = False
) -> Gain:
    """Return the gain of a forward in which these seconds are saved.

    On paper it is an upper bound: a forward takes longer than the roofs allow, and what they do not
    explain may stay.

    Args:
        whole: the forward.
        seconds: saved at least, likely and at most.
        formula: how they are computed.
        is_bound: at most these seconds are saved.
    """
    low, share, high = (share_of(each, whole.whole) for each in seconds)
    if is_bound or not whole.is_measured:
        return Gain("time", high, formula, "estimated", is_bound=True)
    return Gain("time", share, formula, "estimated", low=low, high=high)


def evidence(
    found: TimeSpent | Unknown, what: str = "their time per forward"
) -> tuple[Evidence, ...]:
    """Return the seconds as evidence, nothing where they are unknown."""
    if isinstance(found, Unknown):
        return ()
    return (Evidence(what, found.seconds, "s", found.provenance),)


def share_of(part: float, whole: float) -> float:
    """Return a share, clamped to 0 to 1; 0 where the whole is 0."""
    return min(max(part / whole, 0.0), 1.0) if whole > 0 else 0.0


def spent(session: Session, nodes: Iterable[int]) -> TimeSpent | Unknown:
    """Return the time of nodes, none of them inside another.

    Where one of them is not timed, all times are minimum times by the roofs: none are mixed.
    """
    tree = session.tree
    if tree is None:
        return NO_TIMES
    wanted = tuple(nodes)
    whole = unwaited_seconds(session, 0) if len(tree) else None
    times = [unwaited_seconds(session, node) for node in wanted]
    known_times = [time for time in times if time is not None]
    if whole and len(known_times) == len(times):
        is_of_window = any(tree.nodes[node].kind == "op" for node in wanted)
        return TimeSpent(sum(known_times), whole, True, is_of_window)
    ceilings = ceilings_of(session)
    if ceilings is None:
        return NO_TIMES
    least = least_times(tree, ceilings)
    if isinstance(least, Unknown):
        return least
    on_paper = least[0] if least else 0.0
    if not on_paper:
        return NO_TIMES
    return TimeSpent(sum(least[node] for node in wanted), on_paper, False)


def forward(session: Session) -> TimeSpent | Unknown:
    """Return the time of a whole forward."""
    return spent(session, (0,)) if session.tree is not None and len(session.tree) else NO_TIMES


def slowest_first(session: Session, nodes: Iterable[int]) -> tuple[int, ...]:
    """Return nodes by time, slowest first; those without times last."""
    return tuple(sorted(nodes, key=lambda node: -(node_seconds(session, node) or 0.0)))


def is_negligible(found: TimeSpent | Unknown) -> bool:
    """Return whether the share is known, and too small for a finding."""
    return not isinstance(found, Unknown) and found.share < LEAST_SHARE


def operators_run(session: Session, tree: Tree) -> int | None:
    """Return the operators of one forward: of a real one, where their number depends on the data.

    Returns:
        None where it does, and no real forward was recorded.
    """
    if tree.depends(0) is None:
        return tree.costs[0].ops
    real = session.real
    return None if real is None or real.cost is None else real.cost.ops


@lru_cache(maxsize=2)
def least_times(tree: Tree, ceilings: Ceilings) -> tuple[float, ...] | Unknown:
    """Return the minimum seconds of every node by the roofs; a module's are its operators' sum.

    Unknown where a roof that is missing, or not good enough, could be the highest of an operator:
    a share needs the whole.
    """
    found = [0.0] * len(tree)
    if not has_roofs(ceilings):
        return NO_TIMES
    held = floors(tree, ceilings)
    for index in range(len(tree) - 1, -1, -1):
        node, cost = tree.nodes[index], tree.costs[index]
        if node.kind == "op" and cost.ops:
            least = largest_floor(tree, held, index)
            if least is None:
                return Unknown(f"no minimum time: {open_roof(tree, held, index)}")
            found[index] = least
        if node.parent >= 0:
            found[node.parent] += found[index]
    return tuple(found)


class Host(Struct, frozen=True):
    """Seconds of one forward outside the work itself: Python, and operator overhead."""

    python: float
    """In which no operator ran."""
    calling: float
    """Operator overhead, at least."""
    operators: int
    whole: float
    least_python: float = 0.0
    """Lower end of ``python``: operator windows are few, and slower than other forwards."""
    most_python: float = 0.0
    """Upper end of ``python``."""

    @property
    def share(self) -> float:
        """Both, of the forward."""
        return share_of(self.python + self.calling, self.whole)


def host(session: Session, without: Iterable[int] = ()) -> Host | Unknown:
    """Return Python and operator overhead, from operator windows and the calibration.

    Their forwards are slower than others: the median of their shares is applied to a usual forward,
    less what that waits for a core. Windows that waited do not count.

    Args:
        session: that it is of.
        without: modules whose Python is left out, with all inside; none of them inside another.
    """
    tree, whole, windows = session.tree, root_seconds(session), session.host_windows
    device = session.gpu_forwards
    if device is not None and not device.waits_for_host:
        return NOT_ASKED if device.waits_for_host is None else BUSY_GPU
    shares = windows.shares(0) if windows is not None else None
    if tree is None or whole is None:
        return NO_TIME
    if shares is None or shares.seconds <= 0:
        return NO_WINDOW
    whole = unwaited_seconds(session, 0) or whole
    call = call_seconds(session.ceilings)
    if call is None:
        return NO_CALL_TIME
    operators = operators_run(session, tree)
    if operators is None:
        return NO_COUNT
    inside = (windows.shares(node) for node in without if windows is not None)
    outside = shares.host - sum(part.host for part in inside if part is not None)
    seen = windows.times.host_shares if windows is not None else None
    if seen is not None and not seen:
        return WINDOWS_WAITED
    own = share_of(outside, shares.host)  # Of the Python of all modules.
    hosts = seen or (share_of(shares.host, shares.seconds),)
    python = whole * own * median(hosts)
    least = whole * own * min(hosts) * (1 - WINDOW_DOUBT)
    most = min(whole * own * max(hosts) * (1 + WINDOW_DOUBT), whole)
    calls = sum(node.calls for node in tree.nodes if node.kind == "module")
    if python > MOST_PYTHON_SECONDS * (operators + calls):
        return OWN_CODE
    calling = min(operators * call, whole - python)
    return Host(python, calling, operators, whole, least, most)
