"""What ``torch.compile`` had to do again, with the modules whose forward it is in.

Dynamo says a file and a line. Of several modules of one class it is not known which one it was.
"""

import re

from msgspec import Struct

from tui_profiler.messages import CompiledAgain
from tui_profiler.session import Session

_RESUMED = re.compile(r"torch_dynamo_resume_in_(?P<function>.+)_at_(?P<line>\d+)")
"""The rest of a function after a break.
Source: torch/_dynamo/resume_execution.py, TORCH_DYNAMO_RESUME_IN_PREFIX."""

NO_MODULE = "not in a module"


class CompiledPlace(Struct, frozen=True):
    """A graph break, or a recompilation."""

    what: CompiledAgain
    nodes: tuple[int, ...]
    """Of the modules whose class it is in, in the order of the tree; empty where it is in none."""

    @property
    def function(self) -> str:
        """Return the function as its author named it."""
        resumed = _RESUMED.fullmatch(self.what.function)
        if resumed is None:
            return self.what.function
        return f"{resumed['function']}, resumed at line {resumed['line']}"

    @property
    def where(self) -> str:
        """Return ``file:line``."""
        return f"{self.what.file}:{self.what.line}" if self.what.line else "an unknown line"


def graph_breaks(session: Session) -> tuple[CompiledPlace, ...]:
    """Return the graph breaks, most frequent first."""
    return () if session.compilations is None else _places(session, session.compilations.breaks)


def recompilations(session: Session) -> tuple[CompiledPlace, ...]:
    """Return the recompilations, most frequent first."""
    return () if session.compilations is None else _places(session, session.compilations.recompiles)


def of_node(found: tuple[CompiledPlace, ...], node: int) -> tuple[CompiledPlace, ...]:
    """Return those that are in a module's own class."""
    return tuple(one for one in found if node in one.nodes)


def module_words(session: Session, place: CompiledPlace) -> str:
    """Return the modules of a place in few words: ``layers.0 (Block) or 3 others``."""
    if session.tree is None or not place.nodes:
        return ""
    first = session.tree.nodes[place.nodes[0]]
    more = len(place.nodes) - 1
    others = f" or {more} other{'s' * (more > 1)}" if more else ""
    return f"{first.path or '(model)'} ({first.type}){others}"


def _places(session: Session, found: tuple[CompiledAgain, ...]) -> tuple[CompiledPlace, ...]:
    wanted = {one for place in found for one in place.forwards}
    nodes: dict[str, list[int]] = {}
    for index, node in enumerate(session.tree.nodes if session.tree is not None else ()):
        if node.kind == "module" and node.source in wanted:
            nodes.setdefault(node.source, []).append(index)
    return tuple(
        CompiledPlace(
            one, tuple(sorted(node for each in one.forwards for node in nodes.get(each, ())))
        )
        for one in found
    )
