"""``verify`` from end to end: the real program, real workers, the real other counters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "docs" / "verify.schema.json").read_text())

MODELS = '''
"""Models whose multiply-accumulates are known."""

from torch import nn


class Repeated(nn.Module):
    """Applies a layer as often as its input has positive numbers: that cannot be foreseen."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        for _ in range(int(x.square().gt(0).sum())):
            x = self.layer(x)
        return x


class NotTraced(nn.Module):
    """Cannot be traced by jit."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(256, 256)

    def forward(self, x):
        import torch

        if torch.jit.is_tracing():
            raise NotImplementedError("no jit here")
        return self.layer(x)


def repeated():
    return Repeated()


def not_traced():
    return NotTraced()


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


def test_a_bound_that_a_real_run_exceeds_is_exit_code_three(tmp_path: Path) -> None:
    done = run("models.py:repeated", "--input", "1,8", "--format", "json", folder=tmp_path)
    assert done.returncode == 3, done.stderr
    found = json.loads(done.stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    assert found["verdict"] == "fails"
    by_torch = next(c for c in found["counters"] if c["counter"] == "flop_counter")
    assert by_torch["macs"] == 8 * 64
    check = next(
        c
        for c in found["checks"]
        if (c["against"], c["figure"])
        == (
            "flop_counter",
            "macs",
        )
    )
    assert (check["verdict"], check["theirs"]) == ("fails", 8 * 64)


def test_a_peer_that_raises_is_no_fault_of_ours(tmp_path: Path) -> None:
    done = run("models.py:not_traced", "--input", "1,256", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "NotImplementedError: no jit here" in done.stdout
    assert "65,536" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_model_that_cannot_be_had_is_one(tmp_path: Path) -> None:
    # One that does not exist is two, as for every verb: test_real_worker.py.
    done = run("models.py:broken", folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no such width" in done.stderr


def test_counters_that_have_no_time_leave_nothing_verified(tmp_path: Path) -> None:
    done = run("models.py:not_traced", "--input", "1,256", "--timeout", "0.2", folder=tmp_path)
    assert done.returncode == 1
    assert "stopped after 200 ms" in done.stdout
    assert "is not verified" in done.stderr
