"""The opcodes of a pickle that are understood, and what each does to the state of reading it.

Nothing runs anything: what would be imported or called is only named. Each function carries out one
opcode whose arguments begin at ``at``, and gives the position of the next one. The table at the end
is the allow-list.

Source: CPython Lib/pickletools.py, which documents every opcode and its arguments.
"""

from __future__ import annotations

import pickle
import struct

from tui_profiler.archive.pickles import containers, objects, scalars
from tui_profiler.archive.pickles.reading_state import Opcode, PickleState

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
    pickle.NONE: scalars.constant(None),
    pickle.NEWTRUE: scalars.constant(True),
    pickle.NEWFALSE: scalars.constant(False),
    pickle.INT: scalars.written_number,
    pickle.LONG: scalars.written_number,
    pickle.FLOAT: scalars.written_float,
    pickle.BININT: scalars.packed_number(_SIGNED4),
    pickle.BININT2: scalars.packed_number(_UNSIGNED2),
    pickle.BINFLOAT: scalars.packed_number(_FLOAT8),
    pickle.LONG1: scalars.long_number(_BYTE),
    pickle.LONG4: scalars.long_number(_UNSIGNED4),
    pickle.STRING: scalars.written_text,
    pickle.UNICODE: scalars.written_text,
    pickle.BINSTRING: scalars.text_of(_UNSIGNED4, "latin-1"),
    pickle.SHORT_BINSTRING: scalars.text_of(_BYTE, "latin-1"),
    pickle.BINUNICODE: scalars.text_of(_UNSIGNED4, "utf-8"),
    pickle.SHORT_BINUNICODE: scalars.text_of(_BYTE, "utf-8"),
    pickle.BINUNICODE8: scalars.text_of(_UNSIGNED8, "utf-8"),
    pickle.BINBYTES: scalars.bytes_of(_UNSIGNED4),
    pickle.SHORT_BINBYTES: scalars.bytes_of(_BYTE),
    pickle.BINBYTES8: scalars.bytes_of(_UNSIGNED8),
    pickle.BYTEARRAY8: scalars.bytes_of(_UNSIGNED8),
    pickle.EMPTY_LIST: containers.empty_list,
    pickle.LIST: containers.make_list,
    pickle.APPEND: containers.append,
    pickle.APPENDS: containers.append_all,
    pickle.TUPLE: containers.make_tuple,
    pickle.TUPLE1: containers.short_tuple(1),
    pickle.TUPLE2: containers.short_tuple(2),
    pickle.TUPLE3: containers.short_tuple(3),
    pickle.EMPTY_DICT: containers.empty_mapping,
    pickle.DICT: containers.make_mapping,
    pickle.SETITEM: containers.set_item,
    pickle.SETITEMS: containers.set_items,
    pickle.EMPTY_SET: containers.empty_set,
    pickle.ADDITEMS: containers.append_all,
    pickle.FROZENSET: containers.make_frozenset,
    pickle.PUT: _put,
    pickle.BINPUT: _binput,
    pickle.MEMOIZE: _memoize,
    pickle.GET: _get,
    pickle.GLOBAL: objects.import_name,
    pickle.STACK_GLOBAL: objects.import_from_stack,
    pickle.REDUCE: objects.call,
    pickle.NEWOBJ: objects.call,
    pickle.NEWOBJ_EX: objects.call_with_keywords,
    pickle.BUILD: objects.set_state,
    pickle.INST: objects.instance,
    pickle.OBJ: objects.instance_from_stack,
    pickle.PERSID: objects.persistent_by_line,
    pickle.BINPERSID: objects.persistent_by_value,
}

OPCODES: list[Opcode | None] = [_OPCODES.get(bytes([code])) for code in range(256)]
"""The allow-list, by the opcode's byte. STOP and the five most frequent, LONG_BINPUT, BINGET,
LONG_BINGET, EMPTY_TUPLE and BININT1, are the reader's own."""
