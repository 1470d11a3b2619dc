"""Of which of a program's forwards times speak, and which of its models: figures of one alone.

What a tree costs is what the forward that it was made of costs. Of a program that is not ours,
others may have other inputs or run in another mode: their times are never set against these costs.
"""

from __future__ import annotations

from tui_profiler.session import Session
from tui_profiler.text import safe
from tui_profiler.units import share, thousands

OTHER_TIMES = "times are of forwards with other inputs, or in another mode, than the costs"
MIXED = "forwards with other inputs, or in another mode, are in it as well"
HOW_TO_CHOOSE = "tui_profiler.watch(MODEL) in the script and tui-profiler attach show another"
_MOST_NAMES = 4


def times_fit_costs(session: Session) -> bool:
    """Tell whether times are those of forwards like the one that was traced."""
    tick = session.tick
    return tick is None or tick.as_traced


def is_mixed(session: Session) -> bool:
    """Tell whether what is counted beside forwards, such as energy, is of several sorts of them."""
    tick = session.tick
    return tick is not None and (tick.others > 0 or not tick.as_traced)


def forwards_words(session: Session) -> tuple[str, ...]:
    """Say which forwards times leave out, the longest form first; none where they leave out none.

    Where the forwards that were left out are like the one that was traced, or none was, nothing is
    said of costs and times together, and these words say so.
    """
    tick = session.tick
    if tick is None or not is_mixed(session):
        return ()
    if not tick.as_traced:
        of = f"{thousands(tick.forwards)} forwards with other inputs or modes than the one recorded"
        return (
            f"{of}: nothing is derived from these times and its costs",
            "times of other inputs than the costs",
        )
    left = f"{thousands(tick.others)} other forwards"
    part = f"{share(tick.others_share)} of the time"
    return (
        f"forwards like the one recorded; {left}, {part}, had other inputs or modes",
        f"times leave out {left}, {part}",
    )


def notes(session: Session) -> tuple[str, ...]:
    """Say what figures leave out, in half a line, the longest form first; none where nothing."""
    models, forwards = models_words(session), forwards_words(session)[-1:]
    if not models:
        return forwards
    return (*(f"{models}  {words}" for words in forwards), models)


def other_models(session: Session) -> tuple[str, ...]:
    """Give the classes of the models that the program ran beside the one that is looked at."""
    return session.loop.others if session.loop is not None else ()


def models_words(session: Session) -> str:
    """Say which other models the program ran: ``also ran Head, not shown``; empty where none."""
    names = other_models(session)
    if not names:
        return ""
    shown = ", ".join(safe(name) for name in names[:_MOST_NAMES])
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"also ran {shown}{more}, not shown"
