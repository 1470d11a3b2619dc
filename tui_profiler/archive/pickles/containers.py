"""Opcodes that make and fill lists, tuples, mappings and sets.

Each carries out one opcode whose arguments begin at ``at``, and gives the position of the next one.
"""

from __future__ import annotations

from tui_profiler.archive.pickles.reading_state import (
    LIST_BYTES,
    MADE_BYTES,
    MAPPING_BYTES,
    SLOT_BYTES,
    TUPLE_BYTES,
    Opcode,
    PickleState,
)
from tui_profiler.archive.pickles.values import Made, Mapping, Named


def empty_list(state: PickleState, at: int) -> int:
    """Push a list."""
    state.stack.append([])
    state.memory -= LIST_BYTES
    return at


def make_list(state: PickleState, at: int) -> int:
    """Make a list of all since the mark."""
    state.stack.append(state.since_mark())
    state.memory -= LIST_BYTES
    return at


def append(state: PickleState, at: int) -> int:
    """Add the top of the stack to the list below it."""
    item = state.stack.pop()
    _add(state, state.stack[-1], [item])
    return at


def append_all(state: PickleState, at: int) -> int:
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
        raise state.error("adds items to what is no list")


def make_tuple(state: PickleState, at: int) -> int:
    """Make a tuple of all since the mark."""
    state.stack.append(tuple(state.since_mark()))
    state.memory -= TUPLE_BYTES
    return at


def short_tuple(count: int) -> Opcode:
    """Give the opcode that makes a tuple of the last ``count`` values."""

    def push(state: PickleState, at: int) -> int:
        stack = state.stack
        if len(stack) < count:
            raise IndexError
        stack[-count:] = [tuple(stack[-count:])]
        state.memory -= TUPLE_BYTES + SLOT_BYTES * count
        return at

    return push


def empty_mapping(state: PickleState, at: int) -> int:
    """Push a mapping."""
    state.stack.append(Mapping())
    state.memory -= MAPPING_BYTES
    return at


def make_mapping(state: PickleState, at: int) -> int:
    """Make a mapping of all since the mark."""
    made = Mapping()
    _set(state, made, state.since_mark())
    state.stack.append(made)
    state.memory -= MAPPING_BYTES
    return at


def set_item(state: PickleState, at: int) -> int:
    """Set one item of the mapping below it."""
    value = state.stack.pop()
    key = state.stack.pop()
    _set(state, state.stack[-1], [key, value])
    return at


def set_items(state: PickleState, at: int) -> int:
    """Set all items since the mark of the mapping below it."""
    pairs = state.since_mark()
    _set(state, state.stack[-1], pairs)
    return at


def _set(state: PickleState, target: object, pairs: list[object]) -> None:
    if not isinstance(target, Mapping | Made):
        raise state.error("sets items of what is no mapping")
    if len(pairs) % 2:
        raise state.error("sets a key without a value")
    state.memory -= SLOT_BYTES * len(pairs)
    if target.pairs is None:
        state.memory -= LIST_BYTES
        target.pairs = pairs
    else:
        target.pairs.extend(pairs)


def empty_set(state: PickleState, at: int) -> int:
    """Push a set."""
    state.stack.append(Made(Named("builtins.set"), ()))
    state.memory -= MADE_BYTES
    return at


def make_frozenset(state: PickleState, at: int) -> int:
    """Make a set of all since the mark."""
    state.stack.append(Made(Named("builtins.frozenset"), (), None, state.since_mark()))
    state.memory -= MADE_BYTES
    return at
