"""The two forwards of a model that generates: all tokens at once, and the next one."""

from __future__ import annotations

from tui_profiler.formatting.text import safe
from tui_profiler.messages import InputSpec
from tui_profiler.messages.model import Phase
from tui_profiler.session import Session

CACHE = ("past_key_values", "cache_params", "state")
"""Inputs that are the tokens so far."""


def phase(session: Session) -> Phase:
    """Give the phase that is looked at; empty where the model has one forward only."""
    return session.tree.phase if session.tree is not None and session.phases else ""


def why_one_phase(session: Session) -> str:
    """Return why there is no other phase to show."""
    if session.no_decode is not None:
        return f"no decode phase: {safe(session.no_decode.why)}"
    return "this model has one forward: only what generates has a prefill and a decode"


def other_phase(session: Session) -> Phase:
    """Give the phase that could be looked at instead; empty where there is none."""
    others = [tree.phase for tree in session.phases if tree.phase != phase(session)]
    return others[0] if others else ""


def inputs(session: Session) -> tuple[InputSpec, ...]:
    """Give what the forward that is looked at was given."""
    if session.tree is not None and session.tree.inputs:
        return session.tree.inputs
    return session.model.inputs if session.model is not None else ()
