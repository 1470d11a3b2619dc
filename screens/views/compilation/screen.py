"""The compilation screen: graph breaks and recompilations, with the modules that they are in."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType

from tui_profiler.queries.tree import compiled

from ...actions.view_keys import COMPILATION, own_bindings
from ...widgets.key_bar import Keys
from ...widgets.lines import EMPTY, Line
from ...widgets.rows import Look, row
from ..view_screen import PointedScreen
from .lines import compilation_lines, places


class CompilationScreen(PointedScreen):
    """Shows what ``torch.compile`` did in the process."""

    name_of_view = "compilation"
    keys: ClassVar[Keys] = (("esc", "back"), ("↑↓", "next"), ("↵", "node"))
    every_key = COMPILATION
    BINDINGS: ClassVar[list[BindingType]] = [*own_bindings(COMPILATION)]

    def begin(self) -> None:
        """Start at the first break; of a node that has one, at that."""
        self._at: int | None = None

    def draw(self, look: Look, rows: int) -> Sequence[Line]:
        """Return what was compiled, or that nothing was."""
        return compilation_lines(look, self._selected(look), rows)

    def _selected(self, look: Look) -> int:
        found = places(look)
        if self._at is None:
            of_node = (at for at, one in enumerate(found) if self.node and self.node in one.nodes)
            return next(of_node, 0)
        return max(0, min(self._at, len(found) - 1))

    def status(self, look: Look) -> Line:
        """Return which modules the selected one may be of."""
        found = places(look)
        if not found:
            return EMPTY
        one = found[self._selected(look)]
        count = len(one.nodes)
        said = compiled.module_words(look.session, one)
        if count > 1:
            said += ": Dynamo does not record which"
        return row(((said, "muted"),), EMPTY, look)

    def action_move(self, by: int) -> None:
        """Go to another break or recompilation, and to its first module."""
        look = self.look_now()
        if found := places(look):
            self._at = max(0, min(self._selected(look) + by, len(found) - 1))
            nodes = found[self._at].nodes
            if nodes:
                self.select(nodes[0])
            else:
                self.refresh_view()
