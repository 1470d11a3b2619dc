"""What torch.compile did in the process, in the JSON report."""

from msgspec import UNSET, UnsetType

from tui_profiler.reports.json_values import Count, Known, Part, Size, fill
from tui_profiler.session import Session


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


class Compilation(Part, frozen=True):
    """What Dynamo compiled in the process, of all its models; no key where it compiled nothing."""

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
    return UNSET if found is None else fill(Compilation, found)
