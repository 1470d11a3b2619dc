"""Whether a torch.export archive can be loaded without running code of whoever made it.

``torch.export.load`` trusts its file: it unpickles what ``weights_only`` refuses, evaluates the
expressions of dynamic sizes as Python, calls any function of torch that a graph names, and loads
compiled libraries. Here the archive is read beforehand, and what asks for one of these is named.

Nothing is imported but the standard library; the file's own code is looked at, never run.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

_FORMAT = "archive_format"
_MOST_JSON_BYTES = 512 << 20
_SYMBOL = re.compile(r"[a-z]{1,4}\d+")
_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_EXPRESSION = re.compile(r"[\w\s+\-*/%(),.<>=!&|~]{1,4000}")
_NAMED_SYMBOL = re.compile(r"Symbol\('(\w+)'(, \w+=(True|False))*\)")
"""How sympy writes a symbol with what is assumed of it."""
_OF_SIZES = """FloorDiv ModularIndexing Where PythonMod Mod CleanDiv CeilToInt FloorToInt CeilDiv
    LShift RShift PowByNatural FloatPow FloatTrueDiv IntTrueDiv IsNonOverlappingAndDenseIndicator
    TruncToFloat TruncToInt RoundToInt RoundDecimal ToFloat Identity Max Min And Or Not Eq Ne Lt Le
    Gt Ge Integer Rational True False oo int_oo e"""
_OF_OPERATOR = """eq ne le ge lt gt neg pos mul add sub floordiv mod pow truediv and_ or_ lshift
    rshift getitem not_ xor"""
_OF_TORCH = "sym_not sym_int sym_float sym_ite sym_max sym_min sym_sqrt"
_OF_PYTHON = "__and__ __or__ __xor__ __lshift__ __rshift__ __iand__ __ior__"
_EXPRESSION_FUNCTIONS = frozenset(_OF_SIZES.split())
_FUNCTIONS = frozenset(
    [f"_operator.{name}" for name in _OF_OPERATOR.split()]
    + [f"torch.{name}" for name in _OF_TORCH.split()]
)
_MATH = re.compile(r"math\.(trunc|ceil|floor|sqrt|pow|log|exp)")
_OPERATOR = re.compile(r"torch\.ops(\.[A-Za-z_]\w*){2,3}")
_DUNDER_OPERATORS = frozenset(_OF_PYTHON.split())
_PICKLED_FOLDERS = ("data/weights/", "data/constants/", "data/sample_inputs/")


def pickled_members(path: Path) -> tuple[str, ...]:
    """Name the members that ``torch.export.load`` would unpickle.

    Raises:
        zipfile.BadZipFile, OSError: It is no readable zip file.
    """
    with zipfile.ZipFile(path) as archive:
        names = [name.partition("/")[2] for name in archive.namelist()]
        return tuple(
            whole
            for whole, name in zip(archive.namelist(), names, strict=True)
            if name.startswith(_PICKLED_FOLDERS) and name.endswith(".pt")
        )


def dangers(path: Path) -> tuple[str, ...]:
    """Say what in the archive would run code when it is loaded or run; empty where nothing does.

    Each is a clause such as ``a compiled library``. Members that are pickled are not looked into:
    see ``pickled_members``.

    Raises:
        zipfile.BadZipFile, OSError, ValueError, RecursionError: It cannot be read.
    """
    found: dict[str, None] = {}
    with zipfile.ZipFile(path) as archive:
        names = {name.partition("/")[2]: name for name in archive.namelist()}
        if _FORMAT not in names:
            found["the format of before torch 2.8, which is unpickled"] = None
        for name, whole in names.items():
            if name.startswith("data/aotinductor/"):
                found["a compiled library"] = None
            elif name.startswith("data/constants/custom_obj"):
                found["an object of a custom class"] = None
            elif name.startswith("data/constants/opaque_obj"):
                found["a pickled object"] = None
            elif name.endswith(".json"):
                if archive.getinfo(whole).file_size > _MOST_JSON_BYTES:
                    raise ValueError(f"{name} is larger than any graph")
                found |= dict.fromkeys(_in_json(json.loads(archive.read(whole))))
    return tuple(found)


def _in_json(content: object) -> Iterator[str]:
    pending: list[object] = [content]
    while pending:
        item = pending.pop()
        if isinstance(item, list):
            pending.extend(item)
        elif isinstance(item, dict):
            pending.extend(item.values())
            for key, value in item.items():
                yield from _in_field(key, value)


def _in_field(key: str, value: object) -> Iterator[str]:
    match key, value:
        case "target", str() if value and not _is_known_function(value):
            yield f"a call of {value}"
        case "expr_str", str() if not _is_arithmetic(value):
            yield f"the expression {value}"
        case "name", str() if value and not _IDENTIFIER.fullmatch(value):
            yield f"an argument named {value}"
        case "use_pickle", True:
            yield "pickled weights"
        case "guards_code", list() if value:
            yield from ()  # dropped before it is evaluated: see ``exported.py``
        case "range_constraints", dict():
            for name in value:
                if not _SYMBOL.fullmatch(name):
                    yield f"a size named {name}"
        case _, str() if '"__enum__"' in value or '"default_factory_module"' in value:
            yield "an import of a class for its inputs"


def _is_known_function(target: str) -> bool:
    if target in _FUNCTIONS or _MATH.fullmatch(target):
        return True
    parts = target.split(".")[2:]
    return bool(_OPERATOR.fullmatch(target)) and all(
        not part.startswith("__") or part in _DUNDER_OPERATORS for part in parts
    )


def _is_arithmetic(text: str) -> bool:
    """Say whether an expression holds only numbers, symbols and the functions of sizes."""
    text = _NAMED_SYMBOL.sub(r"\1", text)
    if not _EXPRESSION.fullmatch(text):
        return False
    return all(
        word in _EXPRESSION_FUNCTIONS or _SYMBOL.fullmatch(word)
        for word in _IDENTIFIER.findall(text)
    )
