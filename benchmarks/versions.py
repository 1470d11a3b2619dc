"""Run the tests with other releases of what tui-profiler stands on: one environment per row.

``python benchmarks/versions.py ROW... [--python EXECUTABLE] [--tests PATH]... [--keep]``

A row is pins joined by commas: ``torch==2.10.0,torchvision==0.25.0``; ``lowest`` stands for the
lowest releases that ``pyproject.toml`` allows of everything but torch and torchvision, and
``newest`` for no pin. Each row gets a fresh virtual environment of the Python that is named, with
tui-profiler and its tests' requirements installed by pip from the index that pip is set to. The
tests run there as README says, or only those that ``--tests`` names, and the environment is
removed. A line per row is printed as a Markdown table: what was really imported, and how many tests
passed, failed and were skipped. A row whose environment could not be made says so.

A slim container is a row like any other, run inside of it. An environment with CUDA takes 7 GB.
Exits with 1 where a test failed or a row could not be run.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOLD = ("torch", "torchvision", "textual", "msgspec", "nvidia-ml-py", "numpy")
HEAD = "| date | Python | " + " | ".join(TOLD) + " | tests | passed | failed | errors | skipped |"


@dataclass(frozen=True)
class Outcome:
    """What pytest counted in one environment."""

    passed: int
    failed: int
    errors: int
    skipped: int

    @property
    def is_good(self) -> bool:
        return self.passed > 0 and not self.failed and not self.errors


def lowest() -> list[str]:
    """Return the lower bounds of the dependencies, as pins."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        wanted: list[str] = tomllib.load(file)["project"]["dependencies"]
    bounds = [re.match(r"([\w-]+)>=([\w.]+)", one) for one in wanted]
    found = [(one[1], one[2]) for one in bounds if one is not None]
    # A bound may be no release itself: ==12.560.* is any of its patches.
    return [f"{name}=={low}.*" for name, low in found if not name.startswith("torch")]


def pins(row: str) -> list[str]:
    """Return what pip is given besides tui-profiler."""
    found: list[str] = []
    for part in row.split(","):
        found += lowest() if part == "lowest" else [] if part == "newest" else [part]
    return found


def counted(output: str) -> Outcome:
    """Read the last line of pytest.

    Raises:
        ValueError: it has none.
    """
    lines = [line for line in output.splitlines() if re.search(r"\d+ \w+.* in [\d.]+s", line)]
    if not lines:
        raise ValueError(f"no result of pytest in: {output[-500:]}")
    found = {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", lines[-1])}
    return Outcome(
        found.get("passed", 0),
        found.get("failed", 0),
        found.get("error", 0) + found.get("errors", 0),
        found.get("skipped", 0),
    )


def made(folder: Path, python: str, repository: Path, wanted: Sequence[str]) -> Path:
    """Make an environment with the repository's tui-profiler; return its Python.

    Raises:
        subprocess.CalledProcessError: pip could not, and said why.
    """
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    own = folder / "bin" / "python"
    install = [str(own), "-m", "pip", "install", "--quiet", "--no-cache-dir"]
    subprocess.run([*install, "-e", f"{repository}[test]", *wanted], check=True)
    return own


def versions(python: Path) -> list[str]:
    """Return the releases that are installed, as the environment itself says."""
    code = (
        "import importlib.metadata, platform, sys\n"
        "print(platform.python_version())\n"
        "for name in sys.argv[1:]: print(importlib.metadata.version(name))"
    )
    done = subprocess.run(
        [str(python), "-c", code, *TOLD], check=True, capture_output=True, text=True
    )
    return done.stdout.split()


def run(row: str, options: argparse.Namespace) -> tuple[str, bool]:
    """Run one row; return its line of the table, and whether all is well."""
    folder = Path(tempfile.mkdtemp(prefix="versions-", dir=options.folder))
    temporary = Path(tempfile.mkdtemp())  # short: a socket's path holds 107 bytes
    try:
        # A copy, so that neither the row nor whoever edits meanwhile changes what is tested.
        there = folder / "repository"
        shutil.copytree(ROOT, there, ignore=shutil.ignore_patterns(".git", ".venv", "*.egg-info"))
        python = made(folder / "env", options.python, there, pins(row))
        names = versions(python)
        command = [str(python), "-m", "pytest", "-q", "-n", options.workers]
        done = subprocess.run(
            [*command, "--dist", "worksteal", *options.tests],
            cwd=there,
            env={**os.environ, "TMPDIR": str(temporary)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if options.log is not None:
            with options.log.open("a") as log:
                log.write(f"== {row}\n{done.stdout}\n")
        outcome = counted(done.stdout)
        which = " ".join(options.tests) or "all"
        figures = (outcome.passed, outcome.failed, outcome.errors, outcome.skipped)
        cells = [date.today().isoformat(), *names, which, *map(str, figures)]
        return "| " + " | ".join(cells) + " |", outcome.is_good
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        return f"{row}: not run: {error}", False
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="+", help="pins joined by commas, or lowest, or newest")
    parser.add_argument("--python", default=sys.executable, help="which makes the environments")
    parser.add_argument("--tests", action="append", default=[], help="a path; all without it")
    parser.add_argument("--workers", default="2", help="how many tests run side by side")
    parser.add_argument("--folder", help="where environments are made; 7 GB each with CUDA")
    parser.add_argument("--log", type=Path, help="what pytest prints is added to this file")
    parser.add_argument("--keep", action="store_true", help="leave the environments there")
    options = parser.parse_args()
    print(HEAD, "|---" * (HEAD.count("|") - 1) + "|", sep="\n", flush=True)
    is_good = True
    for row in options.rows:
        line, is_row_good = run(row, options)
        print(line, flush=True)
        is_good = is_good and is_row_good
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
