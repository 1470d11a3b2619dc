"""A model compared with itself: how many modules are reported as different.

``python benchmarks/times/compare_noise.py [MODEL] [SECONDS] [TIMES]``

For equal times one in twenty is expected. For comparison: the same two runs one after the other,
each with its own report, as profilers are usually compared.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

COMMAND = [sys.executable, "-m", "tui_profiler"]


def tell(*arguments: str) -> str:
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=True)
    return done.stdout


def said(found: dict[str, object]) -> tuple[int, int, float]:
    """Modules said to differ, modules compared, and the ratio of the whole."""
    layers = [layer for layer in found["layers"] if layer["kind"] == "module"]  # type: ignore[attr-defined]  # JSON
    noises = [
        layer["seconds"]["noise"] for layer in layers if layer["seconds"]["noise"] is not None
    ]
    return noises.count(False), len(noises), layers[0]["seconds"]["ratio"]


def main() -> None:
    model = sys.argv[1] if len(sys.argv) > 1 else "resnet18"
    seconds = sys.argv[2] if len(sys.argv) > 2 else "6"
    times = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    for _ in range(times):
        turns = json.loads(tell("compare", model, model, "--measure", seconds, "--format", "json"))
        files = []
        for name in ("a", "b"):
            file = Path(f"/tmp/compare_noise_{name}.json")
            file.write_text(tell("report", model, "--measure", seconds, "--format", "json"))
            files.append(str(file))
        apart = json.loads(tell("compare", *files, "--format", "json"))
        for how, found in (("in turns", turns), ("apart", apart)):
            wrong, known, ratio = said(found)
            print(
                f"{model} {how:>9}: {wrong:3} of {known} modules said to differ, ratio {ratio:.3f}"
            )


if __name__ == "__main__":
    main()
