"""The table of devices: a figure that is a dash has its reason, and a device one row."""

from __future__ import annotations

import torch
from torch import nn

from screens.options.verbs import devices
from tests.findings.made import on_paper
from tui_profiler.queries.hardware.data_sheets import data_sheets
from tui_profiler.queries.hardware.fits import RESERVE_BYTES, fitted
from tui_profiler.reports.text.fit import fit_table

L4 = tuple(sheet for sheet in data_sheets() if sheet.name == "L4")


def rows(model: nn.Module, *inputs: torch.Tensor) -> tuple[str, ...]:
    sessions = (on_paper(model, *inputs),)
    return fit_table(sessions, fitted(sessions, L4, RESERVE_BYTES), RESERVE_BYTES)


def test_a_bound_of_no_time_is_a_dash_with_its_reason() -> None:
    lines = rows(nn.Sequential(nn.Identity()), torch.zeros(1, 4))
    (row,) = (line for line in lines if line.startswith("L4"))
    assert "0.00 µs" not in row
    assert row.split()[-4:] == ["–", "–", "–", "–"]
    assert "minimum times –: below 0.01 µs, no bound" in lines


def test_a_batch_that_is_not_known_has_its_reason() -> None:
    lines = rows(nn.Linear(4, 4), torch.zeros(1, 4))
    assert any(line.startswith("largest batch –: it could not be traced") for line in lines)


def test_a_device_that_is_named_twice_has_one_row() -> None:
    assert [one.name for one in devices("L4, L4")] == ["L4"]
