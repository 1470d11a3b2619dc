"""``run --serving``: a real server beside a real script, which never calls it."""

from __future__ import annotations

import json
import subprocess
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import jsonschema

from tests.end_to_end.run.test_run import ENVIRONMENT, SCHEMA
from tests.end_to_end.terminal import COMMAND
from tests.serving.answers import answer, say, serving
from tests.viewer import wait_until
from tui_profiler.source.recorded import last_session

SCRIPT = """
import os, socket, sys, time
def audit(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo") and isinstance(arguments[-1], tuple):
        print("called", arguments[-1], flush=True)
sys.addaudithook(audit)
import torch
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
while not os.path.exists(sys.argv[1]):
    net(torch.zeros(1, 8))
    time.sleep(0.002)
"""


def reported(report: Path) -> dict[str, Any]:
    """Return the server in the newest report; empty where there is none yet."""
    if not report.exists():
        return {}
    found = json.loads(report.read_text())
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    return found["serving"] or {}


def test_the_server_is_in_the_report_and_the_recording(tmp_path: Path) -> None:
    script, stop, report, kept = (tmp_path / name for name in ("s.py", "stop", "r.json", "k.rec"))
    script.write_text(SCRIPT)
    asked: list[str | None] = []

    def answers(handler: BaseHTTPRequestHandler) -> None:
        asked.append(handler.headers["User-Agent"])
        say(handler, answer("sglang-0.5.8", min(len(asked), 2)))

    def has_rates() -> bool:
        return bool(reported(report).get("generated_tokens_per_s"))

    with serving(answers) as url:
        typed = [*COMMAND, "run", "--serving", url, "--format", "json", "--every", "0.3"]
        typed += ["--output", str(report), "--record", str(kept), str(script), str(stop)]
        program = subprocess.Popen(typed, cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE)
        try:
            wait_until(lambda: has_rates() or program.poll() is not None)
            stop.touch()
            printed, _ = program.communicate(timeout=240)
        finally:
            program.kill()
            program.wait()
    assert program.returncode == 0
    assert set(asked) == {"tui-profiler"}
    assert b"called" not in printed
    found = reported(report)
    assert (found["server"], found["waiting"]) == ("SGLang", 2.0)
    session, _ = last_session(str(kept))
    assert session.serving is not None
    assert session.serving.address == url
