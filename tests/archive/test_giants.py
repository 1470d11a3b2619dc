"""Size costs little: values are never read, and headers are read once."""

from __future__ import annotations

import time
from pathlib import Path

import torch

from tests.archive.hostile.giants import write_shards
from tests.archive.hostile.zips import many_entries
from tui_profiler.archive import look


def test_a_terabyte_in_shards_takes_well_under_a_second(tmp_path: Path) -> None:
    write_shards(tmp_path, 200, 503_000_000_000)
    started = time.process_time()
    found = look(tmp_path)
    assert time.process_time() - started < 0.8
    assert found.problems == ()
    assert len(found.tensors) == 200 * 16
    assert 0.99e12 < found.bytes < 1.01e12
    assert found.parameters == found.bytes // 2


def test_twenty_thousand_entries_are_quick(tmp_path: Path) -> None:
    path = tmp_path / "many.pt"
    path.write_bytes(many_entries(20_000))
    started = time.process_time()
    found = look(path)
    assert time.process_time() - started < 2.5
    assert len(found.tensors) == 20_000
    assert found.problems == ()


def test_a_long_list_of_numbers_beside_the_weights_is_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    torch.save({"losses": [0.5] * 1_000_000, "state_dict": {"w": torch.ones(2)}}, path)
    found = look(path)
    assert found.problems == ()
    assert [entry.name for entry in found.tensors] == ["w"]
    torch.save({"losses": [0.5] * 1_000_000, "weights": {"w": torch.ones(2)}}, path)
    assert [entry.name for entry in look(path).tensors] == ["weights.w"]
