"""What torch.compile did in the process: graphs, breaks, recompilations, and in which modules."""

from tui_profiler.figures.units import duration, thousands
from tui_profiler.queries.tree import compiled
from tui_profiler.reports.document import Section
from tui_profiler.reports.text.sections import figure_text
from tui_profiler.session import Session

MOST_SHOWN = 12


def compilation_sections(session: Session) -> tuple[Section, ...]:
    """Return the section; none where nothing was compiled."""
    found = session.compilations
    if found is None:
        return ()
    breaks, recompiles = compiled.graph_breaks(session), compiled.recompilations(session)
    facts = figure_text.facts(
        ("graphs", thousands(found.graphs)),
        ("frames", f"{thousands(found.frames)} compiled"),
        ("compile time", figure_text.figure(found.seconds, duration)),
        *_listed(session, "graph breaks", breaks),
        *_listed(session, "recompilations", recompiles),
        ("not listed", thousands(found.left_out) if found.left_out else ""),
    )
    return (Section("torch.compile", "this process, recorded by Dynamo", (facts,)),)


def _listed(
    session: Session, label: str, places: tuple[compiled.CompiledPlace, ...]
) -> list[tuple[str, str]]:
    """Return the places; of many the most frequent."""
    total = sum(one.what.count for one in places)
    shown = [_words(session, one) for one in places[:MOST_SHOWN]]
    more = len(places) - MOST_SHOWN
    if more > 0:
        shown.append(f"{more} more places")
    return [(label, thousands(total) if total else "none"), *(("", one) for one in shown)]


def _words(session: Session, one: compiled.CompiledPlace) -> str:
    module = compiled.module_words(session, one) or compiled.NO_MODULE
    where = f"{one.function} at {one.where}"
    return f"{thousands(one.what.count)}× {module}, {where}: {one.what.reason}"
