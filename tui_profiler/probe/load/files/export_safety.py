"""What in a torch.export archive would run code of whoever made it, found before torch reads it.

``torch.export.load`` trusts its file: it unpickles what ``weights_only`` refuses, evaluates the
expressions of dynamic sizes as Python, writes names of the graph into Python source that it
executes, imports the classes that the structure of the inputs names, calls any function of torch,
and loads compiled libraries. Here the archive is read beforehand, by what is allowed:

1. Members only as torch.export.save names them.
2. Graphs call only operators of ``allowed_operators.py``, arithmetic on sizes, and a few functions
   that take graphs, which are read as well.
3. Every text in a graph is of the form that its field has in torch/_export/serde/schema.py; a field
   that is not known here has plain words only.

Nothing is imported or run. Source: torch/_export/serde/serialize.py, torch/fx/graph.py (which names
end up in generated code), torch/utils/_pytree.py (``treespec_loads``).
"""

import ast
import importlib.util
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from tui_profiler.archive.reading import limits
from tui_profiler.archive.reading.file_region import open_file
from tui_profiler.archive.reading.zips import Zip, read_member, read_zip, unexpected_members
from tui_profiler.probe.load.files.allowed_operators import refused_overload

_FORMAT = "archive_format"
_SYMBOL = re.compile(r"[a-z]{1,4}\d+")
_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_EXPRESSION = re.compile(r"[\w\s+\-*/%(),.<>=!&|~]{1,4000}")
_POWERS = ("PowByNatural", "FloatPow", "LShift", "<<")
_LARGEST_EXPONENT = 64
_NAMED_SYMBOL = re.compile(r"Symbol\('(\w+)'(, \w+=(True|False))*\)")
"""How sympy writes a symbol with what is assumed of it."""
_OF_SIZES = """FloorDiv ModularIndexing Where PythonMod Mod CleanDiv CeilToInt FloorToInt CeilDiv
    LShift RShift PowByNatural FloatPow FloatTrueDiv IntTrueDiv IsNonOverlappingAndDenseIndicator
    TruncToFloat TruncToInt RoundToInt RoundDecimal ToFloat Identity Max Min And Or Not Eq Ne Lt Le
    Gt Ge Integer Rational True False oo int_oo e"""
_OF_OPERATOR = """eq ne le ge lt gt neg pos mul add sub floordiv mod pow truediv and_ or_ lshift
    rshift getitem not_ xor"""
_OF_TORCH = "sym_not sym_int sym_float sym_ite sym_max sym_min sym_sqrt"
_EXPRESSION_FUNCTIONS = frozenset(_OF_SIZES.split())
_FUNCTIONS = frozenset(
    [f"_operator.{name}" for name in _OF_OPERATOR.split()]
    + [f"torch.{name}" for name in _OF_TORCH.split()]
)
_MATH = re.compile(r"math\.(trunc|ceil|floor|sqrt|pow|log|exp)")
_OPERATOR = re.compile(r"torch\.ops(\.[A-Za-z_]\w*){2,3}")
_WORDS = re.compile(r"[\w.+\-:<> ]*")
_CLASS_NAME = re.compile(r"(?!null$|true$|false$)[A-Za-z_][\w.]*")
_PATH = re.compile(r'[^"\\\x00-\x1f\x7f]*')
"""Becomes ``getattr(…, "path")`` in generated code."""
_STORED_AS = re.compile(r"(weight|tensor)_\d+")
_SPEC_TYPES = frozenset(
    (
        None, "builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict",
        "collections.deque", "collections.namedtuple", "torch.Size",
    )
)  # fmt: skip
"""Containers that torch itself registers; that of ``defaultdict`` imports what the file names."""
_LIBRARIES = ("torchvision", "torchaudio")
_PICKLED = re.compile(r"data/(weights|constants|sample_inputs)/\w+\.pt")
_OBJECT = "an object of a custom class"
_KINDS_OF_MEMBERS = (
    ("data/aotinductor/", "a compiled library"),
    ("data/constants/custom_obj", _OBJECT),
    ("data/constants/opaque_obj", "a pickled object"),
)


def pickled_members(archive: Zip) -> Iterator[str]:
    """Name the members that ``torch.export.load`` would unpickle, without the top folder."""
    for name in archive.members:
        if _PICKLED.fullmatch(name):
            yield name


def dangers(path: Path) -> tuple[str, ...]:
    """Say what in the archive would run code when it is loaded or run; empty where nothing does.

    Each is a clause such as ``a compiled library``. Members that are pickled are not looked into:
    see ``pickled_members``.

    Raises:
        ArchiveError, ValueError, RecursionError: It cannot be read.
    """
    found: dict[str, None] = {}
    with open_file(path) as region:
        archive = read_zip(region)
        if _FORMAT not in archive.members:
            return ("the format before torch 2.8, which torch unpickles",)
        for name in unexpected_members(archive, "torch.export.save"):
            kinds = (kind for start, kind in _KINDS_OF_MEMBERS if name[1:].startswith(start))
            found[next(kinds, f"the member {name}, which torch.export does not write")] = None
        for name in archive.members:
            # Extra files of the user, which torch only decodes as text.
            if not name.endswith(".json") or name.startswith("extra/"):
                continue
            content = _content(archive, name)
            is_config = name.endswith("_config.json")
            found |= dict.fromkeys(_in_config(content) if is_config else _in_graph(content))
    return tuple(found)


def _content(archive: Zip, name: str) -> object:
    """Parse a member that is JSON.

    Raises:
        ArchiveError, ValueError, RecursionError: It cannot be read, or is larger than any graph.
    """
    region = read_member(archive, name)
    text = region.read(0, region.size) if region.size <= limits.PROGRAM_BYTES else b""
    marks = text.count(b",") + text.count(b"[") + text.count(b"{")
    if region.size > limits.PROGRAM_BYTES or marks > limits.PROGRAM_MARKS:
        raise archive.error(archive.members[name], "is larger than any graph")
    content: object = json.loads(text)
    return content


def unpicklable(archive: Zip, refuses: Callable[[bytes], str]) -> Iterator[str]:
    """Name the members that ``weights_only`` refuses to unpickle: torch would all the same.

    Args:
        archive: Of torch.export.
        refuses: Is given the bytes of a member; says why they are refused, or nothing.
    """
    for name in pickled_members(archive):
        region = read_member(archive, name)
        why = refuses(region.read(0, region.size)) if region.size else ""
        if why:
            yield f"{name}, which weights_only refuses ({why[:80]})"


def _in_config(content: object) -> Iterator[str]:
    entries = content.get("config") if isinstance(content, dict) else None
    for name, entry in entries.items() if isinstance(entries, dict) else ():
        if not _PATH.fullmatch(name):
            yield f"a weight named {name!a}"
        stored = entry.get("path_name") if isinstance(entry, dict) else None
        if not isinstance(stored, str):
            yield f"no file for the weight {name!a}"
        elif stored.startswith("custom_obj_"):
            yield _OBJECT
        elif stored.startswith("opaque_obj_"):
            yield "a pickled object"
        elif entry.get("use_pickle") is not False:
            yield "pickled weights"
        elif not _STORED_AS.fullmatch(stored):
            yield f"a weight stored as {stored!a}"


def _in_graph(content: object) -> Iterator[str]:
    pending: list[tuple[str, object]] = [("", content)]
    while pending:
        field, item = pending.pop()
        match item:
            case list():
                pending.extend((field, part) for part in item)
            case dict():
                yield from _in_names(field, item)
                if field != "metadata":
                    pending.extend(item.items())
            case str():
                yield from _in_text(field, item)


def _in_names(field: str, entries: dict[str, object]) -> Iterator[str]:
    """Find what is wrong with the keys of an object: fields, or the names of values."""
    if not entries.keys().isdisjoint(("as_custom_obj", "custom_obj")):
        yield _OBJECT
    match field:
        case "metadata":
            for key, value in entries.items():
                # Paths of modules become attributes in generated code; the rest is only shown.
                if key == "nn_module_stack" and not (isinstance(value, str) and _is_path(value)):
                    yield f"a module at {value!a}"
        case "range_constraints":
            for name in entries:
                if not _SYMBOL.fullmatch(name):
                    yield f"a size named {name!a}"
        case "tensor_values" | "sym_int_values" | "sym_bool_values" | "sym_float_values":
            for name in entries:
                if name and not _IDENTIFIER.fullmatch(name):
                    yield f"a value named {name!a}"
        case "custom_obj_values" if entries:
            yield _OBJECT
        case "as_string_to_argument":
            for name in entries:
                if not _is_path(name):
                    yield f"an argument named {name!a}"


def _in_text(field: str, text: str) -> Iterator[str]:
    match field:
        case "target" | "as_operator":
            why = _refused_function(text) if text else ""
            if why:
                yield f"a call of {text[:200]} ({why})"
        case "expr_str":
            if not _is_arithmetic(text):
                yield f"the expression {text[:200]}"
        case "name" | "as_name" | "forward_arg_names" | "field_names" | "user_input_name":
            if text and not _IDENTIFIER.fullmatch(text):
                yield f"an argument named {text[:200]!a}"
        case "parameter_name" | "buffer_name" | "tensor_constant_name" | "fqn":
            if not _is_path(text):
                yield f"a module or tensor at {text[:200]!a}"
        case "in_spec" | "out_spec":
            yield from _in_structure(text, has_names=field == "in_spec")
        case "as_string" | "as_strings" | "guards_code" | "torch_version":
            # Written as literals; guards are dropped before they are evaluated:
            # ``export_archive.py``.
            return
        case _:
            if not _WORDS.fullmatch(text):
                yield f"the text {text[:200]!a} as {field}"


def _in_structure(text: str, *, has_names: bool) -> Iterator[str]:
    """Find what is wrong in the structure of inputs or outputs, which is JSON within JSON."""
    content = json.loads(text)
    if not text or not isinstance(content, list) or len(content) != 2:
        yield "a structure of inputs that is not known"
        return
    pending = [(content[1], 0)]
    while pending:
        node, depth = pending.pop()
        if not isinstance(node, dict) or not isinstance(node.get("children_spec"), list):
            yield "a structure of inputs that is not known"
            continue
        kind, context = node.get("type"), node.get("context")
        if kind is not None and not isinstance(kind, str):
            yield "a structure of inputs that is not known"
        elif kind not in _SPEC_TYPES and not _is_output_of_library(kind):
            yield f"a container of the class {kind} for its inputs"
        # The names of keyword arguments become arguments in generated code.
        is_keywords = has_names and depth == 1 and kind == "builtins.dict"
        yield from _in_context(context, are_identifiers=is_keywords)
        pending.extend((child, depth + 1) for child in node["children_spec"])


def _is_output_of_library(kind: object) -> bool:
    # Registered by transformers where it is imported, as mappings; unknown to torch elsewhere.
    return isinstance(kind, str) and bool(re.fullmatch(r"transformers(\.\w+)+", kind))


def _in_context(context: object, *, are_identifiers: bool) -> Iterator[str]:
    # Text in JSON; of a named tuple, the plain name of its class.
    is_json = isinstance(context, str) and not _CLASS_NAME.fullmatch(context)
    value = json.loads(str(context)) if is_json else context
    for part in value if isinstance(value, list) else [value]:
        if isinstance(part, dict | list):
            # {"__enum__": …} and that of a defaultdict import the module that they name.
            yield "an import of a class for its inputs"
        elif isinstance(part, str):
            form = _IDENTIFIER if are_identifiers else _WORDS
            if not form.fullmatch(part):
                yield f"an input named {part[:200]!a}"


def _is_path(text: str) -> bool:
    return bool(_PATH.fullmatch(text))


def _refused_function(target: str) -> str:
    if target in _FUNCTIONS or _MATH.fullmatch(target):
        return ""
    if not _OPERATOR.fullmatch(target):
        return "is not an operator"
    library = target.split(".")[2]
    if library in _LIBRARIES and importlib.util.find_spec(library):
        # Registers its operators.
        importlib.import_module(library)
    return refused_overload(target)


def _is_arithmetic(text: str) -> bool:
    text = _NAMED_SYMBOL.sub(r"\1", text)
    if not _EXPRESSION.fullmatch(text):
        return False
    is_known = all(
        word in _EXPRESSION_FUNCTIONS or _SYMBOL.fullmatch(word)
        for word in _IDENTIFIER.findall(text)
    )
    return is_known and _has_small_powers(text)


def _has_small_powers(text: str) -> bool:
    """Say whether every power can be computed: torch evaluates ``9**9**9**9`` for ever."""
    if "**" not in text and not any(name in text for name in _POWERS):
        return True
    try:
        parts = list(ast.walk(ast.parse(text.strip(), mode="eval")))
        return all(_is_small_power(_operands(part)) for part in parts if _is_power(part))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _is_power(node: ast.AST) -> bool:
    match node:
        case ast.BinOp(op=ast.Pow()) | ast.Call(func=ast.Name(id="PowByNatural" | "FloatPow")):
            return True
        case ast.Call(func=ast.Name(id="LShift")) | ast.BinOp(op=ast.LShift()):
            return True
    return False


def _operands(power: ast.AST) -> list[ast.expr]:
    match power:
        case ast.Call(args=arguments):
            return arguments
        case ast.BinOp(left=left, right=right):
            return [left, right]
    return []


def _is_small_power(operands: list[ast.expr]) -> bool:
    """Say whether a power is of a base without powers, to an exponent that is small."""
    if len(operands) != 2 or not _is_small(operands[1]):
        return False
    return not any(_is_power(part) for part in ast.walk(operands[0]))


def _is_small(exponent: ast.expr) -> bool:
    """Say whether an exponent is a symbol or a number that no size is raised beyond."""
    match exponent:
        case ast.Name():
            return True
        case ast.Constant(value=int(number)):
            return number <= _LARGEST_EXPONENT
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _is_small(operand)
    return False
