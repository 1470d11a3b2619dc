"""A tree of 100,000 nodes, compared with Textual's own ``Tree`` in one run.

    python -m benchmarks.terminal.tree [NODES]

Each contender runs in a process of its own, so that memory is its own. CPU time is of the process;
a key's time is from the key to the paint of the cursor's line. Budgets are those of the project.
"""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import time
import tracemalloc
from array import array
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

NODES = 100_000
CHUNK = 2_000
CALLED = 75_000
"""Nodes with times: more do not fit into one frame of the wire."""
KEYS = 60
SIZE = (120, 40)
BUDGETS = {
    "rows loaded, s": 0.3,
    "toggle, ms CPU": 20.0,
    "key to paint p95, ms": 16.0,
    "tree and rows, MB": 60.0,
}


def shapes(count: int) -> Iterator[tuple[int, str, str]]:
    """Yield (parent, name, kind) of blocks of convolutions with operators, in preorder."""
    yield -1, "model", "module"
    made = 1
    while made < count:
        block = made
        yield 0, f"block{made}", "module"
        made += 1
        for layer in range(50):
            if made >= count:
                return
            parent = made
            yield block, f"layer{layer}", "module"
            made += 1
            for leaf in range(9):
                if made >= count:
                    return
                yield parent, f"conv{leaf}", "module"
                made += 1


def messages(count: int) -> list[bytes]:
    """Return the messages of a worker for such a model, and one tick of times."""
    from tests.queries.sessions import cost_of
    from tui_profiler.connection import wire
    from tui_profiler.messages import (
        Ceiling,
        Ceilings,
        Node,
        Nodes,
        PeakMemory,
        Tick,
        TraceDone,
        TraceStarted,
        Unknown,
    )

    paths: list[str] = []
    nodes: list[Node] = []
    for parent, name, kind in shapes(count):
        path = "" if parent < 0 else f"{paths[parent]}.{name}".lstrip(".")
        paths.append(path)
        nodes.append(
            Node(parent, "module" if kind == "module" else "op", name, path, "Conv2d", 1,
                 (), (), (), "", "model.py:1", "")
        )  # fmt: skip
    costs = [cost_of(1000 + i, 10**6 + i) for i in range(count)]
    unknown = Unknown("not measured")
    sent: list[Any] = [TraceStarted(count, "dispatch:fake")]
    sent += [
        Nodes(tuple(nodes[i : i + CHUNK]), tuple(costs[i : i + CHUNK]))
        for i in range(0, count, CHUNK)
    ]
    sent.append(
        Ceilings("cpu", 2, (Ceiling("float32", 4e11),), 2e10, 5e-6, measured_at=0.0, seconds=0.0)
    )
    sent.append(TraceDone((), (), (), PeakMemory(unknown, unknown, unknown, unknown, -1, 0, 0)))
    called = min(count, CALLED)
    narrow = array("f", [1e-6 * (1 + i % 7) for i in range(called)]).tobytes()
    wide = array("d", [1e-3] * called).tobytes()
    sent.append(
        Tick(1.0, 10, 0, 0, 0.1, 0.1, 10.0, 10, array("I", range(called)).tobytes(),
             array("Q", [10] * called).tobytes(), wide, wide, narrow, narrow, narrow, narrow,
             narrow, narrow)
    )  # fmt: skip
    return [wire.encode(message) for message in sent]


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return (seconds, CPU seconds) of a call."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def p95(values: list[float]) -> float:
    """Return the 95th percentile."""
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.95))]


async def ours(count: int) -> dict[str, float]:
    """Measure our own tree."""
    from textual.app import App, ComposeResult

    from screens.explorer.tree.widget import NodeTree
    from screens.settings.theme import DARK, roles_for
    from tui_profiler.connection import wire
    from tui_profiler.queries.tree import focus, rows
    from tui_profiler.session import EMPTY, Session, apply

    frames = messages(count)
    gc.collect()
    tracemalloc.start()
    session = _fed(wire.message_decoder(), frames[:-1], EMPTY, apply)
    assert session.tree is not None
    decoded = tracemalloc.get_traced_memory()[0]
    opened = focus.all_unfolded(focus.initial(session.tree), session.tree)
    laid = rows.outline(session, opened)
    with_rows = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(laid) == count
    del session, laid

    painted: list[float] = []

    class Watched(NodeTree):
        def render_lines(self, crop: Any) -> Any:
            lines = super().render_lines(crop)
            painted.append(time.perf_counter())
            return lines

    class Bench(App[None]):
        BINDINGS: ClassVar = [("down", "down", "down")]

        def get_theme_variable_defaults(self) -> dict[str, str]:
            return roles_for(DARK)

        def compose(self) -> ComposeResult:
            yield Watched()

        def action_down(self) -> None:
            self.query_one(Watched).move(1)

    figures: dict[str, float] = {
        "tree and rows, MB": with_rows / 1e6,
        "of it tree, MB": decoded / 1e6,
    }
    async with Bench().run_test(size=SIZE) as pilot:
        app = pilot.app
        tree = app.query_one(Watched)
        loaded: list[Session] = []
        figures["messages to tree, s"] = timed(
            lambda: loaded.append(_fed(wire.message_decoder(), frames[:-1], EMPTY, apply))
        )[0]
        figures["rows loaded, s"] = timed(lambda: setattr(tree, "session", loaded[0]))[0]
        await pilot.pause()
        figures["expand all, ms CPU"] = timed(tree.unfold_all)[1] * 1e3
        await pilot.pause()
        toggles = [timed(tree.toggle_fold)[1] * 1e3 for _ in range(20)]
        figures["toggle, ms CPU"] = max(toggles)
        await pilot.pause()
        ticked = _fed(wire.message_decoder(), frames[-1:], loaded[0], apply)
        figures["first tick, ms CPU"] = timed(lambda: setattr(tree, "session", ticked))[1] * 1e3
        again = _fed(wire.message_decoder(), frames[-1:], ticked, apply)
        figures["tick, ms CPU"] = timed(lambda: setattr(tree, "session", again))[1] * 1e3
        figures["filter, ms CPU"] = timed(lambda: tree.filter_by("layer7.conv3"))[1] * 1e3
        tree.filter_by("")
        tree.first()
        figures.update(await _keys(pilot, painted))
    return figures


def _fed(decoder: Any, frames: list[bytes], session: Any, apply: Any) -> Any:
    for frame in frames:
        for message in decoder.feed(frame):
            session = apply(session, message)
    return session


async def textual_tree(count: int) -> dict[str, float]:
    """Measure Textual's ``Tree`` with the same names and no columns at all."""
    from textual.app import App, ComposeResult
    from textual.widgets import Tree

    painted: list[float] = []

    class Watched(Tree[int]):
        def render_lines(self, crop: Any) -> Any:
            lines = super().render_lines(crop)
            painted.append(time.perf_counter())
            return lines

    class Bench(App[None]):
        def compose(self) -> ComposeResult:
            yield Watched("model")

    def fill(tree: Watched) -> None:
        made: list[Any] = [tree.root]
        for index, (parent, name, _) in enumerate(shapes(count)):
            if parent >= 0:
                made.append(made[parent].add(name, data=index))
        tree.root.expand()

    figures: dict[str, float] = {}
    async with Bench().run_test(size=SIZE) as pilot:
        tree = pilot.app.query_one(Watched)
        tree.focus()
        gc.collect()
        tracemalloc.start()
        fill(tree)
        tree.root.expand_all()
        await pilot.pause()
        figures["tree and rows, MB"] = tracemalloc.get_traced_memory()[0] / 1e6
        tracemalloc.stop()
        tree.clear()
        await pilot.pause()

        async def show(work: Callable[[], object]) -> tuple[float, float]:
            wall, cpu = time.perf_counter(), time.process_time()
            work()
            await pilot.pause()
            return time.perf_counter() - wall, time.process_time() - cpu

        figures["rows loaded, s"] = (await show(lambda: fill(tree)))[0]
        figures["expand all, ms CPU"] = (await show(tree.root.expand_all))[1] * 1e3
        toggles = [(await show(tree.root.toggle))[1] * 1e3 for _ in range(4)]
        figures["toggle, ms CPU"] = max(toggles)
        figures.update(await _keys(pilot, painted))
    return figures


async def _keys(pilot: Any, painted: list[float]) -> dict[str, float]:
    waits: list[float] = []
    for _ in range(KEYS):
        await pilot.pause()
        await asyncio.sleep(0.02)
        painted.clear()
        start = time.perf_counter()
        pilot.app.simulate_key("down")
        # An Event would add a turn of the loop to what is measured.
        while not painted and time.perf_counter() - start < 2:  # noqa: ASYNC110
            await asyncio.sleep(0)
        waits.append((painted[-1] - start) * 1e3 if painted else 2e3)
    return {"key to paint p50, ms": sorted(waits)[len(waits) // 2],
            "key to paint p95, ms": p95(waits)}  # fmt: skip


CONTENDERS = {"ours": ours, "textual Tree": textual_tree}


def main() -> int:
    """Run every contender in a process of its own and print them side by side."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else NODES
    if len(sys.argv) > 2:
        print(json.dumps(asyncio.run(CONTENDERS[sys.argv[2]](count))))
        return 0
    results = {
        name: json.loads(
            subprocess.run(
                [sys.executable, "-m", "benchmarks.terminal.tree", str(count), name],
                check=True, capture_output=True, text=True,
            ).stdout
        )
        for name in CONTENDERS
    }  # fmt: skip
    print(f"{count:,} nodes{'':22}{'ours':>12}{'textual Tree':>14}{'budget':>10}")
    failed = False
    for figure, mine in results["ours"].items():
        theirs = results["textual Tree"].get(figure)
        budget = BUDGETS.get(figure)
        over = budget is not None and mine > budget
        failed = failed or over
        print(
            f"{figure:34}{mine:12.3f}{theirs if theirs is None else round(theirs, 3)!s:>14}"
            f"{budget or ''!s:>10}{'  OVER' if over else ''}"
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
