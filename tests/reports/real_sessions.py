"""Sessions of real models, traced in this process: what a report on paper is made of."""

from __future__ import annotations

from functools import lru_cache

from tui_profiler.messages import Environment, LoadSpec, ModelFacts
from tui_profiler.session import EMPTY, Session, apply

ENVIRONMENT = Environment("3.11.7", "2.15.0+cpu", "", "", "Some CPU", 2, 2, 2**33)


def traced_anew(name: str) -> Session:
    """Load and trace a model, as the worker does for a report without a measurement."""
    from tui_profiler.probe.load.load import load
    from tui_profiler.probe.trace.trace import messages, trace
    from tui_profiler.probe.trace.tree.growing_tree import class_name

    loaded = load(LoadSpec(name))
    made = trace(loaded.model, tuple(loaded.candidates), name=name)
    facts = ModelFacts(
        name=name,
        type=class_name(loaded.model),
        source=loaded.facts_source,
        weights=loaded.weights,
        inputs=made.inputs.specs,
        batch=made.inputs.batch,
        device="cpu",
        training=False,
    )
    session = EMPTY
    for message in (ENVIRONMENT, facts, *messages(made)):
        session = apply(session, message)
    return session


real_session = lru_cache(maxsize=None)(traced_anew)
