"""The roofline of a tree of 100,000 nodes: the cost of opening it, of a tick and of a key.

    python -m benchmarks.terminal.roofline [NODES]

CPU time of this process, the median of many. A draw is what a key costs; a tick of many nodes is
read every two seconds at most.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

from msgspec.structs import replace

from benchmarks.terminal.tree import messages
from screens.views.roofline.lines import roofline_lines
from screens.widgets.rows import Look, finished
from tui_profiler.connection.wire import message_decoder
from tui_profiler.queries.cost.roofline_view import RooflineView
from tui_profiler.session import EMPTY, Timings, apply

NODES = 100_000
SIZE = (120, 35)
TIMES = 20
DRAW_BUDGET = 30.0


def milliseconds(action: Callable[[], object]) -> float:
    begin = time.process_time()
    action()
    return (time.process_time() - begin) * 1e3


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else NODES
    session = EMPTY
    for frame in messages(count):
        for message in message_decoder().feed(frame):
            session = apply(session, message)
    assert session.timings is not None
    view = RooflineView()
    opened = milliseconds(lambda: view.update(session, 0.0))

    def draw(node: int) -> None:
        look = Look(session, node, 0.0, SIZE[0])
        finished(roofline_lines(look, view, SIZE[1]), look)

    first = milliseconds(lambda: draw(0))
    keys = [milliseconds(lambda: draw(view.walked(0, 7))) for _ in range(TIMES)]
    ticks = []
    for second in range(TIMES):
        tick = replace(session.timings.tick, at=session.timings.tick.at + 1.0 + second)
        later = replace(session, timings=Timings(tick, session.timings))
        ticks.append(milliseconds(lambda later=later: view.update(later, 0.0)))
        ticks[-1] += milliseconds(lambda: draw(0))
    drawn = statistics.median(keys)
    print(f"{count:,} nodes, {len(view.order):,} parts with times")
    print(f"opened     {opened:7.1f} ms, once, and {first:.1f} ms for the first draw")
    print(f"a tick     {statistics.median(ticks):7.1f} ms, every two seconds at most")
    print(f"a draw     {drawn:7.1f} ms, {DRAW_BUDGET:.0f} allowed")
    return 0 if drawn <= DRAW_BUDGET else 1


if __name__ == "__main__":
    sys.exit(main())
