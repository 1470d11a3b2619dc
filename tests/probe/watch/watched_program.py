"""A program that watches models, in a separate process: what it is told to do, it answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).resolve().parents[3]
PROLOGUE = """
import json, os, sys, threading, time
import torch
from torch import nn
import tui_profiler
torch.set_num_threads(1)
torch.manual_seed(0)
TORCHS_OWN = nn.Module.__call__

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.norm = nn.BatchNorm1d(16)
        self.drop = nn.Dropout(0.5)
        self.second = nn.Linear(16, 4)
    def forward(self, x):
        return self.second(self.drop(torch.relu(self.norm(self.first(x)))))

def say(*words):
    print(json.dumps(words), flush=True)

def until(holds, seconds=120):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "in vain"
        time.sleep(0.002)

def own_threads():
    return sorted(t.name for t in threading.enumerate() if t.name.startswith("tui-profiler"))

def run(model, x, holds, seconds=120):
    '''Forwards until something holds.'''
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "in vain"
        with torch.no_grad():
            model(x)
        time.sleep(0.001)
"""


class WatchedProgram:
    """Runs ``code`` after ``PROLOGUE``; it talks in lines of JSON."""

    def __init__(self, code: str, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.child = subprocess.Popen(
            [sys.executable, "-c", PROLOGUE + textwrap.dedent(code)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={
                **os.environ,
                "OMP_NUM_THREADS": "1",
                "TUI_PROFILER_DIR": str(folder),
                **environment,
            },
        )

    def hears(self, *words: object) -> None:
        """Send a line to its standard input."""
        assert self.child.stdin is not None
        self.child.stdin.write(json.dumps(words) + "\n")
        self.child.stdin.flush()

    def said(self) -> list[object]:
        """Wait for its next line."""
        assert self.child.stdout is not None
        line = self.child.stdout.readline()
        assert line, self.complaint()
        words: list[object] = json.loads(line)
        return words

    def complaint(self) -> str:
        """Wait for its end and return what it wrote to standard error."""
        return self.child.communicate(timeout=240)[1]

    def __enter__(self) -> WatchedProgram:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.child.kill()
        self.child.communicate()


@contextmanager
def sockets_folder() -> Iterator[Path]:
    """A directory for sockets, with a short path."""
    with tempfile.TemporaryDirectory(prefix="tp-") as folder:
        os.chmod(folder, 0o700)
        yield Path(folder)
