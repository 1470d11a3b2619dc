"""A server beside a program, of its recorded answers, with figures that a test knows."""

from __future__ import annotations

from tests.serving.answers import SECONDS, answer
from tui_profiler.messages import ServingFigures, ServingSeen
from tui_profiler.serving.scrape import scrape
from tui_profiler.serving.window import Window

ADDRESS = "http://127.0.0.1:8000/metrics"


def serving_figures(release: str) -> ServingFigures:
    """Return the figures after the two answers of a release, 10 s apart."""
    window = Window()
    window.figures(0.0, scrape(answer(release, 1)))
    return window.figures(SECONDS, scrape(answer(release, 2)))


def seen(release: str = "vllm-0.32") -> ServingSeen:
    """Return what the source says of that server."""
    return ServingSeen(ADDRESS, serving_figures(release), "")


REFUSED = ServingSeen(ADDRESS, None, "connection refused")
