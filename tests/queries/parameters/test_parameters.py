"""The values of parameters rolled up, against all values in one array."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.probe.parameters.test_analysis import analysed, session_of, tree_of
from tui_profiler.archive import structure_of
from tui_profiler.probe.parameters.subjects import FileSubjects
from tui_profiler.queries.parameters.rollup import rolled_up


def test_every_node_has_the_figures_of_all_values_in_and_below_it(tmp_path: Path) -> None:
    made = torch.Generator().manual_seed(3)
    tied = torch.randn(20, 10, generator=made) + 5
    state = {
        "a.x.weight": tied,
        "a.y.weight": torch.randn(30, 40, generator=made) * 3,
        "a.y.bias": torch.randn(30, generator=made).half(),
        "b.weight": tied,
        "b.running_mean": torch.full((9,), 1e6),
    }
    torch.save(state, tmp_path / "w.pt")
    subjects = FileSubjects(structure_of(tmp_path / "w.pt"))
    session = session_of(analysed(subjects.subjects), tree_of(tmp_path / "w.pt"))
    subjects.close()
    tree = session.tree
    assert tree is not None
    found = {tree.nodes[index].path: one for index, one in rolled_up(session).items()}
    below = {
        "": ("a.x.weight", "a.y.weight", "a.y.bias"),
        "a": ("a.x.weight", "a.y.weight", "a.y.bias"),
        "a.x": ("a.x.weight",),
        "a.y": ("a.y.weight", "a.y.bias"),
        "b": ("b.weight",),
    }
    assert set(found) == set(below)
    for path, names in below.items():
        values = np.concatenate([state[name].double().flatten().numpy() for name in names])
        one, away = found[path], (values - values.mean()) / values.std()
        assert (one.sums.count, one.tensors) == (values.size, len(names))
        assert one.sums.mean == pytest.approx(values.mean(), abs=1e-12)
        assert one.std == pytest.approx(values.std(), rel=1e-12)
        assert one.skewness == pytest.approx((away**3).mean(), abs=1e-9)
        assert one.kurtosis == pytest.approx((away**4).mean() - 3, abs=1e-9)
        assert one.sums.magnitudes == pytest.approx(np.abs(values).sum())
        assert (one.sums.minimum, one.sums.maximum) == (values.min(), values.max())
