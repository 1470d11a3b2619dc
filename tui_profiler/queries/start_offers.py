"""What can be opened where no model was named: offers by section, those that fit what is typed."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.figures.units import share
from tui_profiler.formatting.text import safe
from tui_profiler.messages import LoadSpec
from tui_profiler.queries.fuzzy import SCATTERED, fit

Section: TypeAlias = Literal[
    "recent", "running", "demo models", "files here", "torchvision", "timm", "as typed"
]
SECTIONS: tuple[Section, ...] = (
    "recent",
    "running",
    "demo models",
    "files here",
    "torchvision",
    "timm",
    "as typed",
)
LIBRARIES: tuple[Section, ...] = ("torchvision", "timm")
"""Hundreds of names each: they are offered only for what is typed."""
SIMILAR = "similar name"
_MOST_SIMILAR = 5
_LEAST_SIMILAR = 0.7
"""As difflib measures it; ``resnset50`` and ``resnet50`` have 0.94."""
_LIKE_A_NAME = re.compile(r"(\w+:)?[\w.-]+")
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
    asks: str = ""
    """What is asked before it is opened."""


def matching(
    offers: Sequence[Offer], typed: str, *, is_path: bool = False
) -> tuple[tuple[Offer, ...], int]:
    """Return the offers that fit, by section, and the position of the best one.

    Names of libraries come the best first, and those of which only letters fit only where nothing
    fits better. Where nothing fits at all, those with a similar name are offered.
    What is typed is always offered as it is, last: it may name a model that nothing here knows.

    Args:
        offers: what can be opened.
        typed: words, in any order.
        is_path: what is typed is a file or a folder: it is meant, unless it is offered by name.
    """
    name = typed.strip()
    found = _fitting(offers, name) or _similar(offers, name)
    best = max(range(len(found)), key=lambda at: (found[at][0], -at), default=0)
    offered = tuple(offer for _, offer in found)
    if name and not any(offer.model == name and offer.spec is None for offer in offered):
        offered = (*offered, Offer("as typed", name, "a model's name, or a path", model=name))
        if is_path and offered[best].name != name:
            best = len(offered) - 1
    return offered, best


def _fitting(offers: Sequence[Offer], typed: str) -> list[tuple[int, Offer]]:
    scores = [
        (fit(typed, offer.name, offer.detail), offer)
        for offer in offers
        if typed or offer.section not in LIBRARIES
    ]
    found = [(score, offer) for score, offer in scores if score is not None]
    scattered = SCATTERED * len(typed.split())
    if any(score > scattered for score, _ in found):
        found = [one for one in found if one[0] > scattered or one[1].section not in LIBRARIES]
    found.sort(key=_order)
    return found


def _order(one: tuple[int, Offer]) -> tuple[int, int, int, str]:
    score, offer = one
    at = SECTIONS.index(offer.section)
    if offer.section in LIBRARIES:
        return at, -score, len(offer.name), offer.name
    return at, 0, 0, ""  # As they are given.


def _similar(offers: Sequence[Offer], typed: str) -> list[tuple[int, Offer]]:
    if not _LIKE_A_NAME.fullmatch(typed):
        return []
    named = {offer.name.casefold(): offer for offer in reversed(offers) if offer.model}
    # A library's prefix is seldom typed, and would make every name with it alike.
    named |= {name.partition(":")[2]: offer for name, offer in named.items() if ":" in name} | named
    like = get_close_matches(typed.casefold(), named, n=_MOST_SIMILAR, cutoff=_LEAST_SIMILAR)
    found = {named[name].name: named[name] for name in like}
    return sorted(
        ((-at, replace(offer, right=SIMILAR)) for at, offer in enumerate(found.values())),
        key=lambda one: SECTIONS.index(one[1].section),
    )


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
