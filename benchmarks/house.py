"""Print how the product's code is divided: modules, imports, lines; ``python -m benchmarks.house``.

Read from the files alone. *Code lines* are those that are neither blank, comment nor docstring.

The product is compared with itself as it was when this count began (``e1620862``, 22 November 2026,
673 modules): ``FEATURES_SINCE`` names the files that are wholly features since. What features added
to files that existed is not taken off, so that *lines of what existed then* is an upper bound.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

ROOTS = ("tui_profiler", "screens")
SMALL_LINES = 70
LINES_THEN = 81_584
SCHEMA_LINES_THEN = 5_494
"""Lines of ``docs/*.schema.json``, which were kept by hand; ``reports/json`` makes them now."""
FEATURES_SINCE: dict[str, tuple[str, ...]] = {
    "training: steps, backward, health of values, out of memory": (
        *("tui_profiler/messages/training.py", "tui_profiler/session/training.py"),
        *("tui_profiler/probe/cost/backward.py", "tui_profiler/probe/measure/step/*"),
        *("tui_profiler/probe/measure/values/*", "tui_profiler/probe/measure/clock/backward.py"),
        *("tui_profiler/probe/measure/clock/graph_marks.py",),
        *("tui_profiler/probe/measure/operators/backward_operators.py",),
        *("tui_profiler/probe/trace/training/*", "tui_profiler/probe/*/out_of_memory.py"),
        *("tui_profiler/probe/worker/training.py", "tui_profiler/queries/training/*"),
        *(
            "tui_profiler/queries/panel/out_of_memory.py",
            "tui_profiler/reports/json/sections/train.py",
        ),
        *(
            "tui_profiler/reports/json/sections/step.py",
            "tui_profiler/reports/json/sections/out_of_memory.py",
        ),
        *("tui_profiler/reports/text/sections/step.py", "screens/widgets/step_lines.py"),
        *("tui_profiler/reports/text/sections/training.py", "screens/views/health/*"),
        *("screens/views/memory/step.py",),
        *("screens/views/timeline/step_lines.py", "tui_profiler/findings/execution/training.py"),
        *("tui_profiler/findings/evidence/training_step.py",),
        *("tui_profiler/probe/trials/kinds/checkpoint.py",),
        *("tui_profiler/probe/trials/kinds/optimizer_loop.py",),
        *("tui_profiler/probe/trials/kinds/training_side.py",),
    ),
    "where the time goes: cores, slow forwards, CPU time, flat lists, first frame": (
        *("tui_profiler/queries/time/cores.py", "tui_profiler/queries/time/slow_forwards.py"),
        *("tui_profiler/queries/time/modes.py", "tui_profiler/queries/cost/flat.py"),
        *("tui_profiler/probe/measure/clock/call_readings.py",),
        *("tui_profiler/probe/measure/clock/cpu_times.py",),
        *("tui_profiler/probe/measure/clock/thread_usage.py",),
        *("tui_profiler/probe/measure/devices/throttling.py",),
        *("tui_profiler/probe/measure/operators/memory_window.py",),
        *("tui_profiler/probe/parameters/time_slices.py", "screens/views/flat/*"),
        *("tui_profiler/probe/worker/slice_budget.py", "tui_profiler/reports/json/flat.py"),
        *("tui_profiler/reports/text/sections/flat.py", "screens/app/first_frame.py"),
        *("screens/terminal/early_frame.py",),
    ),
    "files without trust: sandbox, allow-lists, limits": (
        *("tui_profiler/probe/sandbox/*", "tui_profiler/archive/formats/torchscript_code.py"),
        *("tui_profiler/probe/load/files/allowed_operators.py",),
        *("tui_profiler/probe/load/common/downloads.py",),
        *("tui_profiler/probe/load/common/safe_reading.py",),
        *("tui_profiler/probe/process/memory_limit.py",),
        *("tui_profiler/probe/process/own_socket.py", "tui_profiler/source/signal_witness.py"),
        *("tui_profiler/source/torch_processes.py", "tui_profiler/system/control_group.py"),
    ),
    "roofs in rounds, with the verb ceilings": (
        *("tui_profiler/probe/measure/ceilings/rounds.py", "tui_profiler/reports/ceilings.py"),
        *("tui_profiler/probe/measure/ceilings/roof_check.py", "screens/cli/ceilings.py"),
        *("tui_profiler/probe/measure/ceilings/core_timing.py",),
        *("tui_profiler/queries/cost/ceilings.py",),
    ),
    "does it fit: devices on paper": (
        *("screens/cli/fit.py", "tui_profiler/reports/json/fit.py"),
        *("tui_profiler/reports/text/fit.py",),
        *("tui_profiler/reports/text/sections/on_device.py", "tui_profiler/queries/hardware/*"),
    ),
    "figures for other programs": (
        *("screens/cli/export.py", "tui_profiler/verbs/export.py"),
        *("tui_profiler/reports/metrics/*",),
    ),
}
"""Files that are wholly features since LINES_THEN, by subject."""
TOP = Path(__file__).resolve().parent.parent


class Module:
    """One file, with what its lines are."""

    def __init__(self, path: Path) -> None:
        self.path = path
        name = ".".join(path.relative_to(TOP).with_suffix("").parts)
        self.is_package = path.name == "__init__.py"
        self.name = name.removesuffix(".__init__")
        text = path.read_text()
        self.tree = ast.parse(text)
        self.kinds = Counter(_kinds(self.tree, text.splitlines()))
        self.lines = sum(self.kinds.values())

    def imports(self, modules: dict[str, Module]) -> set[str]:
        """Return the names of our modules that this one imports."""
        found: set[str] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names} & modules.keys()
            elif isinstance(node, ast.ImportFrom):
                base = self._base(node)
                for alias in node.names:
                    inner = f"{base}.{alias.name}"
                    found |= {inner if inner in modules else base} & modules.keys()
        return found

    def _base(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        package = self.name if self.is_package else self.name.rpartition(".")[0]
        parts = package.split(".")
        return ".".join(
            parts[: len(parts) - node.level + 1] + ([node.module] if node.module else [])
        )


def _kinds(tree: ast.Module, lines: list[str]) -> Iterator[str]:
    """Yield what each line is: blank, docstring, comment, import or code."""
    docstrings: set[int] = set()
    imports: set[int] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                docstrings.update(range(node.lineno, (node.end_lineno or 0) + 1))
            case ast.Import() | ast.ImportFrom():
                imports.update(range(node.lineno, (node.end_lineno or 0) + 1))
    for number, line in enumerate(lines, 1):
        if not line.strip():
            yield "blank"
        elif number in docstrings:
            yield "docstring"
        elif line.lstrip().startswith("#"):
            yield "comment"
        else:
            yield "import" if number in imports else "code"


def _raises(modules: list[Module]) -> int:
    """Return how many functions only raise NotImplementedError."""
    return sum(
        isinstance(node, ast.Raise) and "NotImplementedError" in ast.unparse(node)
        for module in modules
        for node in ast.walk(module.tree)
    )


def _print_since(modules: list[Module]) -> None:
    """Print the lines of features since, a file each, and of what existed."""
    lines = {str(module.path.relative_to(TOP)): module.lines for module in modules}
    print(f"lines in e1620862: {LINES_THEN:,}, and {SCHEMA_LINES_THEN:,} of schemas kept by hand")
    since = 0
    for subject, patterns in FEATURES_SINCE.items():
        found = {path for path in lines for pattern in patterns if fnmatch(path, pattern)}
        unused = [one for one in patterns if not any(fnmatch(path, one) for path in lines)]
        if unused:
            raise SystemExit(f"FEATURES_SINCE names files that do not exist: {unused}")
        total = sum(lines[path] for path in found)
        since += total
        print(f"  since then, {subject}: {total:,} lines")
        for path in sorted(found):
            print(f"    {lines[path]:5} {path}")
    existed = sum(lines.values()) - since
    print(f"lines of features since: {since:,}; lines of what existed then: at most {existed:,}")


def main() -> None:
    """Print each figure with its name."""
    every = [Module(path) for root in ROOTS for path in sorted((TOP / root).rglob("*.py"))]
    modules = {module.name: module for module in every}
    importers: dict[str, set[str]] = defaultdict(set)
    for module in every:
        for name in module.imports(modules):
            importers[name].add(module.name)
    small = sorted(
        (module.lines, module.name)
        for module in every
        if not module.is_package and module.lines < SMALL_LINES and len(importers[module.name]) == 1
    )
    for where, paths in (
        ("product", [module.path for module in every]),
        ("tests", list((TOP / "tests").rglob("*.py"))),
    ):
        fullest = Counter(path.parent for path in paths if path.name != "__init__.py")
        folder, count = fullest.most_common(1)[0]
        print(f"fullest folder, {where}: {count} modules ({folder.relative_to(TOP)})")
    kinds = sum((module.kinds for module in every), Counter[str]())
    print(f"modules: {sum(not module.is_package for module in every)}")
    print(f"one importer and under {SMALL_LINES} lines: {len(small)}")
    for lines, name in small:
        print(f"    {lines:3} {name}")
    print(f"lines: {sum(kinds.values()):,} ({', '.join(f'{n:,} {k}' for k, n in kinds.items())})")
    share = kinds["import"] / (kinds["import"] + kinds["code"])
    print(f"import lines of code lines: {share:.1%}")
    print(f"raise NotImplementedError: {_raises(every)}")
    _print_since(every)


if __name__ == "__main__":
    main()
