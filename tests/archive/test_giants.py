"""Size costs little: values are never read, and headers are read once."""

from __future__ import annotations

from pathlib import Path

import torch

from tests.archive.hostile.giants import write_shards
from tests.archive.hostile.zips import many_entries
from tests.cost import cpu_seconds
from tui_profiler.archive import structure_of


def test_a_terabyte_in_shards_takes_well_under_a_second(tmp_path: Path) -> None:
    write_shards(tmp_path, 200, 503_000_000_000)
    found = structure_of(tmp_path)
    # Ten times what it takes.
    assert cpu_seconds(lambda: structure_of(tmp_path), rounds=3) < 0.8
    assert found.problems == ()
    assert len(found.tensors) == 200 * 16
    assert 0.99e12 < found.bytes < 1.01e12
    assert found.parameters == found.bytes // 2


def test_twenty_thousand_entries_take_as_much_longer_as_they_are_more(tmp_path: Path) -> None:
    few, path = tmp_path / "few.pt", tmp_path / "many.pt"
    few.write_bytes(many_entries(2_500))
    path.write_bytes(many_entries(20_000))
    # Of eight times the entries; 64 times, were it quadratic.
    assert cpu_seconds(lambda: structure_of(path)) < 24 * cpu_seconds(
        lambda: structure_of(few), rounds=3
    )
    found = structure_of(path)
    assert len(found.tensors) == 20_000
    assert found.problems == ()


def test_a_long_list_of_numbers_beside_the_weights_is_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    torch.save({"losses": [0.5] * 1_000_000, "state_dict": {"w": torch.ones(2)}}, path)
    found = structure_of(path)
    assert found.problems == ()
    assert [entry.name for entry in found.tensors] == ["w"]
    torch.save({"losses": [0.5] * 1_000_000, "weights": {"w": torch.ones(2)}}, path)
    assert [entry.name for entry in structure_of(path).tensors] == ["weights.w"]
