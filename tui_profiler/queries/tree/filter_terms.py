"""What is typed to filter by, read strictly: terms, and a sentence for each that is none.

    conv                a substring of path, name or type
    name: type: bound:  a part of the name, of the type; the bound it has
    time> share>        measured: 1ms, 20us, 0.5s; 5%
    params> mac>        1M, 250K, 4G, or a plain number
    depth<              levels below the model: 3
    !                   before any of them: what it does not find

Terms stand apart by blanks and hold together. Figures take ``>``, ``<``, ``>=`` and ``<=``; counts
``=`` as well.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from msgspec import Struct

Field: TypeAlias = Literal[
    "text", "name", "type", "bound", "time", "share", "params", "mac", "depth"
]
Relation: TypeAlias = Literal["has", ">", "<", ">=", "<=", "="]

WORDS: tuple[Field, ...] = ("name", "type", "bound")
FIGURES: tuple[Field, ...] = ("time", "share", "params", "mac", "depth")
LIVE: frozenset[Field] = frozenset(("time", "share", "bound"))
"""What they find changes as the model runs."""
BOUNDS = ("compute", "memory", "overhead", "unexplained")

_TERM = re.compile(
    r"(?P<field>[a-z]+)(?:(?P<word>:(?!:))|(?P<relation>[<>]=?|=))(?P<value>.*)", re.S
)
_NUMBER = re.compile(r"(?P<number>\d{1,18}(?:\.\d{1,18})?)(?P<unit>[a-zµμ%]*)", re.I)
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
_COUNTS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_EXAMPLES: dict[str, str] = {
    "time": "time>1ms, in s, ms, us or ns",
    "share": "share>5%",
    "params": "params>1M",
    "mac": "mac>10M",
    "depth": "depth<3",
}


class Term(Struct, frozen=True):
    """One condition."""

    field: Field
    relation: Relation
    word: str = ""
    """What is looked for, in lower case; of a bound its full name."""
    number: float = 0.0
    """What figures are compared with: seconds, a share of 0 to 1, a count."""
    negated: bool = False


class Filter(Struct, frozen=True):
    """What was typed, understood."""

    terms: tuple[Term, ...] = ()
    text: str = ""
    """The words that were understood, one blank between them: typed again they say the same."""
    wrong: tuple[str, ...] = ()
    """One sentence for each word that was not."""

    @property
    def is_live(self) -> bool:
        """Whether what it finds changes as the model runs."""
        return any(term.field in LIVE for term in self.terms)


def read(text: str) -> Filter:
    """Read what was typed; what is wrong with a term is said, and the rest holds."""
    terms: list[Term] = []
    words: list[str] = []
    wrong: list[str] = []
    for word in text.split():
        found = _term(word)
        if isinstance(found, str):
            wrong.append(found)
        else:
            terms.append(found)
            words.append(word)
    return Filter(tuple(terms), " ".join(words), tuple(wrong))


def _term(word: str) -> Term | str:
    """Give the term that a word is, or what is wrong with it."""
    negated = word.startswith("!")
    rest = word.removeprefix("!")
    if not rest:
        return "! stands before a term: !relu"
    found = _TERM.fullmatch(rest.casefold())
    if found is None:
        return Term("text", "has", rest.casefold(), negated=negated)
    field, value = found["field"], found["value"]
    if field in WORDS:
        return _word(field, value, negated) if found["word"] else f"write {field}:{value or 'x'}"
    if field in FIGURES:
        relation = found["relation"]
        if relation is None:
            return f"{field} takes > or <: {_EXAMPLES[field]}"
        return _figure(field, relation, value, negated)
    return f'no "{field}": there are {", ".join((*WORDS, *FIGURES))}'


def _word(field: Field, value: str, negated: bool) -> Term | str:
    if field == "bound":
        meant = [name for name in BOUNDS if value and name.startswith(value)]
        if not meant:
            return "bound: is compute, memory, overhead or unexplained"
        return Term(field, "has", meant[0], negated=negated)
    if not value:
        return f"{field}: needs a part of a {field}"
    return Term(field, "has", value, negated=negated)


def _figure(field: Field, relation: str, value: str, negated: bool) -> Term | str:
    found = _NUMBER.fullmatch(value)
    factor = _factor(field, found["unit"]) if found is not None else None
    if found is None or factor is None or (field == "depth" and "." in found["number"]):
        return f"write {_EXAMPLES[field]}"
    if relation == "=" and field in ("time", "share"):
        return f"a measured {field} equals nothing: {_EXAMPLES[field]}"
    number = float(found["number"]) * factor
    return Term(field, _RELATIONS[relation], number=number, negated=negated)


_RELATIONS: dict[str, Relation] = {">": ">", "<": "<", ">=": ">=", "<=": "<=", "=": "="}


def _factor(field: Field, unit: str) -> float | None:
    """Give what the number is to be multiplied by; None where the unit is wrong or missing."""
    match field:
        case "time":
            return _SECONDS.get(unit)
        case "share":
            return 0.01 if unit == "%" else None
        case "depth":
            return 1.0 if not unit else None
        case _:
            return _COUNTS.get(unit)
