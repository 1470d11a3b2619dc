"""Injected pauses: does the slowest forward name its cause?

    python benchmarks/slow_forwards.py [--times N] [--forwards N] [--cause NAME...]

A small model runs through the clock and the aggregator; one forward in fifty is held up by a cause
that is known: a sleep, page faults (memory given back by ``madvise`` and touched again), a
garbage collection, busy neighbours on the same core, or a compilation. Prints for each cause how
often the slowest forward named it first, of N runs; the exit code is 1 below 9 of 10.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import mmap
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from types import FunctionType

import torch
from torch import nn

from tui_profiler.probe.measure.clock.aggregate import Aggregator
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.trace import messages, trace
from tui_profiler.queries.time.slow_forwards import causes, slow_words
from tui_profiler.session import EMPTY, Session, apply

EVERY = 50
NEIGHBOURS = 3
"""So many that the forward waits longer than what it does meanwhile takes."""
NAMED = {
    "sleep": "blocked",
    "faults": "page faults",
    "collect": "collector",
    "neighbour": "waiting",
    "compile": "compile",
}
"""Cause that is injected, and its name in ``CauseName``."""


class HeldUp(nn.Module):
    """A layer that is held up in one forward of ``EVERY``."""

    def __init__(self, hold_up: Callable[[], None]) -> None:
        super().__init__()
        self.fc = nn.Linear(256, 256)
        self.hold_up = hold_up
        self.forwards = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what the layer gives, now and then later."""
        self.forwards += 1
        if self.forwards % EVERY == 0:
            self.hold_up()
        out: torch.Tensor = self.fc(x)
        return out


def fault(memory: mmap.mmap) -> None:
    """Give 32 MiB back to the kernel and touch each page again."""
    memory.madvise(mmap.MADV_DONTNEED)
    for page in range(0, len(memory), mmap.PAGESIZE):
        memory[page] = 1


def compile_anew() -> None:
    """Compile a function that was not compiled before: another code object each time."""

    def add(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    code = add.__code__.replace(co_name=f"add_{time.monotonic_ns()}")
    torch.compile(FunctionType(code, globals()), backend="eager")(torch.ones(2))


@contextlib.contextmanager
def holding_up(cause: str) -> Iterator[Callable[[], None]]:
    """Prepare a cause; gives what holds a forward up."""
    if cause == "sleep":
        yield lambda: time.sleep(0.02)
    elif cause == "faults":
        with mmap.mmap(-1, 2**25) as memory:
            memory.madvise(mmap.MADV_NOHUGEPAGE)
            fault(memory)
            yield lambda: fault(memory)
    elif cause == "collect":
        garbage = [[number] for number in range(400_000)]
        yield lambda: (gc.collect(), None)[1]
        garbage.clear()
    elif cause == "compile":
        compile_anew()
        yield compile_anew
    else:
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(allowed)})
        turn = "while True:\n    input()\n    for _ in range(2_000_000): pass"
        with contextlib.ExitStack() as running:
            others = [
                running.enter_context(
                    subprocess.Popen([sys.executable, "-c", turn], stdin=subprocess.PIPE)
                )
                for _ in range(NEIGHBOURS)
            ]

            def share_the_core() -> None:
                for each in others:
                    assert each.stdin is not None
                    each.stdin.write(b"\n")
                    each.stdin.flush()
                until = time.thread_time() + 0.02
                while time.thread_time() < until:
                    pass

            try:
                yield share_the_core
            finally:
                for each in others:
                    each.kill()
                os.sched_setaffinity(0, allowed)


def measured(cause: str, forwards: int) -> Session:
    """Return the session after so many forwards."""
    with holding_up(cause) as hold_up, torch.inference_mode():
        model, x = HeldUp(hold_up).eval(), torch.randn(32, 256)
        traced = trace(model, [Inputs((x,), {})])
        model.forwards = 0
        clock, totals = ModuleClock(model), Aggregator(traced.nodes, model)
        session = EMPTY
        for message in messages(traced):
            session = apply(session, message)
        clock.install()
        try:
            for number in range(forwards):
                model(x)
                if number % 20 == 0:
                    totals.add(clock.take())
                    slow = totals.slow(number / 100)
                    session = session if slow is None else apply(session, slow)
        finally:
            clock.uninstall()
    return apply(session, totals.tick(1.0))


def main() -> int:
    """Print how often each cause was named; return 1 where one was named too seldom."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--forwards", type=int, default=1000)
    parser.add_argument("--cause", nargs="*", default=list(NAMED), choices=list(NAMED))
    options = parser.parse_args()
    torch.set_num_threads(1)
    failed = False
    for cause in options.cause:
        named, said = 0, ""
        for _ in range(options.times):
            session = measured(cause, options.forwards)
            found = causes(session, session.slow[0]) if session.slow else ()
            is_named = bool(found) and found[0].name == NAMED[cause]
            named += is_named
            said = slow_words(session, session.slow[0]) if session.slow else "no slow forward"
        failed |= named < 0.9 * options.times
        print(f"{cause:10} {named} of {options.times}: {said}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
