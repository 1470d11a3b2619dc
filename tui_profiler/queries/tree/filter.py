"""Which nodes a filter finds; what is typed is read strictly.

    conv                a substring of path, name or type
    name: type: bound:  a part of the name, of the type; the bound it has
    shape: kernel:      axes of an input, an output or a weight in a row: 1x64x56x56, *x7x7;
                        the last axes of a weight: 7x7
    time> share>        measured: 1ms, 20us, 0.5s; 5%; of a step in training, else of a forward
    params> mac>        1M, 250K, 4G, or a plain number
    depth<              levels below the model: 3
    !                   before any of them: what it does not find

1. Terms stand apart by blanks, and all hold together. Figures take ``>``, ``<``, ``>=`` and ``<=``;
   counts ``=`` as well. For each term that is none there is a sentence.
2. A figure that is not known satisfies no term, and no negated one either.
"""

import operator
import re
from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

from tui_profiler.messages import Node, Weight
from tui_profiler.queries.cost.bound import kinds_of, known_macs
from tui_profiler.queries.cost.bound_classes import KINDS, NAMES, BoundKind
from tui_profiler.queries.time.base import base, base_seconds, share
from tui_profiler.queries.time.node_seconds import node_seconds
from tui_profiler.session import Session, Tree

_Field: TypeAlias = Literal[
    "text", "name", "type", "bound", "shape", "kernel", "time", "share", "params", "mac", "depth"
]
_Relation: TypeAlias = Literal["has", ">", "<", ">=", "<=", "="]

_WORDS: tuple[_Field, ...] = ("name", "type", "bound", "shape", "kernel")
_SHAPES: tuple[_Field, ...] = ("shape", "kernel")
_FIGURES: tuple[_Field, ...] = ("time", "share", "params", "mac", "depth")
_LIVE: frozenset[_Field] = frozenset(("time", "share", "bound"))
"""What they find changes as the model runs."""
BOUNDS = KINDS

_TERM = re.compile(
    r"(?P<field>[a-z]+)(?:(?P<word>:(?!:))|(?P<relation>[<>]=?|=))(?P<value>.*)", re.S
)
_AXES = re.compile(r"(?:\d{1,18}|\*)(?:[x×](?:\d{1,18}|\*))*")
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


class _Term(Struct, frozen=True):
    """One condition."""

    field: _Field
    relation: _Relation
    word: str = ""
    """What is looked for, in lower case; of a bound its full name."""
    number: float = 0.0
    """What figures are compared with: seconds, a share of 0 to 1, a count."""
    negated: bool = False


class _Filter(Struct, frozen=True):
    """What was typed, understood."""

    terms: tuple[_Term, ...] = ()
    text: str = ""
    """The words that were understood, one blank between them: typed again they say the same."""
    wrong: tuple[str, ...] = ()
    """One sentence for each word that was not."""

    @property
    def is_live(self) -> bool:
        """Whether what it finds changes as the model runs."""
        return any(term.field in _LIVE for term in self.terms)


def read_filter(text: str) -> _Filter:
    """Read what was typed; what is wrong with a term is said, and the rest holds."""
    terms: list[_Term] = []
    words: list[str] = []
    wrong: list[str] = []
    for word in text.split():
        found = _term(word)
        if isinstance(found, str):
            wrong.append(found)
        else:
            terms.append(found)
            words.append(word)
    return _Filter(tuple(terms), " ".join(words), tuple(wrong))


def _term(word: str) -> _Term | str:
    """Return the term that a word is, or what is wrong with it."""
    negated = word.startswith("!")
    rest = word.removeprefix("!")
    if not rest:
        return "! stands before a term: !relu"
    found = _TERM.fullmatch(rest.casefold())
    if found is None:
        return _Term("text", "has", rest.casefold(), negated=negated)
    field, value = found["field"], found["value"]
    if field in _WORDS:
        return _word(field, value, negated) if found["word"] else f"write {field}:{value or 'x'}"
    if field in _FIGURES:
        relation = found["relation"]
        if relation is None:
            return f"{field} takes > or <: {_EXAMPLES[field]}"
        return _figure_term(field, relation, value, negated)
    return f'no "{field}": there are {", ".join((*_WORDS, *_FIGURES))}'


def _word(field: _Field, value: str, negated: bool) -> _Term | str:
    if field == "bound":
        meant = [name for name in BOUNDS if value and name.startswith(value)]
        if not meant:
            return f"bound: is {NAMES}"
        return _Term(field, "has", meant[0], negated=negated)
    if field in _SHAPES and _AXES.fullmatch(value) is None:
        return f"write {field}:{'7x7' if field == 'kernel' else '1x64x56x56'}, * for any axis"
    if not value:
        return f"{field}: needs a part of a {field}"
    return _Term(field, "has", value, negated=negated)


def _figure_term(field: _Field, relation: str, value: str, negated: bool) -> _Term | str:
    found = _NUMBER.fullmatch(value)
    factor = _factor(field, found["unit"]) if found is not None else None
    if found is None or factor is None or (field == "depth" and "." in found["number"]):
        return f"write {_EXAMPLES[field]}"
    if relation == "=" and field in ("time", "share"):
        return f"a measured {field} equals nothing: {_EXAMPLES[field]}"
    number = float(found["number"]) * factor
    return _Term(field, _RELATIONS[relation], number=number, negated=negated)


_RELATIONS: dict[str, _Relation] = {">": ">", "<": "<", ">=": ">=", "<=": "<=", "=": "="}


def _factor(field: _Field, unit: str) -> float | None:
    """Return what the number is to be multiplied by; None where the unit is wrong or missing."""
    match field:
        case "time":
            return _SECONDS.get(unit)
        case "share":
            return 0.01 if unit == "%" else None
        case "depth":
            return 1.0 if not unit else None
        case _:
            return _COUNTS.get(unit)


_Test: TypeAlias = Callable[[int], bool]
_COMPARE: dict[_Relation, Callable[[float, float], bool]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
    "=": operator.eq,
}


def matches(session: Session, text: str, *, operators: bool) -> list[int]:
    """Return the nodes found, in order; a text without a term finds none.

    Args:
        session: with a complete tree.
        text: what to look for; words that are no term are left out.
        operators: look at operators as well as at modules.
    """
    tree, terms = session.tree, read_filter(text).terms
    if tree is None or not terms:
        return []
    nodes = tree.nodes
    found: list[int] = [i for i, n in enumerate(nodes) if operators or n.kind == "module"]
    # The cheap ones first: what they leave out need not be looked at by those that cost.
    for term in sorted(terms, key=lambda term: (term.field in _LIVE, term.field == "bound")):
        test = _test(session, tree, term)
        found = [index for index in found if test(index)]
    return found


def matches_name(text: str, name: str) -> bool:
    """Tell whether a name alone is found: by words and ``name:``; other terms find no name."""
    return all(
        term.field in ("text", "name") and (term.word in name.casefold()) != term.negated
        for term in read_filter(text).terms
    )


def is_live(text: str) -> bool:
    """Say whether what a text finds changes as the model runs."""
    return read_filter(text).is_live


def why_none(session: Session, text: str) -> str:
    """Return why a filter can find nothing yet; empty where it could."""
    fields = {term.field for term in read_filter(text).terms}
    if fields & {"time", "share"} and not base(session).is_measured:
        return "needs times"
    return ""


def with_ancestors(tree: Tree, found: list[int]) -> bytes:
    """Mark what is found and everything above it, one byte for each node; the root always."""
    kept = bytearray(len(tree))
    nodes = tree.nodes
    if kept:
        kept[0] = 1
    for match in found:
        index = match
        while not kept[index]:
            kept[index] = 1
            index = nodes[index].parent
    return bytes(kept)


def _test(session: Session, tree: Tree, term: _Term) -> _Test:
    wanted = not term.negated
    if term.relation == "has":
        if term.field == "bound":
            kind_of = kinds_of(session)
            return lambda node: _has_bound(kind_of(node), term)
        has = _holds(tree, term)
        return lambda node: has(node) == wanted
    figure = _figure(session, tree, term)
    compare = _COMPARE[term.relation]

    def test(node: int) -> bool:
        value = figure(node)
        return value is not None and compare(value, term.number) == wanted

    return test


def _holds(tree: Tree, term: _Term) -> _Test:
    nodes, needle = tree.nodes, term.word
    match term.field:
        case "name":
            return lambda node: needle in nodes[node].name.casefold()
        case "type":
            return lambda node: needle in nodes[node].type.casefold()
        case "shape":
            axes = _axes(needle)
            return lambda node: any(_has_axes(shape, axes) for shape in _shapes(nodes[node]))
        case "kernel":
            axes = _axes(needle)
            return lambda node: any(_is_kernel(each, axes) for each in nodes[node].weights)
        case _:
            return lambda node: (
                needle in nodes[node].path.casefold()
                or needle in nodes[node].type.casefold()
                or needle in nodes[node].name.casefold()
            )


_Axes: TypeAlias = tuple[int | None, ...]


def _axes(typed: str) -> _Axes:
    """Return the axes that were typed; None is any."""
    return tuple(None if axis == "*" else int(axis) for axis in typed.replace("×", "x").split("x"))


def _shapes(node: Node) -> Iterator[tuple[int, ...]]:
    yield from (tensor.shape for tensor in (*node.inputs, *node.outputs))
    yield from (weight.shape for weight in node.weights)


def _has_axes(shape: tuple[int, ...], axes: _Axes) -> bool:
    """Tell whether axes stand in a shape, one behind the other."""
    return any(_are(shape[at : at + len(axes)], axes) for at in range(len(shape) - len(axes) + 1))


def _is_kernel(weight: Weight, axes: _Axes) -> bool:
    """Tell whether a weight ends with such axes, behind those of its channels."""
    return len(weight.shape) >= len(axes) + 2 and _are(weight.shape[-len(axes) :], axes)


def _are(shape: tuple[int, ...], axes: _Axes) -> bool:
    return all(axis is None or axis == size for size, axis in zip(shape, axes, strict=True))


def _has_bound(kind: BoundKind | None, term: _Term) -> bool:
    return kind is not None and (kind == term.word) != term.negated


def _figure(session: Session, tree: Tree, term: _Term) -> Callable[[int], float | None]:
    costs, depths = tree.costs, tree.depths
    match term.field:
        case "time":
            of = base_seconds if base(session).name == "step" else node_seconds
            return lambda node: of(session, node)
        case "share":
            is_measured = base(session).is_measured
            return lambda node: share(session, node) if is_measured else None
        case "params":
            return lambda node: costs[node].parameters
        case "mac":
            return lambda node: known_macs(costs[node])
        case _:
            return lambda node: depths[node]
