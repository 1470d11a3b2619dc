"""Requests of a language model: one bar above the tree, as a step of training has it.

The bar is in grey, as that of a step: colour is the measured bound of a node.
"""

from collections.abc import Iterator

from tui_profiler.figures import units
from tui_profiler.messages import Figure, Generation, known
from tui_profiler.queries.forward.generation import cache_bytes, cache_name, phase_shares

from .lines import EMPTY, Line, Span, line_width
from .rows import Look, row, side_by_side

LEAST_BAR = 16
"""Cells of the bar for which words yield."""
BETWEEN = 3
"""Blank cells at least between figures and the rate."""


def bar_lines(look: Look, rows: int) -> tuple[Line, ...]:
    """Return the requests: a row of figures, and, where there are two, a bar of the phases."""
    seen = look.session.generation
    if seen is None:
        return ()
    rate = _rate(seen, look)
    if rows < 2:
        return (_fitting(_figures(seen, look), rate, look),)
    figures = [*_figures(seen, look), *_of_the_cache(seen, look)]
    return (_fitting(figures, EMPTY, look), _bar(seen, rate, look))


def _fitting(figures: list[Line], right: Line, look: Look) -> Line:
    """Return as many figures as fit beside the rate, the first ones matter most."""
    room = look.inner - (line_width(right) + BETWEEN if right else 0)
    shown: Line = EMPTY
    for figure in figures:
        longer = (*shown, *((("   ", "ink"),) if shown else ()), *figure)
        if shown and line_width(longer) > room:
            break
        shown = longer
    return row(shown, right, look)


def _figures(seen: Generation, look: Look) -> list[Line]:
    return [
        _figure("first token", seen.first_p50, look),
        (*_figure("between tokens", seen.gap_p50, look), *_p95(seen.gap_p95)),
    ]


def _figure(name: str, seconds: Figure, look: Look) -> Line:
    found = known(seconds)
    if found is None:
        return ((f"{name} ", "muted"), (look.glyphs.dash, "faint"))
    return ((f"{name} ", "muted"), (units.duration(found), "ink"))


def _p95(seconds: Figure) -> Line:
    found = known(seconds)
    return EMPTY if found is None else ((" p95 ", "muted"), (units.duration(found), "ink"))


def _of_the_cache(seen: Generation, look: Look) -> Iterator[Line]:
    """Yield the size of the cache, and what it grows by."""
    cache = seen.cache
    if cache is None:
        yield ((f"{cache_name(cache)} ", "muted"), (look.glyphs.dash, "faint"))
        return
    yield ((f"{cache_name(cache)} ", "muted"), (units.size(cache_bytes(cache)), "ink"))
    growth = known(cache.growth)
    if growth is not None:
        yield ((units.size(growth), "ink"), (" per token", "muted"))
    elif cache.is_preallocated:
        yield (("preallocated", "muted"),)


def _rate(seen: Generation, look: Look) -> Line:
    found = known(seen.per_second)
    if found is None:
        return ((look.glyphs.dash, "faint"), (" tokens/s", "muted"))
    return ((units.per_second(found), "ink"), (" tokens/s", "muted"))


def _bar(seen: Generation, rate: Line, look: Look) -> Line:
    """Return the phases of a request from left to right, in words too where there is room."""
    shares = phase_shares(seen)
    if not shares:
        return row((("no whole request yet", "muted"),), rate, look)
    named: list[Span] = []
    for name, share in shares:
        named += [(f"{name} ", "muted"), (units.share_cell(share), "ink"), ("   ", "ink")]
    for said in (tuple(named), EMPTY):
        right = (("  ", "ink"), *said, *rate)
        room = look.inner - line_width(right)
        if room >= LEAST_BAR:
            break
    parts = [
        (
            share,
            look.glyphs.track if name == "between" else look.glyphs.full,
            "ink" if name == "decode" else "faint",
        )
        for name, share in shares
    ]
    return row(side_by_side(parts, room), right, look)
