"""Of which of a program's forwards times speak, and which of its models: figures of one alone.

What a tree costs is what the forward that it was made of costs. Of a program that is not ours,
others may have other inputs or run in another mode: their times are never set against these costs.
"""

from tui_profiler.figures.units import share, thousands
from tui_profiler.formatting.text import safe
from tui_profiler.messages import InputSpec, RunModel, Tick
from tui_profiler.messages.model import Phase
from tui_profiler.session import Session

OTHER_TIMES = "times are of forwards with other inputs, or in another mode, than the costs"
COLD_TIMES = "times are cold: the program ended or paused before the model had warmed up"
MIXED = "forwards with other inputs, or in another mode, are in it as well"
HOW_TO_CHOOSE = "run --model NAME shows another"
HOW_TO_ATTACH = "while it runs: R in the explorer, or tui-profiler attach PID"
_MOST_NAMES = 4
_MOST_KINDS = 3


def times_fit_costs(session: Session) -> bool:
    """Tell whether times are steady ones, of forwards like the one that was traced."""
    return not why_times_do_not_fit(session)


def why_times_do_not_fit(session: Session) -> str:
    """Return why times are not set against costs; empty where they are."""
    tick = session.tick
    if tick is None:
        return ""
    if tick.cold:
        return COLD_TIMES
    return "" if tick.as_traced else OTHER_TIMES


def is_mixed(session: Session) -> bool:
    """Tell whether what is counted beside forwards, such as energy, is of several sorts of them."""
    tick = session.tick
    return tick is not None and (tick.others > 0 or not tick.as_traced)


def forwards_words(session: Session) -> tuple[str, ...]:
    """Say if times are cold and which forwards they leave out, the longest form first; or nothing.

    Where the forwards that were left out are like the one that was traced, or none was, nothing is
    said of costs and times together, and these words say so.
    """
    tick = session.tick
    cold = cold_words(session)
    if tick is None or not is_mixed(session):
        return (cold,) if cold else ()
    if cold:
        return tuple(f"{cold}; {words}" for words in _sorts_words(tick))
    return _sorts_words(tick)


def cold_words(session: Session) -> str:
    """Say that times are of warm-up forwards: ``cold: 2 forwards, no warm-up``; empty otherwise."""
    tick = session.tick
    if tick is None or not tick.cold:
        return ""
    forwards = "1 forward" if tick.forwards == 1 else f"{thousands(tick.forwards)} forwards"
    return f"cold: {forwards}, no warm-up"


def _sorts_words(tick: Tick) -> tuple[str, ...]:
    if not tick.as_traced:
        of = f"{thousands(tick.forwards)} forwards with other inputs or modes than the one recorded"
        return (
            f"{of}: nothing is derived from these times and its costs",
            "times of other inputs than the costs",
        )
    named = _other_kinds(tick)
    if tick.is_sampled:
        # How many ran, and for how long, is not known: the two kinds are not recorded alike.
        left = f"{thousands(tick.others)} of the {thousands(tick.forwards + tick.others)} recorded"
        return (
            *((f"forwards like the one recorded; {left} had others: {named}",) if named else ()),
            f"forwards like the one recorded; {left} had other inputs or modes",
            f"times leave out {left} forwards",
        )
    left = f"{thousands(tick.others)} other forwards"
    part = f"{share(tick.others_share)} of the time"
    return (
        *((f"forwards like the one recorded; {left}, {part}: {named}",) if named else ()),
        f"forwards like the one recorded; {left}, {part}, had other inputs or modes",
        f"times leave out {left}, {part}",
    )


def _other_kinds(tick: Tick) -> str:
    """Return the most frequent other kinds with their recorded forwards; empty if not known."""
    kinds = [f"{safe(one.name)} ×{thousands(one.forwards)}" for one in tick.other_kinds]
    more = f" and {len(kinds) - _MOST_KINDS} more kinds" if len(kinds) > _MOST_KINDS else ""
    return f"{', '.join(kinds[:_MOST_KINDS])}{more}"


def notes(session: Session) -> tuple[str, ...]:
    """Say what figures leave out, in half a line, the longest form first; none where nothing."""
    models, forwards = models_words(session), forwards_words(session)[-1:]
    children = (*children_words(session), *_decode_words(session))
    if not models:
        return (*forwards, *children)
    is_choice = session.hello is not None and "ShowModel" in session.hello.accepts
    can_choose = is_choice and next_model(session) is not None
    key = (f"{models}; V shows the next",) if can_choose and not forwards else ()
    return (*key, *(f"{models}  {words}" for words in forwards), models, *children)


def _decode_words(session: Session) -> tuple[str, ...]:
    if session.no_decode is None:
        return ()
    return (f"no decode phase: {safe(session.no_decode.why)}", "no decode phase")


def children_words(session: Session) -> tuple[str, ...]:
    """Say which child processes are not measured, and how they are shown; longest first."""
    children = session.children
    if children is None:
        return ()
    if children.count == 1:
        who, pids = "1 child process has torch loaded", f"pid {children.pids[0]}"
    else:
        who = f"{thousands(children.count)} child processes have torch loaded"
        more = "" if children.count <= _MOST_NAMES else ", …"
        pids = f"pids {', '.join(map(str, children.pids[:_MOST_NAMES]))}{more}"
    return (
        f"{who} ({pids}), not measured: {HOW_TO_ATTACH}",
        f"{who}, not measured ({pids})",
        f"{who}, not measured",
    )


def other_models(session: Session) -> tuple[str, ...]:
    """Return the classes of the models that the program ran beside the one that is looked at."""
    return session.loop.others if session.loop is not None else ()


def other_shares(session: Session) -> tuple[float | None, ...]:
    """Return the share of all models' time that each of those took, None where not measured."""
    loop, names = session.loop, other_models(session)
    found = loop.others_shares if loop is not None else ()
    return found if len(found) == len(names) else (None,) * len(names)


def run_models(session: Session) -> tuple[RunModel, ...]:
    """Return each model that the program ran, the one that is looked at first; none where alone."""
    loop, names = session.loop, other_models(session)
    if loop is not None and loop.models:
        return loop.models
    if not names:
        return ()
    own = session.model.type if session.model is not None else ""
    shares = other_shares(session)
    left = None if None in shares else 1.0 - sum(part or 0.0 for part in shares)
    # Of a recording that is older.
    each = zip((own, *names), (left, *shares), strict=True)
    return tuple(RunModel(name, 1, share=part) for name, part in each)


def model_label(model: RunModel, models: tuple[RunModel, ...]) -> str:
    """Return what tells a model from the others: ``Net``, ``Net gan.generator``, ``Net#2``."""
    kind, path = safe(model.type), safe(model.path)
    is_alone = sum(one.type == model.type for one in models) < 2
    name = kind if is_alone else f"{kind}#{model.index}"
    return f"{name} {path}" if path else name


def next_model(session: Session) -> RunModel | None:
    """Return the model to look at after this one, so that all come in turn; None where alone.

    Those that were deleted have no next forward.
    """
    shown, *others = run_models(session) or (None,)
    there = [one for one in others if one is not None and not one.deleted]
    if shown is None or not there:
        return None
    in_turn = sorted((shown, *there), key=lambda one: (one.type, one.index))
    return in_turn[(in_turn.index(shown) + 1) % len(in_turn)]


def models_words(session: Session) -> str:
    """Say which other models the program ran: ``also ran Head, not shown``; empty where none."""
    models = run_models(session)
    others = models[1:]
    if not others:
        return ""
    shown = ", ".join(_one_of_others(one, models) for one in others[:_MOST_NAMES])
    more = f" and {len(others) - _MOST_NAMES} more" if len(others) > _MOST_NAMES else ""
    return f"also ran {shown}{more}, not shown"


def _one_of_others(model: RunModel, models: tuple[RunModel, ...]) -> str:
    part = "" if model.share is None else f" {share(model.share)}"
    return f"{model_label(model, models)}{part}{' (deleted)' if model.deleted else ''}"


def phase(session: Session) -> Phase:
    """Return the phase that is looked at; empty where the model has one forward only."""
    return session.tree.phase if session.tree is not None and session.phases else ""


def why_one_phase(session: Session) -> str:
    """Return why there is no other phase to show."""
    if session.no_decode is not None:
        return f"no decode phase: {safe(session.no_decode.why)}"
    return "this model has one forward: only what generates has a prefill and a decode"


def other_phase(session: Session) -> Phase:
    """Return the phase that could be looked at instead; empty where there is none."""
    others = [tree.phase for tree in session.phases if tree.phase != phase(session)]
    return others[0] if others else ""


def inputs(session: Session) -> tuple[InputSpec, ...]:
    """Return what the forward that is looked at was given."""
    if session.tree is not None and session.tree.inputs:
        return session.tree.inputs
    return session.model.inputs if session.model is not None else ()
