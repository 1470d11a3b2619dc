"""Reads a pickle without running it: opcodes become values that do nothing.

1. Nothing is imported, called or built. A REDUCE makes a record of a call, a GLOBAL a name.
2. An opcode that is not in the table is refused: EXT1, EXT2 and EXT4 mean whatever a registry in
   the process that loads says; NEXT_BUFFER and READONLY_BUFFER need bytes that no file holds.
3. Steps, memory, lengths and the number of names are bounded (``limits``); lengths are compared
   with the bytes that there are before anything is read.
4. There is no recursion, here or in what walks the values.
"""

from __future__ import annotations

import pickletools
import struct

from msgspec import Struct

from tui_profiler.archive.pickles.opcodes import OPCODES
from tui_profiler.archive.pickles.reading_state import MAPPING_BYTES, PickleState
from tui_profiler.archive.pickles.values import Mapping, Persistent
from tui_profiler.archive.reading import limits
from tui_profiler.archive.reading.file_region import Region

_LONG_BINPUT, _BINGET, _LONG_BINGET, _EMPTY_TUPLE, _BININT1, _STOP = b"rhj)K."
_EMPTY_CALL = b")Rr"
_UNSIGNED4 = struct.Struct("<I")


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
    """Return what the pickle at ``start`` of a region describes.

    Raises:
        ArchiveError: It is damaged, or does what no honest pickle does.
    """
    state = PickleState(region, start)
    try:
        value = _run(state)
    except (IndexError, struct.error) as error:
        raise state.error("is damaged: an opcode finds nothing to work on") from error
    if state.memory < 0:
        raise state.error("builds more than the structure of any model")
    return Pickle(value, tuple(state.named), state.persistents, state.base + state.position + 1)


def _run(state: PickleState) -> object:
    # A big model's pickle has 13 million opcodes. The five that make up most of them are carried
    # out here, without a call each.
    stack, memo, unsigned4 = state.stack, state.memo, _UNSIGNED4.unpack_from
    push, remember = stack.append, memo.append
    position = 0
    refill_at = 0
    chunk = b""
    for _ in range(limits.PICKLE_STEPS):
        if position >= refill_at:
            position = state.refill(position)
            refill_at, chunk = state.refill_at, state.chunk
        opcode = chunk[position]
        if opcode == _BINGET:
            index = chunk[position + 1]
            value = memo[index] if index < len(memo) else state.get(index)
            position += 2
            if value is state.ordered_dict and chunk[position : position + 3] == _EMPTY_CALL:
                # Each module has ten OrderedDicts, most of them empty, each kept in the memo.
                push(Mapping())
                state.memory -= MAPPING_BYTES
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
            carry_out = OPCODES[opcode]
            if carry_out is None:
                raise state.error(_refusal(opcode))
            position = carry_out(state, position + 1)
    raise state.error(f"goes on for more than {limits.PICKLE_STEPS} opcodes")


def _refusal(opcode: int) -> str:
    for known in pickletools.opcodes:
        if ord(known.code) == opcode:
            return f"uses the opcode {known.name}, which torch.save never writes"
    return f"is damaged: {opcode:#04x} is no opcode of a pickle"
