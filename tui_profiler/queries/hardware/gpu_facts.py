"""Throttling, ECC errors and links of a GPU as facts, for the machine screen and for reports."""

from collections.abc import Callable
from typing import TypeAlias

from tui_profiler.figures.units import rate, thousands
from tui_profiler.messages import Figure, Gpu, Unknown

Fact: TypeAlias = tuple[str, Figure, Callable[[float], str]]
"""What it is called, its value, and how that is written."""


def gpu_facts(gpu: Gpu) -> list[Fact]:
    """Return ECC errors and links; of what the GPU does not have, one fact with the reason.

    What throttles the GPU is among them where that is not known: its warning is shown elsewhere.
    """
    why = gpu.throttled_by
    throttling: list[Fact] = [("throttling", why, _number)] if isinstance(why, Unknown) else []
    return [*throttling, *_ecc(gpu), *_links(gpu)]


def ecc_errors_text(uncorrected: float) -> str:
    """Return the number of uncorrected ECC errors in words."""
    return f"{_number(uncorrected)} uncorrected ECC error{'' if round(uncorrected) == 1 else 's'}"


def _ecc(gpu: Gpu) -> list[Fact]:
    ecc = gpu.ecc
    if ecc.volatile_corrected == ecc.aggregate_corrected and isinstance(
        ecc.volatile_corrected, Unknown
    ):
        return [("ECC errors", ecc.volatile_corrected, _number)]
    return [
        ("ECC errors, volatile", ecc.volatile_corrected, _with(ecc.volatile_uncorrected)),
        ("ECC errors, aggregate", ecc.aggregate_corrected, _with(ecc.aggregate_uncorrected)),
    ]


def _links(gpu: Gpu) -> list[Fact]:
    links = gpu.links
    if isinstance(links.count, Unknown):
        return [("NVLink", links.count, _number)]
    of = f"of {_number(links.count)} active"
    each = "" if isinstance(links.link_bytes, Unknown) else f", {_rate(links.link_bytes)} each"
    return [
        ("NVLink", links.active, lambda active: f"{_number(active)} {of}{each}"),
        ("NVLink, sent", links.sent_bytes, _rate),
        ("NVLink, received", links.received_bytes, _rate),
        ("NVLink, errors", links.errors, _number),
    ]


def _with(uncorrected: Figure) -> Callable[[float], str]:
    def written(corrected: float) -> str:
        if isinstance(uncorrected, Unknown):
            return f"{_number(corrected)} corrected"
        return f"{_number(corrected)} corrected, {_number(uncorrected)} uncorrected"

    return written


def _number(value: float) -> str:
    return thousands(round(value))


def _rate(value: float) -> str:
    return rate(value, "B/s")
