"""ONNX files: what torch.onnx writes, read by onnx itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy
import onnx
import pytest
import torch
from onnx.reference import ReferenceEvaluator

from tui_profiler.messages import Exported, ExportOnnx, LoadSpec
from tui_profiler.probe.load.common.errors import LoadError
from tui_profiler.probe.measure.energy.meter import EnergyWatch
from tui_profiler.probe.worker.failures import StageError
from tui_profiler.probe.worker.onnx import export_onnx

MODELS = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.fc, self.unused = nn.Linear(256, 10), nn.Linear(2, 2)
        self.tied = nn.Linear(256, 10)
        self.tied.weight = self.fc.weight

    def forward(self, image):
        x = torch.relu(self.norm(self.conv(image))).flatten(1)
        return self.fc(x) + self.tied(x)


class Depends(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum().item() > 0 else x / 3


def net():
    torch.manual_seed(1)
    return Net()


def depends():
    return Depends()
"""


class Quiet:
    """Stages that no one is told of."""

    energy = EnergyWatch()

    def __init__(self) -> None:
        self.done: list[str] = []

    def now(self) -> float:
        return 0.0

    def rest(self) -> None:
        pass

    @contextmanager
    def stage(self, stage: str, detail: str = "") -> Iterator[list[str]]:
        yield []
        self.done.append(stage)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("onnx")
    (made / "nets.py").write_text(MODELS)
    return made


@pytest.fixture(scope="module")
def exported(folder: Path) -> Exported:
    stages = Quiet()
    found = export_onnx(request(folder, "net", "net.onnx"), stages)
    assert stages.done == ["load model", "trace", "export"]
    return found


def request(folder: Path, factory: str, file: str) -> ExportOnnx:
    spec = LoadSpec(f"nets.py:{factory}", inputs=("1,3,8,8",), folder=str(folder))
    return ExportOnnx(spec, file)


def test_the_file_is_whole_and_told_as_it_is(folder: Path, exported: Exported) -> None:
    model = onnx.load(folder / "net.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert exported.path == str(folder / "net.onnx")
    assert exported.files == ("net.onnx",)
    assert exported.bytes == (folder / "net.onnx").stat().st_size
    assert exported.opset == model.opset_import[0].version
    assert exported.operators == len(model.graph.node)
    sizes = [numpy.prod(one.dims) for one in model.graph.initializer]
    assert exported.values_in_file == sum(sizes)
    assert exported.inputs == ("image FLOAT [1,3,8,8]",)


def test_it_computes_what_the_model_computes(folder: Path, exported: Exported) -> None:
    from tui_profiler.probe.load.load import load

    model = load(request(folder, "net", "").spec).model
    image = torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(2))
    (given,) = ReferenceEvaluator(str(folder / "net.onnx")).run(None, {"image": image.numpy()})
    with torch.no_grad():
        wanted = model(image).numpy()
    numpy.testing.assert_allclose(given, wanted, rtol=1e-4, atol=1e-5)


def test_parameters_are_compared_by_name_and_shared_ones_once(exported: Exported) -> None:
    # 4·3·3·3 + 4 + 4 + 256·10 + 10 + 10, and 2·2 + 2 that nothing reads.
    assert exported.parameters_in_file == 108 + 8 + 2560 + 20
    assert exported.parameters == exported.parameters_in_file + 6
    assert exported.missing == ("unused.weight", "unused.bias")


def test_what_cannot_be_exported_is_one_sentence_and_leaves_no_file(folder: Path) -> None:
    (folder / "kept.onnx").write_bytes(b"what was there")
    with pytest.raises(Exception, match="could not write this model: ") as error:
        export_onnx(request(folder, "depends", "kept.onnx"), Quiet())
    failed = error.value.failed  # type: ignore[attr-defined]  # StageError's
    assert failed.stage == "export"
    assert "\n" not in failed.what
    assert (folder / "kept.onnx").read_bytes() == b"what was there"
    assert not [one for one in folder.iterdir() if one.name.startswith(".onnx-")]


def test_a_version_that_torch_does_not_write_is_refused(folder: Path) -> None:
    asked = ExportOnnx(request(folder, "net", "").spec, "old.onnx", 99)
    with pytest.raises(StageError, match="has no opset 99 for this model: it wrote") as error:
        export_onnx(asked, Quiet())
    assert error.value.failed.bad_argument
    assert not (folder / "old.onnx").exists()


@pytest.mark.parametrize("absent", ["onnx", "onnxscript"])
def test_without_its_packages_it_says_what_to_install(
    folder: Path, absent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(LoadError) as error:
        export_onnx(request(folder, "net", "x.onnx"), Quiet())
    failed = error.value.failed
    assert failed.what == f"ONNX files need the package {absent}, which is not installed"
    assert failed.remedies[0].command == "pip install 'tui-profiler[onnx]'"
    assert failed.bad_argument
