"""Injected pauses: does the slowest forward name its cause?

    python -m benchmarks.times.slow_forwards [--times N] [--forwards N] [--cause NAME...]

A small model runs through the clock and the aggregator, with samples of the machine and looks at
other programs as often as the product takes them; one forward in fifty is held up by a cause that
is known: a sleep, page faults (memory given back by ``madvise`` and touched again), a garbage
collection, a compilation, one or three busy neighbours on the same core, or the CPU quota of the
process's control group, used up by another process in it. With neighbours and quota every forward
computes for ``SPUN``, so that what a held-up one has more of is the wait alone. With *none*
nothing holds a forward up: whatever is slow waited for a core, or no cause is known.

Prints for each cause how often the slowest forward named it first, of N runs, and how often the
program that was in the way was named with it; of *none*, in how many runs no slow forward was
blamed on anything. The exit code is 1 below 9 of 10.
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
from pathlib import Path
from types import FunctionType
from typing import NamedTuple

import torch
from msgspec.structs import replace
from torch import nn

from tui_profiler.messages import Hello
from tui_profiler.probe.measure.clock.aggregate import Aggregator
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.measure.sampler import Sampler
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.trace import messages, trace
from tui_profiler.queries.time.slow_forwards import CauseName, causes, slow_words
from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.source.other_programs import Programs

EVERY = 50
SPUN = 0.02
"""Seconds of the CPU clock that a forward computes for, beside neighbours."""
SAMPLE_SECONDS, LOOK_SECONDS = 1.0, 2.0
QUOTA_MICROSECONDS = 40_000
"""Of a core in each period of 100 ms, for all processes of the group together."""
GROUP = Path("/sys/fs/cgroup/cpu")
"""Of version 1, as the test machine has it."""
NAMED: dict[str, CauseName] = {
    "sleep": "blocked",
    "faults": "page faults",
    "collect": "collector",
    "compile": "compile",
    "neighbour": "waiting",
    "neighbours": "waiting",
    "quota": "quota",
}
"""Cause that is injected, and its name."""
NOT_INJECTED: set[CauseName] = {"waiting", "steal", "off a core", "on a core"}
"""What slow forwards have without an injected cause: the machine's other programs, or unknown."""
TURN = "while True:\n    input()\n    for _ in range(2_000_000): pass"
"""A neighbour: each time that it is told to, busy for some tens of milliseconds."""


class HoldUp(NamedTuple):
    """What holds a forward up now and then."""

    pause: Callable[[], object]
    spun: float = 0.0
    """Seconds that every forward computes for."""
    pids: tuple[int, ...] = ()
    """Programs that are in the way meanwhile."""


class HeldUp(nn.Module):
    """A layer that is held up in one forward of ``EVERY``."""

    def __init__(self, by: HoldUp) -> None:
        super().__init__()
        self.fc = nn.Linear(256, 256)
        self.by = by
        self.forwards = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the layer's output, now and then later."""
        self.forwards += 1
        until = time.thread_time() + self.by.spun
        if self.forwards % EVERY == 0:
            self.by.pause()
        while time.thread_time() < until:
            pass
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
def neighbours(count: int) -> Iterator[HoldUp]:
    """Start processes that wait; the pause makes each of them busy for a while."""
    with contextlib.ExitStack() as running:
        others = [
            running.enter_context(
                subprocess.Popen([sys.executable, "-c", TURN], stdin=subprocess.PIPE)
            )
            for _ in range(count)
        ]

        def tell() -> None:
            for each in others:
                assert each.stdin is not None
                each.stdin.write(b"\n")
                each.stdin.flush()

        try:
            yield HoldUp(tell, SPUN, tuple(each.pid for each in others))
        finally:
            for each in others:
                each.kill()


@contextlib.contextmanager
def on_one_core(count: int) -> Iterator[HoldUp]:
    """Put this process and its neighbours on one core."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        with neighbours(count) as found:
            yield found
    finally:
        os.sched_setaffinity(0, allowed)


@contextlib.contextmanager
def in_limited_group() -> Iterator[HoldUp]:
    """Put this process and a neighbour into a group with a quota, which the neighbour uses up."""
    group = GROUP / f"tui-profiler-{os.getpid()}"
    own = next(
        line for line in Path("/proc/self/cgroup").read_text().splitlines() if ":cpu:" in line
    )
    home = GROUP / own.rpartition(":")[2].lstrip("/")
    group.mkdir()
    try:
        (group / "cpu.shares").write_text("262144")  # Else busy groups beside it come first.
        (group / "cgroup.procs").write_text(str(os.getpid()))
        with neighbours(1) as found:
            (group / "cpu.cfs_quota_us").write_text(str(QUOTA_MICROSECONDS))
            try:
                yield found._replace(spun=SPUN / 4)
            finally:
                (group / "cpu.cfs_quota_us").write_text("-1")
    finally:
        (home / "cgroup.procs").write_text(str(os.getpid()))
        group.rmdir()


@contextlib.contextmanager
def holding_up(cause: str) -> Iterator[HoldUp]:
    """Prepare a cause and return what holds a forward up."""
    if cause == "none":
        yield HoldUp(lambda: None, SPUN / 4)
    elif cause == "sleep":
        yield HoldUp(lambda: time.sleep(0.02))
    elif cause == "faults":
        with mmap.mmap(-1, 2**25) as memory:
            memory.madvise(mmap.MADV_NOHUGEPAGE)
            fault(memory)
            yield HoldUp(lambda: fault(memory))
    elif cause == "collect":
        garbage = [[number] for number in range(400_000)]
        yield HoldUp(gc.collect)
        garbage.clear()
    elif cause == "compile":
        compile_anew()
        yield HoldUp(compile_anew)
    elif cause == "quota":
        with in_limited_group() as found:
            yield found
    else:
        with on_one_core(3 if cause == "neighbours" else 1) as found:
            yield found


class Around:
    """Tells a session what the machine does meanwhile, as a sampler and a viewer do."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._sampler, self._programs = Sampler(time.time()), Programs()
        self._sampled = self._looked = -1.0
        self._programs.look()

    @property
    def now(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._began

    def tell(self, session: Session, *, at_once: bool = False) -> Session:
        """Return the session with what is due."""
        if at_once or self.now - self._sampled >= SAMPLE_SECONDS:
            self._sampled = self.now
            session = apply(session, replace(self._sampler.sample(), at=self.now))
        if at_once or self.now - self._looked >= LOOK_SECONDS:
            self._looked = self.now
            seen = self._programs.look(os.getpid())
            session = session if seen is None else apply(session, replace(seen, at=self.now))
        return session

    def close(self) -> None:
        """Read no more."""
        self._sampler.close()
        self._programs.close()


def measured(cause: str, forwards: int) -> tuple[Session, tuple[int, ...]]:
    """Return the session after so many forwards, and the programs that were in the way."""
    with holding_up(cause) as by, torch.inference_mode():
        model, x = HeldUp(by).eval(), torch.randn(32, 256)
        traced = trace(model, [Inputs((x,), {})])
        model.forwards = 0
        clock, totals, around = ModuleClock(model), Aggregator(traced.nodes, model), Around()
        session = apply(EMPTY, Hello(1, os.getpid(), ()))
        for message in messages(traced):
            session = apply(session, message)
        clock.install()
        try:
            for number in range(forwards):
                model(x)
                if by.spun and cause == "quota":
                    time.sleep(3 * by.spun)  # Alone it stays far below the quota.
                if number % 20 == 0:
                    totals.add(clock.take())
                    slow = totals.slow(around.now, time.perf_counter())
                    session = session if slow is None else apply(session, slow)
                    session = around.tell(session)
            session = around.tell(session, at_once=True)
        finally:
            clock.uninstall()
            around.close()
    return apply(session, totals.tick(around.now)), by.pids


def main() -> int:
    """Print how often each cause was named; return 1 where one was named too seldom."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--forwards", type=int, default=500)
    choices = [*NAMED, "none"]
    parser.add_argument("--cause", nargs="*", default=choices, choices=choices)
    options = parser.parse_args()
    torch.set_num_threads(1)
    failed = False
    for cause in options.cause:
        if cause == "quota" and not os.access(GROUP, os.W_OK):
            print("quota      not run: no control group of version 1 can be made here")
            continue
        named = programs = 0
        said = ""
        for _ in range(options.times):
            session, pids = measured(cause, options.forwards)
            found = causes(session, session.slow[0]) if session.slow else ()
            if cause == "none":
                all_found = (one for slow in session.slow for one in causes(session, slow))
                is_named = all(one.name in NOT_INJECTED for one in all_found)
            else:
                is_named = bool(found) and found[0].name == NAMED[cause]
            named += is_named
            programs += is_named and any(one.pid in pids for one in found[0].programs)
            said = slow_words(session, session.slow[0]) if session.slow else "no slow forward"
        failed |= named < 0.9 * options.times
        with_name = f", with the program {programs}" if NAMED.get(cause) == "waiting" else ""
        print(f"{cause:10} {named} of {options.times}{with_name}: {said}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
