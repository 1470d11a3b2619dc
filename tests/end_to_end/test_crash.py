"""A internal error: the terminal whole, an exit code, a report, one sentence. With real faults."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from screens.terminal.crash_report import CRASHED, MOST_FILES, CrashContext, crash_report, keep
from tests.end_to_end.faulty import SECRET
from tests.end_to_end.terminal import Terminal, alternate_screen_is_left

ROOT = Path(__file__).resolve().parents[2]
KINDS = ["css", "mount", "timer", "worker", "thread", "later", "render", "screen", "reading"]
KINDS += ["recursion", "unmount", "key", "picker", "early"]


@pytest.fixture
def faulty(tmp_path: Path) -> Iterator[dict[str, Terminal]]:
    """Terminals of faulty programs, ended with the test."""
    started: dict[str, Terminal] = {}
    yield started
    for terminal in started.values():
        terminal.close()


def begin(kind: str, state: Path) -> Terminal:
    return Terminal(
        [sys.executable, "-m", "tests.end_to_end.faulty", kind],
        environment={"XDG_STATE_HOME": str(state)},
        folder=str(ROOT),
    )


def said_after_the_screen(raw: bytes) -> str:
    """Return what was written once the alternate screen was left, as text without its sequences."""
    after = raw[max(raw.rfind(b"\x1b[?1049l"), 0) :].decode()
    return re.sub(r"\x1b\[[?<>0-9;]*[a-zA-Z]", "", after)


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_leaves_the_terminal_whole_and_a_report(
    kind: str, tmp_path: Path, faulty: dict[str, Terminal]
) -> None:
    terminal = faulty[kind] = begin(kind, tmp_path)
    if kind == "key":
        terminal.wait_for("resnet50")
        terminal.send("\x1b[20~")
    workers: list[psutil.Process] = []
    while terminal.is_alive() and kind == "timer" and not workers:
        workers = terminal.workers()
    assert terminal.wait_for_exit() == CRASHED
    assert terminal.modes_are_restored()
    raw = bytes(terminal.raw)
    assert kind == "css" or alternate_screen_is_left(raw)

    (report,) = tmp_path.rglob("crash-*.txt")
    said = said_after_the_screen(raw).strip()
    assert "\n" not in said
    assert said.startswith("tui-profiler crashed: internal error (")
    assert said.endswith(f"{report} has what is needed to report it.")
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    assert stat.S_IMODE(report.parent.stat().st_mode) == 0o700
    text = report.read_text()
    assert "Traceback" in text
    assert SECRET not in text
    assert all(character.isprintable() for line in text.split("\n") for character in line)
    assert not psutil.wait_procs(workers, timeout=240)[1]


def test_the_report_says_what_was_on_screen(tmp_path: Path, faulty: dict[str, Terminal]) -> None:
    terminal = faulty["key"] = begin("key", tmp_path)
    terminal.wait_for("layer3")
    terminal.send("L")
    terminal.wait_for("the model's own words")
    terminal.send("\x1b[20~")
    terminal.wait_for_exit()
    (report,) = tmp_path.rglob("crash-*.txt")
    text = report.read_text()
    lines = dict(re.findall(r"^(\S+) +(\S.*)$", text, re.MULTILINE))
    assert lines["terminal"] == "120 columns, 40 rows"
    assert lines["TERM"] == "xterm-256color"
    assert lines["screens"] == "Faulty > ExplorerScreen > LogScreen"
    assert lines["torch"] == "2.13.0"
    assert lines["tree"] == "9 nodes, by dispatch:fake"
    assert "in key_f9" in text
    assert "LookupError: fault \\x1b[31m[/nope]\\u202e" in text
    log = text.partition("The last lines")[2]
    assert "the model's own words" in log  # Without its escape sequence, as the log has it.
    assert "]0;x" not in log


def raised(depth: int) -> Exception:
    """Return an error whose traceback is ``depth`` different frames long."""
    code = "".join(f"def f{n}(): f{n + 1}()\n" for n in range(depth))
    names: dict[str, object] = {}
    try:
        exec(f"{code}def f{depth}(): raise ValueError('x' * 100_000)\nf0()", names)
    except ValueError as error:
        return error
    raise AssertionError("it did not fail")


def test_a_report_is_bounded() -> None:
    circumstances = CrashContext(log=("y" * 100_000,) * 5000)
    text = crash_report(raised(900), circumstances, at=0.0, environment={})
    assert len(text) < 200_000
    assert "1970-01-01 00:00:00 UTC" in text
    assert "lines are left out" in text
    assert "f0" in text
    assert "ValueError: xxx" in text


def test_only_the_newest_reports_are_kept(tmp_path: Path) -> None:
    for second in range(MOST_FILES + 3):
        keep(str(second), tmp_path / "log", at=1e9 + second)
    left = sorted((tmp_path / "log").iterdir())
    assert [file.read_text() for file in left] == [str(n) for n in range(3, MOST_FILES + 3)]


def test_a_link_in_the_way_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    name = f"crash-20010909-014640-{os.getpid()}.txt"
    (tmp_path / name).symlink_to(target)
    assert keep("report", tmp_path, at=1e9).read_text() == "report"
    assert not (tmp_path / name).is_symlink()
    assert target.read_text() == "mine"


def test_where_nothing_can_be_written_the_report_goes_to_the_terminal(
    tmp_path: Path, faulty: dict[str, Terminal]
) -> None:
    (tmp_path / "tui-profiler").write_text("a file where the folder would be")
    terminal = faulty["mount"] = begin("mount", tmp_path)
    assert terminal.wait_for_exit() == CRASHED
    said = said_after_the_screen(bytes(terminal.raw))
    assert "Traceback" in said
    assert "could not be kept" in said
