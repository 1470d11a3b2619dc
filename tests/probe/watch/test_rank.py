"""Which rank of a run a process is: by the environment, or by torch's process group."""

from __future__ import annotations

import os

import pytest
from torch import distributed

from tui_profiler.probe.watch.rank import rank_of_run

NAMES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def test_the_environment_of_torchrun_names_rank_and_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rank_of_run() == (None, None, "")
    for name, value in zip(NAMES, ("3", "4", "host", "1234", "id"), strict=True):
        monkeypatch.setenv(name, value)
    assert rank_of_run() == (3, 4, "id@host:1234")


def test_a_process_group_that_is_made_later_names_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        assert rank_of_run() == (0, 1, f"parent {os.getppid()}")
        monkeypatch.setenv("MASTER_PORT", "1234")
        assert rank_of_run() == (0, 1, "@:1234")
    finally:
        distributed.destroy_process_group()


def test_a_process_group_that_is_destroyed_meanwhile_leaves_it_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(distributed, "is_initialized", lambda: True)  # It was, a moment ago.
    with pytest.raises((ValueError, RuntimeError)):
        distributed.get_rank()
    assert rank_of_run() == (None, None, "")
