"""What can be done to a weight to measure the output, and the words for it."""

from __future__ import annotations

from tui_profiler.messages.sensitivity import Scheme

SCHEMES: tuple[Scheme, ...] = (
    Scheme("int8"),
    Scheme("int8", "tensor"),
    Scheme("int4"),
    Scheme("int4", "tensor"),
    Scheme("float8_e4m3fn"),
    Scheme("values", share=0.5),
    Scheme("channels", share=0.25),
)
"""What sensitivity is measured for, in the order in which a key goes through them."""


def scheme_words(scheme: Scheme) -> str:
    """Say what is done to a weight, in a few words."""
    match scheme.change:
        case "values":
            return f"{scheme.share:.0%} of values zero".replace("%", " %")
        case "channels":
            return f"{scheme.share:.0%} of channels zero".replace("%", " %")
        case stored:
            short = {"float8_e4m3fn": "fp8 e4m3", "float8_e5m2": "fp8 e5m2"}.get(stored, stored)
            return f"{short} per {scheme.per}"


def next_scheme(scheme: Scheme) -> Scheme:
    """Give the scheme after one, in a circle."""
    at = SCHEMES.index(scheme) if scheme in SCHEMES else -1
    return SCHEMES[(at + 1) % len(SCHEMES)]
