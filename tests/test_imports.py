"""Each half must not load the other: checked in fresh interpreters."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROBE_ONLY = ("torch", "torchvision", "numpy", "tui_profiler.probe")
SCREENS_ONLY = ("textual", "rich", "screens")
VERBS = sorted(
    one.stem for one in (ROOT / "screens/cli").glob("*.py") if one.stem not in ("__init__", "main")
)

RULES = [
    ("tui_profiler", (*PROBE_ONLY, *SCREENS_ONLY, "msgspec", "asyncio", "tui_profiler.session")),
    ("tui_profiler.api", (*PROBE_ONLY, *SCREENS_ONLY)),
    ("screens.views.compare.opened", (*PROBE_ONLY, "textual", "rich")),
    (
        "tui_profiler.probe.worker.in_process",
        (*SCREENS_ONLY, "tui_profiler.session", "tui_profiler.queries", "tui_profiler.source"),
    ),
    (
        "screens.cli.main",
        (*PROBE_ONLY, "textual", "rich", "asyncio", "msgspec", "tui_profiler.reports"),
    ),
    *((f"screens.cli.{verb}", (*PROBE_ONLY, "textual", "rich")) for verb in VERBS),
    # The first frame waits for what it imports: the two last ones come after it.
    (
        "screens.app.explorer_app",
        (*PROBE_ONLY, "importlib.metadata", "tui_profiler.recording.reader"),
    ),
    ("tui_profiler.verbs.report", (*PROBE_ONLY, *SCREENS_ONLY)),
    ("tui_profiler.verbs.zoo_ray", (*PROBE_ONLY, *SCREENS_ONLY, "ray")),
    ("tui_profiler.reports.text.sweep", (*PROBE_ONLY, *SCREENS_ONLY, "asyncio")),
    ("tui_profiler.reports.text.table", (*PROBE_ONLY, *SCREENS_ONLY, "asyncio")),
    ("tui_profiler.source.spawned", (*PROBE_ONLY, *SCREENS_ONLY)),
    ("tui_profiler.source.recorded", (*PROBE_ONLY, *SCREENS_ONLY)),
    (
        "tui_profiler.source.remembered_tree",
        (*PROBE_ONLY, *SCREENS_ONLY, "tui_profiler.recording.reader"),
    ),
    ("tui_profiler.recording.reader", (*PROBE_ONLY, *SCREENS_ONLY, "asyncio")),
    ("tui_profiler.probe.__main__", (*SCREENS_ONLY, "torch", "torchvision")),
    (
        "tui_profiler.probe.worker.run",
        (*SCREENS_ONLY, "tui_profiler.session", "tui_profiler.queries", "tui_profiler.source"),
    ),
]


@pytest.mark.parametrize(("module", "forbidden"), RULES, ids=[module for module, _ in RULES])
def test_a_part_loads_nothing_of_the_other_half(module: str, forbidden: tuple[str, ...]) -> None:
    code = (
        f"import sys, importlib; importlib.import_module({module!r});"
        f"print([name for name in {forbidden!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"
