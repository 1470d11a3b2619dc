"""Whether times add up: in every parent, self time and children against its time.

    python -m benchmarks.times.additivity [MODEL ...]

Every model is measured for some seconds on the idle machine and beside four busy processes. For
each parent, the distance of its self time and its children from its time, as a share of its time:
the worst of the model, of means (what tree and JSON say) and of medians (what they said before).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

MODELS = (
    *("demo:cnn", "demo:vit", "demo:decoder", "resnet18", "resnet50", "mobilenet_v3_small"),
    *("vit_b_32", "swin_t", "densenet121", "googlenet", "efficientnet_b0", "shufflenet_v2_x1_0"),
)
BUSY = 4
SECONDS = 6
LIMIT = 0.001


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep so many cores busy meanwhile."""
    started = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)
    ]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def report(model: str) -> dict[str, Any]:
    """Return the JSON report of a model that was measured."""
    command = [sys.executable, "-m", "tui_profiler", "report", model]
    said = subprocess.run(
        [*command, "--measure", str(SECONDS), "--format", "json"],
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(said.stdout)
    return found


def worst(found: dict[str, Any], whole: str, own: str) -> tuple[float, int]:
    """Return the largest distance of any parent, as a share of its time, and how many there are."""
    inside: list[float] = []
    times: list[float] = []
    around: list[tuple[int, int]] = []
    for layer in found["layers"]:
        while around and around[-1][0] >= layer["depth"]:
            around.pop()
        timing = layer["timing"]
        if layer["kind"] != "module" or timing is None or timing[whole] is None:
            continue  # What a container holds that is not called itself belongs to the one around.
        if around:
            inside[around[-1][1]] += timing[whole]
        around.append((layer["depth"], len(times)))
        times.append(timing[whole])
        inside.append(timing[own])
    distances = [abs(made - time) / time for made, time in zip(inside, times, strict=True) if time]
    return max(distances), len(distances)


def main() -> None:
    """Print a row per model, and end with 1 where one is beyond the limit."""
    models = sys.argv[1:] or MODELS
    is_beyond = False
    print(f"{'model':22} {'busy':>4} {'forwards':>8} {'modules':>7} {'means':>10} {'medians':>10}")
    for model in models:
        for processes in (0, BUSY):
            with busy(processes):
                found = report(model)
            means, modules = worst(found, "mean_per_forward_s", "self_mean_s")
            medians, _ = worst(found, "per_forward_s", "self_s")
            forwards = found["latency"]["forwards"]
            print(
                f"{model:22} {processes:4} {forwards:8} {modules:7} {means:9.5%} {medians:9.1%}",
                flush=True,
            )
            is_beyond |= means > LIMIT
    sys.exit(1 if is_beyond else 0)


if __name__ == "__main__":
    main()
