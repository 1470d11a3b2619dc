"""What reading weights costs a running model, and how long it takes, running and paused.

``python -m benchmarks.weights.reading_weights MODEL [PAIRS [SECONDS]]`` runs a worker; forwards are
counted for SECONDS with reading and for SECONDS without, in turn, so that what else the machine
does falls on both alike. The model counts its forwards itself: the profiler need not record all.
Model and reading have one thread each, so that forwards per second of the worker's CPU time are
those of a machine with nothing else to do. Then the model is paused, and the rest is read.
"""

from __future__ import annotations

import asyncio
import struct
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import psutil

from tests.worker import Conversation, spec
from tui_profiler.messages import AnalyseParameters, ParametersProgress, Pause, StopAnalysing
from tui_profiler.probe.measure.clock.overhead_budget import interval_of_median
from tui_profiler.session import Session

BUDGET = 0.02


def is_read(session: Session) -> bool:
    return session.parameters is not None and session.parameters.done is not None


MODEL = """
import mmap, struct
import torch, torchvision

with open({count!r}, "r+b") as file:
    counted = mmap.mmap(file.fileno(), 8)


class Counted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = torchvision.models.get_model({name!r})

    def forward(self, image):
        made = self.model(image)
        struct.pack_into("q", counted, 0, 1 + struct.unpack_from("q", counted)[0])
        return made
"""


class Counted:
    """A worker with a model that counts its forwards."""

    def __init__(self, name: str, folder: Path) -> None:
        self._count = folder / "count"
        self._count.write_bytes(bytes(8))
        code = folder / "counted.py"
        code.write_text(MODEL.format(count=str(self._count), name=name))
        options = {"inputs": ("1,3,224,224",), "budget": BUDGET, "threads": 1}
        self.worker = Conversation(spec(f"{code}:Counted", folder, **options))

    async def rate(self, seconds: float) -> float:
        """Forwards per second of the worker's CPU time, over about so many seconds."""
        before = self._now()
        ends = time.monotonic() + seconds
        await self.worker.until(lambda _: time.monotonic() >= ends)
        after = self._now()
        return (after[0] - before[0]) / (after[1] - before[1])

    def _now(self) -> tuple[int, float]:
        assert self.worker.session.hello is not None
        times = psutil.Process(self.worker.session.hello.pid).cpu_times()
        [count] = struct.unpack("q", self._count.read_bytes())
        return count, times.user + times.system


async def measure(name: str, pairs: int, seconds: float, folder: Path) -> None:
    counted = Counted(name, folder)
    worker = counted.worker
    try:
        await worker.until(lambda now: now.tick is not None and now.tick.forwards > 5)
        await counted.rate(3 * seconds)  # The governor settles.
        ratios = []
        for _ in range(pairs):
            before = await counted.rate(seconds)
            worker.source.send(AnalyseParameters(threads=1))
            await worker.until(
                lambda now: now.parameters is not None and now.parameters.progress is not None
            )
            ratios.append(await counted.rate(seconds) / before)
            worker.source.send(StopAnalysing())
            await worker.until(is_read)
        low, high = interval_of_median(ratios) or (float("nan"), float("nan"))
        print(
            f"{name}: forwards per CPU second while reading {median(ratios):.4f} of before,"
            f" 95 % CI {low:.4f} to {high:.4f}, {pairs} pairs of {seconds:g} s"
        )
        worker.source.send(AnalyseParameters(threads=1))
        await worker.until(
            lambda now: now.parameters is not None and now.parameters.progress is not None
        )
        await counted.rate(3 * seconds)
        known = worker.session.parameters
        assert known is not None
        if known.progress is not None and known.done is None:
            told = known.progress
            assert told.left_seconds is not None
            print(
                f"  after {told.seconds:.0f} s: {told.done:.1%} done, {told.tensors} tensors read"
                f" once, {told.share:.2%} of the time; left: {told.left_seconds / told.share:.0f} s"
                f" running, {told.left_seconds:.1f} s paused"
            )
        worker.source.send(Pause())
        worker.heard.clear()
        session = await worker.until(is_read)
        assert session.parameters is not None
        assert session.parameters.done is not None
        progress = [one for one in worker.heard if isinstance(one, ParametersProgress)]
        paused = progress[-1].seconds - progress[0].seconds if progress else 0.0
        print(f"  then paused: {paused:.1f} s more")
    finally:
        await worker.close()


if __name__ == "__main__":
    model, *numbers = [*sys.argv[1:], *("20", "5")[len(sys.argv) - 2 :]]
    with tempfile.TemporaryDirectory() as made:
        asyncio.run(measure(model, *map(int, numbers), Path(made)))
