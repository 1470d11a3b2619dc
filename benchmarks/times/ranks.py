"""Four ranks under torchrun and gloo: the straggler, the accuracy of figures, and the overhead.

``python -m benchmarks.times.ranks [--seconds N] [--runs NAME,...]``. For each run, in turn: nobody
looks, someone looks at all ranks, nobody looks. Steps are counted by the ranks themselves; beside
our waits stands what DDP logs of the time in which gradients were sent round (one bucket).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean
from typing import TypeAlias

from tui_profiler.connection.sockets import places
from tui_profiler.messages import known
from tui_profiler.queries.ranks import module_differences, reference, verdict
from tui_profiler.session.session_group import SessionGroup
from tui_profiler.source.attached import find
from tui_profiler.source.ranks import Ranks, by_run

RANKS = 4
RUNS = {
    "even": (),
    "slow module": ("--slow-rank", "2"),
    "slow data": ("--slow-rank", "1", "--slow-where", "host"),
    "without DDP": ("--slow-rank", "3", "--by-hand"),
}
START_SECONDS = 120.0
Figures: TypeAlias = dict[str, float]
"""What a rank says of itself; ``sent`` is null without DDP."""


def main() -> None:
    """Do the runs, and print what was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=10.0, help="of each of the three parts")
    parser.add_argument("--runs", default=",".join(RUNS))
    chosen = parser.parse_args()
    for name in chosen.runs.split(","):
        with tempfile.TemporaryDirectory(prefix="tp-") as folder:
            os.environ["TUI_PROFILER_DIR"] = str(Path(folder) / "sockets")
            measure(name, Path(folder), chosen.seconds)


def measure(name: str, folder: Path, seconds: float) -> None:
    """Do one run."""
    stop = folder / "stop"
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS)]
    command += [
        "--master-port",
        "29641",
        "-m",
        "tests.probe.measure.ranks.rank_program",
        *RUNS[name],
    ]
    command += ["--until", str(stop), "--own-figures", str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as torchrun:
        try:
            until_all_train(folder)
            before = rate(folder, seconds)
            during, group, said = asyncio.run(looked_at(folder, seconds))
            after = rate(folder, seconds)
            report(name, group, said, (before, during, after))
        finally:
            stop.touch()
            torchrun.wait(60)


def until_all_train(folder: Path) -> None:
    """Wait until each rank has written its figures."""
    deadline = time.monotonic() + START_SECONDS
    while len(places()) < RANKS or len(list(folder.glob("*.json"))) < RANKS:
        assert time.monotonic() < deadline, "the ranks did not start"
        time.sleep(0.1)


def own(folder: Path, rank: int) -> Figures:
    """Return the report of a rank about itself."""
    figures: Figures = json.loads((folder / f"{rank}.json").read_text())
    return figures


def rate(folder: Path, seconds: float) -> float:
    """Return the steps per second of rank 0, by its own count."""
    first = own(folder, 0)
    time.sleep(seconds)
    last = own(folder, 0)
    return (last["steps"] - first["steps"]) / (last["at"] - first["at"])


async def looked_at(folder: Path, seconds: float) -> tuple[float, SessionGroup, list[Figures]]:
    """Look at all ranks and return steps per second meanwhile, what we know, and what they say."""
    (entry,) = by_run(find())
    assert entry.program is not None
    ranks = Ranks(entry.program, time.time())

    async def read() -> None:
        async for _ in ranks.messages():
            pass

    reading = asyncio.create_task(read())
    deadline = time.monotonic() + START_SECONDS
    while sum(rank.session.steps is not None for rank in ranks.group.ranks) < RANKS:
        assert time.monotonic() < deadline, "no figures of all ranks"
        await asyncio.sleep(0.1)
    found = await asyncio.to_thread(rate, folder, seconds)
    group, said = ranks.group, [own(folder, rank) for rank in range(RANKS)]
    await ranks.close()
    reading.cancel()
    return found, group, said


def report(
    name: str, group: SessionGroup, said: list[Figures], rates: tuple[float, float, float]
) -> None:
    """Print one run."""
    print(f"\n{name}")
    print("  rank   step ms  own step  compute     wait  DDP sent     host")
    for rank in group.ranks:
        times, says = rank.session.steps, said[rank.number]
        assert times is not None
        ours = [known(one) for one in (times.step, times.compute, times.wait, times.host)]
        step, compute, wait, host = (f"{1e3 * (one or 0.0):.2f}" for one in ours)
        sent = "" if says["sent"] is None else f"{1e3 * says['sent']:.2f}"
        print(
            f"  {rank.number:4} {step:>9} {1e3 * says['step']:9.2f} {compute:>8} {wait:>8}"
            f" {sent:>9} {host:>8}"
        )
    at = max(rank.session.heard_at for rank in group.ranks)
    found = verdict(group, at)
    print("  " + "\n  ".join(found.lines))
    if found.key:
        first, second = (
            group.rank(found.key),
            group.rank(reference(group, found.key, at)),
        )
        assert first is not None
        assert second is not None
        worst = module_differences(first.session, second.session)[0]
        more = 1e3 * (worst.difference or 0.0)
        print(f"  {more:+.2f} ms in {worst.path} than in rank {second.number}")
    before, during, after = rates
    bare = mean((before, after))
    print(
        f"  steps per second: {before:.1f} bare, {during:.1f} looked at, {after:.1f} bare:"
        f" {100 * (bare / during - 1):+.1f} %"
    )


if __name__ == "__main__":
    main()
