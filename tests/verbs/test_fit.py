"""The verb ``fit``: what is predicted from two batches holds at the largest one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
from msgspec.structs import replace

from benchmarks.costs.published_latencies import FUSED, ROWS, beside
from screens.cli.main import main
from tests.worker import spec
from tui_profiler.messages import Request, TrainSpec, Unknown
from tui_profiler.queries.hardware.data_sheets import DataSheet, data_sheet
from tui_profiler.queries.hardware.fits import Fit, Need, cublas_bytes, fit, need_of
from tui_profiler.source.forked import Forked, Template
from tui_profiler.verbs.report import at_batches

SCHEMA = json.loads(Path("docs/fit.schema.json").read_text(encoding="utf-8"))
MB = 1e6


def sheet(memory_bytes: float) -> DataSheet:
    known = data_sheet("A100-80")
    assert known is not None
    fields = {name: getattr(known, name) for name in DataSheet.__struct_fields__}
    return DataSheet(**{**fields, "memory_bytes": memory_bytes})


def need(batch: int | None, **parts: float) -> Need:
    nothing = dict.fromkeys(("weights", "cache", "state", "activations", "convolution"), 0.0)
    return Need(batch=batch, **{**nothing, **parts})


LIBRARY = cublas_bytes(sheet(0))


@pytest.fixture(scope="module")
def template() -> Iterator[Template]:
    # As `report --all` does; else each worker imports them anew.
    with Template(("torchvision", "torch._dynamo", "tui_profiler.probe.worker.run")) as process:
        process.wait()
        yield process


@pytest.mark.parametrize("training", [False, True], ids=["forward", "step"])
def test_the_largest_batch_fits_and_one_more_does_not(training: bool, template: Template) -> None:
    def worker(request: Request) -> Forked:
        return Forked(template, [request])

    asked = spec("demo:cnn", batch=2, train=TrainSpec(optimizer="adamw") if training else None)
    sessions = asyncio.run(at_batches(asked, worker, progress=lambda _: None))
    needs = tuple(one for one in map(need_of, sessions) if isinstance(one, Need))
    assert [one.batch for one in needs] == [2, 32, 64]
    # AdamW has two numbers of each parameter; gradients are alive at the peak.
    assert (needs[0].state / needs[0].weights > 2.5) if training else needs[0].state == 0
    device = sheet(1.2e9)
    found = fit(needs, device, reserve=1e9)
    assert isinstance(found.largest_batch, int)
    assert found.largest_batch > 20
    largest = replace(asked, batch=found.largest_batch)
    (there,) = asyncio.run(at_batches(largest, worker, progress=lambda _: None, times=()))
    counted_there = need_of(there)
    assert isinstance(counted_there, Need)
    taken = counted_there.divided + counted_there.whole + LIBRARY
    per_item = taken / found.largest_batch
    assert taken <= found.free < taken + 1.5 * per_item


@pytest.mark.parametrize(
    ("name", "batch", "measured"),
    [("resnet18", 8, 136.81), ("mobilenet_v3_small", 16, 83.12), ("vit_b_16", 1, 371.31)],
)
def test_peaks_that_were_measured_on_a_gpu_are_predicted(
    name: str, batch: int, measured: float, template: Template
) -> None:
    """MiB, of torch's allocator on an H200: ``benchmarks/gpu/memory.py``."""
    asked = spec(name, batch=batch)
    [session] = asyncio.run(
        at_batches(
            asked, lambda request: Forked(template, [request]), progress=lambda _: None, times=()
        )
    )
    found = need_of(session)
    hopper = data_sheet("H200-SXM")
    assert isinstance(found, Need)
    assert hopper is not None
    predicted = found.divided + found.whole + cublas_bytes(hopper)
    assert predicted / 2**20 == pytest.approx(measured, rel=0.07)


def test_no_minimum_time_is_above_a_published_one(template: Template) -> None:
    asked = (("resnet50", "float32", 256), ("timm:resnet50", "float16", 1024))
    rows = tuple(row for row in ROWS if (row.model, row.dtype, row.batch) in asked)
    found = beside(rows, template)
    assert len({one.row.device for one in found}) == 4
    for one in found:
        assert one.fused <= one.eager
        assert 1 <= one.ratio < 3, one
    # What torch.compile gains is why there are two minimum times.
    compiled = [one for one in found if one.row.source in FUSED]
    assert compiled
    assert all(one.row.seconds < one.eager for one in compiled)


def test_figures_worked_out_by_hand() -> None:
    small = need(1, weights=100 * MB, activations=10 * MB, convolution=2 * MB)
    large = need(2, weights=100 * MB, activations=20 * MB, convolution=4 * MB)
    found = fit((small, large), sheet(1000 * MB + LIBRARY), reserve=100 * MB)
    assert found.need == 112 * MB + LIBRARY
    assert found.free == 900 * MB + LIBRARY
    assert found.largest_batch == 1 + 65  # (900 - 112) / 12.
    assert found.fits
    assert found.split is None


@pytest.mark.parametrize(("memory", "split"), [(651, 2), (351, 4), (201, 8), (150, None)])
def test_weights_cache_and_state_are_divided_and_activations_are_not(
    memory: int, split: int | None
) -> None:
    whole = need(1, weights=400 * MB, cache=200 * MB, state=600 * MB, activations=50 * MB)
    found = fit((whole,), sheet(memory * MB + LIBRARY), reserve=0)
    assert not found.fits
    assert found.split == split
    assert isinstance(found.largest_batch, Unknown)


def test_one_batch_alone_is_told_from_no_batch_axis() -> None:
    def why(batch: int | None) -> object:
        return fit((need(batch, weights=MB),), sheet(100 * MB), reserve=0).largest_batch

    assert why(None) == Unknown("its inputs have no batch axis")
    assert why(1) == Unknown("it could not be traced at larger batches")


def test_no_item_fits_beside_weights_that_are_too_large() -> None:
    small = need(1, weights=100 * MB, activations=10 * MB)
    large = need(2, weights=100 * MB, activations=20 * MB)
    assert fit((small, large), sheet(90 * MB), reserve=0).largest_batch == 0


def test_every_device_is_a_line_and_an_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "demo:cnn", "--on", "t4,H100-SXM", "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator(SCHEMA).validate(report)
    assert [one["name"] for one in report["devices"]] == ["T4", "H100-SXM"]
    slow, fast = report["devices"]
    assert slow["least"][0]["seconds"] > fast["least"][0]["seconds"] > 0
    assert slow["fits"] is True
    assert slow["largest_batch"] < fast["largest_batch"]
    assert report["batch"] == 1


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["demo:cnn", "--on", "H100"], "no data sheet of 'H100'; there are V100-SXM2, T4"),
        (["demo:cnn", "--on", ","], "no device is named"),
        (["demo:cnn", "--reserve", "1"], "is not a size such as"),
    ],
)
def test_what_cannot_be_done_is_refused(
    typed: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", *typed]) == 2
    assert said in capsys.readouterr().err


def test_a_fit_knows_whether_it_fits() -> None:
    assert Fit(10.0, 10.0, 1, None).fits
    assert not Fit(10.1, 10.0, 1, None).fits


def test_a_report_has_least_times_of_every_layer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "demo:cnn", "--on", "L4", "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    found = report["on"]
    assert found["name"] == "L4"
    assert [one["path"] for one in found["layers"]] == [one["path"] for one in report["layers"]]
    root, *inside = found["layers"]
    assert root["seconds"] == found["least"][0]["seconds"]
    assert root["seconds"] > root["fused_s"] == found["least"][0]["fused_s"] > 0
    blocks = [one for one in inside if "." not in one["path"] and "/" not in one["path"]]
    assert sum(one["seconds"] for one in blocks) <= root["seconds"] * (1 + 1e-9)
    assert root["energy_j"] == pytest.approx(72 * root["seconds"])
    assert main(["report", "demo:cnn", "--on", "L4", "--format", "text"]) == 0
    text = capsys.readouterr().out
    assert "on L4" in text
    assert "NVIDIA L4 Tensor Core GPU data sheet" in text


@pytest.mark.parametrize("with_on", [["--format", "csv"], ["--by", "class"]])
def test_what_has_no_device_refuses_one(
    with_on: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "demo:cnn", "--on", "L4", *with_on]) == 2
    assert "omit --on" in capsys.readouterr().err
