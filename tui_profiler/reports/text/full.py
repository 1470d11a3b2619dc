"""The full report: every section of one model, for text and for Markdown."""

from tui_profiler.reports.document import Section
from tui_profiler.reports.text.markdown import as_markdown
from tui_profiler.reports.text.sections.architecture import architecture_section
from tui_profiler.reports.text.sections.compilation import compilation_sections
from tui_profiler.reports.text.sections.computation import computation
from tui_profiler.reports.text.sections.findings import findings_section
from tui_profiler.reports.text.sections.generation import generation_sections
from tui_profiler.reports.text.sections.memory import memory_section
from tui_profiler.reports.text.sections.parameters import parameters_section
from tui_profiler.reports.text.sections.profile import energy_section, profile
from tui_profiler.reports.text.sections.serving import serving_sections
from tui_profiler.reports.text.sections.step import step_sections, values_sections
from tui_profiler.reports.text.sections.summary import summary
from tui_profiler.reports.text.sections.training import training_sections
from tui_profiler.reports.text.text import as_text
from tui_profiler.session import Session


def full_text(
    session: Session,
    *,
    columns: int,
    top: int | None = None,
    depth: int | None = None,
    more: tuple[Section, ...] = (),
) -> str:
    """Return the full report as text, with a line end.

    Args:
        session: as it was left.
        columns: cells of the widest line.
        top: only so many layers, those that cost most by themselves.
        depth: only layers at most so deep; the root is at depth 0. Not with ``top``.
        more: sections that go before the others, such as the checks that were asked for.

    Raises:
        ValueError: there is no whole tree yet.
    """
    found = (*more, *sections(session, top, depth))
    return "\n".join(as_text(_title(session), found, columns)) + "\n"


def full_markdown(
    session: Session,
    *,
    top: int | None = None,
    depth: int | None = None,
    more: tuple[Section, ...] = (),
) -> str:
    """Return the same as Markdown; arguments and errors as above."""
    return "\n".join(as_markdown(_title(session), (*more, *sections(session, top, depth)))) + "\n"


def sections(
    session: Session, top: int | None = None, depth: int | None = None
) -> tuple[Section, ...]:
    """Return the sections in their order.

    Raises:
        ValueError: there is no whole tree yet.
    """
    tree = session.tree
    if tree is None or tree.done is None or not len(tree):
        raise ValueError("the model was not traced")
    return (
        summary(session, tree),
        architecture_section(session, tree, top, depth),
        parameters_section(session, tree),
        computation(session, tree, top, depth),
        memory_section(session, tree),
        *training_sections(session, tree),
        profile(session, tree, top),
        *step_sections(session, tree, top),
        *generation_sections(session),
        *serving_sections(session),
        *values_sections(session, top),
        *compilation_sections(session),
        energy_section(session, tree),
        findings_section(session),
    )


def _title(session: Session) -> str:
    return session.model.name if session.model is not None else "unknown model"
