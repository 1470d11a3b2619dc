"""The first row: which model this is, and what it does now."""

from tui_profiler.figures.units import duration, thousands, written
from tui_profiler.formatting.text import middle, safe
from tui_profiler.messages import LoadSpec, Playback, known
from tui_profiler.queries.cost.totals import any_rate, is_estimated_rate
from tui_profiler.queries.panel.cached_tree import age, is_remembered
from tui_profiler.queries.panel.phrases import (
    device_text,
    input_text,
    macs_text,
    model_name,
    parameters_text,
)
from tui_profiler.queries.panel.playback import origin, place, speed
from tui_profiler.queries.panel.state import State, StateKind, state
from tui_profiler.queries.time.modes import is_training
from tui_profiler.session import Session

from .lines import Line, line_width
from .rows import Look, finished, row, turning

NARROW = 100
"""Below this many columns the short form is used."""
_GAP: Line = (("  ", "ink"),)
_ROLES: dict[StateKind, str] = {
    "live": "accent",
    "loading": "accent",
    "paused": "accent",
    "held": "accent",
    "waiting": "muted",
    "failed": "error",
    "gone": "error",
    "silent": "muted",
    "finished": "muted",
}


def header_lines(
    look: Look, *, spec: LoadSpec | None = None, paused_at: float | None = None
) -> tuple[Line, ...]:
    """Return the row: parts are left out, the least important first, none is cut.

    Args:
        look: the session, the time and the width.
        spec: what was asked for, shown until the model is loaded.
        paused_at: when the view was paused, on the probe's clock; None where it was not.
    """
    session, playback = look.session, look.session.playback
    if playback is not None:
        rights = _played(look, playback)
    else:
        since = age(session) if is_remembered(session) else ""
        rights = _states(look, state(session, look.now, paused_at), since)
    return _fitting(names(look, spec), rights, look)


def cached_header_lines(look: Look, names: tuple[Line, ...], since: str) -> tuple[Line, ...]:
    """Return the row above a cached tree, before the tree itself is read.

    Args:
        look: the time and the width; its session is still empty.
        names: what the row begins with, the longest form first.
        since: how old the tree is.
    """
    return _fitting(names, _states(look, state(look.session, look.now), since), look)


def _fitting(names: tuple[Line, ...], rights: tuple[Line, ...], look: Look) -> tuple[Line, ...]:
    narrow = look.cells < NARROW
    for left in names[2:] if narrow else names:
        for right in rights[1:2] if narrow else rights[:1]:
            if line_width(left) + line_width(right) + 2 <= look.inner:
                return finished((row(left, right, look),), look)
    return finished((_tight(look, names[-1], rights),), look)


def _tight(look: Look, name: Line, rights: tuple[Line, ...]) -> Line:
    """Return the row where even the name alone leaves too little: its middle is cut at last."""
    fitting = (r for r in rights if line_width(name) + line_width(r) + 2 <= look.inner)
    right = next(fitting, rights[-1])
    room = max(look.inner - line_width(right) - 1, 1)
    text, role = name[0]
    return row(((middle(text, room, look.glyphs.ellipsis), role),), right, look)


def names(look: Look, spec: LoadSpec | None) -> tuple[Line, ...]:
    """Return the left end, the longest form first."""
    session = look.session
    name: Line = ((model_name(session, spec), "strong ink"),)
    source = safe(session.model.source) if session.model is not None else ""
    parameters, macs = parameters_text(session), macs_text(session)
    long = f"{parameters} params" if parameters else ""
    shapes, device = input_text(session), device_text(session)
    forms = (
        (source, long, macs, shapes, device),
        (source, long, macs, shapes, device_text(session, threads=False)),
        *(((parameters, macs, shapes, "training"),) if is_training(session) else ()),
        (parameters, macs, shapes),
        (parameters, macs),
        (macs,),
        (),
    )
    return tuple((*name, *_parts(form)) for form in forms)


def _parts(texts: tuple[str, ...]) -> Line:
    return tuple(span for text in texts if text for span in (*_GAP, (text, "muted")))


def _states(look: Look, now: State, since: str = "") -> tuple[Line, ...]:
    """Return the right end, the longest form first; ``since`` is how old a cached tree is."""
    sign = state_sign(now.kind, look)
    role = _ROLES[now.kind]
    plain = now.kind in ("live", "loading", "paused", "held", "waiting", "finished")
    head: Line = ((sign, role), (f" {now.words}", "ink" if plain else role))
    tick = look.session.tick
    if now.kind == "live" and not now.detail and tick is not None:
        rate, time = _rate(look.session), duration(tick.latency_p50)
        if look.session.host is not None and look.session.host.is_contended:
            contended: Line = (("   host contended", "ink"),)
            return (
                (
                    *head,
                    ("   " + rate, "ink"),
                    ("   " + time, "ink"),
                    (" p50", "muted"),
                    *contended,
                ),
                (*head, ("   " + rate, "ink"), ("  " + time, "ink"), *contended),
                (*head, *contended),
                head,
            )
        return (
            (*head, ("   " + rate, "ink"), ("   " + time, "ink"), (" p50", "muted")),
            (*head, ("   " + rate, "ink"), ("  " + time, "ink")),
            (*head, ("  " + time, "ink")),
            head,
        )
    if now.kind == "failed" and tick is None:
        return ((*head, ("   no times", "muted")), head)
    if now.kind == "held":
        loop = look.session.loop
        is_by_key = loop is None or not loop.detail  # Else it runs again by itself.
        key = " · P resumes" if is_by_key else ""
        how: Line = ((f" {now.detail}", "ink"), (key, "muted"))
        return ((*head, *how), (*head, *how), (*head, how[0]), head)
    wide = "   " if now.kind in ("loading", "finished") else " "
    with_detail = (*head, (wide + now.detail, "ink")) if now.detail else head
    if since:
        cached: Line = ((f"cached {since}   ", "muted"),)
        return ((*cached, *with_detail), with_detail, head)
    return (with_detail, with_detail, head)


def _rate(session: Session) -> str:
    per_second = known(any_rate(session))
    about = "~" if is_estimated_rate(session) else ""
    # Without a batch size forwards are counted: iterations.
    has_items = session.model is not None and session.model.batch is not None
    figure = written(per_second, lambda value: f"{about}{value:.1f}")
    return f"{figure} {'items/s' if has_items else 'it/s'}"


def _played(look: Look, playback: Playback) -> tuple[Line, ...]:
    """Return right end of a recording: where it stands, what is damaged, where it comes from."""
    sign = look.glyphs.playing if playback.is_playing else look.glyphs.paused
    head: Line = ((sign, "accent"), (f" {place(playback, look.now)}", "ink"))
    fast: Line = ((f"  {speed(playback).replace('×', look.glyphs.times)}", "ink"),)
    lost: Line = ()
    if any(skipped.splice for skipped in playback.skipped):
        lost = ((f"  {look.glyphs.failed} spliced", "error"),)
    elif playback.frames_skipped:
        skipped = f"{thousands(playback.frames_skipped)} skipped"
        lost = ((f"  {look.glyphs.failed} {skipped}", "error"),)
    comes_from: Line = ((f"  {origin(playback)}", "muted"),)
    long = (*head, *fast, *lost, *comes_from)
    return (long, long, (*head, *lost, *comes_from), (*head, *lost), head)


def state_sign(kind: StateKind, look: Look) -> str:
    """Return the sign of a state."""
    glyphs = look.glyphs
    signs: dict[StateKind, str] = {
        "live": glyphs.live,
        "loading": turning(look.now, glyphs),
        "paused": glyphs.paused,
        "held": glyphs.paused,
        "failed": glyphs.failed,
        "gone": glyphs.failed,
        "finished": glyphs.done,
    }
    return signs.get(kind, glyphs.empty)
