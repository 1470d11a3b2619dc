"""Two sides run in turns: on sources that answer as workers do, and the verb on real ones."""

from __future__ import annotations

import asyncio
import json
import os
import struct
import subprocess
import sys
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from screens.cli.main import main
from screens.options.grid_intensity import Typed
from screens.options.model import Chosen
from screens.options.side import typed_side
from tests.fixtures.record import recorded
from tests.recording.files import fixture, write
from tui_profiler.messages import Ended, Failed, LoopState, Message, Pause, Request, Resume, Tick
from tui_profiler.reports.json.report import json_report
from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.source import Told
from tui_profiler.verbs.compare import compare

ROOT = Path(__file__).resolve().parents[2]
USUAL = Chosen("", (), None, "", "cpu", "", None, "auto", False, True, 0.02, None, False)


class Held:
    """Says what a real worker said until it ran; from then on it runs and halts as it is asked."""

    def __init__(self, log: list[str], name: str, *, fails_at: int | None = None) -> None:
        self._log = log
        self._name = name
        self._fails_at = fails_at
        self._asked: asyncio.Queue[Request] = asyncio.Queue()
        self._turns = 0

    async def messages(self) -> AsyncIterator[Message]:
        self._log.append(f"{self._name} starts")
        said = recorded()
        ticks = [one for one in said if isinstance(one, Tick)]
        before = [one for one in said if not isinstance(one, Tick | LoopState | Ended)]
        for message in before:
            yield message
        yield LoopState("running", 1.0)
        while True:
            match await self._asked.get():
                case Pause():
                    yield LoopState("paused", 1.0)
                case Resume():
                    self._turns += 1
                    if self._turns == self._fails_at:
                        yield Failed("run", "it raised", fatal=True)
                        continue
                    self._log.append(self._name)
                    yield LoopState("running", 1.0)
                    yield ticks[min(self._turns, len(ticks)) - 1]

    def send(self, request: Request) -> None:
        self._asked.put_nowait(request)

    async def close(self) -> None:
        self._log.append(f"{self._name} closed")


async def compared(
    seconds: float | None, *, measuring: bool = True, fails_at: int | None = None
) -> tuple[list[str], list[Session]]:
    log: list[str] = []
    sessions = [EMPTY, EMPTY]

    def heard(place: int, message: Told, session: Session) -> None:
        sessions[place] = session

    begins = (lambda: Held(log, "a", fails_at=fails_at), lambda: Held(log, "b"))
    await compare(begins, measuring=measuring, seconds=seconds, heard=heard)
    return log, sessions


async def test_the_second_starts_when_the_first_is_held_and_they_run_in_turns() -> None:
    log, sessions = await compared(0.06)

    assert log[:2] == ["a starts", "b starts"]
    turns = log[2:-2]
    assert turns[:4] == ["a", "b", "a", "b"]
    assert sorted(log[-2:]) == ["a closed", "b closed"]
    assert all(session.timings is not None for session in sessions)
    assert all(s.loop is not None and s.loop.state == "paused" for s in sessions)


async def test_a_side_that_fails_ends_its_turns_and_the_other_goes_on() -> None:
    log, sessions = await compared(0.05, fails_at=1)

    assert sessions[0].failure is not None
    assert "a" not in log
    assert log.count("b") >= 1
    assert sessions[1].timings is not None


async def test_turns_go_on_until_there_is_a_figure_however_little_was_asked_for() -> None:
    class Slow(Held):
        async def messages(self) -> AsyncIterator[Message]:
            async for message in super().messages():
                if not isinstance(message, Tick) or self._turns > 20:
                    yield message

    log: list[str] = []
    sessions = [EMPTY, EMPTY]

    def heard(place: int, message: Told, session: Session) -> None:
        sessions[place] = session

    begins = (lambda: Slow(log, "a"), lambda: Slow(log, "b"))
    await compare(begins, measuring=True, seconds=0.001, heard=heard)

    assert all(session.timings is not None for session in sessions)


async def test_without_measuring_nothing_runs() -> None:
    log, sessions = await compared(None, measuring=False)

    assert log == ["a starts", "b starts", "a closed", "b closed"]
    assert all(session.tree is not None for session in sessions)


async def test_it_goes_on_until_it_is_left_and_closes_both_then() -> None:
    log: list[str] = []
    begins = (lambda: Held(log, "a"), lambda: Held(log, "b"))
    both_ran = asyncio.Event()

    def heard(place: int, message: Told, session: Session) -> None:
        if log.count("b") >= 1:
            both_ran.set()

    running = asyncio.create_task(compare(begins, measuring=True, seconds=None, heard=heard))
    await asyncio.wait_for(both_ran.wait(), 120)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert sorted(log[-2:]) == ["a closed", "b closed"]


@pytest.mark.parametrize(
    ("text", "model", "batch", "device"),
    [
        ("resnet50", "resnet50", 2, "cpu"),
        ("resnet50 --batch 8", "resnet50", 8, "cpu"),
        ("--batch 8 resnet50 --device cuda:1", "resnet50", 8, "cuda:1"),
        ("'my model.py:build' --dtype float16", "my model.py:build", 2, "cpu"),
    ],
)
def test_options_in_quotes_are_those_of_one_side(
    text: str, model: str, batch: int, device: str
) -> None:
    side = typed_side(text, replace(USUAL, batch=2, inputs=("1,3",), run=False))

    assert (side.label, side.model) == (text, model)
    assert (side.chosen.batch, side.chosen.device) == (batch, device)
    assert side.chosen.inputs == ("1,3",)
    assert side.chosen.run is False


def test_options_of_both_sides_hold_beside_those_of_one_also_looked_up_ones() -> None:
    both = replace(USUAL, grid_intensity=Typed(300.0))
    assert typed_side("a --batch 2", both).chosen.grid_intensity == Typed(300.0)
    assert typed_side("a --batch 2").chosen == replace(USUAL, batch=2, typed=("--batch",))


def test_a_file_with_blanks_in_its_name_is_that_file(tmp_path: Path) -> None:
    file = tmp_path / "my model --batch.pt"
    file.touch()

    assert typed_side(str(file), USUAL).model == str(file)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("sides")
    session = EMPTY
    for message in recorded():
        session = apply(session, message)
    (folder / "a.json").write_text(json_report(session))
    return write(folder / "a.rec", fixture()), folder / "a.json"


def run(*arguments: str, capfd: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(["compare", *arguments])
    captured = capfd.readouterr()
    return code, captured.out, captured.err


def test_a_recording_and_a_report_of_the_same_are_the_same(
    files: tuple[Path, Path], capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, err = run(*map(str, files), "--format", "json", capfd=capfd)
    found = json.loads(out)

    assert code == 0
    assert found["modules"]["same"] > 100
    assert found["modules"]["changed"] == 0
    differ = {row["name"]: row["ratio"] for row in found["totals"] if row["difference"]}
    # A recording has the percentiles of its whole run, a report those of its last forwards alone.
    assert differ.keys() == {"latency.p50_s", "latency.p95_s"}
    assert all(abs(ratio - 1) < 0.02 for ratio in differ.values())
    assert "recorded" in err or "a.rec" in err
    written = tmp_path / "out.txt"
    code, out, _ = run(*map(str, files), "--output", str(written), "--top", "3", capfd=capfd)
    assert (code, out) == (0, "")
    assert written.read_text().startswith(f"A  {str(files[0])[:20]}")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("resnet50",), 2, "Missing argument 'B'"),
        (("resnet50", "resnet50 --bacth 8"), 2, 'In "resnet50 --bacth 8": No such option'),
        (("resnet50", "resnet50 --batch eight"), 2, "'eight' is not a valid integer"),
        (("resnet50", "resnet50 vgg16"), 2, "unexpected extra argument"),
        (("resnet50", "resnet50 'x"), 2, "is not written as a command line"),
        (("resnet50", ""), 2, "A side of the comparison is empty"),
        (("resnet50", "vgg16 --no-run", "--measure", "1"), 2, "exclude each other"),
        (("resnet50", "vgg16", "--output", "/nowhere/x"), 2, "cannot be written"),
    ],
)
def test_wrong_arguments_are_refused_with_a_sentence(
    arguments: tuple[str, ...], code: int, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    found, out, err = run(*arguments, capfd=capfd)

    assert (found, out) == (code, "")
    assert said in err


def test_files_of_other_versions_are_refused(
    files: tuple[Path, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    later = tmp_path / "later.json"
    later.write_text(files[1].read_text().replace("report/1", "report/7", 1))
    newer = tmp_path / "newer.rec"
    whole = files[0].read_bytes()
    preamble = struct.pack(">8sH4s", whole[:8], 99, whole[10:14])
    newer.write_bytes(preamble + struct.pack(">I", zlib.crc32(preamble)) + whole[18:])
    for broken, words in ((later, "tui-profiler/report/7"), (newer, "recording of format 99")):
        code, out, err = run(str(files[1]), str(broken), capfd=capfd)
        assert (code, out) == (2, "")
        assert words in err
        assert "try " in err


def test_help_names_both_ways_of_giving_options() -> None:
    from screens.cli.compare import compare_verb as command

    said = CliRunner().invoke(command, ["--help"], obj=0.0).output
    assert "compare resnet50 'resnet50 --batch 8'" in " ".join(said.split())


def test_a_real_model_is_measured_against_a_report(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    source = "import torch\n\n\ndef build():\n    return torch.nn.Linear(64, 32)\n"
    (tmp_path / "net.py").write_text(source)
    command = [sys.executable, "-m", "tui_profiler", "compare", str(files[1])]
    command += ["net.py:build --input 4,64", "--measure", "0.1", "--format", "json"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=tmp_path, env=env
    )
    totals = {row["name"]: row for row in json.loads(done.stdout)["totals"]}

    assert totals["total_macs"]["b"] == 4 * 64 * 32
    assert totals["total_macs"]["ratio"] == 4 * 64 * 32 / 4089184256
    latency, rate = totals["latency.p50_s"]["b"], totals["throughput.per_s"]["b"]
    assert 0 < latency < 0.1
    # Four items per forward. Pauses between turns do not count: with them it were a thousandth.
    assert 0.005 < rate / 4 * latency < 1.1
    assert done.stderr.count("measuring") == 1
