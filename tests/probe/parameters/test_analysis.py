"""Many tensors: of a model and of files, told one by one, stopped, in bounded memory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from tui_profiler.archive import structure_of
from tui_profiler.messages import (
    AnalyseParameters,
    Message,
    ParametersDone,
    ParametersProgress,
    ParametersStarted,
    TensorStatistics,
)
from tui_profiler.messages.model import Nodes, TraceDone, TraceStarted
from tui_profiler.messages.parameters import ParameterPart
from tui_profiler.probe.parameters.analysis import CHANGED, Analysis
from tui_profiler.probe.parameters.subjects import FileSubjects, Subject, subjects_of_model
from tui_profiler.probe.parameters.values import InMemory
from tui_profiler.probe.worker.parameters_only import tree_messages
from tui_profiler.queries.parameters.rollup import rolled_up
from tui_profiler.session import EMPTY, Session, apply

Parts = TraceStarted | Nodes | TraceDone


def analysed(
    subjects: list[Subject],
    request: AnalyseParameters | None = None,
    is_over: Callable[[], bool] = lambda: False,
    weights: str = "its own",
) -> list[Message]:
    said: list[Message] = []
    asked = request or AnalyseParameters(parts=())
    analysis = Analysis(subjects, weights, said.append, lambda: 1.0, asked)
    while not analysis.advance(0.05):
        if is_over():
            analysis.stop()
            break
    return said


def session_of(said: list[Message], tree: list[Parts]) -> Session:
    session = EMPTY
    for message in (*tree, *said):
        session = apply(session, message)
    return session


def by_name(said: list[Message]) -> dict[str, TensorStatistics]:
    return {one.name: one for one in said if isinstance(one, TensorStatistics)}


def done(said: list[Message]) -> ParametersDone:
    assert isinstance(said[-1], ParametersDone)
    return said[-1]


def model() -> nn.Module:
    torch.manual_seed(0)
    tied = nn.Sequential(nn.Embedding(50, 20), nn.Linear(20, 30), nn.Linear(30, 50, bias=False))
    tied.append(nn.Linear(20, 50, bias=False))
    tied[3].weight = tied[0].weight
    return tied.append(nn.BatchNorm1d(50))


def test_every_tensor_comes_once_and_tied_ones_have_figures_once() -> None:
    built = model()
    said = analysed(subjects_of_model(built))
    found = by_name(said)
    assert set(found) == {name for name, _ in built.state_dict().items()}
    assert found["3.weight"].shared_with == "0.weight"
    assert found["3.weight"].moments is None
    assert isinstance(said[0], ParametersStarted)
    whole = sum(t.numel() * t.element_size() for t in built.state_dict().values())
    read = whole - built[0].weight.numel() * 4
    assert (said[0].bytes, done(said).bytes, done(said).tensors) == (read, read, len(found) - 1)


def test_only_what_was_asked_for_is_looked_at() -> None:
    said = analysed(subjects_of_model(model()), AnalyseParameters("4", ()))
    assert {name.partition(".")[0] for name in by_name(said)} == {"4"}
    assert done(analysed(subjects_of_model(model()), AnalyseParameters("5", ()))).why


def test_random_weights_are_said_to_be_random() -> None:
    started = analysed(subjects_of_model(model()), weights="random")[0]
    assert isinstance(started, ParametersStarted)
    assert started.is_random


def test_the_model_and_torch_are_left_as_they_were() -> None:
    built = model()
    before = {name: value.clone() for name, value in built.state_dict().items()}
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    analysed(subjects_of_model(built), AnalyseParameters())
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in built.state_dict().items())


def test_what_is_stopped_says_so_and_keeps_what_came() -> None:
    subjects = subjects_of_model(nn.Sequential(*(nn.Linear(400, 400) for _ in range(40))))
    said = analysed(subjects, AnalyseParameters(threads=1), lambda: True)
    assert done(said).was_stopped
    assert len(by_name(said)) == done(said).tensors
    assert any(one.pending for one in by_name(said).values())


def test_progress_comes_at_once() -> None:
    large = nn.Module()
    large.weight = nn.Parameter(torch.zeros(10_000, 10_000))
    said = analysed(subjects_of_model(large), AnalyseParameters(parts=(), threads=1))
    first = next(one for one in said if isinstance(one, ParametersProgress))
    assert first.tensors == 0
    assert first.bytes < done(said).bytes / 2


def test_what_has_no_values_says_why() -> None:
    built = nn.ModuleList([nn.Linear(3, 3, device="meta"), nn.LazyLinear(3)])
    built.register_buffer("sparse", torch.eye(3).to_sparse())
    said = analysed(subjects_of_model(built))
    found = by_name(said)
    assert "meta" in found["0.weight"].why_none
    assert "initialised" in found["1.weight"].why_none
    assert "sparse" in found["sparse"].why_none
    assert not done(said).why


def test_a_tensor_that_is_written_to_is_read_again_once_and_then_has_no_figures() -> None:
    [subject] = subjects_of_model(nn.Linear(3, 30, bias=False))

    def read(versions: Iterator[int], parts: tuple[ParameterPart, ...] = ()) -> TensorStatistics:
        watched = replace(subject, version=lambda: next(versions))
        return by_name(analysed([watched], AnalyseParameters(parts=parts)))["weight"]

    # Before the first and the second time, and after each.
    again = read(iter((0, 1, 2, 2)))
    assert again.moments is not None
    assert read(count()).why_none == CHANGED
    # What was found in one pass stays; what was written to since then is not added to it.
    parts = read(iter((0, 0, 7)), ("channels",))
    assert parts.moments is not None
    assert (parts.channels, parts.whys) == (None, (("channels", CHANGED),))


def test_writing_to_a_tensor_is_seen_and_inference_tensors_have_no_versions() -> None:
    module = nn.BatchNorm1d(4)
    subjects = {one.told.name: one for one in subjects_of_model(module)}
    before = subjects["weight"].version()
    torch.optim.SGD(module.parameters(), 0.1).step()
    assert subjects["weight"].version() == before
    module(torch.randn(9, 4)).sum().backward()
    torch.optim.SGD(module.parameters(), 0.1).step()
    assert subjects["weight"].version() != before
    with torch.inference_mode():
        module.register_buffer("made", torch.ones(3))
    assert {one.told.name: one for one in subjects_of_model(module)}["made"].version() == 0


def test_all_tensors_are_read_once_before_more_is_looked_at_in_the_order_of_the_model() -> None:
    said = analysed(subjects_of_model(model()), AnalyseParameters(parts=("channels",), threads=1))
    told = [one for one in said if isinstance(one, TensorStatistics) and not one.shared_with]
    parameters = [name for name, _ in model().named_parameters()]
    assert [one.name for one in told if one.pending] == parameters
    assert [one.name for one in told[-len(parameters) :]] == parameters
    assert not any(one.pending for one in told[-len(parameters) :])


def test_a_buffer_that_a_forward_may_write_to_is_read_in_one_slice() -> None:
    module = nn.BatchNorm1d(20)
    [subject] = [one for one in subjects_of_model(module) if one.told.name == "running_mean"]
    slices, read_in = 0, []

    class Watched(InMemory):
        def pieces(self) -> Iterator[torch.Tensor]:
            while analysis._threads._is_open:  # The slice is over before the values are there.
                pass
            read_in.append(slices)
            yield from super().pieces()

        def block(self, start: int, stop: int) -> torch.Tensor:
            read_in.append(slices)
            return super().block(start, stop)

    watched = replace(subject, values=lambda: Watched(module.running_mean))
    asked = AnalyseParameters(parts=("spectral",), threads=1)
    said: list[Message] = []
    analysis = Analysis([watched], "", said.append, lambda: 1.0, asked)
    while not analysis.advance(0.001):
        slices += 1
    assert len(read_in) == 2
    assert len(set(read_in)) == 1


def test_the_time_left_is_what_is_left_of_the_work() -> None:
    large = nn.Sequential(*(nn.Linear(500, 500) for _ in range(12)))
    said: list[Message] = []
    asked = AnalyseParameters(threads=1)
    analysis = Analysis(subjects_of_model(large), "", said.append, lambda: 1.0, asked)
    analysis.tell(0.02)
    while not analysis.advance(0.01, 0.02):
        analysis.tell(0.02)
    told = [one for one in said if isinstance(one, ParametersProgress)]
    done = [one.done for one in told if one.done is not None]
    assert done == sorted(done)
    assert (done[0], {one.share for one in told}) == (0.0, {0.02})
    assert done[-1] > 0.8
    assert all(one.left_seconds for one in told)
    assert known_left(told[-1]) < known_left(told[0])


def known_left(progress: ParametersProgress) -> float:
    assert progress.left_seconds is not None
    return progress.left_seconds


def saved(folder: Path) -> tuple[Path, dict[str, torch.Tensor]]:
    made = torch.Generator().manual_seed(1)
    whole = torch.randn(300, 200, generator=made)
    state = {
        "a.weight": whole,
        "a.tied": whole,
        "b.weight": torch.randn(40, 30, generator=made).T,
        "b.half": torch.randn(99, 99, generator=made).bfloat16(),
        "norm.num_batches_tracked": torch.tensor(7),
    }
    torch.save(state, folder / "w.pt")
    return folder / "w.pt", state


def tree_of(path: Path) -> list[Parts]:
    return list(tree_messages(structure_of(path), "w"))


def test_a_file_is_read_where_its_values_lie(tmp_path: Path) -> None:
    path, state = saved(tmp_path)
    subjects = FileSubjects(structure_of(path))
    said = analysed(subjects.subjects, AnalyseParameters())
    subjects.close()
    found = by_name(said)
    assert set(found) == set(state)
    assert found["a.tied"].shared_with == "a.weight"
    for name in set(state) - {"a.tied"}:
        moments = found[name].moments
        assert moments is not None, found[name].why_none
        assert moments.mean == pytest.approx(state[name].double().mean().item(), abs=1e-12)
        assert found[name].alignment >= 64
    sums = rolled_up(session_of(said, tree_of(path)))[0]
    values = np.concatenate(
        [state[name].double().flatten().numpy() for name in ("a.weight", "b.weight", "b.half")]
    )
    assert (sums.sums.count, sums.tensors) == (values.size, 3)
    assert sums.sums.mean == pytest.approx(values.mean(), abs=1e-12)
    assert sums.std == pytest.approx(values.std(), rel=1e-9)
    away = (values - values.mean()) / values.std()
    assert sums.skewness == pytest.approx((away**3).mean(), abs=1e-9)
    assert sums.kurtosis == pytest.approx((away**4).mean() - 3, abs=1e-9)
    assert sums.l2 == pytest.approx(np.linalg.norm(values), rel=1e-9)


def test_shards_are_one_file(tmp_path: Path) -> None:
    save_file({"a.weight": torch.ones(30, 30)}, tmp_path / "model-00001-of-00002.safetensors")
    save_file({"b.weight": torch.zeros(9)}, tmp_path / "model-00002-of-00002.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(
        '{"metadata": {}, "weight_map": {"a.weight": "model-00001-of-00002.safetensors",'
        ' "b.weight": "model-00002-of-00002.safetensors"}}'
    )
    subjects = FileSubjects(structure_of(tmp_path))
    found = by_name(analysed(subjects.subjects))
    subjects.close()
    assert found["a.weight"].moments is not None
    assert found["b.weight"].moments is not None
    assert (found["a.weight"].moments.mean, found["b.weight"].moments.zeros) == (1.0, 9)


def test_a_file_that_is_cut_off_meanwhile_is_told_of_its_tensor(tmp_path: Path) -> None:
    save_file({"a": torch.ones(300, 300), "b": torch.ones(3)}, tmp_path / "w.safetensors")
    subjects = FileSubjects(structure_of(tmp_path / "w.safetensors"))
    with (tmp_path / "w.safetensors").open("r+b") as stream:
        stream.truncate(1000)
    said = analysed(subjects.subjects)
    subjects.close()
    assert "shorter" in by_name(said)["a"].why_none
    assert not done(said).why


UNDER_A_LIMIT = """
import resource, sys
from pathlib import Path
import torch
from tui_profiler.archive import structure_of
from tui_profiler.messages import AnalyseParameters, TensorStatistics
from tui_profiler.probe.parameters.analysis import Analysis
from tui_profiler.probe.parameters.subjects import FileSubjects

subjects = FileSubjects(structure_of(Path(sys.argv[1])))
held = next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if "VmData" in line)
resource.setrlimit(resource.RLIMIT_DATA, (held + int(sys.argv[2]),) * 2)
said = []
asked = AnalyseParameters(threads=1)
analysis = Analysis(subjects.subjects, "its own", said.append, lambda: 0.0, asked)
while not analysis.advance(0.05):
    pass
for one in said:
    if isinstance(one, TensorStatistics) and not one.pending:
        assert one.moments is not None, one.why_none
        print(one.name, one.moments.mean, one.spectral.norm, one.whys)
try:
    torch.load(sys.argv[1], weights_only=True)
    print("it could be loaded whole: the limit is none")
except (MemoryError, RuntimeError):
    pass
"""


def test_a_file_of_twice_the_allowed_memory_is_looked_at_whole(tmp_path: Path) -> None:
    row, column = torch.ones(4096, 1), torch.ones(1, 5120)
    noise = torch.randn(4096, 5120, generator=torch.Generator().manual_seed(1))
    state = {"large": row @ column + 0.1 * noise, "small": row @ column[:, :2048] * 0.5}
    torch.save(state, tmp_path / "w.pt")
    size = (tmp_path / "w.pt").stat().st_size
    ran = subprocess.run(
        [sys.executable, "-c", UNDER_A_LIMIT, str(tmp_path / "w.pt"), str(size // 2)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},  # Each thread has memory of its own.
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    lines = [line.split(maxsplit=3) for line in ran.stdout.splitlines()]
    assert sorted(line[0] for line in lines) == ["large", "small"], ran.stdout
    for name, mean, norm, whys in lines:
        exact = torch.linalg.vector_norm(state[name].double().T @ torch.ones(4096).double()) / 64
        assert float(mean) == pytest.approx(state[name].double().mean().item(), rel=1e-9)
        assert float(norm) == pytest.approx(exact.item(), rel=1e-3)
        assert whys == "()"
