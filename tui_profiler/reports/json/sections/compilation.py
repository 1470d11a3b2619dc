"""What torch.compile did in the process, in the JSON report."""

from msgspec import UNSET, UnsetType

from tui_profiler.queries.tree import compiled
from tui_profiler.reports.json_values import Count, Known, Part, Size, fill
from tui_profiler.session import Session

MOST_MODULES = 32


class CompiledAgain(Part, frozen=True):
    """A graph break, or a recompilation."""

    file: str
    line: Count
    """Of the break; of a recompilation, the first line of the function; 0 if not known."""
    function: str
    reason: str
    """Dynamo's, its first line; of a recompilation, the guard that failed."""
    count: Count
    """How often, in all compilations."""
    modules: list[str]
    """Paths of the modules whose class it is in, at most 32: Dynamo does not say which of them it
    was. Empty where it is in none."""
    modules_left_out: Count
    """Such modules that are not listed."""


class Compilation(Part, frozen=True):
    """What Dynamo compiled in the process, for all models; no key if it compiled nothing."""

    frames: Count
    """Compilations of a function, or of the rest of one after a break."""
    graphs: Count
    seconds: Known[Size]
    """Spent compiling, in all."""
    breaks: list[CompiledAgain]
    """Graph breaks, most frequent first."""
    recompiles: list[CompiledAgain]
    """Recompilations, most frequent first."""
    left_out: Count
    """Breaks and recompilations that are not listed."""


def compilation_section(session: Session) -> Compilation | UnsetType:
    """Return what was compiled, if anything was."""
    found = session.compilations
    if found is None:
        return UNSET
    return fill(
        Compilation,
        found,
        breaks=[_again(session, one) for one in compiled.graph_breaks(session)],
        recompiles=[_again(session, one) for one in compiled.recompilations(session)],
    )


def _again(session: Session, place: compiled.CompiledPlace) -> CompiledAgain:
    nodes = session.tree.nodes if session.tree is not None else ()
    return fill(
        CompiledAgain,
        place.what,
        modules=[nodes[node].path for node in place.nodes[:MOST_MODULES]],
        modules_left_out=max(len(place.nodes) - MOST_MODULES, 0),
    )
