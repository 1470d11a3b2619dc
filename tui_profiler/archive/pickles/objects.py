"""Opcodes that import, call and build: here they leave a record of what would be done.

Each carries out one opcode whose arguments begin at ``at``, and gives the position of the next one.
"""

from __future__ import annotations

from tui_profiler.archive.pickles.reading_state import (
    MADE_BYTES,
    MAPPING_BYTES,
    TUPLE_BYTES,
    PickleState,
)
from tui_profiler.archive.pickles.values import Made, Mapping, Named, Persistent
from tui_profiler.archive.reading import limits


def import_name(state: PickleState, at: int) -> int:
    """Push a name that stands on two lines."""
    module, at = state.line(at)
    name, at = state.line(at)
    state.stack.append(
        state.name(
            module.decode("utf-8", "backslashreplace"), name.decode("utf-8", "backslashreplace")
        )
    )
    return at


def import_from_stack(state: PickleState, at: int) -> int:
    """Push a name of which module and attribute are on the stack."""
    name = state.stack.pop()
    module = state.stack.pop()
    if not isinstance(name, str) or not isinstance(module, str):
        raise state.error("imports something whose name is no text")
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


def call_with_keywords(state: PickleState, at: int) -> int:
    """Make a record of a new object with keyword arguments."""
    keywords = state.stack.pop()
    arguments = state.stack.pop()
    state.stack[-1] = Made(state.stack[-1], (arguments, keywords))
    state.memory -= MADE_BYTES + TUPLE_BYTES
    return at


def set_state(state: PickleState, at: int) -> int:
    """Keep the state that an object would be given."""
    value = state.stack.pop()
    target = state.stack[-1]
    if isinstance(target, Made):
        target.state = value
    elif not isinstance(target, Mapping):
        raise state.error("sets the state of what has none")
    return at


def instance(state: PickleState, at: int) -> int:
    """Make a record of an object whose class stands on two lines."""
    at = import_name(state, at)
    maker = state.stack.pop()
    state.stack.append(Made(maker, tuple(state.since_mark())))
    state.memory -= MADE_BYTES + TUPLE_BYTES
    return at


def instance_from_stack(state: PickleState, at: int) -> int:
    """Make a record of an object whose class follows the mark."""
    taken = state.since_mark()
    state.stack.append(Made(taken[0], tuple(taken[1:])))
    state.memory -= MADE_BYTES + TUPLE_BYTES
    return at


def persistent_by_line(state: PickleState, at: int) -> int:
    """Push a value that is kept elsewhere under an id on a line of its own."""
    line, behind = state.line(at)
    _persist(state, line.decode("ascii", "backslashreplace"))
    return behind


def persistent_by_value(state: PickleState, at: int) -> int:
    """Push a value that is kept elsewhere under the id on the stack."""
    _persist(state, state.stack.pop())
    return at


def _persist(state: PickleState, key: object) -> None:
    made = Persistent(key, state.base + state.position)
    state.persistents.append(made)
    state.stack.append(made)
    state.memory -= MADE_BYTES
