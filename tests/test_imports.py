"""Each half must not load the other: checked in fresh interpreters."""

from __future__ import annotations

import ast
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

RULES: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    (
        ("tui_profiler",),
        (*PROBE_ONLY, *SCREENS_ONLY, "msgspec", "asyncio", "tui_profiler.session"),
    ),
    (
        ("screens.cli.main",),
        (*PROBE_ONLY, "textual", "rich", "asyncio", "msgspec", "tui_profiler.reports"),
    ),
    (
        ("screens.views.compare.opened", *(f"screens.cli.{verb}" for verb in VERBS)),
        (*PROBE_ONLY, "textual", "rich"),
    ),
    (
        ("screens.cli.explore", "screens.app.first_frame"),
        (*PROBE_ONLY, "textual", "rich", "asyncio", "subprocess", "tui_profiler.recording.reader"),
    ),
    # The explorer waits for what it imports: the two last ones come after it.
    (
        ("screens.app.explorer_app",),
        (*PROBE_ONLY, "importlib.metadata", "tui_profiler.recording.reader"),
    ),
    (
        (
            *("tui_profiler.reports.text.sweep", "tui_profiler.reports.text.table"),
            "tui_profiler.recording.reader",
        ),
        (*PROBE_ONLY, *SCREENS_ONLY, "asyncio"),
    ),
    (
        ("tui_profiler.source.cached_tree",),
        (*PROBE_ONLY, *SCREENS_ONLY, "tui_profiler.recording.reader"),
    ),
    (
        (
            *("tui_profiler.api", "tui_profiler.verbs.report", "tui_profiler.verbs.zoo_ray"),
            *("tui_profiler.source.spawned", "tui_profiler.source.recorded"),
        ),
        (*PROBE_ONLY, *SCREENS_ONLY, "ray"),
    ),
    (("tui_profiler.probe.__main__",), (*SCREENS_ONLY, "torch", "torchvision")),
    (
        ("tui_profiler.probe.worker.run", "tui_profiler.probe.worker.in_process"),
        (
            *(*SCREENS_ONLY, "tui_profiler.session", "tui_profiler.queries", "tui_profiler.source"),
            # Two seconds that only a name of its own models needs.
            "torchvision",
        ),
    ),
]
"""Modules that are imported one after another, and what none of them may load."""


@pytest.mark.parametrize(("modules", "forbidden"), RULES, ids=[one[0] for one, _ in RULES])
def test_a_part_loads_nothing_of_the_other_half(
    modules: tuple[str, ...], forbidden: tuple[str, ...]
) -> None:
    code = (
        "import sys, importlib\n"
        f"for module in {modules!r}:\n"
        "    importlib.import_module(module)\n"
        f"    found = [name for name in {forbidden!r} if name in sys.modules]\n"
        "    if found: sys.exit(f'{module} loads {found}')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert (done.returncode, done.stderr) == (0, "")


def folders_imported(file: Path) -> set[Path]:
    """Return the folders of the engine whose modules a file imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    paths = {ROOT / name.replace(".", "/") for name in names if name.startswith("tui_profiler")}
    packages = {path for path in paths if (path / "__init__.py").is_file()}
    modules = {path.parent for path in paths if path.with_suffix(".py").is_file()}
    attributes = {p.parent for p in paths - packages if (p.parent / "__init__.py").is_file()}
    return (modules | attributes) - {file.parent}


def test_folders_of_the_engine_import_each_other_in_no_circle() -> None:
    arrows: dict[Path, set[Path]] = {}
    for file in (ROOT / "tui_profiler").rglob("*.py"):
        arrows.setdefault(file.parent, set()).update(folders_imported(file))
    while leaves := {folder for folder, below in arrows.items() if not below & arrows.keys()}:
        arrows = {folder: below for folder, below in arrows.items() if folder not in leaves}
    assert {str(folder.relative_to(ROOT)) for folder in arrows} == set()
