"""What the file of a parameters-only model is: in place of times and bounds, which it has not."""

from tui_profiler.figures.units import size, thousands
from tui_profiler.formatting.text import safe
from tui_profiler.messages import NO_FORWARD, FileFacts

from .lines import EMPTY, Line
from .rows import Look, absent, row, section, words

_LABEL = 10
_MOST_PROBLEMS = 4
_MOST_NAMES = 3


def file_lines(look: Look) -> tuple[Line, ...]:
    """Return the section with its title: what was found in the file, and how to run it."""
    found = look.session.file
    if found is None:
        return (section("file", "", look), *absent("work", NO_FORWARD, look))
    lines: list[Line] = [
        section("file", "inspected, not loaded", look),
        _field("kind", safe(found.kind), look),
        _field("tensors", f"{thousands(found.tensors)}  {size(found.bytes)}", look),
        _field("checksum", safe(found.checksum), look, is_wrong=found.checksum == "failed"),
        _field("imports", _names(_needing_trust_first(found)), look),
    ]
    for problem in found.problems[:_MOST_PROBLEMS]:
        place = f" ({safe(problem.where)})" if problem.where else ""
        lines += words(f"{look.glyphs.failed} {safe(problem.what)}{place}", look, "error")
    more = found.problem_count - _MOST_PROBLEMS
    if more > 0:
        lines += words(f"{thousands(more)} more problems", look, "error")
    lines += words(NO_FORWARD, look)
    if found.hint:
        lines += words(f"to run it: {safe(found.hint)}", look)
    return tuple(lines)


def trusted_lines(look: Look) -> tuple[Line, ...]:
    """Return what a trusted file runs, while it is loaded; nothing for any other."""
    found = look.session.file
    if found is None or not found.is_trusted:
        return ()
    says = f"loading the file runs code, as trusted: it imports {_names(found.untrusted_globals)}"
    warning = "The first of them can run commands: no model needs that."
    return (
        *words(says, look),
        *(words(warning, look, "error") if found.dangerous_globals else ()),
    )


def _needing_trust_first(found: FileFacts) -> tuple[str, ...]:
    harmless = (name for name in found.globals if name not in found.untrusted_globals)
    return (*found.untrusted_globals, *harmless)


def _names(names: tuple[str, ...]) -> str:
    if not names:
        return "nothing"
    more = f" and {thousands(len(names) - _MOST_NAMES)} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(safe(name) for name in names[:_MOST_NAMES]) + more


def _field(label: str, text: str, look: Look, *, is_wrong: bool = False) -> Line:
    role = "error" if is_wrong else "ink"
    return row(((label.ljust(_LABEL), "muted"), (text, role)), EMPTY, look)
