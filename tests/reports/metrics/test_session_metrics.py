"""Metrics of a session: figures of the JSON report, read by Prometheus's own parsers."""

from __future__ import annotations

import json
import re
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from urllib.request import Request, urlopen

import pytest
import torch
from msgspec.structs import replace
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as plain_text

from benchmarks.watching.prometheus import expressions
from tests.generation_session import GENERATION
from tests.machine_session import FULL, GPU
from tests.reports.test_step import STEP, measured
from tests.small_model import MEASURED, TRACED, folded
from tui_profiler import messages
from tui_profiler.messages import EccErrors, Unknown
from tui_profiler.reports.json.report import as_json
from tui_profiler.reports.metrics.session_metrics import METRICS, PREFIX, session_metrics
from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.verbs.export import Latest, serve

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


THREAD = messages.ThreadTime(1.0, 0.9, 0.1, 0.0, 0.0, 0.0, 0.0)
MACHINE = replace(FULL, gpus=(replace(GPU, index=0),), package_watts=61.0)


def everything() -> Session:
    """Return a made-up session in which each metric of the dashboard is known."""
    session = measured(replace(STEP, tokens=512.0))
    assert session.tick is not None
    running = messages.LoopState("running", 5.0, 1)
    for message in (running, replace(session.tick, thread=THREAD), MACHINE, GENERATION):
        session = apply(session, message)
    return session


def values(session: Session, top: int = 20) -> dict[str, float]:
    """Return the value of each metric without labels, by its name without the prefix."""
    return {
        metric.name.removeprefix(PREFIX): samples[0].value
        for metric, samples in session_metrics(session, top=top).items()
        if not metric.labels
    }


def fetched(session: Session, accept: str) -> str:
    latest = Latest(20)
    latest.session = session
    port, close = serve(latest, "127.0.0.1", 0)
    try:
        request = Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept": accept})
        with urlopen(request, timeout=60) as answer:
            text: str = answer.read().decode()
            return text
    finally:
        close()


def test_figures_are_those_of_the_report() -> None:
    session = measured()
    report, found = as_json(session), values(session)
    step, latency = report["step"], report["latency"]
    assert isinstance(step, dict)
    assert isinstance(latency, dict)
    assert found["step_mean_seconds"] == step["mean_s"]
    assert found["steps"] == step["count"]
    assert found["forward_mean_seconds"] == latency["mean_s"]
    assert found["forward_p95_seconds"] == latency["p95_s"] != latency["p50_s"]
    parts = {
        dict(sample.labels)["part"]: sample.value
        for metric, samples in session_metrics(session, top=20).items()
        for sample in samples
        if metric.labels == ("part",)
    }
    told = {name: part["mean_s"] for name, part in step["parts"].items() if part is not None}
    assert parts == told
    assert "transfer" not in parts  # Not seen: no sample, and no 0.


def test_temperatures_fans_and_ecc_errors_are_told_apart() -> None:
    told = replace(GPU, ecc=EccErrors(3.0, Unknown("not told"), 103.0, 113.0))
    session = apply(measured(), replace(FULL, gpus=(GPU,)))
    found = {
        (metric.name.removeprefix(PREFIX), *(value for _, value in sample.labels)): sample.value
        for metric, samples in session_metrics(session, top=1).items()
        for sample in samples
    }
    assert found["cpu_temperature_celsius", "Package id 0"] == 71.5
    assert found["gpu_fan_ratio", "0", GPU.name] == 0.42
    assert found["gpu_ecc_errors", "0", GPU.name, "corrected"] == 3
    assert found["gpu_ecc_errors", "0", GPU.name, "uncorrected"] == 13
    without = session_metrics(apply(measured(), replace(FULL, gpus=(told,))), top=1)
    kinds = {
        sample.labels[-1]
        for metric, samples in without.items()
        for sample in samples
        if metric.name == f"{PREFIX}gpu_ecc_errors"
    }
    assert kinds == {("kind", "corrected")}


def test_what_is_not_known_has_no_sample() -> None:
    assert set(values(EMPTY)) == {"up"}
    on_paper = values(folded(TRACED))
    assert on_paper["up"] == 1
    assert not {name for name in on_paper if name.startswith(("forward", "step", "module"))}


def test_it_is_down_once_the_program_has_ended() -> None:
    session = folded(MEASURED)
    assert values(session)["up"] == 1
    ended = apply(session, messages.Ended(0, True, "", 1, 1.0))
    assert values(ended)["up"] == 0


@pytest.mark.parametrize("top", [1, 2])
def test_modules_are_those_with_most_self_time(top: int) -> None:
    found = session_metrics(folded(MEASURED), top=top)
    (samples,) = (one for metric, one in found.items() if metric.name.endswith("self_seconds"))
    assert len(samples) == top
    report = as_json(folded(MEASURED))["layers"]
    assert isinstance(report, list)
    own = [
        one["timing"]["self_mean_s"] for one in report if one["kind"] == "module" and one["timing"]
    ]
    assert [one.value for one in samples] == sorted(own, reverse=True)[:top]


RUNNING = messages.LoopState("running", 5.0, 1)


def heard(at: float, session: Session) -> Session:
    return apply(session, messages.Heartbeat(at, 0.0))


def test_a_rate_is_of_forwards_whatever_their_batch() -> None:
    session = apply(folded(MEASURED), RUNNING)
    assert session.model is not None
    assert session.tick is not None
    eight = replace(session, model=replace(session.model, batch=8))
    without = replace(session, model=replace(session.model, batch=None))
    assert values(eight)["forwards_per_second"] == session.tick.per_second / 8
    assert values(without)["forwards_per_second"] == session.tick.per_second


def test_a_rate_is_0_once_there_has_been_no_forward_for_a_while() -> None:
    since = folded(MEASURED)
    waits = apply(since, messages.LoopState("waiting", 100.0, 1))
    rate = values(apply(since, RUNNING))["forwards_per_second"]
    assert rate > 1
    assert values(heard(104.0, waits))["forwards_per_second"] == rate
    later = values(heard(106.0, waits))
    assert later["forwards_per_second"] == 0
    assert later["forward_mean_seconds"] > 0  # Of the last forwards, whenever they were.
    assert "forwards_per_second" not in values(since)  # Its loop has finished.


def test_rates_of_steps_are_0_once_there_has_been_none_for_a_while() -> None:
    told = replace(STEP, at=100.0, per_second=0.5, items=4.0, tokens=Unknown("none"))
    session = apply(measured(told), RUNNING)  # Forwards of an evaluation, say.
    assert values(heard(105.9, session))["steps_per_second"] == 0.5  # It may be a longer one.
    stopped = values(heard(106.1, session))
    assert stopped["steps_per_second"] == stopped["step_items_per_second"] == 0
    assert "step_tokens_per_second" not in stopped
    assert stopped["step_mean_seconds"] == 2.0


def test_what_is_of_this_moment_has_no_sample_once_nothing_is_heard() -> None:
    now = [0.0]
    latest = Latest(20, lambda: now[0])
    latest.session = apply(apply(measured(), MACHINE), RUNNING)
    moment = {"forwards_per_second", "steps_per_second", "package_watts", "process_cores"}

    def names() -> set[str]:
        return {metric.name.removeprefix(PREFIX) for metric in latest.metrics()}

    assert moment <= names()
    now[0] = 5.5
    assert not moment & names()
    assert {"up", "forward_mean_seconds", "forwards", "module_self_seconds"} <= names()
    latest.session = latest.session
    assert moment <= names()


def test_the_last_export_of_a_program_that_ended_has_no_rate() -> None:
    session = apply(apply(measured(), MACHINE), RUNNING)
    ended = values(apply(session, messages.Ended(0, True, "", 1, 1.0)))
    assert not {"forwards_per_second", "steps_per_second", "process_cores"} & set(ended)
    assert ended["steps"] == 100


@pytest.mark.parametrize(
    ("accept", "read"), [(OPEN_METRICS, open_metrics), ("text/plain", plain_text)]
)
def test_both_of_prometheus_parsers_read_it(accept: str, read: object) -> None:
    session = apply(measured(), replace(FULL, gpus=(replace(GPU, index=1),)))
    text = fetched(session, accept)
    families = {family.name: family for family in read(text)}  # type: ignore[operator]
    assert families[f"{PREFIX}step_mean_seconds"].samples[0].value == 2.0
    assert families[f"{PREFIX}gpu_power_watts"].samples[0].labels["gpu"] == "1"
    assert {family.type for family in families.values()} == {"gauge", "counter"}
    known = {metric.name for metric in METRICS}
    assert set(families) <= known


def test_hostile_names_are_labels_and_nothing_else() -> None:
    name = 'a"} 1\nevil{x="\x1b[31m\\'

    def renamed(said: messages.Message) -> messages.Message:
        if not isinstance(said, messages.Nodes):
            return said
        nodes = (replace(one, path=name) if one.path == "conv" else one for one in said.nodes)
        return replace(said, nodes=tuple(nodes))

    text = fetched(folded(tuple(map(renamed, MEASURED))), OPEN_METRICS)
    (found,) = {
        sample.labels["path"]
        for family in open_metrics(text)
        for sample in family.samples
        if "evil" in sample.labels.get("path", "")
    }
    assert "\x1b" not in text
    assert "\n" not in found
    assert not re.search("^evil", text, re.MULTILINE)


def test_names_say_their_unit_and_are_documented() -> None:
    text = Path("docs/export.md").read_text(encoding="utf-8")
    for metric in METRICS:
        assert not metric.unit or metric.name.endswith(f"_{metric.unit}")
        total = "_total" if metric.kind == "counter" else ""
        assert f"`{metric.name}{total}`" in text, metric.name


def test_every_expression_of_the_documents_has_samples() -> None:
    samples = {
        sample.name: sample.labels
        for family in open_metrics(fetched(everything(), OPEN_METRICS))
        for sample in family.samples
    }
    for place, expression in expressions():
        names = re.findall(rf"{PREFIX}\w+", expression)
        assert names, place
        for name in names:
            assert name in samples, f"{place}: no sample of {name}"


def test_legends_of_the_dashboard_name_labels_that_there_are() -> None:
    dashboard = json.loads(Path("docs/grafana-dashboard.json").read_text(encoding="utf-8"))
    labels = {f"{one.name}{'_total' if one.kind == 'counter' else ''}": one for one in METRICS}
    for target in (target for panel in dashboard["panels"] for target in panel["targets"]):
        named = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        (name,) = re.findall(rf"{PREFIX}\w+", target["expr"])
        assert named <= set(labels[name].labels), target


class Writer:
    """What TensorBoard's writer is told."""

    def __init__(self) -> None:
        self.told: dict[str, float] = {}
        self.is_closed = False

    def add_scalar(self, name: str, value: float, step: int) -> None:
        assert step == 3
        self.told[name] = value

    def close(self) -> None:
        self.is_closed = True


class Run(AbstractContextManager["Run"]):
    """What a run of Weights & Biases is told."""

    def __init__(self) -> None:
        self.told: dict[str, float] = {}
        self.is_closed = False

    def log(self, values: dict[str, float], step: int) -> None:
        assert step == 3
        self.told.update(values)

    def __exit__(self, *_: object) -> None:
        self.is_closed = True


def test_the_examples_for_tensorboard_and_wandb_run(monkeypatch: pytest.MonkeyPatch) -> None:
    text = Path("docs/export.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) == 2
    writer, run = Writer(), Run()
    tensorboard, wandb = ModuleType("torch.utils.tensorboard"), ModuleType("wandb")
    vars(tensorboard)["SummaryWriter"] = lambda: writer
    vars(wandb)["init"] = lambda project: run
    for module in (tensorboard, wandb):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
    for block in blocks:
        names: dict[str, object] = {"model": model, "images": torch.randn(2, 4), "epoch": 3}
        exec(block.replace("seconds=5", "seconds=0.1"), names)
    assert set(writer.told) == set(run.told) == {"self/Sequential", "self/0", "self/1"}
    assert all(value > 0 for value in (*writer.told.values(), *run.told.values()))
    assert writer.is_closed
    assert run.is_closed


def test_requests_of_a_language_model_have_figures_where_they_are_known() -> None:
    told = replace(GENERATION, first_p95=messages.Unknown("too few"))
    found = values(apply(measured(), told))
    assert (found["first_token_p50_seconds"], found["between_tokens_p95_seconds"]) == (0.25, 0.04)
    assert (found["requests"], found["request_tokens_per_second"]) == (12, 170.0)
    assert found["token_cache_bytes"] == 4_194_304
    assert "first_token_p95_seconds" not in found
