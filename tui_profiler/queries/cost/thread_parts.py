"""What the thread did in the own time of every module: operators, Python, page faults, sleep.

1. Waiting for a core is no part: it is a state of the host. Parts add up to the time without it.
2. *Blocked*: neither on a core nor waiting for one, read in the forwards in which every call reads
   its thread (``CallReadings``). The share is applied to the mean of all forwards.
3. What the last operator windows show without an operator is Python, less what is blocked. Where
   operators run on several threads, their thread also sleeps until the others are done: blocked is
   at most the time without an operator then.
4. *Page faults*: those of the thread times the measured cost of one, at most the time on a core.
   They are in operators and in Python alike, and are taken from both by the same share.
5. Without a window Python is not told from operators, without readings nothing is: all is one
   part, ``operators``. On a GPU times are those of kernels: the same.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Generator

from msgspec import Struct

from tui_profiler.messages import Ceilings, known
from tui_profiler.queries.cost.incremental import STEP, Incremental
from tui_profiler.session import Session, Timings, Tree
from tui_profiler.session.columns import Windows


class ThreadParts(Struct, frozen=True, eq=False):
    """Seconds of one forward, by position in the tick; they add up to ``Timings.own_on_core``."""

    operators: array[float]
    """On a core in operators; with Python where no window divides the two."""
    python: array[float]
    """On a core outside of operators."""
    faults: array[float]
    """In page faults."""
    blocked: array[float]
    """Asleep: sleep, files, network, locks."""
    outside: array[float]
    """Of the time blocked: at most these seconds are outside of operators."""


@Incremental
def thread_parts(
    tree: Tree,
    timings: Timings,
    windows: Windows | None,
    ceilings: Ceilings | None,
    threads: int | None,
) -> Generator[None, None, ThreadParts]:
    """Return the parts of the own time of every node of a tick.

    Args:
        tree: that the nodes are of.
        timings: the tick.
        windows: the last operator windows; None before the first.
        ceilings: of the machine, with the cost of a page fault.
        threads: intra-op threads of torch; None where not known.
    """
    unwaited = timings.own_on_core
    nothing = array("d", bytes(8 * len(unwaited)))
    read = timings.own_read
    if read is None:
        return ThreadParts(array("d", unwaited), *(nothing,) * 4)
    yield from outside_operators.steps(tree, windows)
    outside = outside_operators(tree, windows)
    fault_seconds = (known(ceilings.fault_seconds) if ceilings is not None else None) or 0.0
    is_parallel, count = threads != 1, len(tree)
    operators, python = array("d", unwaited), array("d", nothing)
    faulting, blocked, apart = (array("d", nothing) for _ in range(3))
    nodes = memoryview(timings.tick.nodes).cast("I")
    columns = (nodes, unwaited, read.cpu, read.asleep, read.faults)
    for position, (node, seconds, cpu, asleep, faults) in enumerate(zip(*columns, strict=True)):
        if position % STEP == 0:
            yield
        # Not a number compares with nothing: a node whose calls were not read is one part.
        if not (asleep >= 0.0 and node < count and seconds > 0.0):
            continue
        on_core = max(cpu, 0.0)
        spent = on_core + asleep
        off = seconds * asleep / spent if spent > 0.0 else 0.0
        without = outside[node] * seconds
        if without >= 0.0:
            apart[position] = without
            off = min(off, without) if is_parallel else off
            between = min(max(without - off, 0.0), seconds - off)
        else:
            off, between = (0.0 if is_parallel else off), 0.0
        part = min(faults * fault_seconds / on_core, 1.0) if faults > 0.0 and on_core else 0.0
        blocked[position] = off
        faulting[position] = part * (seconds - off)
        python[position] = between * (1.0 - part)
        operators[position] = max(seconds - off - between, 0.0) * (1.0 - part)
    return ThreadParts(operators, python, faulting, blocked, apart)


@Incremental
def outside_operators(tree: Tree, windows: Windows | None) -> Generator[None, None, array[float]]:
    """Return the share of every module's own time in the windows without an operator.

    Not a number of a node that no window saw, or that has no own time there.
    """
    shares = array("d", [math.nan]) * len(tree)
    if windows is None:
        return shares
    seconds, host = array("d", bytes(8 * len(tree))), array("d", bytes(8 * len(tree)))
    seen = bytearray(len(tree))
    nodes = [node for node in memoryview(windows.times.nodes).cast("I") if node < len(tree)]
    for node in nodes:
        seen[node] = 1
    for position, node in enumerate(nodes):
        if position % STEP == 0:
            yield
        found = windows.shares(node)
        assert found is not None
        seconds[node] += found.seconds
        host[node] += found.host
        around = tree.nodes[node].parent
        while around >= 0 and not seen[around]:
            around = tree.nodes[around].parent
        if around >= 0:
            seconds[around] -= found.seconds
            host[around] -= found.host
    for node in nodes:
        if seconds[node] > 0.0:
            shares[node] = min(max(host[node] / seconds[node], 0.0), 1.0)
    return shares


def thread_parts_of(session: Session) -> ThreadParts | None:
    """Return the parts of the shown tick; None without one."""
    if session.tree is None or session.timings is None:
        return None
    return thread_parts(*arguments(session))


def arguments(
    session: Session,
) -> tuple[Tree, Timings, Windows | None, Ceilings | None, int | None]:
    """Return what ``thread_parts`` is computed from, of a session with a tree and a tick."""
    assert session.tree is not None
    assert session.timings is not None
    environment = session.environment
    threads = environment.threads if environment is not None else None
    return session.tree, session.timings, session.windows, session.ceilings, threads
