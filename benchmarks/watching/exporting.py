"""What scraping costs the program, and whether the exporter grows.

    python -m benchmarks.watching.exporting [--pairs 10] [--seconds 4] [--scrapes 3000]
    python -m benchmarks.watching.exporting --minutes 60

1. ``tui-profiler export --run`` follows a training loop. In turn, for some seconds each, it is
   scraped 20 times a second and not at all; the loop itself notes when each step ends. Printed is
   the ratio of the median steps, of neighbouring pairs, with a 95 % interval by bootstrap.
2. Then it is scraped as often as Prometheus does in 12 hours. Printed is the resident memory of the
   exporter before and after.

With ``--minutes`` a program that runs ten forwards per second is scraped every 15 s instead, for so
many minutes after the first 20, in which the session's histories fill (480 ticks, 300 samples, 900
seconds). Prints the median resident memory of the exporter in each third of the minutes. Exits with
1 if it is over 0.25 MiB higher in the last third than in the second: on a busy machine there are
fewer ticks, and the histories still fill in the first.
"""

import argparse
import itertools
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.request import urlopen

import psutil

LOOP = """
import sys, time, torch
torch.set_num_threads(1)
net = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(8)])
optimizer = torch.optim.AdamW(net.parameters())
with open(sys.argv[1], "w", buffering=1) as file:
    while True:
        optimizer.zero_grad()
        net(torch.randn(64, 256)).square().mean().backward()
        optimizer.step()
        print(time.monotonic(), file=file)
"""
CALM = """
import sys, time, torch
torch.set_num_threads(1)
net = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(8)])
while True:
    with torch.no_grad():
        net(torch.randn(64, 256))
    time.sleep(0.1)
"""
_PER_SECOND = 20
_FILL_MINUTES, _EVERY_SECONDS, _MOST_GROWTH = 20, 15.0, 2**18


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--scrapes", type=int, default=3000)
    parser.add_argument("--minutes", type=float, default=0.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        loop, steps = Path(folder) / "loop.py", Path(folder) / "steps"
        loop.write_text(CALM if asked.minutes else LOOP)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        command = [sys.executable, "-m", "tui_profiler", "export", "--listen", address]
        program = subprocess.Popen([*command, "--run", str(loop), str(steps)])
        try:
            if asked.minutes:
                return _hold(f"http://{address}/metrics", psutil.Process(program.pid), asked)
            _compare(f"http://{address}/metrics", steps, asked)
            _grow(f"http://{address}/metrics", psutil.Process(program.pid), asked.scrapes)
        finally:
            for process in (*psutil.Process(program.pid).children(recursive=True), program):
                process.kill()
    return 0


def _compare(url: str, steps: Path, asked: argparse.Namespace) -> None:
    _wait(url)
    ends = []
    for pair in range(asked.pairs):
        order = (True, False) if pair % 2 else (False, True)
        for scrapes in order:
            began = time.monotonic()
            while (now := time.monotonic()) < began + asked.seconds:
                if scrapes:
                    urlopen(url, timeout=60).read()
                time.sleep(max(1 / _PER_SECOND - (time.monotonic() - now), 0.0))
            ends.append((scrapes, began, time.monotonic()))
    at = [float(line) for line in steps.read_text().splitlines()[:-1]]
    medians: dict[bool, list[float]] = {True: [], False: []}
    for scrapes, began, ended in ends:
        inside = [one for one in at if began <= one < ended]
        medians[scrapes].append(statistics.median(b - a for a, b in itertools.pairwise(inside)))
    ratios = [a / b for a, b in zip(medians[True], medians[False], strict=True)]
    low, high = _interval(ratios)
    step = 1e3 * statistics.median(medians[False])
    print(f"{asked.pairs} pairs, a step of {step:.2f} ms, {_PER_SECOND} scrapes a second")
    print(f"scraped / not scraped: {statistics.median(ratios):.4f} [{low:.4f}, {high:.4f}]")


def _interval(ratios: list[float]) -> tuple[float, float]:
    chance = random.Random(0)
    drawn = sorted(statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(10_000))
    return drawn[250], drawn[9750]


def _grow(url: str, exporter: psutil.Process, scrapes: int) -> None:
    for _ in range(100):  # What is made at first stays.
        urlopen(url, timeout=60).read()
    before = exporter.memory_info().rss
    sizes = [len(urlopen(url, timeout=60).read()) for _ in range(scrapes)]
    grown = exporter.memory_info().rss - before
    print(f"{scrapes} scrapes of {max(sizes):,} bytes: {grown / 2**20:+.2f} MiB resident")


def _hold(url: str, exporter: psutil.Process, asked: argparse.Namespace) -> int:
    _wait(url, b"tui_profiler_forwards_total")
    began, fill = time.monotonic(), 60 * _FILL_MINUTES
    found: list[int] = []
    while (passed := time.monotonic() - began) < fill + 60 * asked.minutes:
        urlopen(url, timeout=60).read()
        if passed >= fill:
            found.append(exporter.memory_info().rss)
        time.sleep(_EVERY_SECONDS)
    third = len(found) // 3
    thirds = [
        statistics.median(found[at * third : (at + 1) * third if at < 2 else None])
        for at in range(3)
    ]
    told = ", ".join(f"{one / 2**20:.2f}" for one in thirds)
    print(f"{asked.minutes:g} minutes, {len(found)} scrapes: {told} MiB resident by thirds")
    return int(thirds[2] - thirds[1] > _MOST_GROWTH)


def _wait(url: str, name: bytes = b"tui_profiler_step_mean_seconds") -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            if name in urlopen(url, timeout=60).read():
                return
        except OSError:
            pass
        time.sleep(0.1)
    sys.exit("the loop was not measured in 120 s")


if __name__ == "__main__":
    sys.exit(main())
