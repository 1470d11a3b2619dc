"""Recorded answers of inference servers, a server that gives them, and what Prometheus reads."""

from __future__ import annotations

import contextlib
import functools
import math
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
from prometheus_client.parser import text_string_to_metric_families

FOLDER = Path(__file__).resolve().parents[1] / "fixtures" / "serving"
PLAIN = "text/plain; version=0.0.4; charset=utf-8"
RELEASES = ("vllm-0.32", "vllm-0.6", "sglang-0.5.8", "tgi-3")
SECONDS = 10.0
"""Between the two answers of each release, where a test decides."""


def answer(release: str, number: int) -> str:
    """Return the first or second answer of a release."""
    return (FOLDER / f"{release}-{number}.txt").read_text(encoding="utf-8")


@functools.cache
def samples(release: str, number: int) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Return the samples by name, as Prometheus's own client reads them."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(answer(release, number)):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def total(release: str, number: int, name: str, **labels: str) -> float:
    """Return the sum of the samples of a name."""
    found = samples(release, number).get(name, [])
    return math.fsum(value for own, value in found if labels.items() <= own.items())


def grown(release: str, name: str, **labels: str) -> float:
    """Return by how much a counter grew between the two answers."""
    return total(release, 2, name, **labels) - total(release, 1, name, **labels)


def quantile(counts: dict[str, float], share: float) -> float:
    """Return the quantile of a histogram, as numpy interpolates it.

    Args:
        counts: cumulative, by upper bound.
        share: 0.5 is the median.
    """
    bounds = [0.0, *sorted(map(float, counts))]
    upto = [0.0, *sorted(counts.values())]
    rank = share * upto[-1]
    at = int(np.searchsorted(upto, rank))  # The bucket in which the rank is.
    return float(np.interp(rank, upto[at - 1 : at + 1], bounds[at - 1 : at + 1]))


def mean(release: str, name: str) -> float:
    """Return the mean of a histogram's observations between the two answers."""
    return grown(release, f"{name}_sum") / grown(release, f"{name}_count")


def buckets(release: str, name: str) -> tuple[dict[str, float], dict[str, float]]:
    """Return the counts of a histogram between the two answers, and since the start."""
    bounds = {labels["le"] for labels, _ in samples(release, 2)[f"{name}_bucket"]}
    return (
        {bound: grown(release, f"{name}_bucket", le=bound) for bound in bounds},
        {bound: total(release, 2, f"{name}_bucket", le=bound) for bound in bounds},
    )


class Handler(BaseHTTPRequestHandler):
    """Answers as the test says."""

    answers: Callable[[BaseHTTPRequestHandler], None]

    def do_GET(self) -> None:
        type(self).answers(self)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextlib.contextmanager
def serving(answers: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """Run a real server meanwhile; yield the address of its metrics."""
    kind = type("Answering", (Handler,), {"answers": staticmethod(answers)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    server.daemon_threads = True
    server.block_on_close = False
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def say(
    handler: BaseHTTPRequestHandler, text: str, *, status: int = 200, kind: str = PLAIN
) -> None:
    """Answer with a text."""
    body = text.encode()
    handler.send_response(status)
    handler.send_header("Content-Type", kind)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)
