"""The inference server beside the program, as its own metrics describe it."""

from tui_profiler.figures.units import UNAVAILABLE, duration, share, thousands
from tui_profiler.messages import ServingFigures, ServingTimes, Unknown, known
from tui_profiler.queries.panel import serving
from tui_profiler.reports.document import Section
from tui_profiler.reports.text.sections import figure_text
from tui_profiler.session import Session


def serving_sections(session: Session) -> tuple[Section, ...]:
    """Return the section; none where no address was given."""
    seen = session.serving
    if seen is None:
        return ()
    found = serving.figures_of(seen)
    if isinstance(found, Unknown):
        return (Section("serving", seen.address, figure_text.nothing(found.reason)),)
    facts = figure_text.facts(
        ("server", f"{found.server} at {seen.address}"),
        ("model", ", ".join(found.models) or f"{UNAVAILABLE} (not in the server's metrics)"),
        *_facts(found),
    )
    said = f"the server's own metrics, {serving.window_text(found)}; ~ estimated within a bucket"
    return (Section("serving", said, (facts,)),)


def serving_words(session: Session) -> tuple[tuple[str, str], ...]:
    """Return the server in one line with its label; empty without one."""
    seen = session.serving
    if seen is None:
        return ()
    found = serving.figures_of(seen)
    if isinstance(found, Unknown):
        return (("serving", f"{UNAVAILABLE} ({found.reason})"),)
    figures = (
        ("", found.generated_per_second, serving.tokens_text),
        (
            "first token p50 ",
            found.first_token.p50.seconds,
            serving.estimate(found.first_token.p50),
        ),
        ("KV cache ", found.cache_usage, share),
    )
    short = (
        f"{label}{written(value)}"
        for label, figure, written in figures
        if (value := known(figure)) is not None
    )
    requests = f"{found.server}, {serving.requests_text(found, UNAVAILABLE)}"
    return (("serving", ", ".join((requests, *short))),)


def _facts(found: ServingFigures) -> tuple[tuple[str, str], ...]:
    return (
        ("requests", serving.requests_text(found, UNAVAILABLE)),
        *map(_fact, serving.throughput_rows(found)),
        ("first token", _times(found.first_token)),
        ("between tokens", _times(found.between_tokens)),
        *map(_fact, serving.cache_rows(found)),
    )


def _fact(row: serving.ServingRow) -> tuple[str, str]:
    text = figure_text.figure(row.figure, row.written)
    if row.aside and not isinstance(row.figure, Unknown):
        text = f"{text}, {row.aside}"
    return row.label, text


def _times(times: ServingTimes) -> str:
    if not times.count:
        return figure_text.figure(times.p50.seconds, duration)
    parts = [
        f"{name} {figure_text.figure(one.seconds, serving.estimate(one))}"
        + (f" ({bucket})" if (bucket := serving.bucket_text(one)) else "")
        for name, one in (("p50", times.p50), ("p95", times.p95))
    ]
    parts.append(f"mean {figure_text.figure(times.mean, duration)}")
    mean = f", {serving.MEAN}" if times.is_mean_per_request else ""
    return f"{', '.join(parts)}, of {thousands(times.count)}{mean}"
