"""The MCP server, asked by the SDK's own client: programs, recordings, models, errors, limits."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from demo_models.hostile import NAMES
from screens.cli.main import main
from screens.cli.mcp.tools import LIMIT_SECONDS, MOST_BYTES, NoAnswerError, Tools
from tests.probe.watch.watched_program import ROOT, WatchedProgram, sockets_folder
from tests.recording.files import timed, write
from tests.small_model import FACTS, MEASURED, TRACED, cost, node
from tui_profiler import messages
from tui_profiler.formatting.text import safe
from tui_profiler.reports.json.report import as_json, json_report
from tui_profiler.reports.text.brief import brief
from tui_profiler.source.recorded import last_session

PROGRAM = """
model, x = Net().eval(), torch.randn(3, 8)
handle = tui_profiler.watch(model, "served \\x1b[31m")
never_called = Net()
idle = tui_profiler.watch(never_called, "idle")
say("ready")
while True:
    with torch.no_grad():
        model(x)
    time.sleep(0.001)
"""


class _Payload:
    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, ("payload-ran",))


def _hostile() -> tuple[messages.Message, ...]:
    names = (*NAMES.values(), *(f"{at}{'x' * 5000}" for at in range(60)))
    layers = tuple(node(0, name, name, "Linear\x1b[2J") for name in names)
    each = cost(flops=10, ops=1)
    done = next(one for one in TRACED if isinstance(one, messages.TraceDone))
    return (
        *TRACED[:4],
        FACTS,
        messages.TraceStarted(1 + len(names), "dispatch:real"),
        messages.Nodes((node(-1, "net", "", "Net"), *layers), (each,) * (1 + len(names))),
        done,
    )


def _files(folder: Path) -> None:
    write(folder / "a.rec", timed(MEASURED))
    write(folder / "hostile.rec", timed(_hostile()))
    (folder / "a.json").write_text(json_report(last_session(folder / "a.rec")[0]))
    (folder / "net.py").write_text("import os; os.mkdir('payload-ran')")
    (folder / "evil.pt").write_bytes(pickle.dumps(_Payload()))
    (folder / "cut.rec").write_bytes((folder / "a.rec").read_bytes()[:40])


ASKED: dict[str, tuple[str, dict[str, object]]] = {
    "programs": ("list_programs", {}),
    "program": ("summary", {"target": "program:served", "seconds": 0.5}),
    "program's node": ("node", {"target": "program:served", "path": "first", "seconds": 0.5}),
    "recording": ("summary", {"target": "a.rec", "top": 2}),
    "node": ("node", {"target": "a.rec", "path": "fc"}),
    "findings": ("findings", {"target": "a.rec"}),
    "compared": ("compare", {"a": "a.rec", "b": "a.json"}),
    "model": ("summary", {"target": "demo:cnn --batch 2"}),
    "hostile": ("summary", {"target": "hostile.rec"}),
    "hostile root": ("node", {"target": "hostile.rec"}),
    "hostile node": ("node", {"target": "hostile.rec", "path": NAMES["clears the screen"]}),
    "hostile findings": ("findings", {"target": "hostile.rec"}),
    "no node": ("node", {"target": "a.rec", "path": "\x1b[2Jnope"}),
    "nobody": ("summary", {"target": "program:nobody"}),
    "elsewhere": ("summary", {"target": "program:ssh://host/x"}),
    "code": ("summary", {"target": "net.py:build"}),
    "code file": ("summary", {"target": "net.py"}),
    "module": ("compare", {"a": "a.rec", "b": "net:build"}),
    "disguised": ("summary", {"target": "demo:net.py:build"}),
    "trust": ("summary", {"target": "evil.pt --trust"}),
    "weights": ("summary", {"target": "resnet18 --weights DEFAULT"}),
    "pickle": ("summary", {"target": "evil.pt"}),
    "mistyped": ("summary", {"target": "reznet18"}),
    "cut off": ("summary", {"target": "cut.rec"}),
    "no target": ("summary", {}),
}


async def _answers(folder: Path, sockets: Path) -> dict[str, tuple[bool, str]]:
    """Ask everything of one server, then cancel one call while another waits for its turn."""
    found: dict[str, tuple[bool, str]] = {}
    async with Client(stdio_client(_server(folder, sockets))) as client:
        tools = (await client.list_tools()).tools
        found["tools"] = (
            not all(one.annotations and one.annotations.read_only_hint for one in tools),
            " ".join(one.name for one in tools if one.description),
        )
        for name, (tool, arguments) in ASKED.items():
            found[name] = await _answer(client, tool, arguments)
        endless = asyncio.create_task(_answer(client, "summary", {"target": "program:idle"}))
        queued = asyncio.create_task(_answer(client, "summary", {"target": "a.rec", "top": 2}))
        await _answer(client, "list_programs", {})  # By now the server has both.
        assert not endless.done()
        assert not queued.done()
        endless.cancel()
        found["queued"] = await asyncio.wait_for(queued, LIMIT_SECONDS / 2)
    return found


def _server(folder: Path, sockets: Path) -> StdioServerParameters:
    path = os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))
    environment = {**os.environ, "TUI_PROFILER_DIR": str(sockets), "PYTHONPATH": path}
    return StdioServerParameters(
        command=sys.executable, args=["-m", "tui_profiler", "mcp"], cwd=folder, env=environment
    )


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


async def _answer(client: Client, tool: str, arguments: dict[str, object]) -> tuple[bool, str]:
    said = await client.call_tool(tool, arguments)
    (part,) = said.content
    assert part.type == "text"
    return bool(said.is_error), part.text


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("mcp")
    _files(made)
    return made


@pytest.fixture(scope="module")
def answers(folder: Path) -> Iterator[dict[str, tuple[bool, str]]]:
    with sockets_folder() as sockets, WatchedProgram(PROGRAM, sockets) as program:
        program.said()
        yield asyncio.run(_answers(folder, sockets))
        assert program.child.poll() is None


Answers = dict[str, tuple[bool, str]]


def test_every_tool_has_a_description_and_is_read_only(answers: Answers) -> None:
    assert answers["tools"] == (False, "list_programs summary node findings compare")


def test_a_program_is_listed_and_its_figures_are_those_of_a_hand_count(answers: Answers) -> None:
    is_error, listed = answers["programs"]
    assert not is_error
    assert listed.startswith("served \\x1b[31m  pid ")
    is_error, text = answers["program"]
    assert not is_error, text
    macs = 3 * (8 * 16 + 16 * 4)
    assert f"forward: {macs} MAC," in text
    assert "top nodes by self time (measured)" in text
    is_error, text = answers["program's node"]
    assert not is_error, text
    layer = json.loads(text)
    assert (layer["path"], layer["macs"]) == ("first", 3 * 8 * 16)
    assert layer["timing"]["mean_per_forward_s"] > 0


def test_answers_are_those_of_the_reports(answers: Answers, folder: Path) -> None:
    session = last_session(folder / "a.rec")[0]
    assert answers["recording"] == (False, brief(session, 2))
    report = as_json(session, advises=True)
    layers, advice = report["layers"], report["findings"]
    assert isinstance(layers, list)
    (layer,) = (one for one in layers if one["path"] == "fc")
    said = json.loads(answers["node"][1])
    assert {key: said[key] for key in layer} == json.loads(json.dumps(layer))
    assert said["children"] == ["fc/0"]
    assert isinstance(advice, dict)
    kinds = [one["kind"] for one in json.loads(answers["findings"][1])["found"]]
    assert kinds == [one["kind"] for one in advice["found"]][:5]
    assert "MAC" in answers["compared"][1]
    assert "–" not in answers["compared"][1].split("MAC", 1)[1].split("\n")[0]


def test_a_model_is_traced_on_paper(answers: Answers) -> None:
    is_error, text = answers["model"]
    assert not is_error, text
    assert text.startswith("# demo:cnn\n")
    assert "batch 2" in text
    assert "times: – (not measured" in text


@pytest.mark.parametrize("name", ["hostile", "hostile root", "hostile node", "hostile findings"])
def test_hostile_names_are_safe_and_answers_small(answers: Answers, name: str) -> None:
    is_error, text = answers[name]
    assert not is_error, text
    assert len(text.encode()) <= (2048 if name == "hostile" else MOST_BYTES)
    assert all(line.isprintable() for line in text.split("\n"))
    if name == "hostile node":
        assert json.loads(text)["path"] == safe(NAMES["clears the screen"])
    if name == "hostile root":
        found = json.loads(text)
        assert len(found["children"]) + found["children_left_out"] == len(NAMES) + 60


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no node", "no node, or more than one, has the path '\\\\x1b[2Jnope'"),
        ("nobody", "no program named 'nobody'"),
        ("elsewhere", "no program named 'ssh://host/x'"),
        ("code", "is Python code, which is not run here"),
        ("code file", "is Python code, which is not run here"),
        ("module", "is Python code, which is not run here"),
        ("disguised", "is Python code, which is not run here"),
        ("trust", "--trust is not available here"),
        ("weights", "--weights is not available here"),
        ("pickle", "--trust"),
        ("mistyped", "Did you mean"),
        ("cut off", "cut.rec"),
        ("no target", "target"),
    ],
)
def test_what_cannot_be_answered_is_an_error_of_the_tool_in_words(
    answers: Answers, folder: Path, name: str, said: str
) -> None:
    is_error, text = answers[name]
    assert is_error
    assert said in text
    assert "Traceback" not in text
    assert not (folder / "payload-ran").exists()


def test_a_call_that_is_cancelled_gives_its_turn_to_the_next(
    answers: Answers, folder: Path
) -> None:
    assert answers["queued"] == (False, brief(last_session(folder / "a.rec")[0], 2))


def test_a_worker_has_a_time_limit_and_is_ended() -> None:
    with pytest.raises(NoAnswerError, match=r"demo:cnn: no complete tree within 0\.2 s"):
        asyncio.run(Tools(limit_seconds=0.2).summary("demo:cnn"))
    assert not [one for one in psutil.Process().children() if "tui_profiler.probe" in _words(one)]


def test_without_the_sdk_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    for name in [name for name in sys.modules if name.startswith("mcp.")]:
        monkeypatch.delitem(sys.modules, name)
    assert main(["mcp"]) == 2
    said = " ".join(capsys.readouterr().err.partition("Error: ")[2].split())
    assert said == 'mcp is not installed: pip install "tui-profiler[mcp]"'


@pytest.mark.parametrize(
    ("goes", "code", "said"),
    [("a pipe", 0, ""), ("/dev/full", 1, "The client cannot be reached")],
)
def test_a_client_that_takes_no_answer_is_no_crash(goes: str, code: int, said: str) -> None:
    reader, writer = os.pipe() if goes == "a pipe" else (-1, os.open(goes, os.O_WRONLY))
    if reader >= 0:
        os.close(reader)
    request = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    command = [sys.executable, "-m", "tui_profiler", "mcp"]
    done = subprocess.run(
        command, input=request, stdout=writer, stderr=subprocess.PIPE, timeout=240, check=False
    )
    os.close(writer)
    assert (done.returncode, said in done.stderr.decode()) == (code, True)
    assert said or not done.stderr
