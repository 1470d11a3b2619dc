"""The failure panel: what, where, why, what to try, what is still known, the log's last lines."""

from __future__ import annotations

from tui_profiler.figures.units import thousands
from tui_profiler.formatting.canvas import UNICODE, Glyphs
from tui_profiler.formatting.text import width, wrap
from tui_profiler.messages import Remedy
from tui_profiler.queries.panel.failure import Fact, FailureText, still_known, trouble
from tui_profiler.session import EMPTY as NOTHING
from tui_profiler.session import Session

from ..widgets.lines import EMPTY, Line, LinesWidget, cut, exact, with_role
from ..widgets.rows import Look, finished, row, section

LABEL = 8
_FACT = 8


def failure_lines(look: Look, rows: int, marked: int = 0, hint: str = "") -> tuple[Line, ...]:
    """Return exactly ``rows`` lines; all blank where nothing failed.

    Args:
        look: the session and the width.
        rows: how many lines; the log goes first where they are short, then what is still known.
        marked: which remedy the cursor is on; -1: none.
        hint: what a key does with the marked line, such as ``x tries the marked line``.
    """
    found = trouble(look.session)
    if found is None:
        return finished((), look, rows)
    head = _head(found, look)
    remedies = _remedies(found, look, marked, hint)
    known, log = _known(look), _log(look)
    forms = (
        (*head, *_after(remedies), *_after(known), *_after(log)),
        (*head, *_after(remedies), *_after(known)),
        (*head, *_after(remedies)),
        (*head, *remedies),
    )
    return finished(next((form for form in forms if len(form) <= rows), forms[-1]), look, rows)


def shortest_failure(look: Look, marked: int = 0, hint: str = "") -> tuple[Line, ...]:
    """Return what went wrong and what to try, in as many lines as that takes."""
    found = trouble(look.session)
    if found is None:
        return ()
    return (*_head(found, look), *_after(_remedies(found, look, marked, hint)))


def _after(lines: tuple[Line, ...]) -> tuple[Line, ...]:
    return (EMPTY, *lines) if lines else ()


def _head(found: FailureText, look: Look) -> tuple[Line, ...]:
    title: Line = ((f"{look.glyphs.failed} {found.title}", "strong error"),)
    where: Line = ((found.where, "strong ink"), (f"  {found.type}" if found.type else "", "muted"))
    lines = [row(title, ((found.after, "muted"),), look), EMPTY]
    lines += _said("what", found.what, look)
    if found.where:
        lines.append(row((("where".ljust(LABEL), "muted"), *where), EMPTY, look))
    if found.at:
        label = "" if found.where else "where"
        at = _tail(found.at, look.inner - LABEL, look.glyphs.ellipsis)
        lines.append(row(((label.ljust(LABEL), "muted"), (at, "muted")), EMPTY, look))
    lines += _said("why", found.why, look)
    lines += _said("likely", found.likely, look)
    return tuple(lines)


def _said(label: str, sentence: str, look: Look) -> tuple[Line, ...]:
    parts = wrap(sentence, max(look.inner - LABEL, 1), look.glyphs.ellipsis)
    labels = (label, *[""] * len(parts))
    return tuple(
        row(((name.ljust(LABEL), "muted"), (part, "ink")), EMPTY, look)
        for name, part in zip(labels, parts, strict=False)
    )


def _tail(text: str, cells: int, ellipsis: str) -> str:
    """Keep the end of a place: the file's name and line say more than its folders."""
    if width(text) <= cells:
        return text
    while text and width(text) > cells - len(ellipsis):
        text = text[1:]
    return ellipsis + text


def _remedies(found: FailureText, look: Look, marked: int, hint: str) -> tuple[Line, ...]:
    if not found.remedies:
        return ()
    longest = max(width(remedy.command) for remedy in found.remedies) + 3
    hint = hint if marked >= 0 else ""
    lines: list[Line] = [section("try", hint, look)]
    for index, remedy in enumerate(found.remedies):
        # Without a key for it a mark would promise what nothing keeps.
        lines += _remedy(remedy, look, longest, is_marked=bool(hint) and index == marked)
    return tuple(lines)


def _remedy(remedy: Remedy, look: Look, longest: int, *, is_marked: bool) -> tuple[Line, ...]:
    command: Line = ((remedy.command, "strong ink"),)
    fits = longest + width(remedy.result) <= look.inner
    if fits:
        parts: list[Line] = [(*exact(command, longest), (remedy.result, "muted"))]
    else:
        parts = [command]
        room = max(look.inner - 2, 1)
        parts += [(("  " + said, "muted"),) for said in wrap(remedy.result, room)]
    if not is_marked:
        return tuple(row(part, EMPTY, look) for part in parts)
    cursor: Line = ((look.glyphs.cursor, "accent"),)
    lines = [
        (*cursor, *exact(cut(part, look.inner, look.glyphs.ellipsis), look.cells - 1))
        for part in parts
    ]
    return tuple(with_role(line, "cursor") for line in lines)


def _known(look: Look) -> tuple[Line, ...]:
    facts = still_known(look.session)
    return (section("still known", "", look), *(_fact(fact, look) for fact in facts))


def _fact(fact: Fact, look: Look) -> Line:
    done, dash = look.glyphs.done, look.glyphs.dash
    sign = (done, "accent") if fact.is_known else (dash, "faint")
    words: Line = ((f" {fact.label}".ljust(_FACT + 3), "ink"), (fact.words, "muted"))
    return row((sign, *words), EMPTY, look)


def _log(look: Look) -> tuple[Line, ...]:
    log = look.session.log
    if not log.lines:
        return ()
    last = log.lines[-2:]
    total = thousands(log.total_lines)
    provenance = f"last {len(last)} of {total} lines" if log.total_lines > 1 else "1 line"
    return (
        section("log", provenance, look),
        *(row(((line, "muted"),), EMPTY, look) for line in last),
    )


class FailurePanel(LinesWidget):
    """Shows what went wrong."""

    DEFAULT_CSS = """
    FailurePanel { width: 48; height: 1fr; }
    """

    def __init__(
        self,
        glyphs: Glyphs = UNICODE,
        hint: str = "",
        *,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.glyphs = glyphs
        self.hint = hint
        """What a key does with the marked line; empty where there is no such key."""
        self._shown: tuple[Session, float, int] = (NOTHING, 0.0, 0)

    def show(self, session: Session, now: float, marked: int = 0) -> None:
        """Show the failure of a session; ``marked`` is the remedy under the cursor."""
        self._shown = (session, now, marked)
        self._draw()

    def on_resize(self) -> None:
        """Lay the panel out anew."""
        self._draw()

    def _draw(self) -> None:
        session, now, marked = self._shown
        cells, rows = self.size
        if cells > 2 and rows > 0:
            look = Look(session, 0, now, cells, self.glyphs)
            self.lines = failure_lines(look, rows, marked, self.hint)
