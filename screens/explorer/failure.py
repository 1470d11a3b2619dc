"""What failed: what, where, why, what to try, what is still known, the log's last lines.

Of a forward that raised also its modules: how far it came.
"""

from tui_profiler.figures.units import count, shape, thousands
from tui_profiler.formatting.text import safe, width, wrap
from tui_profiler.messages import PartialModule, PartialTree, Remedy
from tui_profiler.queries.panel.failure import Fact, FailureText, still_known, trouble

from ..widgets.lines import EMPTY, Line, cut, exact, line_width, with_role
from ..widgets.rows import Look, finished, first_row, labelled, row, section

LABEL = 8
_FACT = 8
LEAST_ROWS = 4
"""The title, and the module that raised between two others."""
_PARAMETERS = 7
_NAME_SHARE = 0.55
"""Of the width, where shapes stand beside the names."""
_SHAPES_FROM = 60


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
    lines += labelled("what", found.what, look, LABEL)
    if found.where:
        lines.append(row((("where".ljust(LABEL), "muted"), *where), EMPTY, look))
    if found.at:
        label = "" if found.where else "where"
        at = _tail(found.at, look.inner - LABEL, look.glyphs.ellipsis)
        lines.append(row(((label.ljust(LABEL), "muted"), (at, "muted")), EMPTY, look))
    for label, sentence in (("why", found.why), ("likely", found.likely)):
        lines += labelled(label, sentence, look, LABEL) if sentence else ()
    return tuple(lines)


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


def raised_at(tree: PartialTree) -> int:
    """Return the row of the module that raised; the first where none of those shown did."""
    modules = enumerate(tree.modules_shown)
    return next((index for index, one in modules if one.progress == "raised"), 0)


def partial_lines(look: Look, rows: int, cursor: int | None = None) -> tuple[Line, ...]:
    """Return exactly ``rows`` lines; blank where no module is known.

    Args:
        look: the session and the width.
        rows: how many lines.
        cursor: the row in sight, and marked; None: the module that raised, without a mark.
    """
    tree = look.session.partial
    if tree is None or rows < LEAST_ROWS:
        return finished((), look, rows)
    modules = tree.modules_shown
    at = raised_at(tree) if cursor is None else cursor
    room = rows - 1
    first = first_row(at, len(modules), room)
    shown = modules[first : first + room]
    title = section("modules, until forward raised", _told(tree, first, len(shown)), look)
    lines = [_module(one, look) for one in shown]
    if cursor is not None:
        lines[cursor - first] = with_role(lines[cursor - first], "cursor")
    return finished((title, *lines), look, rows)


def _told(tree: PartialTree, first: int, shown: int) -> str:
    if shown == tree.modules:
        return thousands(tree.modules)
    begin = tree.first + first
    return f"{thousands(begin + 1)}–{thousands(begin + shown)} of {thousands(tree.modules)}"


def _module(one: PartialModule, look: Look) -> Line:
    glyphs = look.glyphs
    signs: dict[str, tuple[str, str]] = {
        "finished": (glyphs.done, "accent"),
        "raised": (glyphs.failed, "error"),
        "entered": (" ", "ink"),
        "not called": ("·", "faint"),
    }
    role = {"raised": "strong error", "not called": "faint"}.get(one.progress, "ink")
    beside = "faint" if one.progress == "not called" else "muted"
    name: Line = (
        signs[one.progress],
        (" " + "  " * one.depth + safe(one.name), role),
        (f"  {safe(one.type)}", beside),
    )
    parameters: Line = ((count(one.parameters).rjust(_PARAMETERS), beside),)
    if look.inner < _SHAPES_FROM:
        return row(name, parameters, look)
    cells = int(look.inner * _NAME_SHARE) - _PARAMETERS
    shapes: Line = ((_shapes(one, look), beside),)
    room = look.inner - cells - _PARAMETERS - 2
    left = (
        *exact(name, cells, glyphs.ellipsis),
        *parameters,
        ("  ", "ink"),
        *exact(shapes, min(room, max(line_width(shapes), 0)), glyphs.ellipsis),
    )
    return row(left, EMPTY, look)


def _shapes(one: PartialModule, look: Look) -> str:
    """Return the shape of the first input and output, as far as they are known."""
    dash = look.glyphs.dash
    given = shape(one.inputs[0]) if one.inputs else dash
    returned = shape(one.outputs[0]) if one.outputs else dash
    return dash if given == returned == dash else f"{given} → {returned}"
