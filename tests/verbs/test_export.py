"""The verb ``export``: over HTTP and OTLP, of a script, and what it refuses."""

from __future__ import annotations

import http.server
import os
import re
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from prometheus_client.parser import text_string_to_metric_families

from screens.cli.main import main
from tests.reports.test_step import measured
from tui_profiler.reports.metrics.session_metrics import PREFIX
from tui_profiler.verbs.export import Latest, end, otlp_exporter, send

TRAINS = """
import torch
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
import os, sys, time
while not os.path.exists(sys.argv[1]):
    optimizer.zero_grad()
    net(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()
    time.sleep(0.001)
sys.exit(7)
"""


class Collector(http.server.BaseHTTPRequestHandler):
    """A collector of OpenTelemetry, as far as metrics over HTTP go."""

    received: list[ExportMetricsServiceRequest]

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.received.append(ExportMetricsServiceRequest.FromString(self.rfile.read(length)))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def collector() -> Iterator[tuple[str, list[ExportMetricsServiceRequest]]]:
    received: list[ExportMetricsServiceRequest] = []
    handler = type("Handler", (Collector,), {"received": received})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1/metrics", received
        server.shutdown()


def test_a_collector_of_opentelemetry_gets_the_figures(
    collector: tuple[str, list[ExportMetricsServiceRequest]],
) -> None:
    url, received = collector
    latest = Latest(20)
    latest.session = measured()
    provider = send(latest, otlp_exporter(url), 3600.0)
    end(provider)  # What was newest is sent at the end.
    metrics = {
        metric.name: metric
        for request in received
        for resource in request.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    step = metrics[f"{PREFIX}step_mean_seconds"]
    assert step.unit == "s"
    assert step.gauge.data_points[0].as_double == 2.0
    steps = metrics[f"{PREFIX}steps"].sum
    assert steps.is_monotonic
    assert steps.data_points[0].as_double == 100
    parts = {
        point.attributes[0].value.string_value: point.as_double
        for point in metrics[f"{PREFIX}step_part_seconds"].gauge.data_points
    }
    assert parts["data"] == 0.36
    assert "clip" not in parts
    assert (
        f"{PREFIX}package_watts" not in metrics
        or not metrics[f"{PREFIX}package_watts"].gauge.data_points
    )


def test_two_exporters_are_two_instances_to_a_collector(
    collector: tuple[str, list[ExportMetricsServiceRequest]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, received = collector

    def sent() -> dict[str, str]:
        end(send(Latest(20), otlp_exporter(url), 3600.0))
        resource = received[-1].resource_metrics[0].resource
        return {one.key: one.value.string_value for one in resource.attributes}

    found = sent()
    assert found["service.name"] == "tui-profiler"
    assert found["service.instance.id"] == f"{socket.gethostname()}:{os.getpid()}"
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=seven,team=vision")
    assert sent() == found | {"service.instance.id": "seven", "team": "vision"}


def test_a_collector_that_is_not_there_does_not_keep_the_program() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # It does not listen: refused, and the exporter tries again.
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1/metrics"
        exporter = OTLPMetricExporter(endpoint=url, timeout=3600)
        provider = send(Latest(20), exporter, 3600.0)
        began = time.monotonic()
        end(provider, 0.1)
    assert time.monotonic() - began < 20  # Its own limit is 30.


def test_a_script_is_exported_and_its_exit_code_is_ours(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINS)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tui_profiler", "export", "--listen", f"127.0.0.1:{port}"]
    command += ["--run", "train.py", str(tmp_path / "stop")]
    program = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE)
    try:
        deadline, found = time.monotonic() + 240, {}
        while f"{PREFIX}step_mean_seconds" not in found:
            assert time.monotonic() < deadline
            assert program.poll() is None
            select.select([], [], [], 0.1)
            try:
                with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
                    text = answer.read().decode()
            except OSError:
                continue  # It does not listen yet.
            found = {
                sample.name: sample.value
                for family in text_string_to_metric_families(text)
                for sample in family.samples
            }
        assert found[f"{PREFIX}up"] == 1
        assert found[f"{PREFIX}step_mean_seconds"] > 0.001
        (tmp_path / "stop").touch()
        assert program.wait(240) == 7
    finally:
        program.kill()
        program.wait()
        assert program.stderr is not None
        program.stderr.close()


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ([], "Give either --attach NAME or --run SCRIPT"),
        (["--attach", "x", "--run", "y.py"], "Give either --attach NAME or --run SCRIPT"),
        (["--run"], "needs a SCRIPT"),
        (["--nonsense", "--run", "y.py"], "No such option"),
        (["--run", "nosuch.py", "--nonsense"], "There is no file"),
        (["--attach", "x", "y.py"], "needs --run"),
        (["--run", "nosuch.py"], "There is no file"),
        (["--attach", "x", "--listen", "nowhere"], "is not HOST:PORT"),
        (["--attach", "x", "--listen", "127.0.0.1:99999"], "is not HOST:PORT"),
        (["--attach", "x", "--listen", ""], "Nowhere to export to"),
        (["--attach", "x", "--otlp", "collector:4318"], "is not http://"),
        (["--attach", "x", "--otlp", "http://[::1"], "is not http://"),
        (["--attach", "x", "--otlp", "http://collector:port/"], "is not http://"),
        (["--run", "--seconds", "1", "y.py"], "needs a SCRIPT|omit --seconds"),
    ],
)
def test_what_cannot_be_exported_is_refused(
    typed: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:

    assert main(["export", *typed]) == 2
    assert re.search(said, capsys.readouterr().err)


def test_an_address_in_use_is_refused_before_the_script_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "made.py"
    script.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["export", "--listen", address, "--run", str(script)]) == 2
    assert "Address already in use" in capsys.readouterr().err
    assert not (tmp_path / "ran").exists()
