"""How a struct is laid out on the wire."""

from __future__ import annotations

from msgspec import Struct


class OnWire(Struct, frozen=True, array_like=True, tag=True, tag_field="_"):
    """A message: an array whose first item is the name of its class.

    New fields go last, with a default, so that an older peer can still read the message.
    """


class Part(Struct, frozen=True, array_like=True):
    """A struct inside a message: an array of its fields. New fields go last, with a default."""
