"""Reads a pickle without running it: opcodes become values that do nothing.

1. Nothing is imported, called or built. A REDUCE makes a record of a call, a GLOBAL a name.
2. An opcode that is not in the table is refused: EXT1, EXT2 and EXT4 mean whatever a registry in
   the process that loads says; NEXT_BUFFER and READONLY_BUFFER need bytes that no file holds.
3. Steps, memory, lengths and the number of names are bounded (``limits``); lengths are compared
   with the bytes that there are before anything is read.
4. There is no recursion, here or in what walks the values.

Numbers, texts, lists and tuples are Python's own. Everything that the pickle would import, call or
build is a name, or a record of what would be done with it. They compare by identity, because a
hostile pickle can nest them without end.

Source: CPython Lib/pickletools.py, which documents every opcode and its arguments.
"""

import pickle
import pickletools
import struct
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections.abc import Callable

from msgspec import Struct

from tui_profiler.archive.reading import limits
from tui_profiler.archive.reading.file_region import ArchiveError, Region


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


class Pickle(Struct, frozen=True):
    """What one pickle describes."""

    value: object
    names: tuple[str, ...]
    """Everything that it would import, in the order of the file."""
    persistents: list[Persistent]
    """Everything that it keeps elsewhere, in the order of the file."""
    end: int
    """Offset in its region behind its last byte."""


def read_pickle(region: Region, start: int = 0) -> Pickle:
    """Return what the pickle at ``start`` of a region describes."""
    state = _State(region, start)
    try:
        value = _run(state)
    except (IndexError, struct.error) as error:
        raise state.error("is damaged: an opcode finds nothing to work on") from error
    if state.memory < 0:
        raise state.error("builds more than the structure of any model")
    return Pickle(value, tuple(state.named), state.persistents, state.base + state.position + 1)


_CHUNK_BYTES = 256 << 10
"""Read at once. Memory is compared with its limit once a chunk."""
_TAIL_BYTES = 16
"""More than the fixed part of any opcode's arguments."""
_FAR_ENTRY_BYTES = 120

# Bytes of one object in CPython 3.11 on 64 bits, with what the collector keeps of it and its place
# in a list; measured by sys.getsizeof.
_LIST_BYTES = 81
_MAPPING_BYTES = 57
_MADE_BYTES = 81
_TUPLE_BYTES = 65
_TEXT_BYTES = 58
_NUMBER_BYTES = 41
_SLOT_BYTES = 9


class _State:
    """What the opcodes of one pickle work on. Positions count from the start of the chunk."""

    __slots__ = (
        "base",
        "chunk",
        "far_memo",
        "marks",
        "memo",
        "memory",
        "named",
        "ordered_dict",
        "persistents",
        "position",
        "refill_at",
        "region",
        "stack",
    )

    def __init__(self, region: Region, start: int) -> None:
        self.region = region
        self.base = start
        """Offset in the region of the chunk's first byte."""
        self.chunk = b""
        self.refill_at = 0
        """From this position on, another chunk is needed before an opcode is read."""
        self.position = 0
        """Of the opcode that is being carried out."""
        self.stack: list[object] = []
        self.marks: list[int] = []
        self.memo: list[object] = []
        self.far_memo: dict[int, object] = {}
        """Entries that were not put in order; honest pickles have none."""
        self.named: dict[str, Named] = {}
        self.ordered_dict = Named("")
        """The name of OrderedDict, once the pickle has imported it; until then no value at all."""
        self.persistents: list[Persistent] = []
        self.memory = limits.PICKLE_BYTES
        """Bytes that may still be taken."""

    def error(self, what: str) -> ArchiveError:
        """Return the error that says ``what`` is wrong at this opcode."""
        return self.region.error(what, self.base + self.position)

    def refill(self, position: int) -> None:
        """Read the chunk that begins at ``position``."""
        if self.memory < 0:
            raise self.error("builds more than the structure of any model")
        self.base += position
        self.position = 0
        left = self.region.size - self.base
        if left <= 0:
            raise self.error("ends without the opcode that ends a pickle")
        self.chunk = self.region.read(self.base, min(left, _CHUNK_BYTES))
        size = len(self.chunk)
        self.refill_at = size if size == left else size - _TAIL_BYTES

    def take(self, position: int, count: int) -> bytes:
        """Return ``count`` bytes from ``position`` on, within the chunk or not."""
        self.memory -= count
        data = self.chunk[position : position + count]
        if len(data) < count:
            return self.region.read(self.base + position, count)
        return data

    def text(self, position: int, count: int, encoding: str) -> str | Skipped:
        """Return a text; one that is too long is passed over.

        Lone surrogates, which a pickle may hold, are written out: no wire or file takes them.
        """
        if count > limits.TEXT_BYTES:
            return self.skipped(position, count)
        return self.take(position, count).decode(encoding, "backslashreplace")

    def skipped(self, position: int, count: int) -> Skipped:
        """Pass over bytes."""
        if self.base + position + count > self.region.size:
            raise self.error(f"claims {count} bytes, and the pickle ends before them")
        return Skipped(count)

    def line(self, position: int) -> tuple[bytes, int]:
        """Return the bytes up to the end of the line, and the position behind it."""
        end = self.chunk.find(b"\n", position, position + limits.LINE_BYTES)
        if end >= 0:
            return self.chunk[position:end], end + 1
        left = self.region.size - self.base - position
        data = self.region.read(self.base + position, min(max(left, 0), limits.LINE_BYTES))
        end = data.find(b"\n")
        if end < 0:
            raise self.error("contains a line without an end")
        return data[:end], position + end + 1

    def put(self, index: int) -> None:
        """Remember the top of the stack under a number."""
        if index == len(self.memo):
            self.memo.append(self.stack[-1])
        elif index < len(self.memo):
            self.memo[index] = self.stack[-1]
        else:
            self.far_memo[index] = self.stack[-1]
            self.memory -= _FAR_ENTRY_BYTES

    def get(self, index: int) -> object:
        """Return what is remembered under a number."""
        if index < len(self.memo):
            return self.memo[index]
        if index in self.far_memo:
            return self.far_memo[index]
        raise self.error(f"asks for entry {index} of its memo, which is not there")

    def since_mark(self) -> list[object]:
        """Take everything above the last mark from the stack."""
        mark = self.marks.pop()
        taken = self.stack[mark:]
        del self.stack[mark:]
        self.memory -= _SLOT_BYTES * len(taken)
        return taken

    def name(self, module: str, name: str) -> Named:
        """Return the value that stands for an import, with Python 2's names made Python 3's."""
        if (module, name) in NAME_MAPPING:
            module, name = NAME_MAPPING[(module, name)]
        full = f"{IMPORT_MAPPING.get(module, module)}.{name}"
        known = self.named.get(full)
        if known is None:
            if len(self.named) >= limits.GLOBALS:
                raise self.error(f"imports more than {limits.GLOBALS} different names")
            known = self.named[full] = Named(full)
            if full == "collections.OrderedDict":
                self.ordered_dict = known
        return known


_BYTE = struct.Struct("<B")
_UNSIGNED2 = struct.Struct("<H")
_SIGNED4 = struct.Struct("<i")
_UNSIGNED4 = struct.Struct("<I")
_UNSIGNED8 = struct.Struct("<Q")
_FLOAT8 = struct.Struct(">d")
_LONG_BINPUT, _BINGET, _LONG_BINGET, _EMPTY_TUPLE, _BININT1, _STOP = b"rhj)K."
_EMPTY_CALL = b")Rr"


def _run(state: _State) -> object:
    # A big model's pickle has 13 million opcodes. The five that make up most of them are carried
    # out here, without a call each.
    stack, memo, unsigned4 = state.stack, state.memo, _UNSIGNED4.unpack_from
    push, remember = stack.append, memo.append
    position = 0
    refill_at = 0
    chunk = b""
    for _ in range(limits.PICKLE_STEPS):
        if position >= refill_at:
            state.refill(position)
            position = 0
            refill_at, chunk = state.refill_at, state.chunk
        opcode = chunk[position]
        if opcode == _BINGET:
            index = chunk[position + 1]
            value = memo[index] if index < len(memo) else state.get(index)
            position += 2
            if value is state.ordered_dict and chunk[position : position + 3] == _EMPTY_CALL:
                # Each module has ten OrderedDicts, most of them empty, each kept in the memo.
                push(Mapping())
                state.memory -= _MAPPING_BYTES
                position += 2
                if unsigned4(chunk, position + 1)[0] == len(memo):
                    remember(stack[-1])
                    position += 5
            else:
                push(value)
        elif opcode == _LONG_BINPUT:
            index = unsigned4(chunk, position + 1)[0]
            if index == len(memo):
                remember(stack[-1])
            else:
                state.position = position
                state.put(index)
            position += 5
        elif opcode == _LONG_BINGET:
            index = unsigned4(chunk, position + 1)[0]
            push(memo[index] if index < len(memo) else state.get(index))
            position += 5
        elif opcode == _EMPTY_TUPLE:
            push(())
            position += 1
        elif opcode == _BININT1:
            push(chunk[position + 1])
            position += 2
        elif opcode == _STOP:
            state.position = position
            return stack.pop()
        else:
            state.position = position
            carry_out = _ALLOWED[opcode]
            if carry_out is None:
                raise state.error(_refusal(opcode))
            position = carry_out(state, position + 1)
    raise state.error(f"goes on for more than {limits.PICKLE_STEPS} opcodes")


def _refusal(opcode: int) -> str:
    for known in pickletools.opcodes:
        if ord(known.code) == opcode:
            return f"uses the opcode {known.name}, which torch.save never writes"
    return f"is damaged: {opcode:#04x} is not a pickle opcode"


_Opcode = Callable[[_State, int], int]
"""Carries out an opcode whose arguments begin at a position, and returns the next one's."""


def _constant(value: object) -> _Opcode:
    def push(state: _State, at: int) -> int:
        state.stack.append(value)
        return at

    return push


def _new(make: Callable[[], object], bytes_taken: int) -> _Opcode:
    """Return the opcode that pushes what ``make`` returns."""

    def push(state: _State, at: int) -> int:
        state.stack.append(make())
        state.memory -= bytes_taken
        return at

    return push


def _gathered(make: Callable[[list[object]], object], bytes_taken: int) -> _Opcode:
    """Return the opcode that pushes what ``make`` returns of all since the mark."""

    def push(state: _State, at: int) -> int:
        state.stack.append(make(state.since_mark()))
        state.memory -= bytes_taken
        return at

    return push


def _set_of(items: list[object]) -> Made:
    return Made(Named("builtins.frozenset"), (), None, items)


def _instance_of(taken: list[object]) -> Made:
    return Made(taken[0], tuple(taken[1:]))


def _packed_number(layout: struct.Struct) -> _Opcode:
    size = layout.size

    def push(state: _State, at: int) -> int:
        state.stack.append(layout.unpack_from(state.chunk, at)[0])
        state.memory -= _NUMBER_BYTES
        return at + size

    return push


def _written_number(state: _State, at: int) -> int:
    line, behind = state.line(at)
    text = line.decode("ascii", "replace").removesuffix("L")
    state.memory -= _NUMBER_BYTES
    if text in ("00", "01"):
        state.stack.append(text == "01")
    elif len(text) > 2 * limits.INTEGER_BYTES:
        state.stack.append(Skipped(len(text)))
    else:
        try:
            state.stack.append(int(text))
        except ValueError:
            raise state.error(f"contains {text[:80]!a} where a whole number should be") from None
    return behind


def _written_float(state: _State, at: int) -> int:
    line, behind = state.line(at)
    try:
        state.stack.append(float(line))
    except ValueError:
        raise state.error(f"contains {line[:80]!r} where a number should be") from None
    state.memory -= _NUMBER_BYTES
    return behind


def _counted(
    layout: struct.Struct, read: Callable[[_State, int, int], object], bytes_taken: int
) -> _Opcode:
    """Return the opcode that pushes what ``read`` makes of as many bytes as a count says."""

    def push(state: _State, at: int) -> int:
        (count,) = layout.unpack_from(state.chunk, at)
        at += layout.size
        state.stack.append(read(state, at, count))
        state.memory -= bytes_taken
        return at + int(count)

    return push


def _long_number(layout: struct.Struct) -> _Opcode:
    def read(state: _State, at: int, count: int) -> object:
        if count > limits.INTEGER_BYTES:
            return state.skipped(at, count)
        return int.from_bytes(state.take(at, count), "little", signed=True)

    return _counted(layout, read, _NUMBER_BYTES)


def _text_of(layout: struct.Struct, encoding: str) -> _Opcode:
    return _counted(layout, lambda state, at, count: state.text(at, count, encoding), _TEXT_BYTES)


def _bytes_of(layout: struct.Struct) -> _Opcode:
    """Return the opcode of bytes, which are never part of the structure that we look for."""
    return _counted(layout, _State.skipped, _NUMBER_BYTES)


def _written_text(state: _State, at: int) -> int:
    line, behind = state.line(at)
    text = line.decode("latin-1")
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    state.stack.append(text[1:-1] if quoted else text)
    state.memory -= _TEXT_BYTES + len(line)
    return behind


def _append(state: _State, at: int) -> int:
    item = state.stack.pop()
    _add(state, state.stack[-1], [item])
    return at


def _append_all(state: _State, at: int) -> int:
    items = state.since_mark()
    _add(state, state.stack[-1], items)
    return at


def _add(state: _State, target: object, items: list[object]) -> None:
    state.memory -= _SLOT_BYTES * len(items)
    if isinstance(target, list):
        target.extend(items)
    elif isinstance(target, Made):
        state.memory -= _LIST_BYTES
        target.items = items if target.items is None else target.items + items
    else:
        raise state.error("adds items to an object that is not a list")


def _short_tuple(count: int) -> _Opcode:
    """Return the opcode that makes a tuple of the last ``count`` values."""

    def push(state: _State, at: int) -> int:
        stack = state.stack
        if len(stack) < count:
            raise IndexError
        stack[-count:] = [tuple(stack[-count:])]
        state.memory -= _TUPLE_BYTES + _SLOT_BYTES * count
        return at

    return push


def _make_mapping(state: _State, at: int) -> int:
    made = Mapping()
    _set(state, made, state.since_mark())
    state.stack.append(made)
    state.memory -= _MAPPING_BYTES
    return at


def _set_item(state: _State, at: int) -> int:
    value = state.stack.pop()
    key = state.stack.pop()
    _set(state, state.stack[-1], [key, value])
    return at


def _set_items(state: _State, at: int) -> int:
    pairs = state.since_mark()
    _set(state, state.stack[-1], pairs)
    return at


def _set(state: _State, target: object, pairs: list[object]) -> None:
    if not isinstance(target, Mapping | Made):
        raise state.error("sets items of an object that is not a mapping")
    if len(pairs) % 2:
        raise state.error("sets a key without a value")
    state.memory -= _SLOT_BYTES * len(pairs)
    if target.pairs is None:
        state.memory -= _LIST_BYTES
        target.pairs = pairs
    else:
        target.pairs.extend(pairs)


def _import_name(state: _State, at: int) -> int:
    module, at = state.line(at)
    name, at = state.line(at)
    state.stack.append(
        state.name(
            module.decode("utf-8", "backslashreplace"), name.decode("utf-8", "backslashreplace")
        )
    )
    return at


def _import_from_stack(state: _State, at: int) -> int:
    name = state.stack.pop()
    module = state.stack.pop()
    if not isinstance(name, str) or not isinstance(module, str):
        raise state.error("imports a name that is not text")
    state.stack.append(state.name(module[: limits.LINE_BYTES], name[: limits.LINE_BYTES]))
    return at


def _call(state: _State, at: int) -> int:
    arguments = state.stack.pop()
    maker = state.stack[-1]
    if arguments == () and isinstance(maker, Named) and maker.name == "collections.OrderedDict":
        state.stack[-1] = Mapping()
        state.memory -= _MAPPING_BYTES
    else:
        state.stack[-1] = Made(maker, arguments)
        state.memory -= _MADE_BYTES
    return at


def _call_with_keywords(state: _State, at: int) -> int:
    keywords = state.stack.pop()
    arguments = state.stack.pop()
    state.stack[-1] = Made(state.stack[-1], (arguments, keywords))
    state.memory -= _MADE_BYTES + _TUPLE_BYTES
    return at


def _set_state(state: _State, at: int) -> int:
    value = state.stack.pop()
    target = state.stack[-1]
    if isinstance(target, Made):
        target.state = value
    elif not isinstance(target, Mapping):
        raise state.error("sets the state of an object without state")
    return at


def _instance(state: _State, at: int) -> int:
    at = _import_name(state, at)
    maker = state.stack.pop()
    state.stack.append(Made(maker, tuple(state.since_mark())))
    state.memory -= _MADE_BYTES + _TUPLE_BYTES
    return at


def _persistent_by_line(state: _State, at: int) -> int:
    line, behind = state.line(at)
    _persist(state, line.decode("ascii", "backslashreplace"))
    return behind


def _persistent_by_value(state: _State, at: int) -> int:
    _persist(state, state.stack.pop())
    return at


def _persist(state: _State, key: object) -> None:
    made = Persistent(key, state.base + state.position)
    state.persistents.append(made)
    state.stack.append(made)
    state.memory -= _MADE_BYTES


def _proto(state: _State, at: int) -> int:
    if state.chunk[at] > pickle.HIGHEST_PROTOCOL:
        raise state.error(f"is a pickle of the unknown protocol {state.chunk[at]}")
    return at + 1


def _frame(state: _State, at: int) -> int:
    _UNSIGNED8.unpack_from(state.chunk, at)
    return at + 8


def _mark(state: _State, at: int) -> int:
    state.marks.append(len(state.stack))
    return at


def _pop(state: _State, at: int) -> int:
    if state.marks and state.marks[-1] == len(state.stack):
        state.marks.pop()
    else:
        state.stack.pop()
    return at


def _pop_mark(state: _State, at: int) -> int:
    del state.stack[state.marks.pop() :]
    return at


def _dup(state: _State, at: int) -> int:
    state.stack.append(state.stack[-1])
    return at


def _binput(state: _State, at: int) -> int:
    state.put(state.chunk[at])
    return at + 1


def _memoize(state: _State, at: int) -> int:
    state.put(len(state.memo) + len(state.far_memo))
    return at


def _put(state: _State, at: int) -> int:
    line, behind = state.line(at)
    state.put(_index(state, line))
    return behind


def _get(state: _State, at: int) -> int:
    line, behind = state.line(at)
    state.stack.append(state.get(_index(state, line)))
    return behind


def _index(state: _State, line: bytes) -> int:
    if not line.isdigit() or len(line) > 12:
        raise state.error(f"contains {line[:80]!r} where an index of its memo should be")
    return int(line)


_OPCODES: dict[bytes, _Opcode] = {
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
    pickle.EMPTY_LIST: _new(list, _LIST_BYTES),
    pickle.LIST: _gathered(lambda taken: taken, _LIST_BYTES),
    pickle.APPEND: _append,
    pickle.APPENDS: _append_all,
    pickle.TUPLE: _gathered(tuple, _TUPLE_BYTES),
    pickle.TUPLE1: _short_tuple(1),
    pickle.TUPLE2: _short_tuple(2),
    pickle.TUPLE3: _short_tuple(3),
    pickle.EMPTY_DICT: _new(Mapping, _MAPPING_BYTES),
    pickle.DICT: _make_mapping,
    pickle.SETITEM: _set_item,
    pickle.SETITEMS: _set_items,
    pickle.EMPTY_SET: _new(lambda: Made(Named("builtins.set"), ()), _MADE_BYTES),
    pickle.ADDITEMS: _append_all,
    pickle.FROZENSET: _gathered(_set_of, _MADE_BYTES),
    pickle.PUT: _put,
    pickle.BINPUT: _binput,
    pickle.MEMOIZE: _memoize,
    pickle.GET: _get,
    pickle.GLOBAL: _import_name,
    pickle.STACK_GLOBAL: _import_from_stack,
    pickle.REDUCE: _call,
    pickle.NEWOBJ: _call,
    pickle.NEWOBJ_EX: _call_with_keywords,
    pickle.BUILD: _set_state,
    pickle.INST: _instance,
    pickle.OBJ: _gathered(_instance_of, _MADE_BYTES + _TUPLE_BYTES),
    pickle.PERSID: _persistent_by_line,
    pickle.BINPERSID: _persistent_by_value,
}

_ALLOWED: list[_Opcode | None] = [_OPCODES.get(bytes([code])) for code in range(256)]
"""The allow-list, by the opcode's byte. STOP and the five most frequent, LONG_BINPUT, BINGET,
LONG_BINGET, EMPTY_TUPLE and BININT1, are the reader's own."""
