"""How a program loads and updates, where its time goes line by line, and its first few steps."""

from __future__ import annotations

import linecache
from pathlib import Path
from threading import get_ident

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from tests.probe.measure.step.loops import WIDTH, Net, Spent, batches, optimizer, watched
from tests.viewer import wait_until
from tui_profiler.findings.execution.training import LINE_SHARE
from tui_profiler.messages import LoaderSettings, OptimizerSettings, TrainingStep
from tui_profiler.messages.training import LONGEST_LINE, StepParts
from tui_profiler.probe.measure.step.line_shares import LineShares, Placed
from tui_profiler.probe.measure.step.marks import loader_settings, optimizer_settings
from tui_profiler.probe.measure.step.source_lines import (
    LARGE_OTHER,
    LEAST_FACTOR,
    LEAST_PAUSE_SECONDS,
    SHARE_LATER,
    SHARE_OF_BUDGET,
    WAIT_SECONDS,
    Line,
    LineSampler,
    Sample,
    pause_seconds,
)
from tui_profiler.probe.measure.step.steps import LEAST_STEPS
from tui_profiler.probe.process.interpreter_lock import is_locked


def rows() -> TensorDataset:
    return TensorDataset(torch.ones(8, WIDTH))


@pytest.mark.parametrize(
    ("loader", "settings"),
    [
        (DataLoader(rows()), LoaderSettings(0, False, 0, 1)),
        (DataLoader(rows(), num_workers=1, prefetch_factor=3), LoaderSettings(1, False, 3, 1)),
    ],
)
def test_a_loader_is_told_by_its_iterator(
    loader: DataLoader[tuple[Tensor, ...]], settings: LoaderSettings
) -> None:
    assert loader_settings(iter(loader)) == settings


def test_an_optimizer_is_told_as_it_was_made_and_nothing_of_the_programs_runs() -> None:
    weight = [nn.Parameter(torch.ones(1))]
    assert optimizer_settings(torch.optim.Adam(weight)) == OptimizerSettings("Adam", None, None)
    fused = torch.optim.SGD(weight, fused=True)
    assert optimizer_settings(fused) == OptimizerSettings("SGD", None, True)

    class Own(torch.optim.SGD):
        def __getattribute__(self, name: str) -> object:
            if name == "defaults":
                raise AssertionError("the program's own code ran")
            return super().__getattribute__(name)

    made = object.__new__(Own)
    object.__getattribute__(made, "__dict__")["defaults"] = {"foreach": False}
    assert optimizer_settings(made) == OptimizerSettings("Own", False, None)
    assert optimizer_settings(object()) == OptimizerSettings("object", None, None)
    assert loader_settings(object()) is None


def fused(made: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Return an optimizer of the same parameters with ``fused=True``."""
    groups = made.param_groups
    return type(made)([one for group in groups for one in group["params"]], fused=True)


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adagrad])
def test_gradients_that_a_fused_optimizer_refuses_are_told(
    kind: type[torch.optim.Optimizer],
) -> None:
    table = nn.Embedding(4, 2, sparse=True)
    made = kind(table.parameters())
    assert optimizer_settings(made).why_not_fused == ""
    table(torch.tensor([1])).sum().backward()
    assert optimizer_settings(made).why_not_fused == "gradients are sparse"
    with pytest.raises(RuntimeError, match="sparse"):
        fused(made).step()


def test_parameters_that_a_fused_optimizer_refuses_are_told() -> None:
    turned = nn.Parameter(torch.ones(2, dtype=torch.complex64))
    made = torch.optim.Adam([turned])
    assert optimizer_settings(made).why_not_fused == "parameters are not real"
    turned.grad = torch.ones_like(turned)
    with pytest.raises(RuntimeError, match="floating point"):
        fused(made).step()
    plain = [nn.Parameter(torch.ones(2))]
    assert optimizer_settings(torch.optim.Adam(plain)).why_not_fused == ""
    derived = torch.optim.Adam(plain, differentiable=True)
    assert optimizer_settings(derived).why_not_fused == "it is differentiable"
    with pytest.raises(RuntimeError, match="differentiable"):
        torch.optim.Adam(plain, differentiable=True, fused=True)


def test_few_steps_are_told_where_no_more_may_come_and_all_recorded_ones_are_added_up() -> None:
    spent = Spent()
    net = Net(spent, 1e-3, 1e-3)
    sgd, data = optimizer(net, spent), batches(spent, 1e-3)

    def step() -> None:
        net(next(data)).mean().backward()
        sgd.step()
        sgd.zero_grad()

    with watched(net) as watching:
        for _ in range(LEAST_STEPS - 2):
            step()
            assert watching.take() is None
        (told,) = watching.steps.messages(1.0, or_few=True)
        assert isinstance(told, TrainingStep)
        assert 1 <= told.recorded < LEAST_STEPS
        assert told.p50 > 0
        for _ in range(20):
            step()
        told = watching.take()
        assert told is not None
        assert told.loader == LoaderSettings(0, False, 0, 2)
        assert told.optimizer_settings == (OptimizerSettings("Sgd", None, None),)
        assert told.recorded_so_far == told.recorded + told.outliers
        assert len(told.seconds_so_far) == len(StepParts.__struct_fields__)
        whole = sum(told.seconds_so_far)
        assert isinstance(told.seconds, float)
        if not told.outliers:
            assert whole == pytest.approx(told.seconds * told.recorded)
        assert whole >= told.seconds * told.recorded * 0.999


def test_a_line_s_text_is_that_of_its_file(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("one = 1\n    loss.item()  \n" + "x" * 900 + "\n")
    linecache.checkcache()
    found = {
        one.line: one.text
        for one in LineShares()
        .of(
            [
                Placed(Sample(0.0, Line(function, file, number)), ("", ""))
                for function, file, number in (
                    *[("main", str(script), 2)] * 3,
                    ("main", str(script), 3),
                    ("f", "<a>", 4),
                )
            ]
        )
        .lines
    }
    assert found == {2: "loss.item()", 3: "x" * LONGEST_LINE, 4: ""}


@pytest.mark.skipif(not is_locked(), reason="Python runs without the GIL")
def test_the_delay_of_the_program_is_in_the_cost_of_a_sample_of_the_stack() -> None:
    sampler, taken = LineSampler(budget=1.0), []

    def has_some() -> bool:
        taken.extend(sampler.take())
        return len(taken) >= 3

    sampler.start(get_ident(), None)
    wait_until(has_some)
    cost = sampler.cost_seconds
    sampler.stop()
    assert cost > 2 * WAIT_SECONDS  # What the third one cost may not be told yet.


def test_the_stack_is_read_less_often_once_lines_are_known() -> None:
    first = pause_seconds(3e-4, 0.02, is_late=False)
    assert 3e-4 / first == pytest.approx(SHARE_OF_BUDGET * 0.02)
    assert 3e-4 / pause_seconds(3e-4, 0.02, is_late=True) == pytest.approx(SHARE_LATER * 0.02)
    assert pause_seconds(1e-9, 0.02, is_late=False) == pytest.approx(LEAST_PAUSE_SECONDS)


def test_the_stack_is_read_less_often_where_little_is_outside_the_named_parts() -> None:
    def share(other: float) -> float:
        return 3e-4 / pause_seconds(3e-4, 0.02, other, is_late=False) / 0.02

    assert share(1.0) == share(LARGE_OTHER) == pytest.approx(SHARE_OF_BUDGET)
    assert LARGE_OTHER <= LINE_SHARE, "lines of findings are sampled at the full rate"
    assert share(LARGE_OTHER / 2) == pytest.approx(SHARE_OF_BUDGET / 2)
    assert share(0.0) == pytest.approx(LEAST_FACTOR * SHARE_OF_BUDGET), "of slow steps"
    sampler = LineSampler(0.02)
    often = sampler._pause_seconds(3e-4)
    sampler.other_share = 0.0
    assert sampler._pause_seconds(3e-4) == pytest.approx(often / LEAST_FACTOR)
