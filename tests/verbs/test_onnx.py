"""What the verb ``onnx`` says of a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from screens.cli.main import main
from tests.hostile import TEXTS
from tui_profiler.messages import Exported, Failed, Message
from tui_profiler.verbs.one_request import exported_lines, onnx

FILE = Exported(
    path="/tmp/m.onnx",
    files=("m.onnx",),
    bytes=2**20,
    opset=20,
    exporter="torch 2.15.0, onnx 1.23.2",
    operators=24,
    inputs=("x FLOAT [1,3,8,8]",),
    parameters=2678,
    parameters_in_file=2678,
    missing=(),
    values_in_file=2670,
)


class Told:
    """A source that says what it is given, and knows when it was closed."""

    def __init__(self, *messages: Message) -> None:
        self._messages = messages
        self.is_closed = False

    async def messages(self):  # as the Protocol has it
        for message in self._messages:
            yield message

    async def close(self) -> None:
        self.is_closed = True


async def test_it_ends_when_the_file_is_there_and_when_it_failed() -> None:
    for message in (FILE, Failed("export", "no")):
        source = Told(message, Failed("run", "said afterwards"))
        session = await onnx(source, print)  # type: ignore[arg-type]  # all of Source that it uses
        assert source.is_closed
        assert (session.exported, session.failure).count(message) == 1


def test_it_tells_what_the_file_holds() -> None:
    assert exported_lines(FILE) == (
        "/tmp/m.onnx  1.00 MiB, opset 20, 24 operators, by torch 2.15.0, onnx 1.23.2",
        "input x FLOAT [1,3,8,8]",
        "onnx.checker: valid",
        "2,678 parameters, all in the graph",
        "2,670 values in the file, after constant folding",
    )


def test_parameters_that_are_not_there_are_named() -> None:
    missing = replace(FILE, parameters_in_file=2672, missing=("a", "b", "c", "d"))
    (line,) = [line for line in exported_lines(missing) if "2,672 of 2,678" in line]
    assert "not a, b, c and 1 more" in line


@pytest.mark.parametrize("name", TEXTS)
def test_hostile_names_are_safe(name: str) -> None:
    said = exported_lines(replace(FILE, path=name, files=("m", name), inputs=(name,)))
    assert all(line.isprintable() for line in said)


def test_a_file_that_is_there_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.onnx").write_text("mine")
    assert main(["onnx", "demo:cnn", "-o", str(tmp_path / "m.onnx")]) == 2
    assert "exists already: --force overwrites it" in capsys.readouterr().err
    assert main(["onnx", "demo:cnn"]) == 2
    assert "Missing option '--output'" in capsys.readouterr().err
