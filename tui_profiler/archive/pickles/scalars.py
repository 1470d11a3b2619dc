"""Opcodes that push numbers, texts and bytes.

Each carries out one opcode whose arguments begin at ``at``, and gives the position of the next one.
"""

from __future__ import annotations

import struct

from tui_profiler.archive.pickles.reading_state import NUMBER_BYTES, TEXT_BYTES, Opcode, PickleState
from tui_profiler.archive.pickles.values import Skipped
from tui_profiler.archive.reading import limits


def constant(value: object) -> Opcode:
    """Give the opcode that pushes ``value``."""

    def push(state: PickleState, at: int) -> int:
        state.stack.append(value)
        return at

    return push


def packed_number(layout: struct.Struct) -> Opcode:
    """Give the opcode that pushes a number of a fixed layout."""
    size = layout.size

    def push(state: PickleState, at: int) -> int:
        state.stack.append(layout.unpack_from(state.chunk, at)[0])
        state.memory -= NUMBER_BYTES
        return at + size

    return push


def written_number(state: PickleState, at: int) -> int:
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


def written_float(state: PickleState, at: int) -> int:
    """Push a number in decimal digits."""
    line, behind = state.line(at)
    try:
        state.stack.append(float(line))
    except ValueError:
        raise state.error(f"holds {line[:80]!r} where a number should be") from None
    state.memory -= NUMBER_BYTES
    return behind


def long_number(count_layout: struct.Struct) -> Opcode:
    """Give the opcode that pushes a whole number of any length."""

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


def text_of(count_layout: struct.Struct, encoding: str) -> Opcode:
    """Give the opcode that pushes a text."""

    def push(state: PickleState, at: int) -> int:
        (count,) = count_layout.unpack_from(state.chunk, at)
        at += count_layout.size
        state.stack.append(state.text(at, count, encoding))
        state.memory -= TEXT_BYTES
        return at + int(count)

    return push


def bytes_of(count_layout: struct.Struct) -> Opcode:
    """Give the opcode that pushes bytes, of which only the length is kept."""

    def push(state: PickleState, at: int) -> int:
        (count,) = count_layout.unpack_from(state.chunk, at)
        at += count_layout.size
        # Bytes are never part of the structure that we look for.
        state.stack.append(state.skipped(at, count))
        state.memory -= NUMBER_BYTES
        return at + int(count)

    return push


def written_text(state: PickleState, at: int) -> int:
    """Push a text on a line of its own."""
    line, behind = state.line(at)
    text = line.decode("latin-1")
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    state.stack.append(text[1:-1] if quoted else text)
    state.memory -= TEXT_BYTES + len(line)
    return behind
