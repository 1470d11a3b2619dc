"""What can be opened where no model was named: offers by section, those that fit what is typed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.figures.units import share
from tui_profiler.formatting.text import safe
from tui_profiler.messages import LoadSpec
from tui_profiler.queries.fuzzy import fit

Section: TypeAlias = Literal["recent", "running", "demo models", "files here", "as typed"]
SECTIONS: tuple[Section, ...] = ("recent", "running", "demo models", "files here", "as typed")
_OPTIONS = {
    "arguments": "--args",
    "batch": "--batch",
    "weights": "--weights",
    "device": "--device",
    "dtype": "--dtype",
    "threads": "--threads",
    "tracer": "--tracer",
}


class Offer(Struct, frozen=True):
    """One thing that can be opened."""

    section: Section
    name: str
    detail: str = ""
    right: str = ""
    """What stands at the right end: how old it is, how large."""
    model: str = ""
    """As typed on the command line; a recording's is its path. Empty for a running program."""
    spec: LoadSpec | None = None
    """How it was asked for last time, where it was."""
    process: int | None = None
    """Of a running program."""
    is_live: bool = True
    """False for a program that does not answer: it cannot be opened."""


def matching(offers: Sequence[Offer], typed: str) -> tuple[tuple[Offer, ...], int]:
    """Return the offers that fit, by section, and the position of the best one.

    What is typed is always offered as it is, last: it may name a model that nothing here knows.
    """
    name = typed.strip()
    scores = [(fit(typed, offer.name, offer.detail), offer) for offer in offers]
    found = [(score, offer) for score, offer in scores if score is not None]
    found.sort(key=lambda one: SECTIONS.index(one[1].section))
    best = max(range(len(found)), key=lambda at: (found[at][0], -at), default=0)
    offered = tuple(offer for _, offer in found)
    if name and not any(offer.model == name and offer.spec is None for offer in offered):
        offered = (*offered, Offer("as typed", name, "a model's name, or a path", model=name))
    return offered, best


def options_text(spec: LoadSpec) -> str:
    """Return how a request differs from the plain one, as typed: ``--batch 4 --dtype bfloat16``."""
    plain = LoadSpec(spec.model)
    found = [f"--input {one}" for one in spec.inputs]
    for field, option in _OPTIONS.items():
        value = getattr(spec, field)
        if value != getattr(plain, field):
            found.append(f"{option} {value}")
    found += ["--no-run"] * (not spec.run)
    if spec.budget != plain.budget:
        found.append(f"--budget {share(spec.budget).replace(' ', '')}")
    return safe(" ".join(found))


def as_asked_now(spec: LoadSpec, started_at: float) -> LoadSpec:
    """Return a request of before as one of now; trust is not carried over, its file may be another.

    Args:
        spec: as it was asked for.
        started_at: Unix time of now.
    """
    return replace(spec, started_at=started_at, trust=False)
