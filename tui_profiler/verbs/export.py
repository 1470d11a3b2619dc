"""``export``: the newest session as metrics, for Prometheus to fetch or sent by OTLP.

The program is followed as by any viewer, and never waits. A metric is made when it is asked for, in
this process, on the thread that asks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from os import getpid
from socket import gethostname
from typing import TYPE_CHECKING

from tui_profiler.queries.panel.state import STALE_SECONDS
from tui_profiler.reports.metrics.session_metrics import METRICS, Metric, Sample, session_metrics
from tui_profiler.session import EMPTY, Session

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import MetricExporter
    from prometheus_client.core import Metric as Family

_UCUM = {"seconds": "s", "bytes": "By", "watts": "W", "joules": "J", "celsius": "Cel"}
"""Units as OpenTelemetry writes them."""
END_SECONDS = 5.0
EXTRA = "pip install 'tui-profiler[export]'"


class Latest:
    """The newest session, for threads that ask.

    Args:
        top: modules with figures of their own.
        clock: seconds, of this process.
    """

    def __init__(self, top: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._session: Session = EMPTY
        self._top, self._clock = top, clock
        self._heard = clock()
        self._making = threading.Lock()
        self._made: tuple[Session, bool, dict[Metric, tuple[Sample, ...]]] = (EMPTY, False, {})

    @property
    def session(self) -> Session:
        """Of the last message."""
        return self._session

    @session.setter
    def session(self, session: Session) -> None:
        self._session, self._heard = session, self._clock()

    def metrics(self) -> dict[Metric, tuple[Sample, ...]]:
        """Return its figures; made once for each session, and again where it has become old."""
        with self._making:
            session, is_silent = self._session, self._clock() - self._heard > STALE_SECONDS
            if self._made[0] is not session or self._made[1] != is_silent or not self._made[2]:
                made = session_metrics(session, top=self._top, is_silent=is_silent)
                self._made = (session, is_silent, made)
            return self._made[2]


class PrometheusCollector:
    """What ``prometheus_client`` asks at each scrape."""

    def __init__(self, latest: Latest) -> None:
        self._latest = latest

    def collect(self) -> Iterator[Family]:
        """Yield the metrics."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415

        for metric, samples in self._latest.metrics().items():
            made = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = made(metric.name, metric.help, labels=metric.labels, unit=metric.unit)
            for sample in samples:
                family.add_metric([value for _, value in sample.labels], sample.value)
            yield family


def serve(latest: Latest, host: str, port: int) -> tuple[int, Callable[[], None]]:
    """Answer scrapes on a thread.

    Returns:
        The port, which the system chose if 0 was given, and what ends it.

    Raises:
        ImportError: ``prometheus_client`` is not installed.
        OSError: the address cannot be used.
    """
    from prometheus_client import CollectorRegistry, start_http_server  # noqa: PLC0415 # an extra

    registry = CollectorRegistry(auto_describe=False)
    registry.register(PrometheusCollector(latest))
    server, thread = start_http_server(port, addr=host, registry=registry)

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return int(server.server_port), close


def otlp_exporter(url: str) -> MetricExporter:
    """Return what sends to a collector by OTLP over HTTP.

    Raises:
        ImportError: the exporter of OpenTelemetry is not installed.
    """
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415 # an extra
        OTLPMetricExporter,
    )

    return OTLPMetricExporter(endpoint=url)


def send(latest: Latest, exporter: MetricExporter, seconds: float) -> MeterProvider:
    """Send the metrics now and then, by the SDK of OpenTelemetry; ``end`` ends it.

    Args:
        latest: whose metrics.
        exporter: where they go.
        seconds: between two of them.
    """
    from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415 # an extra
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader  # noqa: PLC0415
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource  # noqa: PLC0415

    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=1000 * seconds)
    # Without an instance, a collector takes the series of two exporters for one.
    ours = {"service.name": "tui-profiler", "service.instance.id": f"{gethostname()}:{getpid()}"}
    resource = Resource.create(ours).merge(OTELResourceDetector().detect())  # OTEL_* of the user.
    provider = MeterProvider(metric_readers=[reader], resource=resource, shutdown_on_exit=False)
    meter = provider.get_meter("tui_profiler")
    for metric in METRICS:
        is_counter = metric.kind == "counter"
        make = meter.create_observable_counter if is_counter else meter.create_observable_gauge
        unit = _UCUM.get(metric.unit, "1")
        make(metric.name, [_observer(latest, metric)], unit=unit, description=metric.help)
    return provider


def end(provider: MeterProvider, seconds: float = END_SECONDS) -> None:
    """Send what is newest once more, and end; a collector that is not there is given up.

    Args:
        provider: of ``send``.
        seconds: at most; the exporter's own retries take several times as long.
    """
    provider.shutdown(timeout_millis=1000 * seconds)


def _observer(latest: Latest, metric: Metric) -> Callable[[CallbackOptions], Iterable[Observation]]:
    from opentelemetry.metrics import Observation  # noqa: PLC0415 # an extra

    def observe(_: CallbackOptions) -> Iterator[Observation]:
        for sample in latest.metrics().get(metric, ()):
            yield Observation(sample.value, dict(sample.labels))

    return observe
