"""What a pickle describes, as values that do nothing.

Numbers, texts, lists and tuples are Python's own. Everything that the pickle would import, call or
build is one of these instead: a name, or a record of what would be done with it. They compare by
identity, because a hostile pickle can nest them without end.
"""

from __future__ import annotations

from msgspec import Struct


class Named(Struct, eq=False):
    """Something that would be imported."""

    name: str
    """With its module: ``torch._utils._rebuild_tensor_v2``."""


class Mapping(Struct, eq=False):
    """A dict or OrderedDict."""

    pairs: list[object] | None = None
    """Key, value, key, value, in the order of the file; a key may come twice, the last one counts.
    None where it is empty."""


class Made(Struct, eq=False):
    """The result of a call, or an object, that was not made."""

    maker: object
    """What would be called: mostly a Named."""
    arguments: object
    state: object = None
    """What would be handed to ``__setstate__`` or become its attributes."""
    items: list[object] | None = None
    pairs: list[object] | None = None


class Persistent(Struct, eq=False):
    """A value kept outside of the pickle: a storage."""

    key: object
    at: int
    """Byte of the pickle."""


class Skipped(Struct, eq=False):
    """A text, bytes or number too long to be part of a structure."""

    bytes: int
