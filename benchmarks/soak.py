"""Memory of both processes over a long time of watching.

``python benchmarks/soak.py [MODEL] [MINUTES]``

The real program on a pty, live, at 120x40. After ten minutes (histories are full by then) the
resident memory of the screens and of the worker must stay flat within 5 MB: the median of the last
tenth of the samples against that of the first tenth.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.end_to_end.terminal import COMMAND, Terminal

WARM_MINUTES = 10.0
SAMPLE_SECONDS = 10.0
BUDGET_MB = 5.0


def main() -> None:
    model = sys.argv[1] if len(sys.argv) > 1 else "resnet18"
    minutes = float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
    terminal = Terminal([*COMMAND, model])
    terminal.wait_for("● live", 300)
    processes = {"screens": psutil.Process(terminal.pid), "worker": terminal.workers()[0]}
    samples: dict[str, list[float]] = {name: [] for name in processes}
    warm = min(WARM_MINUTES, minutes / 2)
    while terminal.seconds() < minutes * 60:
        terminal.pause(SAMPLE_SECONDS)
        del terminal.raw[:]
        for name, process in processes.items():
            samples[name].append(process.memory_info().rss / 1e6)
        if len(samples["worker"]) % 30 == 0:
            shown = "  ".join(f"{name} {values[-1]:.1f} MB" for name, values in samples.items())
            print(f"  {terminal.seconds() / 60:5.1f} min  {shown}", flush=True)
    assert terminal.is_alive()
    print(f"{model}, {minutes:g} min live, the first {warm:g} left out")
    for name, values in samples.items():
        kept = values[int(warm * 60 / SAMPLE_SECONDS) :]
        part = max(len(kept) // 10, 1)
        grown = median(kept[-part:]) - median(kept[:part])
        print(
            f"  {name:8} {median(kept):7.1f} MB  from {min(kept):.1f} to {max(kept):.1f}"
            f"  grown {grown:+.2f} MB  budget {BUDGET_MB:g}"
        )
    terminal.send("q")
    terminal.wait_for_exit()
    terminal.close()


if __name__ == "__main__":
    main()
