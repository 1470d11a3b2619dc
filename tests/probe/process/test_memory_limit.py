"""A limit on the memory of the worker: what is above it is a failure that says so."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worker import Conversation, spec
from tui_profiler.messages import Failed, LoopState, SetBatch
from tui_profiler.probe.process.memory_limit import reserve_bytes

GIB = 1 << 30
TOO_MUCH = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
    def forward(self, x):
        if x.shape[0] == 3 and type(x) is torch.Tensor:
            kept = [bytearray(2**30)]  # half of it, untouched
            while True:  # Objects of Python: then there is no memory to say so with, either.
                kept.append([0] * 1000)
        if x.shape[0] == 2 and type(x) is torch.Tensor:
            torch.ones(50 * 10**12)
        return self.linear(x)

def build():
    return Model()

def at_once():
    torch.ones(50 * 10**12)
"""


@pytest.mark.parametrize(
    ("free", "reserve"), [(100 * GIB, 2 * GIB), (10 * GIB, GIB), (GIB, 256 << 20), (0, 256 << 20)]
)
def test_a_tenth_is_left_to_others_within_bounds(free: int, reserve: int) -> None:
    assert reserve_bytes(free) == reserve


async def test_a_model_that_takes_too_much_fails_with_the_limit_and_the_worker_lives(
    tmp_path: Path,
) -> None:
    """Each time the same worker: it says what was hit, and runs on with another batch."""
    (tmp_path / "large.py").write_text(TOO_MUCH)
    wanted = spec("large.py:build", tmp_path, inputs=("1,8",), batch=2, memory_limit_bytes=2 * GIB)
    worker = Conversation(wanted)
    failed = await failure(worker)
    assert (failed.stage, failed.what) == (
        "first run",
        "out of memory: tried to allocate 186,264.51 GiB",
    )
    assert failed.why == "the memory limit is 2.00 GiB: set by --memory-limit"
    commands = [remedy.command for remedy in failed.remedies]
    assert commands == ["--batch 1", "--device meta", "--memory-limit none"]
    worker.source.send(SetBatch(3))
    failed = await failure(worker)
    assert failed.stage == "first run"
    assert "MemoryError" in failed.what
    assert "memory limit is 2.00 GiB" in failed.why
    worker.source.send(SetBatch(1))
    await worker.until(
        lambda _: isinstance(worker.heard[-1], LoopState) and worker.heard[-1].state == "running"
    )
    assert "memory limit 2.00 GiB" in worker.session.stages[0].detail
    await worker.close()


async def test_without_an_option_the_limit_is_what_is_free_less_a_reserve(tmp_path: Path) -> None:
    (tmp_path / "large.py").write_text(TOO_MUCH)
    worker = Conversation(spec("large.py:at_once", tmp_path))
    failed = await failure(worker)
    assert failed.stage == "load model"
    assert failed.why.startswith("186,264.51 GiB more was requested; the memory limit is ")
    assert "GiB free less a reserve of" in failed.why
    await worker.close()


def test_a_file_that_is_mapped_may_be_larger_than_the_limit(tmp_path: Path) -> None:
    """Its pages are the file's; the same amount of this process's own is refused."""
    size = 4 * GIB
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    with (tmp_path / "sparse.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + size)
    code = """
import sys, mmap
from pathlib import Path
import torch
from tui_profiler.archive import structure_of
from tui_profiler.probe.process import memory_limit
from tui_profiler.probe.load.files.state_dict import mapped_tensors
path = Path(sys.argv[1])
found = structure_of(path)
memory_limit.limit_memory(None, 2**31)
def refused(deed):
    try:
        deed()
    except (RuntimeError, MemoryError, OSError):
        return True
    return False
print(refused(lambda: torch.empty(2**32, dtype=torch.uint8)))
with path.open("rb") as file:
    print(refused(lambda: mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)))
held = mapped_tensors(found, "file")
print(int(held["w"][-1]) == 0 and held["w"].numel() == 2**32)
# Asked for and never touched, as a model built for a trace: as much again can be had.
untouched = torch.empty(3 * 2**29, dtype=torch.uint8)
print(refused(lambda: torch.empty(3 * 2**29, dtype=torch.uint8)))
memory_limit.allow_untouched()
print(refused(lambda: torch.empty(3 * 2**29, dtype=torch.uint8)))
"""
    arguments = [sys.executable, "-c", code, str(tmp_path / "sparse.safetensors")]
    ran = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["True", "True", "True", "True", "False"]


def test_a_memory_limit_that_was_removed_stays_removed() -> None:
    """As after a trial, in a process that continues; RLIM_INFINITY is -1."""
    code = """
import resource
from tui_profiler.probe.process import memory_limit
memory_limit.limit_memory(2**40, 2**40)
_, hard = resource.getrlimit(resource.RLIMIT_DATA)
resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, hard))
memory_limit.allow_map(4096)
memory_limit.allow_untouched()
print(resource.getrlimit(resource.RLIMIT_DATA)[0] == resource.RLIM_INFINITY)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["True"]


async def failure(worker: Conversation) -> Failed:
    """Return the next one."""
    heard = len(worker.heard)
    await worker.until(lambda _: any(isinstance(one, Failed) for one in worker.heard[heard:]))
    return next(one for one in worker.heard[heard:] if isinstance(one, Failed))
