"""Programs started by a test do not outlive it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.end_to_end.terminal import COMMAND, Terminal

Start = Callable[..., Terminal]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder of the tests' own: what is measured of this machine is kept in it."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def start(cache: Path) -> Iterator[Start]:
    """Start ``tui-profiler`` with arguments on a pty; models opened before are forgotten."""
    started: list[Terminal] = []

    def begin(
        *arguments: str,
        forgets: bool = True,
        environment: dict[str, str] | None = None,
        **options: object,
    ) -> Terminal:
        if forgets:
            shutil.rmtree(cache / "tui-profiler" / "remembered", ignore_errors=True)
        options["environment"] = {"XDG_CACHE_HOME": str(cache), **(environment or {})}
        terminal = Terminal([*COMMAND, *arguments], **options)  # type: ignore[arg-type] # passed on
        started.append(terminal)
        return terminal

    yield begin
    for terminal in started:
        terminal.close()
