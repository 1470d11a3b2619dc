"""Sessions whose every string is hostile, made from the message structs by their own types.

Whatever field a message gets is filled here by itself: a ``str`` with hostile text, an empty tuple
with one element, a missing part with one that is made up. Numbers, and words that a ``Literal``
names, stay as the session that serves as a pattern has them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import TypeVar, get_args

import msgspec
from msgspec import inspect

from tests.machine_session import FULL
from tests.screens.panel_session import LOADING, RUN, TRACED, tick
from tests.small_model import MEASURED
from tui_profiler.messages import Ended, Failed, Message, Playback, Unknown

MARK = "evil"
TEXTS = (
    f"\x1b[7;5;9m{MARK}\x1b[0m",
    f"\x1b]52;c;{MARK}\x07",
    f"\x1b]0;{MARK}\x1b\\",
    f"\x1bP+q{MARK}\x1b\\\x1bc\x1b[2J\x1b[H",
    f"\x9b31m{MARK}\x9d0;x\x9c",
    f"[bold]{MARK}[/nope][@click=app.exit]x[/]",
    f"{MARK}\u202edcba\u2066\u200f\u061c",
    f"one\n{MARK}\r\nthree\rfour\x0b\x0c\x85\u2028\u2029five\tsix",
    MARK + "x" * 10_000,
    f"{MARK} 👩‍👩‍👧‍👦 🏳️‍🌈 ❤️ ☎️ 1️⃣ 🇩🇪 👍🏽 🫠",
    f"{MARK}\u200b\u200d\ufeff\u00ad\u2060\U000e0041\ue000\uffff\U0010ffff",
    MARK + "e\u0301\u0327\u0489" * 60,
    f"{MARK}多层网络ｆｕｌｌ한국어" * 10,
    "\u1112\u1161\u11ab" * 9 + MARK,
    f"\x00\x07\x08\x7f{MARK}\x1a\x04",
    f"{{{MARK}}} %s %(x)s {{0}} `rm -rf /` $(id) ';--",
    "",
    " ",
    "\u3000\u00a0",
    f"a.{MARK}..b/{MARK}/../c",
)
"""Each is a trick of its own; ``MARK`` tells in the output where it came from."""

_NO_HINT = object()
_Struct = TypeVar("_Struct", bound=msgspec.Struct)


class Maker:
    """Makes values of wire types, with the values of another one as a pattern."""

    def __init__(self, seed: int, share: float = 1.0) -> None:
        """Begin.

        Args:
            seed: of the choices.
            share: of the strings, how many are replaced where the pattern has one; 0 to 1.
        """
        self._random = random.Random(seed)
        self._share = share

    def made_like(self, pattern: _Struct) -> _Struct:
        """Return a value of the same class and numbers, with hostile strings."""
        made = self.made(inspect.type_info(type(pattern)), pattern)
        assert isinstance(made, type(pattern))
        return made

    def of(self, kind: type) -> object:
        """Return a message of a class, made up."""
        return self.made(inspect.type_info(kind), _NO_HINT)

    def made(self, kind: inspect.Type, hint: object) -> object:
        """Return a value of a type."""
        match kind:
            case inspect.StrType():
                is_kept = isinstance(hint, str) and hint and self._random.random() > self._share
                return hint if is_kept else self._random.choice(TEXTS)
            case inspect.LiteralType():
                return hint if hint in kind.values else kind.values[-1]
            case inspect.UnionType():
                return self._one_of(kind, hint)
            case inspect.VarTupleType():
                items = hint if isinstance(hint, tuple) and hint else (_NO_HINT,)
                return tuple(self.made(kind.item_type, item) for item in items)
            case inspect.ListType():
                entries = hint if isinstance(hint, list) and hint else [_NO_HINT]
                return [self.made(kind.item_type, entry) for entry in entries]
            case inspect.TupleType():
                items = hint if isinstance(hint, tuple) else (_NO_HINT,) * len(kind.item_types)
                pairs = zip(kind.item_types, items, strict=True)
                return tuple(self.made(part, item) for part, item in pairs)
            case inspect.StructType():
                fields = {
                    field.name: self.made(field.type, getattr(hint, field.name, _NO_HINT))
                    for field in kind.fields
                }
                return kind.cls(**fields)
            case inspect.BoolType() | inspect.IntType() | inspect.FloatType() | inspect.BytesType():
                least = getattr(kind, "ge", None)
                plain = {"Bool": False, "Int": least or 0, "Float": least or 1.0, "Bytes": b""}
                found = plain[type(kind).__name__.removesuffix("Type")]
                return found if hint is _NO_HINT else hint
        raise AssertionError(f"messages have no such type so far: {kind}")

    def _one_of(self, kind: inspect.UnionType, hint: object) -> object:
        parts = [part for part in kind.types if not isinstance(part, inspect.NoneType)]
        if hint is _NO_HINT or hint is None:
            return self.made(self._random.choice(parts), _NO_HINT)
        fitting = [part for part in parts if _fits(part, hint)]
        return self.made(fitting[0], hint)


def _fits(kind: inspect.Type, value: object) -> bool:
    match kind:
        case inspect.StructType():
            return isinstance(value, kind.cls)
        case inspect.VarTupleType() | inspect.TupleType():
            return isinstance(value, tuple)
        case inspect.ListType():
            return isinstance(value, list)
        case inspect.StrType() | inspect.LiteralType():
            return isinstance(value, str)
        case inspect.BytesType():
            return isinstance(value, bytes)
    return isinstance(value, int | float)


def session_like(
    patterns: Iterable[Message], seed: int, share: float = 1.0, *, without: tuple[type, ...] = ()
) -> list[Message]:
    """Return a hostile session: all patterns, then one of every message that is not among them."""
    maker = Maker(seed, share)
    patterns = list(patterns)
    messages = [maker.made_like(message) for message in patterns]
    met = {type(message) for message in patterns}
    for kind in get_args(Message):
        if kind not in met and kind not in without:
            made = maker.of(kind)
            assert isinstance(made, msgspec.Struct)
            messages.append(made)  # type: ignore[arg-type]  # a member of the union
    return messages


NOT_LIVE = (Failed, Ended, Playback)
PATTERNS: tuple[Message, ...] = (*LOADING, *TRACED, *RUN, tick(5.0), tick(6.0), FULL)
SMALL: tuple[Message, ...] = (*MEASURED, FULL)


def loading(seed: int) -> list[Message]:
    """A hostile session before its tree."""
    return [Maker(seed).made_like(message) for message in LOADING]


def live(seed: int) -> list[Message]:
    """A hostile session that runs; the half of its strings is hostile, by turns all of them."""
    pattern = PATTERNS if seed % 2 else SMALL
    return session_like(pattern, seed, (1.0, 0.5, 1.0, 0.2)[seed % 4], without=NOT_LIVE)


def failed(seed: int) -> list[Message]:
    """A hostile session whose model failed."""
    pattern = Failed("first run", "boom", fatal=True, traceback="Traceback:\n  boom\n")
    return [*live(seed), Maker(seed).made_like(pattern)]


def gone(seed: int) -> list[Message]:
    """A hostile session whose worker died."""
    return [*live(seed), Maker(seed).made_like(Ended(-9, False, "last line", 48213, 12.4))]


def unavailable(seed: int) -> list[Message]:
    """A hostile session in which every figure that may be missing is, with a hostile reason."""

    class Missing(Maker):
        def _one_of(self, kind: inspect.UnionType, hint: object) -> object:
            for part in kind.types:
                if isinstance(part, inspect.StructType) and part.cls is Unknown:
                    return self.made(part, _NO_HINT)
            return super()._one_of(kind, hint)

    return [Missing(seed).made_like(message) for message in PATTERNS]


SESSIONS = {
    "loading": loading,
    "live": live,
    "failed": failed,
    "gone": gone,
    "unavailable": unavailable,
}
