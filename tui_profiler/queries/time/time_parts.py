"""Every part of a node's time, named: they add up to the mean of one forward.

1. Modules inside and the node's self time are means over one set of forwards: they add up exactly.
2. Of the self time, what the node waits for a core is taken first.
3. The rest is what the node's own operators take (``operator_seconds.py``), and time without an
   operator (*host*) and of what no node stands for (*other*), divided as in the last operator
   window. A window is slower than other forwards, so that its shares are taken and not its seconds.
4. What could not be divided is one part with its own name, never left out.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from tui_profiler.queries.time.forward_kinds import times_fit_costs
from tui_profiler.queries.time.node_seconds import node_seconds
from tui_profiler.queries.time.operator_seconds import modules_called_in
from tui_profiler.session import Session, Tree
from tui_profiler.session.columns import Timings

PartKind: TypeAlias = Literal["module", "operator", "host", "other", "waiting", "self", "rest"]
HOST = "between operators: Python, waiting"
OTHER = "operators without a node, and calls"
WAITING = "waiting for a core"
UNDIVIDED = "self time, without an operator window"
ON_GPU = "self time: kernels of its own operators, and gaps"
REST = "medians do not add up"
_ROUNDING = 1e-3
"""Of the whole: columns on the wire are float32."""


class TimePart(Struct, frozen=True):
    """One part of a node's time."""

    kind: PartKind
    name: str
    """Of a module or an operator as the model gave it: not safe yet."""
    seconds: float
    """Per forward; below 0 only of ``rest``."""


class TimeParts(Struct, frozen=True):
    """All parts of a node's time."""

    whole: float
    """Seconds per forward: the sum of the parts."""
    parts: tuple[TimePart, ...]
    """Modules and then operators, each with the most time first, and then the others."""
    is_divided: bool
    """Whether self time is divided as in the last operator window."""


def time_parts(session: Session, node: int) -> TimeParts | None:
    """Return the parts of a module's time; None where it has no time, and for an operator."""
    tree, timings = session.tree, session.timings
    whole = node_seconds(session, node)
    if tree is None or timings is None or not whole or tree.nodes[node].kind == "op":
        return None
    modules = _modules(session, tree, node)
    own, rest = _own(timings, node, whole, sum(part.seconds for part in modules))
    waiting = own - timings.on_core(node, own)
    inside = _divided(session, tree, node, own - waiting)
    others = [TimePart("waiting", WAITING, waiting), TimePart("rest", REST, rest)]
    if not inside:
        name = ON_GPU if session.is_timed_on_gpu else UNDIVIDED
        others.insert(0, TimePart("self", name, own - waiting))
    parts = (*modules, *inside, *others)
    return TimeParts(whole, tuple(part for part in parts if part.seconds), bool(inside))


def _own(timings: Timings, node: int, whole: float, inside: float) -> tuple[float, float]:
    """Return the self time, and what is missing from the whole: of means only rounding."""
    own = timings.own_per_forward(node) or 0.0
    rest = whole - inside - own
    if abs(rest) <= _ROUNDING * whole and own + rest >= 0.0:
        return own + rest, 0.0
    return own, rest


def _modules(session: Session, tree: Tree, node: int) -> list[TimePart]:
    found = [
        TimePart("module", tree.nodes[child].name, node_seconds(session, child) or 0.0)
        for child in tree.modules_in(node)
    ]
    return sorted(found, key=lambda part: -part.seconds)


def _divided(session: Session, tree: Tree, node: int, own: float) -> list[TimePart]:
    """Return self time divided as the last operator window was; nothing without one."""
    windows = session.windows if times_fit_costs(session) else None
    shares = windows.shares(node) if windows is not None else None
    if windows is None or shares is None or own <= 0.0:
        return []
    seconds, host, other = shares
    for child in modules_called_in(tree, windows, node):
        inside = windows.shares(child)
        if inside is not None:
            seconds, host, other = (
                mine - its for mine, its in zip((seconds, host, other), inside, strict=True)
            )
    host, other = max(host, 0.0), max(other, 0.0)
    region = windows.region(node)
    if region is not None:
        # Of an opaque module the operators are what it called, whoever stands for them.
        in_window = {part.name: part.seconds for part in region.parts}
        other = max(seconds - host - sum(in_window.values()), 0.0)
        whole = sum(in_window.values()) + host + other
        operators = {name: own * each / whole for name, each in in_window.items()} if whole else {}
    else:
        operators = _operators(session, tree, node, own)
    if not operators and not host + other:
        return []
    by_time = sorted(operators.items(), key=lambda one: -one[1])
    parts = [TimePart("operator", name, taken) for name, taken in by_time]
    rest = max(own - sum(operators.values()), 0.0)
    between = host / (host + other) if host + other else 1.0
    parts.append(TimePart("host", HOST, rest * between))
    parts.append(TimePart("other", OTHER, rest - rest * between))
    return parts


def _operators(session: Session, tree: Tree, node: int, own: float) -> dict[str, float]:
    """Return the seconds of the node's own operators by name, of so much self time on a core."""
    self_time = session.timings.own_per_forward(node) if session.timings is not None else None
    if not self_time:
        return {}
    by_name: dict[str, float] = {}
    for child in tree.children(node):
        if tree.nodes[child].kind == "op" and (spent := node_seconds(session, child)):
            name = tree.nodes[child].name
            by_name[name] = by_name.get(name, 0.0) + spent * min(own / self_time, 1.0)
    return by_name
