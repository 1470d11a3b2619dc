"""Requests of a language model: tokens per second, phases and the cache."""

from tui_profiler.figures.units import count, duration, share, size, thousands
from tui_profiler.figures.units import per_second as rate_text
from tui_profiler.messages import (
    Figure,
    Generation,
    GenerationPhase,
    LayerExperts,
    TokenCache,
    Unknown,
    known,
)
from tui_profiler.queries.forward.generation import (
    cache_bytes,
    cache_name,
    dead_experts,
    layer_bytes,
)
from tui_profiler.reports.document import Column, Grid, Section, names, short
from tui_profiler.reports.text.sections import figure_text
from tui_profiler.session import Session


def generation_sections(session: Session) -> tuple[Section, ...]:
    """Return the section of requests; none where none were seen."""
    seen = session.generation
    if seen is None:
        return ()
    facts = figure_text.facts(*_facts(seen), *_experts(session))
    return (Section("generation", "measured on this machine", (facts, *_routers(session))),)


def generation_words(session: Session) -> tuple[tuple[str, str], ...]:
    """Return the figures that matter most, each with its label; empty without requests."""
    return () if session.generation is None else _facts(session.generation)[:4]


def _facts(seen: Generation) -> tuple[tuple[str, str], ...]:
    return (
        ("first token", _pair(seen.first_p50, seen.first_p95)),
        ("between tokens", _gaps(seen)),
        ("tokens", _rates(seen)),
        (cache_name(seen.cache), _cache(seen)),
        ("requests", _requests(seen)),
        ("per request", _per_request(seen)),
        ("prefill", _phase(seen.prefill, seen.prefill_per_second)),
        ("decode", _phase(seen.decode, seen.decode_per_second)),
        ("between", _between(seen.between)),
        ("candidates", _candidates(seen)),
        ("per layer", _layers(seen.cache)),
    )


def _experts(session: Session) -> tuple[tuple[str, str], ...]:
    layers = session.experts.layers if session.experts is not None else ()
    if not layers:
        return ()
    dead, experts = sum(map(dead_experts, layers)), sum(len(one.tokens) for one in layers)
    said = f"{thousands(dead)} of {thousands(experts)} were given no token in one request"
    return (("experts", said),)


def _routers(session: Session) -> tuple[Grid, ...]:
    """Return the layers of a mixture, those with the busiest expert first."""
    layers = session.experts.layers if session.experts is not None else ()
    if not layers:
        return ()
    rows = tuple(
        (
            one.path,
            thousands(sum(one.tokens)),
            thousands(len(one.tokens)),
            thousands(dead_experts(one)),
            figure_text.percent(_busiest(one)),
        )
        for one in sorted(layers, key=lambda one: -_busiest(one))[: figure_text.MOST_ROWS]
    )
    columns = (
        short(names("router"), "router", 0),
        short(Column("tokens routed"), "routed", 9),
        short(Column("experts"), "experts", 9),
        short(Column("dead"), "dead", 6),
        short(Column("% busiest"), "%busiest", 10),
    )
    return (Grid(columns, rows, left_out=len(layers) - len(rows)),)


def _busiest(layer: LayerExperts) -> float:
    return max(layer.tokens, default=0) / max(sum(layer.tokens), 1)


def _pair(p50: Figure, p95: Figure) -> str:
    if isinstance(p50, Unknown):
        return figure_text.figure(p50, duration)
    return f"p50 {duration(p50)}, p95 {figure_text.figure(p95, duration)}"


def _gaps(seen: Generation) -> str:
    said = _pair(seen.gap_p50, seen.gap_p95)
    return f"{said}, of {thousands(seen.gaps)}" if seen.gaps else said


def _rates(seen: Generation) -> str:
    return figure_text.figure(
        seen.per_second, lambda rate: f"{rate_text(rate)} tokens/s, all rows, prefill included"
    )


def _requests(seen: Generation) -> str:
    said = thousands(seen.requests)
    if seen.cut:
        said += f", {thousands(seen.cut)} more without their beginning"
    return said + (f", {thousands(seen.under_way)} under way" if seen.under_way else "")


def _per_request(seen: Generation) -> str:
    rows, prompt, new = known(seen.rows), known(seen.prompt_tokens), known(seen.new_tokens)
    if rows is None or prompt is None or new is None:
        return figure_text.figure(seen.rows, count)
    least = "at least " if seen.is_at_least else ""
    return (
        f"{rows:.3g} {_rows(rows)}, {prompt:.4g} tokens of prompt, {least}{new:.4g} new, each row"
    )


def _phase(phase: GenerationPhase, per_second: Figure) -> str:
    if not phase.forwards:
        return ""
    rate = known(per_second)
    at = "" if rate is None else f", {rate_text(rate)} tokens/s"
    forwards, tokens = thousands(phase.forwards), thousands(phase.tokens)
    return f"{forwards} forwards, {tokens} tokens, {duration(phase.seconds)}{at}"


def _between(between: Figure) -> str:
    found = known(between)
    return "" if found is None else f"{share(found)} of a request is outside of forwards"


def _candidates(seen: Generation) -> str:
    if not seen.checked:
        return ""
    return f"{thousands(seen.checked)}, {share(seen.accepted / seen.checked)} accepted"


def _cache(seen: Generation) -> str:
    cache = seen.cache
    if cache is None:
        return figure_text.figure(Unknown(seen.why_no_cache), size)
    length, growth = known(cache.length), known(cache.growth)
    rows = f"{thousands(cache.rows)} {_rows(cache.rows)}"
    held = rows if length is None else f"{rows} of {length:,.0f} tokens"
    grows = "" if growth is None else f", {size(growth)} per token"
    whole = ", preallocated" if cache.is_preallocated else ""
    peak = f", peak {size(cache.peak)}" if cache.peak > cache_bytes(cache) else ""
    return f"{size(cache_bytes(cache))} ({cache.name}), {held}{grows}{whole}{peak}"


def _rows(count: float) -> str:
    return "row" if count == 1 else "rows"


def _layers(cache: TokenCache | None) -> str:
    if cache is None:
        return ""
    layers = layer_bytes(cache)
    least, most = min(layers, default=0), max(layers, default=0)
    each = size(most) if least == most else f"{size(least)} to {size(most)}"
    return f"{each} in each of {len(layers)} layers"
