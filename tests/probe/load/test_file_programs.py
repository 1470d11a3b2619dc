"""TorchScript and torch.export archives: loaded, given inputs, traced module by module."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torchvision.models import resnet18, swin_t

from tests.probe.trace.traced import cost_at, paths, traced
from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.common.errors import LoadError
from tui_profiler.probe.load.common.loaded_model import Loaded
from tui_profiler.probe.load.load import load
from tui_profiler.probe.measure.clock.aggregate import Aggregator
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.torch_compat.modules import SCRIPTED
from tui_profiler.probe.trace.trace import Trace, trace

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*deprecated:FutureWarning")


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(100, 16)
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(3))
        self.steps = 0

    def forward(self, words: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
        value = self.table(words)
        sizes: list[int] = []
        for layer in self.layers:
            value = torch.relu(layer(value)) * scale
            sizes.append(value.shape[1])
        self.steps += 1
        result: torch.Tensor = value if sum(sizes) > 0 else value + 1
        return result


def scripted(model: nn.Module, folder: Path, **options: object) -> Loaded:
    torch.jit.save(torch.jit.script(model.eval()), folder / "m.pt")
    return load(LoadSpec("m.pt", folder=str(folder), **options))  # type: ignore[arg-type]


def trace_of(loaded: Loaded) -> Trace:
    return trace(loaded.model, tuple(loaded.candidates))


@pytest.mark.parametrize("build", [resnet18, swin_t])
def test_a_scripted_model_costs_what_it_was_scripted_from(
    build: Callable[[], nn.Module], tmp_path: Path
) -> None:
    model = build()
    by_script = trace_of(scripted(model, tmp_path))
    by_python = traced(model, torch.randn(1, 3, 224, 224))
    assert by_script.inputs.specs[0].shape == (1, 3, 224, 224)
    assert by_script.method == "dispatch:fake"
    for path in paths(by_python):
        ours, theirs = cost_at(by_script, path), cost_at(by_python, path)
        assert (ours.macs, ours.flops, ours.parameters) == (
            theirs.macs,
            theirs.flops,
            theirs.parameters,
        )
    assert by_script.nodes[0].type == type(model).__name__
    assert by_script.nodes[0].note == SCRIPTED
    inner = [node for node in by_script.nodes if node.kind == "module"][-1]
    assert "only the model around it is timed" in inner.note


def test_loops_lists_and_defaults_are_walked_and_leave_the_model_as_it_was(tmp_path: Path) -> None:
    loaded = scripted(Words(), tmp_path)
    made = trace_of(loaded)
    assert made.inputs.specs[0].dtype == "int64"
    tokens = made.inputs.specs[0].shape[1]
    assert cost_at(made, "layers.1").macs == 16 * 16 * tokens
    assert loaded.model.steps == 0


def test_a_frozen_model_is_given_the_image_that_its_graph_takes(tmp_path: Path) -> None:
    torch.jit.save(torch.jit.freeze(torch.jit.script(resnet18().eval())), tmp_path / "m.pt")
    made = trace_of(load(LoadSpec("m.pt", folder=str(tmp_path))))
    assert made.inputs.specs[0].shape == (1, 3, 224, 224)
    assert made.costs[0].macs == 1_814_073_344


def exported(folder: Path, **options: object) -> Loaded:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Sequential(nn.ReLU(), nn.Conv2d(4, 2, 1)))
    batch = torch.export.Dim("batch", min=1, max=8)
    program = torch.export.export(
        model.eval(), (torch.randn(2, 3, 8, 8),), dynamic_shapes=({0: batch},)
    )
    torch.export.save(program, folder / "m.pt2")
    return load(LoadSpec("m.pt2", folder=str(folder), **options))  # type: ignore[arg-type]


def test_an_exported_program_has_its_modules_and_its_own_inputs(tmp_path: Path) -> None:
    made = trace_of(exported(tmp_path))
    # (channels out) x (pixels out) x (channels in x kernel), twice, for a batch of two
    assert made.costs[0].macs == 2 * 36 * (4 * 27 + 2 * 4)
    assert [node.type for node in made.nodes if node.path == "1.1"] == ["Conv2d"]
    assert cost_at(made, "1").macs == 2 * 36 * 2 * 4
    assert made.inputs.batch == 2


def test_a_free_batch_axis_is_free_within_its_range(tmp_path: Path) -> None:
    assert trace_of(exported(tmp_path, batch=5)).costs[0].macs == 5 * 36 * (4 * 27 + 2 * 4)
    with pytest.raises(LoadError, match="batches of 1 to 8, not 9"):
        trace_of(exported(tmp_path, batch=9))


def _changed(path: Path, member: str, change: Callable[[bytes], bytes]) -> None:
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(name, change(content) if name.endswith(member) else content)


def _with_expression(content: bytes) -> bytes:
    graph = json.loads(content)
    text = json.dumps(graph)
    symbol = next(iter(graph["range_constraints"]))
    evil = f"Symbol('{symbol}')*len(open('stepped_into', 'w').name)"
    return text.replace(f"Symbol('{symbol}', positive=True, integer=True)", evil).encode()


def _with_call(content: bytes) -> bytes:
    return content.replace(b"torch.ops.aten.relu.default", b"torch.hub.load")


@pytest.mark.parametrize("change", [_with_expression, _with_call])
def test_an_archive_that_would_run_code_is_refused(
    change: Callable[[bytes], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    exported(tmp_path)
    _changed(tmp_path / "m.pt2", "models/model.json", change)
    with pytest.raises(LoadError, match="needs --trust: it contains"):
        load(LoadSpec("m.pt2", folder=str(tmp_path)))
    assert not (tmp_path / "stepped_into").exists()


def test_a_scripted_model_runs_under_the_clock(tmp_path: Path) -> None:
    loaded = scripted(Words(), tmp_path)
    made = trace_of(loaded)
    clock = ModuleClock(loaded.model)
    aggregator = Aggregator(made.nodes, loaded.model, batch=1)
    clock.install()
    try:
        clock.recording = True
        for _ in range(3):
            loaded.model(*made.inputs.args)
    finally:
        clock.uninstall()
    aggregator.add(clock.take())
    assert aggregator.tick(0.0, 0).nodes[:4] in (b"", b"\0\0\0\0")


class Saver(nn.Module):
    def __init__(self, canary: str) -> None:
        super().__init__()
        self.canary = canary

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.save(x, self.canary)
        return x


@pytest.mark.parametrize("is_replaced", [True, False])
def test_what_is_loaded_is_the_file_that_was_checked(
    is_replaced: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, evil = tmp_path / "m.pt", tmp_path / "evil.pt"
    # Ultralytics replaces it, once imported, by what TorchScript cannot compile.
    monkeypatch.setattr(torch, "save", torch.serialization.save)
    torch.jit.save(torch.jit.script(nn.Sequential(nn.Linear(3, 3))), file)
    torch.jit.save(torch.jit.script(Saver(str(tmp_path / "canary"))), evil)
    loads = torch.jit.load

    def changing(*args: object, **named: object) -> object:
        """Another program is in time to change the file between our check and torch's load."""
        if is_replaced:
            evil.replace(file)
        else:
            file.write_bytes(evil.read_bytes())
        return loads(*args, **named)  # type: ignore[no-untyped-call, arg-type]

    monkeypatch.setattr(torch.jit, "load", changing)
    if is_replaced:
        loaded = load(LoadSpec("m.pt", folder=str(tmp_path)))
        assert [tuple(p.shape) for p in loaded.model.parameters()] == [(3, 3), (3,)]
    else:
        with pytest.raises(LoadError, match="was changed while it was read"):
            load(LoadSpec("m.pt", folder=str(tmp_path)))


def test_an_exported_file_that_is_replaced_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = (torch.ones(2, 3),)
    for name, width in (("m", 5), ("other", 7)):
        program = torch.export.export(nn.Linear(3, width), example)
        torch.export.save(program, tmp_path / f"{name}.pt2")
    loads = torch.export.load

    def changing(stream: object) -> object:
        (tmp_path / "m.pt2").write_bytes((tmp_path / "other.pt2").read_bytes())
        return loads(stream)  # type: ignore[arg-type]

    monkeypatch.setattr(torch.export, "load", changing)
    with pytest.raises(LoadError, match="was changed while it was read"):
        load(LoadSpec("m.pt2", folder=str(tmp_path)))
