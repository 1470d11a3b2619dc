"""The operators that the code of a TorchScript archive names, read without running or importing it.

The code is Python's syntax with fewer forms. torch parses it with a parser of its own, so that two
things are checked before ``ast`` is trusted with it:

1. Outside of strings only characters and forms that both parsers read alike: no comments, line
   continuations, single quotes, prefixed or triple-quoted strings, tabs or non-ASCII text, none of
   which torch's printer writes.
2. Every kind of node that is not in the list below is refused.

What a name means follows torch/csrc/jit/serialization/import_source.cpp (``torch``, ``ops``,
``CONSTANTS``, ``__torch__``, ``fork`` and so on) and ``SimpleValue::attr`` in
torch/csrc/jit/frontend/sugared_value.cpp: an attribute of a value that is neither an attribute nor
a method of its class is the operator ``aten::NAME`` with the value as its first argument. Hence
``x.save("f")`` is ``aten::save``, and every attribute is reported, called or not: ``f = x.save``
can be called later.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from msgspec import Struct

from tui_profiler.archive.reading import limits
from tui_profiler.archive.reading.zips import Zip, inflated

_CODE = "code/"


class Code(Struct, frozen=True):
    """What all the code of an archive names. Places are ``code/__torch__.py, line 3``."""

    operators: dict[str, str]
    """Operator with its namespace, ``aten::relu``, to the place of its first use."""
    attributes: dict[str, str]
    """Attribute of some value, to the place of its first use: an operator of aten where the value
    has none of that name."""
    others: tuple[str, ...]
    """What is neither, as clauses with their places: ``print (code/__torch__.py, line 3)``."""


_STRING = re.compile(r'"[^"\\\n]*+(?:\\[ -~][^"\\\n]*+)*+("?)')
"""Also one that is not closed: no character is searched twice, or remembered."""
_PLAIN = re.compile(r"[A-Za-z0-9_ \n.,:()\[\]{}=+\-*/%<>!&|^~@]*")
_BESIDE_STRING = re.compile(r'[A-Za-z0-9_"\x00]\x00|\x00[A-Za-z0-9_"]')
_DEEPEST = 150
"""Levels of brackets: Python's parser stops at 200."""
_DEEPEST_FUNCTION = 4
"""Functions within functions: torch prints those that are forked."""
_SPACES = re.compile(r" +")
_OF_WORDS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TYPES = _words("""
    Any AnyClassType Await Device Dict Enum Final Future Generator InferredType Interface Layout
    List MemoryFormat Module ModuleInterface NamedTuple None NoneType Number Optional QScheme RRef
    Scalar Storage Stream SymBool SymFloat SymInt Tensor Tuple Union bool complex float int number
    object str
""")
_PURE = _words("""
    abs all annotate any bin bool chr complex dict divmod enumerate float fork getattr hasattr
    hash hex id inf infj int isinstance len list max min nan nanj oct ord range rangelist round
    sorted str sum tuple unchecked_cast uninitialized zip
""")
"""Functions and values without a namespace that compute and do nothing else; ``fork`` runs a
function of the archive, which is read as all others are."""
_NAMESPACES = frozenset(("torch", "ops", "CONSTANTS", "__torch__"))
_WITH_EFFECTS = frozenset(("print", "awaitable"))
_RESERVED = _NAMESPACES | _WITH_EFFECTS
"""Names that no variable may have: what they stand for would depend on the order of the code."""

QUANTIZED_CLASSES = frozenset(
    f"__torch__.torch.classes.{name}"
    for name in (
        "quantized.LinearPackedParamsBase",
        "quantized.Conv2dPackedParamsBase",
        "quantized.Conv3dPackedParamsBase",
        "quantized.EmbeddingPackedParamsBase",
        "rnn.CellParamsBase",
    )
)
"""Classes of torch in C++ that are only weights in another order."""
CUSTOM_CLASSES = "__torch__.torch.classes."

_NODES = (
    ast.Module, ast.ClassDef, ast.FunctionDef, ast.arguments, ast.arg, ast.Return, ast.Assign,
    ast.AnnAssign, ast.AugAssign, ast.For, ast.While, ast.If, ast.With, ast.withitem, ast.Raise,
    ast.Assert, ast.Expr, ast.Pass, ast.Break, ast.Continue, ast.Delete, ast.BoolOp, ast.boolop,
    ast.BinOp, ast.operator, ast.UnaryOp, ast.unaryop, ast.IfExp, ast.Dict, ast.ListComp,
    ast.DictComp, ast.comprehension, ast.Compare, ast.cmpop, ast.Call, ast.keyword, ast.Constant,
    ast.Attribute, ast.Subscript, ast.Slice, ast.Starred, ast.Name, ast.List, ast.Tuple,
    ast.expr_context,
)  # fmt: skip
_BASES = frozenset(("Module", "NamedTuple", "Enum", "Interface", "ModuleInterface", "object"))


def read_code(archive: Zip) -> Code:
    """Return what the code of an archive names, whether or not anything reaches it."""
    reading = _Reading()
    left = limits.INFLATED_BYTES
    marks = limits.CODE_MARKS
    for name, member in archive.members.items():
        if not name.startswith(_CODE) or not name.endswith(".py"):
            continue
        data = inflated(archive, name, left)
        left -= member.bytes
        marks -= _marks(data)
        if marks < 0:
            raise archive.error(member, "contains more code than any model")
        reading.read(data, name)
    return Code(reading.operators, reading.attributes, tuple(reading.others))


class _Scope(Struct, frozen=True):
    """The names of one function; none outside of any."""

    names: frozenset[str] = frozenset()
    optional: dict[str, str] = {}
    """Arguments declared ``Optional[T]`` and never assigned, to T as ``ast.dump`` writes it."""
    above: tuple[_Scope, ...] = ()
    """Of the functions that this one stands in."""

    def has(self, name: str) -> bool:
        """Say whether a name is an argument or a variable here or in a function above."""
        return name in self.names or any(name in scope.names for scope in self.above)


class _Reading:
    def __init__(self) -> None:
        self.operators: dict[str, str] = {}
        self.attributes: dict[str, str] = {}
        self.others: dict[str, None] = {}
        self._member = ""

    def read(self, data: bytes, member: str) -> None:
        """Add what one member of code names."""
        self._member = member
        tree = _parsed(data)
        if tree is None:
            self.others[f"code that cannot be read in {member}"] = None
            return
        waiting: list[tuple[ast.AST, _Scope]] = [(tree, _Scope())]
        while waiting:
            node, scope = waiting.pop()
            if not isinstance(node, _NODES):
                self._other(f"{type(node).__name__} in code", node)
                continue
            if isinstance(node, ast.FunctionDef):
                # A function that is forked stands within another, and uses its variables.
                above = (scope, *scope.above)
                if len(above) > _DEEPEST_FUNCTION:
                    self._other("functions nested deeper than torch writes them", node)
                    continue
                own = _scope_of(node)
                scope = _Scope(own.names, own.optional, above)
            waiting.extend((child, scope) for child in self._visit(node, scope))

    def _visit(self, node: ast.AST, scope: _Scope) -> Iterator[ast.AST]:
        """Note what a node names, and return the parts that are still to be read."""
        match node:
            case ast.ClassDef(bases=bases, decorator_list=decorators, keywords=keywords):
                names = [base.id for base in bases if isinstance(base, ast.Name)]
                if len(names) < len(bases) or not _BASES.issuperset(names):
                    self._other("a class of an unknown kind", node)
                if decorators or keywords:
                    self._other("a decorated class", node)
                yield from node.body
                return
            case ast.FunctionDef(decorator_list=[_, *_]):
                self._other("a decorated function", node)
            case ast.Call():
                self._call(node, scope)
            case ast.Attribute():
                yield from self._attribute(node)
                return
            case ast.Name(id=name):
                self._name(name, node, scope)
            case ast.arg(arg=name) if name in _RESERVED:
                self._other(f"an argument named {name}", node)
        yield from ast.iter_child_nodes(node)

    def _call(self, node: ast.Call, scope: _Scope) -> None:
        match node:
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *_]):
                self.attributes.setdefault(name, self._place(node))
            case ast.Call(func=ast.Name(id="getattr")):
                self._other("an attribute whose name is computed", node)
            case ast.Call(func=ast.Name(id="unchecked_cast"), args=[kind, value]):
                # Plain values are checked when they are used; the attributes of an object are found
                # by their number. Only what may be None or of the class is cast to it.
                known = scope.optional.get(value.id) if isinstance(value, ast.Name) else None
                has_class = any(isinstance(part, ast.Attribute) for part in ast.walk(kind))
                if has_class and ast.dump(kind) != known:
                    self._other("an unchecked cast to a class", node)
            case ast.Call(func=ast.Name(id="unchecked_cast")):
                self._other("an unchecked cast", node)
            case ast.Call(func=ast.Name() | ast.Attribute()):
                pass
            case _:
                self._other("a call of an unnamed function", node)

    def _attribute(self, node: ast.Attribute) -> Iterator[ast.AST]:
        names: list[tuple[str, ast.AST]] = []
        here: ast.expr = node
        while isinstance(here, ast.Attribute):
            names.append((here.attr, here))
            here = here.value
        names.reverse()
        if isinstance(here, ast.Name) and here.id in _NAMESPACES:
            names = self._in_namespace(here.id, names, node)
        else:
            yield here
        for name, at in names:
            if not (isinstance(at, ast.Attribute) and isinstance(at.ctx, ast.Store)):
                self.attributes.setdefault(name, self._place(at))

    def _in_namespace(
        self, root: str, names: list[tuple[str, ast.AST]], node: ast.AST
    ) -> list[tuple[str, ast.AST]]:
        """Note what a dotted name stands for, and return the names that are attributes of it."""
        words = [name for name, _ in names]
        match root, words:
            case "CONSTANTS", [_, *_]:
                return names[1:]
            case "ops", [namespace, operator]:
                self.operators.setdefault(f"{namespace}::{operator}", self._place(node))
            case "torch", ["autograd", operator] | [operator]:
                self.operators.setdefault(f"aten::{operator}", self._place(node))
            case "__torch__", _:
                name = ".".join((root, *words))
                if name.startswith(CUSTOM_CLASSES) and name not in QUANTIZED_CLASSES:
                    self._other(f"the class {name.removeprefix('__torch__.')}", node)
            case _:
                self._other(f"the name {'.'.join((root, *words))}", node)
        return []

    def _name(self, name: str, node: ast.Name, scope: _Scope) -> None:
        if isinstance(node.ctx, ast.Store | ast.Del):
            if name in _RESERVED:
                self._other(f"a variable named {name}", node)
        elif name in _WITH_EFFECTS:
            self._other(name, node)
        elif name in _NAMESPACES or (
            scope.names and name not in _TYPES | _PURE and not scope.has(name)
        ):
            self._other(f"the name {name}", node)

    def _other(self, what: str, node: ast.AST) -> None:
        self.others.setdefault(f"{what} ({self._place(node)})")

    def _place(self, node: ast.AST) -> str:
        return f"{self._member}, line {getattr(node, 'lineno', 0)}"


def _scope_of(function: ast.FunctionDef) -> _Scope:
    # Its own name, so that the scope of a function is never empty.
    names = {function.name}
    assigned: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            assigned.add(node.id)
        elif isinstance(node, ast.FunctionDef):
            names.add(node.name)
    optional = {}
    for argument in function.args.args:
        match argument.annotation:
            case ast.Subscript(value=ast.Name(id="Optional"), slice=kind):
                optional[argument.arg] = ast.dump(kind)
    return _Scope(
        frozenset(names | assigned),
        {name: kind for name, kind in optional.items() if name not in assigned},
    )


def _parsed(data: bytes) -> ast.Module | None:
    """Return the syntax tree of code that both parsers read alike; None for any other."""
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError:
        return None
    if "\0" in text or _has_odd_text(text):
        return None
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _marks(code: bytes) -> int:
    """Count what can become a node of the syntax tree."""
    text = _SPACES.sub(" ", code.decode("latin-1"))
    return len(text.encode("latin-1").translate(None, _OF_WORDS))


def _has_odd_text(text: str) -> bool:
    """Tell whether there is more between the strings than torch's printer writes."""
    # What is not closed leaves its quote, which is not plain.
    without = _STRING.sub(lambda string: "\0" if string[1] else '"', text)
    if _BESIDE_STRING.search(without):
        return True
    if not _PLAIN.fullmatch(without.replace("\0", "")):
        return True
    depth = 0
    for mark in re.finditer(r"[()\[\]{}]", without):
        depth += 1 if mark[0] in "([{" else -1
        if depth > _DEEPEST:
            return True
    return False
