"""How a struct is laid out on the wire; a figure, or the reason why there is none."""

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

Moment: TypeAlias = Annotated[float, Meta(ge=-1e10, le=1e10)]
"""Seconds on a clock: of a field ``at``, where it says nothing else, since the command was started.
Neither NaN nor infinite, so that it can be rounded: a worker that opened a hostile file can send
anything."""
Positive: TypeAlias = Annotated[int, Meta(ge=1)]
"""A count that is divided by."""


class OnWire(Struct, frozen=True, array_like=True, tag=True, tag_field="_"):
    """A message: an array whose first item is the name of its class.

    New fields go last, with a default, so that an older peer can still read the message.
    """


class Part(Struct, frozen=True, array_like=True):
    """A struct inside a message: an array of its fields. New fields go last, with a default."""


class Unknown(Struct, frozen=True, rename={"reason": "unavailable"}):
    """A figure that could not be had."""

    reason: str
    """A noun phrase that follows ``unavailable:``, such as ``RAPL counters need root``."""


Figure: TypeAlias = float | Unknown
"""A number in the unit that its field names, or ``Unknown``."""


def known(figure: Figure | None) -> float | None:
    """Return the number, or None where there is none."""
    return None if isinstance(figure, Unknown) else figure
