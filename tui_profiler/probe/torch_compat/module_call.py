"""``nn.Module.__call__`` exchanged for ours and put back, also where others exchange it too.

An attribute that is not ours any more is left alone: ours stays below the other replacement, passes
through for ever, and is peeled off when it surfaces again.
"""

import weakref
from collections.abc import Callable
from typing import TypeAlias

from torch import nn

from tui_profiler.probe.process.interpreter_lock import RareLock

Call: TypeAlias = Callable[..., object]

CHANGING = RareLock()
"""Held from reading the attribute until it is replaced: two threads may install at once, and what
one of them has put there would be lost. No call of a module waits for it."""
_LEFT_BEHIND: weakref.WeakKeyDictionary[Call, Call] = weakref.WeakKeyDictionary()
"""Replacements of ours that could not be removed, with what each of them replaced."""


def present_call() -> Call:
    """Return what calls go through now, what was left behind apart."""
    return alive(nn.Module.__call__)


def is_present(call: Call) -> bool:
    """Tell whether calls go through this one first."""
    return nn.Module.__call__ is call


def put_call(call: Call) -> None:
    """Let calls go through this one; an assignment costs up to 373 us."""
    type.__setattr__(nn.Module, "__call__", call)


def take_off(call: Call, replaced: Call) -> None:
    """Put back what ``call`` replaced; below another replacement, leave it as passing through."""
    with CHANGING:
        if is_present(call):
            put_call(alive(replaced))
        else:
            _LEFT_BEHIND[call] = replaced


def alive(call: Call) -> Call:
    """Return what a call goes through, without what was left behind."""
    while (below := _LEFT_BEHIND.get(call)) is not None:
        call = below
    return call
