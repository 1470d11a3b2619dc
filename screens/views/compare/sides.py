"""The rows of the two sides, and their stages while they load."""

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.formatting.text import middle, safe, width
from tui_profiler.messages import LoadSpec
from tui_profiler.queries.panel.state import State
from tui_profiler.session import EMPTY as NOTHING
from tui_profiler.session import Session

from ...widgets.header import state_sign
from ...widgets.lines import EMPTY, Line, line_width
from ...widgets.machine_lines import machine_lines
from ...widgets.rows import Look, beside, row
from ...widgets.stage_lines import progress_lines, shown_stages, stage_lines

BESIDE_FROM = 100
"""Columns from which on the stages are side by side."""


class SideLook(Struct, frozen=True):
    """One side as drawn."""

    label: str
    words: str
    """Class, inputs and device; safe."""
    state: State
    complaint: tuple[str, ...] = ()
    """Why it failed, and remedies."""
    session: Session = NOTHING
    spec: LoadSpec | None = None
    """Load request; None for a file."""
    now: float | None = None
    """Seconds since its worker started; None before."""

    @property
    def is_loading(self) -> bool:
        """Whether its tree is not traced yet."""
        return self.spec is not None and not self.complaint and self.session.tree is None


def side_lines(sides: tuple[SideLook, SideLook], look: Look) -> tuple[Line, ...]:
    """Return a row per side: what it is, and its state."""
    return tuple(_side(which, side, look) for which, side in zip("AB", sides, strict=True))


def _side(which: str, side: SideLook, look: Look) -> Line:
    role = "error" if side.complaint else "accent"
    is_loading = side.state.kind == "loading"  # Its stages turn.
    sign = look.glyphs.empty if is_loading else state_sign(side.state.kind, look)
    name = middle(safe(side.label), max(look.inner * 2 // 5, 8), look.glyphs.ellipsis)
    left: Line = ((f"{which}  ", "strong accent"), (name, "strong ink"))
    state = safe(f"{side.state.words} {side.state.detail}".strip())
    if line_width(left) + width(f"{sign} {state}") + 2 > look.inner:
        state = safe(side.state.words)
    right: Line = ((sign, role), (f" {state}", "error" if side.complaint else "muted"))
    says = safe(side.complaint[0]) if side.complaint else side.words
    if side.complaint or line_width(left) + width(says) + line_width(right) + 4 <= look.inner:
        left = (*left, (f"  {says}", "error" if side.complaint else "muted"))
    return row(left, right, look)


def loading_lines(sides: tuple[SideLook, SideLook], look: Look, rows: int) -> tuple[Line, ...]:
    """Return the stages of both sides and the machine, at most ``rows`` lines."""
    under_way = sides[0] if sides[1].now is None else sides[1]
    machine = machine_lines(_of(under_way, look))
    if look.cells >= BESIDE_FROM:
        half = replace(look, cells=(look.cells - 1) // 2)
        left, right = (
            (*_stages(which, side, half), EMPTY, *_progress(side, half))
            for which, side in zip("AB", sides, strict=True)
        )
        both = beside(left, right, half.cells, max(len(left), len(right)), look)
        return (EMPTY, *both, EMPTY, *machine)[:rows]
    a, b = (_stages(which, side, look) for which, side in zip("AB", sides, strict=True))
    if len(a) + len(b) > rows:
        return ((a if under_way is sides[0] else b) + machine)[:rows]
    return (*a, *b, *machine)[:rows]


def _of(side: SideLook, look: Look) -> Look:
    return replace(look, session=side.session, now=side.now or 0.0)


def _stages(which: str, side: SideLook, look: Look) -> tuple[Line, ...]:
    """Return the stages of a side; its state where it has none."""
    title = f"stages of {which}"
    if side.spec is not None and side.now is not None:
        return stage_lines(_of(side, look), shown_stages(side.session, side.spec), title)
    titled = row(((title, "strong ink"),), EMPTY, look)
    return (titled, row(((f"none: {side.state.words}", "muted"),), EMPTY, look))


def _progress(side: SideLook, look: Look) -> tuple[Line, ...]:
    if side.spec is None or side.now is None:
        return ()
    return progress_lines(_of(side, look), shown_stages(side.session, side.spec))
