"""The opcodes of a pickle that are understood, and what each does to the state of reading it.

Nothing runs anything: what would be imported or called is only named. Each function carries out one
opcode whose arguments begin at ``at``, and gives the position of the next one. The table at the end
is the allow-list.

Source: CPython Lib/pickletools.py, which documents every opcode and its arguments.
"""

from __future__ import annotations

import pickle
import struct

from tui_profiler.archive.pickles.reading_state import (
    LIST_BYTES,
    MADE_BYTES,
    MAPPING_BYTES,
    NUMBER_BYTES,
    SLOT_BYTES,
    TEXT_BYTES,
    TUPLE_BYTES,
    Opcode,
    PickleState,
)
from tui_profiler.archive.pickles.values import Made, Mapping, Named, Persistent, Skipped
from tui_profiler.archive.reading import limits


def _constant(value: object) -> Opcode:
    """Return the opcode that pushes ``value``."""

    def push(state: PickleState, at: int) -> int:
        state.stack.append(value)
        return at

    return push


def _packed_number(layout: struct.Struct) -> Opcode:
    """Return the opcode that pushes a number of a fixed layout."""
    size = layout.size

    def push(state: PickleState, at: int) -> int:
        state.stack.append(layout.unpack_from(state.chunk, at)[0])
        state.memory -= NUMBER_BYTES
        return at + size

    return push


def _written_number(state: PickleState, at: int) -> int:
    """Push a whole number in decimal digits, or a truth value."""
    line, behind = state.line(at)
    text = line.decode("ascii", "replace").removesuffix("L")
    state.memory -= NUMBER_BYTES
    if text in ("00", "01"):
        state.stack.append(text == "01")
    elif len(text) > 2 * limits.INTEGER_BYTES:
        state.stack.append(Skipped(len(text)))
    else:
        try:
            state.stack.append(int(text))
        except ValueError:
            raise state.error(f"holds {text[:80]!a} where a whole number should be") from None
    return behind


def _written_float(state: PickleState, at: int) -> int:
    """Push a number in decimal digits."""
    line, behind = state.line(at)
    try:
        state.stack.append(float(line))
    except ValueError:
        raise state.error(f"holds {line[:80]!r} where a number should be") from None
    state.memory -= NUMBER_BYTES
    return behind


def _long_number(count_layout: struct.Struct) -> Opcode:
    """Return the opcode that pushes a whole number of any length."""

    def push(state: PickleState, at: int) -> int:
        (count,) = count_layout.unpack_from(state.chunk, at)
        at += count_layout.size
        state.memory -= NUMBER_BYTES
        if count > limits.INTEGER_BYTES:
            state.stack.append(state.skipped(at, count))
        else:
            state.stack.append(int.from_bytes(state.take(at, count), "little", signed=True))
        return at + int(count)

    return push


def _text_of(count_layout: struct.Struct, encoding: str) -> Opcode:
    """Return the opcode that pushes a text."""

    def push(state: PickleState, at: int) -> int:
        (count,) = count_layout.unpack_from(state.chunk, at)
        at += count_layout.size
        state.stack.append(state.text(at, count, encoding))
        state.memory -= TEXT_BYTES
        return at + int(count)

    return push


def _bytes_of(count_layout: struct.Struct) -> Opcode:
    """Return the opcode that pushes bytes, of which only the length is kept."""

    def push(state: PickleState, at: int) -> int:
        (count,) = count_layout.unpack_from(state.chunk, at)
        at += count_layout.size
        # Bytes are never part of the structure that we look for.
        state.stack.append(state.skipped(at, count))
        state.memory -= NUMBER_BYTES
        return at + int(count)

    return push


def _written_text(state: PickleState, at: int) -> int:
    """Push a text on a line of its own."""
    line, behind = state.line(at)
    text = line.decode("latin-1")
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    state.stack.append(text[1:-1] if quoted else text)
    state.memory -= TEXT_BYTES + len(line)
    return behind


def _empty_list(state: PickleState, at: int) -> int:
    """Push a list."""
    state.stack.append([])
    state.memory -= LIST_BYTES
    return at


def _make_list(state: PickleState, at: int) -> int:
    """Make a list of all since the mark."""
    state.stack.append(state.since_mark())
    state.memory -= LIST_BYTES
    return at


def append(state: PickleState, at: int) -> int:
    """Add the top of the stack to the list below it."""
    item = state.stack.pop()
    _add(state, state.stack[-1], [item])
    return at


def _append_all(state: PickleState, at: int) -> int:
    """Add all since the mark to the list or set below it."""
    items = state.since_mark()
    _add(state, state.stack[-1], items)
    return at


def _add(state: PickleState, target: object, items: list[object]) -> None:
    state.memory -= SLOT_BYTES * len(items)
    if isinstance(target, list):
        target.extend(items)
    elif isinstance(target, Made):
        state.memory -= LIST_BYTES
        target.items = items if target.items is None else target.items + items
    else:
        raise state.error("adds items to an object that is not a list")


def _make_tuple(state: PickleState, at: int) -> int:
    """Make a tuple of all since the mark."""
    state.stack.append(tuple(state.since_mark()))
    state.memory -= TUPLE_BYTES
    return at


def _short_tuple(count: int) -> Opcode:
    """Return the opcode that makes a tuple of the last ``count`` values."""

    def push(state: PickleState, at: int) -> int:
        stack = state.stack
        if len(stack) < count:
            raise IndexError
        stack[-count:] = [tuple(stack[-count:])]
        state.memory -= TUPLE_BYTES + SLOT_BYTES * count
        return at

    return push


def _empty_mapping(state: PickleState, at: int) -> int:
    """Push a mapping."""
    state.stack.append(Mapping())
    state.memory -= MAPPING_BYTES
    return at


def _make_mapping(state: PickleState, at: int) -> int:
    """Make a mapping of all since the mark."""
    made = Mapping()
    _set(state, made, state.since_mark())
    state.stack.append(made)
    state.memory -= MAPPING_BYTES
    return at


def _set_item(state: PickleState, at: int) -> int:
    """Set one item of the mapping below it."""
    value = state.stack.pop()
    key = state.stack.pop()
    _set(state, state.stack[-1], [key, value])
    return at


def _set_items(state: PickleState, at: int) -> int:
    """Set all items since the mark of the mapping below it."""
    pairs = state.since_mark()
    _set(state, state.stack[-1], pairs)
    return at


def _set(state: PickleState, target: object, pairs: list[object]) -> None:
    if not isinstance(target, Mapping | Made):
        raise state.error("sets items of an object that is not a mapping")
    if len(pairs) % 2:
        raise state.error("sets a key without a value")
    state.memory -= SLOT_BYTES * len(pairs)
    if target.pairs is None:
        state.memory -= LIST_BYTES
        target.pairs = pairs
    else:
        target.pairs.extend(pairs)


def _empty_set(state: PickleState, at: int) -> int:
    """Push a set."""
    state.stack.append(Made(Named("builtins.set"), ()))
    state.memory -= MADE_BYTES
    return at


def _make_frozenset(state: PickleState, at: int) -> int:
    """Make a set of all since the mark."""
    state.stack.append(Made(Named("builtins.frozenset"), (), None, state.since_mark()))
    state.memory -= MADE_BYTES
    return at


def _import_name(state: PickleState, at: int) -> int:
    """Push a name that stands on two lines."""
    module, at = state.line(at)
    name, at = state.line(at)
    state.stack.append(
        state.name(
            module.decode("utf-8", "backslashreplace"), name.decode("utf-8", "backslashreplace")
        )
    )
    return at


def _import_from_stack(state: PickleState, at: int) -> int:
    """Push a name of which module and attribute are on the stack."""
    name = state.stack.pop()
    module = state.stack.pop()
    if not isinstance(name, str) or not isinstance(module, str):
        raise state.error("imports a name that is not text")
    state.stack.append(state.name(module[: limits.LINE_BYTES], name[: limits.LINE_BYTES]))
    return at


def call(state: PickleState, at: int) -> int:
    """Make a record of a call, or of a new object."""
    arguments = state.stack.pop()
    maker = state.stack[-1]
    if arguments == () and isinstance(maker, Named) and maker.name == "collections.OrderedDict":
        state.stack[-1] = Mapping()
        state.memory -= MAPPING_BYTES
    else:
        state.stack[-1] = Made(maker, arguments)
        state.memory -= MADE_BYTES
    return at


def _call_with_keywords(state: PickleState, at: int) -> int:
    """Make a record of a new object with keyword arguments."""
    keywords = state.stack.pop()
    arguments = state.stack.pop()
    state.stack[-1] = Made(state.stack[-1], (arguments, keywords))
    state.memory -= MADE_BYTES + TUPLE_BYTES
    return at


def _set_state(state: PickleState, at: int) -> int:
    """Keep the state that an object would be given."""
    value = state.stack.pop()
    target = state.stack[-1]
    if isinstance(target, Made):
        target.state = value
    elif not isinstance(target, Mapping):
        raise state.error("sets the state of an object without state")
    return at


def _instance(state: PickleState, at: int) -> int:
    """Make a record of an object whose class stands on two lines."""
    at = _import_name(state, at)
    maker = state.stack.pop()
    state.stack.append(Made(maker, tuple(state.since_mark())))
    state.memory -= MADE_BYTES + TUPLE_BYTES
    return at


def _instance_from_stack(state: PickleState, at: int) -> int:
    """Make a record of an object whose class follows the mark."""
    taken = state.since_mark()
    state.stack.append(Made(taken[0], tuple(taken[1:])))
    state.memory -= MADE_BYTES + TUPLE_BYTES
    return at


def _persistent_by_line(state: PickleState, at: int) -> int:
    """Push a value that is kept elsewhere under an id on a line of its own."""
    line, behind = state.line(at)
    _persist(state, line.decode("ascii", "backslashreplace"))
    return behind


def _persistent_by_value(state: PickleState, at: int) -> int:
    """Push a value that is kept elsewhere under the id on the stack."""
    _persist(state, state.stack.pop())
    return at


def _persist(state: PickleState, key: object) -> None:
    made = Persistent(key, state.base + state.position)
    state.persistents.append(made)
    state.stack.append(made)
    state.memory -= MADE_BYTES


_UNSIGNED8 = struct.Struct("<Q")
_SIGNED4 = struct.Struct("<i")
_UNSIGNED2 = struct.Struct("<H")
_UNSIGNED4 = struct.Struct("<I")
_FLOAT8 = struct.Struct(">d")


def _proto(state: PickleState, at: int) -> int:
    if state.chunk[at] > pickle.HIGHEST_PROTOCOL:
        raise state.error(f"is a pickle of the unknown protocol {state.chunk[at]}")
    return at + 1


def _frame(state: PickleState, at: int) -> int:
    _UNSIGNED8.unpack_from(state.chunk, at)
    return at + 8


def _mark(state: PickleState, at: int) -> int:
    state.marks.append(len(state.stack))
    return at


def _pop(state: PickleState, at: int) -> int:
    if state.marks and state.marks[-1] == len(state.stack):
        state.marks.pop()
    else:
        state.stack.pop()
    return at


def _pop_mark(state: PickleState, at: int) -> int:
    del state.stack[state.marks.pop() :]
    return at


def _dup(state: PickleState, at: int) -> int:
    state.stack.append(state.stack[-1])
    return at


def _binput(state: PickleState, at: int) -> int:
    state.put(state.chunk[at])
    return at + 1


def _memoize(state: PickleState, at: int) -> int:
    state.put(len(state.memo) + len(state.far_memo))
    return at


def _put(state: PickleState, at: int) -> int:
    line, behind = state.line(at)
    state.put(_index(state, line))
    return behind


def _get(state: PickleState, at: int) -> int:
    line, behind = state.line(at)
    state.stack.append(state.get(_index(state, line)))
    return behind


def _index(state: PickleState, line: bytes) -> int:
    if not line.isdigit() or len(line) > 12:
        raise state.error(f"holds {line[:80]!r} where an index of its memo should be")
    return int(line)


_BYTE = struct.Struct("<B")

_OPCODES: dict[bytes, Opcode] = {
    pickle.PROTO: _proto,
    pickle.FRAME: _frame,
    pickle.MARK: _mark,
    pickle.POP: _pop,
    pickle.POP_MARK: _pop_mark,
    pickle.DUP: _dup,
    pickle.NONE: _constant(None),
    pickle.NEWTRUE: _constant(True),
    pickle.NEWFALSE: _constant(False),
    pickle.INT: _written_number,
    pickle.LONG: _written_number,
    pickle.FLOAT: _written_float,
    pickle.BININT: _packed_number(_SIGNED4),
    pickle.BININT2: _packed_number(_UNSIGNED2),
    pickle.BINFLOAT: _packed_number(_FLOAT8),
    pickle.LONG1: _long_number(_BYTE),
    pickle.LONG4: _long_number(_UNSIGNED4),
    pickle.STRING: _written_text,
    pickle.UNICODE: _written_text,
    pickle.BINSTRING: _text_of(_UNSIGNED4, "latin-1"),
    pickle.SHORT_BINSTRING: _text_of(_BYTE, "latin-1"),
    pickle.BINUNICODE: _text_of(_UNSIGNED4, "utf-8"),
    pickle.SHORT_BINUNICODE: _text_of(_BYTE, "utf-8"),
    pickle.BINUNICODE8: _text_of(_UNSIGNED8, "utf-8"),
    pickle.BINBYTES: _bytes_of(_UNSIGNED4),
    pickle.SHORT_BINBYTES: _bytes_of(_BYTE),
    pickle.BINBYTES8: _bytes_of(_UNSIGNED8),
    pickle.BYTEARRAY8: _bytes_of(_UNSIGNED8),
    pickle.EMPTY_LIST: _empty_list,
    pickle.LIST: _make_list,
    pickle.APPEND: append,
    pickle.APPENDS: _append_all,
    pickle.TUPLE: _make_tuple,
    pickle.TUPLE1: _short_tuple(1),
    pickle.TUPLE2: _short_tuple(2),
    pickle.TUPLE3: _short_tuple(3),
    pickle.EMPTY_DICT: _empty_mapping,
    pickle.DICT: _make_mapping,
    pickle.SETITEM: _set_item,
    pickle.SETITEMS: _set_items,
    pickle.EMPTY_SET: _empty_set,
    pickle.ADDITEMS: _append_all,
    pickle.FROZENSET: _make_frozenset,
    pickle.PUT: _put,
    pickle.BINPUT: _binput,
    pickle.MEMOIZE: _memoize,
    pickle.GET: _get,
    pickle.GLOBAL: _import_name,
    pickle.STACK_GLOBAL: _import_from_stack,
    pickle.REDUCE: call,
    pickle.NEWOBJ: call,
    pickle.NEWOBJ_EX: _call_with_keywords,
    pickle.BUILD: _set_state,
    pickle.INST: _instance,
    pickle.OBJ: _instance_from_stack,
    pickle.PERSID: _persistent_by_line,
    pickle.BINPERSID: _persistent_by_value,
}

OPCODES: list[Opcode | None] = [_OPCODES.get(bytes([code])) for code in range(256)]
"""The allow-list, by the opcode's byte. STOP and the five most frequent, LONG_BINPUT, BINGET,
LONG_BINGET, EMPTY_TUPLE and BININT1, are the reader's own."""
