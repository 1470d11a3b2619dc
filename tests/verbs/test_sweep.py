"""The verb ``sweep``: its order, what it asks for, what fails, how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from msgspec.structs import replace

from screens.cli.main import main
from tests.queries.sweeps import AT, BATCHES
from tests.recorded_source import Recorded
from tests.small_model import FACTS, MEASURED, SAMPLE, TRACED
from tui_profiler import messages
from tui_profiler.queries.sweep import Axis, Point, Sweep, points, results, with_sequence
from tui_profiler.verbs.sweep import estimated_seconds, exit_code, spec_at, sweep, turns

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "docs" / "sweep.schema.json").read_text())
BATCH = Sweep("net.py:build", (Axis("batch", BATCHES),), 2, 4.0, True)
SPEC = messages.LoadSpec("net.py:build")
TOO_MUCH = "out of memory: tried to allocate 40 GiB"


class Workers:
    """Return a source for each request, and remembers what was asked."""

    def __init__(self, refused: tuple[int, ...] = (), stage: str = "run") -> None:
        self.asked: list[messages.LoadSpec] = []
        self._refused, self._stage = refused, stage

    def begin(self, request: messages.Request) -> Recorded:
        assert isinstance(request, messages.Start)
        self.asked.append(request.spec)
        batch = request.spec.batch
        told: tuple[messages.Message, ...] = MEASURED
        if batch in self._refused:
            less = messages.Remedy("--batch 1", "the least memory")
            told = (*TRACED, messages.Failed(self._stage, TOO_MUCH, remedies=(less,)))
        return Recorded([_with_batch(message, batch) for message in told])


def _with_batch(message: messages.Message, batch: int | None) -> messages.Message:
    return replace(message, batch=batch) if isinstance(message, messages.ModelFacts) else message


async def swept(workers: Workers, wanted: Sweep = BATCH) -> tuple[Sweep, list[str]]:
    lines: list[str] = []
    found = await sweep(
        wanted,
        SPEC,
        workers.begin,
        seconds=10.0,
        now=lambda: float(len(workers.asked)),
        progress=lines.append,
        kept=lambda _: None,
    )
    return found, lines


def test_every_second_round_goes_backwards() -> None:
    there, back = (0, 1, 2), (2, 1, 0)
    found = [place for _, place in turns(3, 3)]
    assert found == [*there, *back, *there]
    assert [turn for turn, _ in turns(3, 2)] == [0, 0, 0, 1, 1, 1]


def test_several_axes_are_their_product() -> None:
    axes = (Axis("batch", (1, 2)), Axis("dtype", ("float32", "bfloat16")))
    assert [point.values for point in points(axes)] == [
        *[(1, "float32"), (1, "bfloat16")],
        *[(2, "float32"), (2, "bfloat16")],
    ]


async def test_each_point_is_asked_for_in_each_round_with_its_part_of_the_seconds() -> None:
    workers = Workers()
    found, lines = await swept(workers)
    assert [spec.batch for spec in workers.asked] == [*BATCHES, *reversed(BATCHES)]
    assert {spec.seconds for spec in workers.asked} == {2.0}
    assert [one.state for one in results(found)] == ["measured"] * 5
    assert lines[0] == "1/10 batch 1: 1.00 ms per forward; about 0m 09s left"
    assert exit_code(found) == 0


async def test_a_point_that_fails_is_told_once_and_the_others_go_on() -> None:
    workers = Workers(refused=(8,))
    found, _ = await swept(workers)
    assert [spec.batch for spec in workers.asked].count(8) == 1
    failed = results(found)[AT[8]]
    assert (failed.state, failed.failure) == ("failed", f"run: {TOO_MUCH}")
    assert failed.remedy == "--batch 1: the least memory"
    assert [one.state for one in results(found)].count("measured") == 4
    assert exit_code(found) == 1


async def test_a_model_that_cannot_be_loaded_is_not_tried_at_every_point() -> None:
    workers = Workers(refused=BATCHES, stage="load model")
    found, _ = await swept(workers)
    assert len(workers.asked) == 2
    assert [one.state for one in results(found)] == ["failed", "failed", *["not reached"] * 3]


async def test_what_does_not_fit_by_its_peak_on_paper_is_not_run() -> None:
    """The small model takes 13,272 bytes at its peak; 1,000 are free."""
    full = replace(SAMPLE, memory_bytes=2**33 - 1000, process_bytes=0.0)
    source = Recorded((SAMPLE, full, *TRACED))
    found = await sweep(
        Sweep("net.py:build", (Axis("batch", (1,)),), 1, 1.0, True),
        SPEC,
        lambda _: source,
        seconds=10.0,
        now=lambda: 0.0,
        progress=lambda _: None,
        kept=lambda _: None,
    )
    (visit,) = found.visits
    assert visit.failure == "predicted peak 13.0 KiB, free memory 0.98 KiB: not run"


async def test_inputs_without_a_batch_axis_are_no_point() -> None:
    found = await sweep(
        Sweep("net.py:build", (Axis("batch", (4,)),), 1, 1.0, True),
        SPEC,
        lambda _: Recorded([_with_batch(message, None) for message in MEASURED]),
        seconds=10.0,
        now=lambda: 0.0,
        progress=lambda _: None,
        kept=lambda _: None,
    )
    assert found.visits[0].failure == "its inputs have no batch axis"
    assert exit_code(found) == 2


async def test_a_worker_that_says_nothing_more_is_stopped() -> None:
    found = await sweep(
        Sweep("net.py:build", (Axis("threads", (1,)),), 1, 1.0, True),
        SPEC,
        lambda _: Recorded(TRACED),
        seconds=0.05,
        now=lambda: 0.0,
        progress=lambda _: None,
        kept=lambda _: None,
    )
    assert found.visits[0].failure == "stopped after 50.0 ms"


def test_the_time_is_estimated_before_and_from_what_was_seen() -> None:
    assert estimated_seconds(BATCH) == 10 * (6.0 + 2.0)
    on_paper = replace(BATCH, runs=False, rounds=1)
    assert estimated_seconds(on_paper) == 5 * 6.0


def test_a_sequence_changes_every_input_that_is_as_long() -> None:
    inputs = (
        messages.InputSpec("ids", (2, 16), "int64", "first embedding"),
        messages.InputSpec("mask", (2, 16), "bool", "first embedding"),
        messages.InputSpec("image", (2, 3, 32, 32), "float32", "first convolution"),
    )
    assert with_sequence(inputs, 64, 2) == (
        "ids=2,64:int64",
        "mask=2,64:bool",
        "image=2,3,32,32:float32",
    )


def test_the_sequence_is_first_where_the_batch_is_second() -> None:
    inputs = (
        messages.InputSpec("x", (9, 4, 8), "float32", "its own example_inputs"),
        messages.InputSpec("state", (1, 4, 8), "float32", "its own example_inputs"),
    )
    assert with_sequence(inputs, 64, 4) == ("x=64,4,8:float32", "state=1,4,8:float32")
    why = messages.Unknown("no batch axis was found: aten::index_add combines")
    assert with_sequence(inputs, 64, why) == messages.Unknown(
        f"which axis is the sequence is not known: {why.reason}"
    )


def test_an_image_has_no_sequence_axis() -> None:
    assert with_sequence(FACTS.inputs, 64, 1) == messages.Unknown(
        "no input has a sequence axis: their shapes are 1×3×8×8"
    )
    wanted = Sweep("x", (Axis("sequence", (64,)),), 1, 1.0, True)
    asked = spec_at(SPEC, wanted, Point((64,)), FACTS)
    assert isinstance(asked, messages.Unknown)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "An axis is needed"),
        (["--batch", "1,x"], "is not a valid integer"),
        (["--batch", "1,,2"], "is not a list such as 1,2,4"),
        (["--batch", "0"], "0 is not in the range"),
        (["--threads", ",".join(map(str, range(1, 202)))], "201 points and 200 are the most"),
    ],
)
def test_rubbish_is_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", "demo:cnn", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_real_model_follows_the_schema() -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tui_profiler", "sweep", "demo:cnn", "--batch", "4"),
            *("--rounds", "1", "--seconds", "0.3", "--format", "json"),
        ],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    (four,) = found["points"]
    assert four["settings"] == {"batch": 4}
    latency = four["latency"]["p50_s"]
    # Far less where another program takes the core between forwards, which no median shows.
    assert 0.02 * 4 / latency < four["throughput"]["per_s"] < 1.5 * 4 / latency
    assert four["memory"]["process_bytes"] > 2**26
    assert "1 point (batch) in 1 round, 0.3 s of running a point; about " in done.stderr
