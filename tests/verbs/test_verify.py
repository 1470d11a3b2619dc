"""``verify``: the real program with real workers and counters; and counters that say nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from tests.recorded_source import Recorded
from tests.small_model import COSTS, TRACED
from tests.worker import spec
from tui_profiler.messages import CountWith, Message, Request, SecondOpinion
from tui_profiler.verbs.one_request import exit_code, verify
from tui_profiler.verbs.outcome import DONE, MODEL_FAILED

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "docs" / "verify.schema.json").read_text())

MODELS = '''
import torch


class Repeated(torch.nn.Module):
    """Applies a layer as often as its input has positive numbers: that cannot be foreseen."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x):
        if torch.jit.is_tracing():
            raise NotImplementedError("no jit here")
        for _ in range(int(x.square().gt(0).sum())):
            x = self.layer(x)
        return x


def build():
    return torch.nn.Linear(256, 256)


def broken():
    raise ValueError("no such width")
'''


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "models.py").write_text(MODELS)
    return subprocess.run(
        [sys.executable, "-m", "tui_profiler", "verify", *arguments, "--threads", "1"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def test_real_counters_are_compared_and_one_that_raises_says_so(tmp_path: Path) -> None:
    done = run(
        *("models.py:broken", "models.py:Repeated", "--input", "1,8", "--format", "json"),
        folder=tmp_path,
    )
    assert "no such width" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == 1, done.stderr
    (line,) = done.stdout.splitlines()
    found = json.loads(line)
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    assert found["verdict"] == "holds"  # What depends on the data is not compared.
    counters = {one["counter"]: one for one in found["counters"]}
    assert counters["flop_counter"]["macs"] == 8 * 64
    assert counters["fvcore"]["error"] == "NotImplementedError: no jit here"
    assert counters["measured"]["peak_bytes"] > 0
    checks = {(one["against"], one["figure"]): one for one in found["checks"]}
    by_torch = checks["flop_counter", "macs"]
    assert (by_torch["verdict"], by_torch["theirs"]) == ("not compared", 8 * 64)


def test_a_model_that_no_counter_ran_is_not_verified(tmp_path: Path) -> None:
    done = run("models.py:build", "--input", "1,256", "--no-run", folder=tmp_path)
    assert done.returncode == 1
    assert "65,536" in done.stdout
    assert "not run, as asked" in done.stdout
    assert "is not verified" in done.stderr


COUNTED = SecondOpinion("flop_counter", "torch", 0.5, macs=COSTS[0].macs)
RAISED = SecondOpinion("fvcore", "fvcore", 0.5, "NotImplementedError: no jit here")


@pytest.mark.parametrize(
    ("opinions", "code", "said"),
    [
        ((COUNTED, RAISED), DONE, ("flop_counter: 500 ms", "fvcore: failed", "measured: failed")),
        ((), MODEL_FAILED, ("flop_counter: failed", "fvcore: failed", "measured: failed")),
    ],
    ids=["one raises", "none has the time"],
)
async def test_a_counter_that_fails_is_no_failure_of_the_model(
    opinions: tuple[SecondOpinion, ...], code: int, said: tuple[str, ...]
) -> None:
    def begin(request: Request) -> Recorded:
        if not isinstance(request, CountWith):
            return Recorded(TRACED)
        counted: list[Message] = [one for one in opinions if one.counter == request.counter]
        return Recorded(counted)  # Says nothing more, and does not end.

    lines: list[str] = []
    made = await verify(spec("net.py:build"), begin, seconds=0.05, progress=lines.append)
    assert exit_code(made) == code
    assert tuple(lines[-3:]) == said
    assert made.opinions[-1].error == "stopped after 50.0 ms"
