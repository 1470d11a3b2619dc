"""The operators that a file may name without trust: pure computation on tensors, numbers and texts.

The list follows from the schemas of the torch that runs, by this rule. It does not depend on any
file. An overload is admitted if all of these hold:

1. Its namespace is ``aten``, ``prims``, ``torchvision``, ``quantized`` or ``_quantized``; of
   ``prim``, only the names below.
2. Every argument is a tensor, number, bool, device, generator, enumeration, or a list, dict, tuple
   or optional of these; objects only of the classes that are weights of quantised layers. No
   storage, stream, future, remote reference, Python object or process group.
3. A text is an enumeration, a message or the name of a dimension, known by the argument's name
   (``mode``, ``padding``), or an argument of one of the methods of text and dicts below.
4. It is not among those that are refused by name.

Operators on tensors that write to their arguments (``copy_``, ``fill_``) are admitted: no admitted
operator returns memory that is mapped to a file. What is not promised: that the kernels of torch
are free of faults for every shape and value.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

import torch
from msgspec import Struct

from tui_profiler.archive.formats.torchscript_code import QUANTIZED_CLASSES
from tui_profiler.probe.torch_compat.versions import DIMENSION_NAMES


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NAMESPACES = frozenset(("aten", "prims", "torchvision", "quantized", "_quantized"))
_PLAIN_TYPES = _words("""
    Tensor Any AnyEnumType Dict Device Future Generator List Optional Tuple bool complex float int
    int64_t number t t1 t2 tVal
""")
_TYPE = re.compile(r"[A-Za-z_][\w.]*")

TEXT_ARGUMENTS = _words("""
    UPLO activation api_name approximate assert_msg driver equation indexing interpolation mode
    norm ord p pad_mode padding padding_mode padding_side reduce reduction rounding_mode side
""") | _words(DIMENSION_NAMES)
"""Names of arguments that are one of a few words, an equation, or the message of an assertion."""
TEXT_METHODS = _words("""
    Delete Float Int __contains__ __getitem__ _set_item add any append capitalize center clear
    copy count device dict endswith eq expandtabs extend find format ge get get_autocast_dtype gt
    hash index insert isalnum isalpha isdecimal isdigit isidentifier islower isnumeric isprintable
    isspace istitle isupper items join keys le len list ljust lower lstrip lt ne ord partition
    percentFormat pop popitem remove replace reverse rfind rindex rjust rpartition rsplit rstrip
    setdefault slice sort sorted split splitlines startswith str strip swapcase title update upper
    values warn zfill
""")
"""Methods of texts, lists and dicts, of aten; ``warn`` writes to the worker's stderr."""
PRIM = _words("""
    ConstantChunk EnumName EnumValue IfThenElse NumToTensor RaiseException StringIndex TupleIndex
    TupleUnpack Uninitialized VarConcat VarStack abs data device dtype grad id index is_cpu
    is_cuda is_ipu is_maia is_meta is_mkldnn is_mps is_mtia is_nested is_quantized is_sparse
    is_sparse_csr is_vulkan is_xla is_xpu itemsize layout max min name nbytes rangelist
    requires_grad tolist type unchecked_cast unchecked_unwrap_optional
""")
"""Of ``prim``: conversions, properties of tensors and devices, and raising an error."""
REFUSED = {
    "reads or writes a file": "from_file save",
    "prints": "_print",
    "sets or reads the state of random numbers": "manual_seed seed initial_seed",
    "changes process-wide caches": "_cufft_clear_plan_cache _cufft_set_plan_cache_max_size",
    "does not check its arguments": (
        "_nested_view_from_buffer _nested_view_from_buffer_copy _sparse_bsc_tensor_unsafe "
        "_sparse_bsr_tensor_unsafe _sparse_compressed_tensor_unsafe _sparse_coo_tensor_unsafe "
        "_sparse_csc_tensor_unsafe _sparse_csr_tensor_unsafe _reshape_alias _reshape_alias_copy "
        "shallow_copy_data_ set_data"
    ),
}
"""By what they do: the operators of aten that are refused whatever their arguments are."""
_REFUSED = {name: deed for deed, names in REFUSED.items() for name in names.split()}

HIGHER_ORDER = _words("""
    associative_scan cond map_impl scan while_loop wrap_with_autocast wrap_with_set_grad_enabled
""")
"""Operators that take graphs, as torch.export writes them; those graphs are read as well."""


class Admitted(Struct, frozen=True):
    """The operators that this torch has, and those of them that need no trust."""

    overloads: frozenset[tuple[str, str]]
    """(``aten::add``, ``Tensor``); the overload is empty for the default one."""
    names: frozenset[str]
    """``aten::add``, where every overload is admitted: TorchScript chooses one by its arguments."""
    known_names: frozenset[str]


def admitted() -> Admitted:
    """Return the operators that need no trust, by the schemas registered so far."""
    schemas = torch._C._jit_get_all_schemas()
    # Registered operators only become more: importing torchvision adds some.
    return _by_rule(len(schemas))


@lru_cache(maxsize=4)
def _by_rule(_count: int) -> Admitted:
    known: set[tuple[str, str]] = set()
    overloads: set[tuple[str, str]] = set()
    for schema in torch._C._jit_get_all_schemas():
        overload = (schema.name, schema.overload_name)
        known.add(overload)
        if is_pure(schema.name, {part.name: str(part.type) for part in schema.arguments}):
            overloads.add(overload)
    refused = {name for name, _ in known - overloads}
    return Admitted(
        frozenset(overloads),
        frozenset(name for name, _ in overloads if name not in refused),
        frozenset(name for name, _ in known),
    )


def is_pure(name: str, arguments: Mapping[str, str]) -> bool:
    """Say whether the rule above admits an overload.

    Args:
        name: With its namespace, ``aten::add``.
        arguments: Name to type, as the schema writes it: ``Optional[List[int]]``.
    """
    namespace, _, short = name.partition("::")
    if namespace == "prim":
        return short in PRIM
    if namespace not in _NAMESPACES:
        return False
    if namespace == "aten" and (short in _REFUSED or short.startswith("_test_")):
        return False
    return "unsafe" not in arguments and all(
        _is_plain(short, argument, kind) for argument, kind in arguments.items()
    )


def _is_plain(operator: str, argument: str, kind: str) -> bool:
    words = set(_TYPE.findall(kind))
    if "str" in words:
        words.discard("str")
        if argument not in TEXT_ARGUMENTS and operator not in TEXT_METHODS:
            return False
    return words <= _PLAIN_TYPES | QUANTIZED_CLASSES


def refused_overload(target: str) -> str:
    """Say why a graph may not call an operator; empty where it may.

    Args:
        target: As the graph has it: ``torch.ops.aten.add.Tensor``.
    """
    _, _, namespace, name, *rest = target.split(".")
    if namespace == "higher_order":
        return "" if name in HIGHER_ORDER and not rest else _deed(name)
    overload = "" if rest == ["default"] else ".".join(rest)
    is_admitted = bool(rest) and (f"{namespace}::{name}", overload) in admitted().overloads
    return "" if is_admitted else _deed(name)


def refused_names(names: Iterable[str]) -> list[str]:
    """Name the operators, such as ``aten::save``, that TorchScript may not call without trust.

    One that is not registered is not among them: torch cannot load what names it.
    """
    found = admitted()
    return [name for name in names if name in found.known_names and name not in found.names]


def described_operator(name: str) -> str:
    """Return what a refused operator does, ``aten::save (reads or writes a file)``, where known."""
    namespace, _, short = name.partition("::")
    deed = _REFUSED.get(short) if namespace == "aten" else None
    return f"{name} ({deed})" if deed else name


def _deed(name: str) -> str:
    return _REFUSED.get(name, "is not an allowed operator")
