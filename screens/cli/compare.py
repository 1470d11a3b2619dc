"""``compare``: two models, or one at two settings, on screen or as text."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Literal

import click
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.formatting.text import safe
from tui_profiler.queries.compare.comparison import comparison
from tui_profiler.recording.kind import RecordingError, is_recording
from tui_profiler.reports.json.compare import compare_json
from tui_profiler.reports.json.report_file import ReportError, is_report
from tui_profiler.reports.text.compare import compare_table
from tui_profiler.session import Session
from tui_profiler.source import Told
from tui_profiler.verbs.compare import compare
from tui_profiler.verbs.outcome import BAD_ARGUMENTS, complaint, exit_code, measured
from tui_profiler.verbs.report import progress_line, trusted_line

from ..options.model import Chosen, model_options
from ..options.side import TypedSide, typed_side
from ..settings.appearance_options import AppearanceOptions, look_options
from ..settings.preferences import habits_of
from ..terminal.standard_output import Results, columns, is_terminal, require_terminal, say
from ..views.compare.opened import Opened, opened
from .options import (
    RECORDING,
    REPORT,
    FiniteRange,
    models_and_files,
    output_option,
    refuse_options,
    stock_output,
)

_WHICH = ("A", "B")


class CompareOptions(Struct, frozen=True):
    """What was typed after ``compare``, the options of the models apart."""

    a: str
    b: str
    layout: Literal["table", "json"] | None
    output: str
    measure: float | None
    top: int | None


@click.command("compare")
@click.argument("a", metavar="A", shell_complete=models_and_files)
@click.argument("b", metavar="B", shell_complete=models_and_files)
@click.option(
    "--format",
    "layout",
    type=click.Choice(["table", "json"]),
    help="Print the comparison instead of showing it. Default without a terminal: table.",
)
@output_option
@click.option(
    "--measure",
    type=FiniteRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Run each for this long, alternating, and compare latency. On screen: until you quit.",
)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    metavar="N",
    help="The N largest differences. Default: 12 in the table, all as json.",
)
@model_options
@look_options
@stock_output
@click.pass_obj
def compare_verb(
    started_at: float, /, chosen: Chosen, wish: AppearanceOptions, **typed: object
) -> int:
    """Compare B with A: totals, settings, the tree node by node, and with --measure the times.

    A and B are models, recordings or JSON reports. Options apply to each that is a model; a quoted
    side has its own: compare resnet50 'resnet50 --batch 8'.
    """
    options = msgspec.convert(typed, CompareOptions)
    sides = (typed_side(options.a, chosen), typed_side(options.b, chosen))
    _refuse_options(sides, chosen, options.measure)
    if options.measure is not None and not all(side.chosen.run for side in sides):
        raise click.UsageError("--measure and --no-run exclude each other.")
    on_screen = options.layout is None and not options.output and options.top is None
    if on_screen and is_terminal():
        require_terminal("add --format table")
        return _on_screen(options, sides, wish, started_at=started_at)
    return _headless(options, sides, started_at=started_at)


def _refuse_options(
    sides: tuple[TypedSide, TypedSide], chosen: Chosen, measure: float | None
) -> None:
    """Refuse what a side that is no model cannot heed, and what none of both can."""
    why = [_why_fixed(side.model) for side in sides]
    for side, fixed in zip(sides, why, strict=True):
        if fixed:
            refuse_options(side.chosen, fixed)
    if all(why):
        refuse_options(chosen, why[0])
        if measure is not None:
            raise click.UsageError(f"{why[0]}, and neither side is a model: leave out --measure.")


def _why_fixed(model: str) -> str:
    """Say why options of a model mean nothing to a side; empty where it is a model."""
    if is_recording(model):
        return RECORDING
    return REPORT if is_report(model) else ""


def _opened(
    options: CompareOptions, sides: tuple[TypedSide, TypedSide], *, running: bool, started_at: float
) -> tuple[Opened, Opened] | None:
    """Look at both; None where one cannot be read, which is said then."""
    found: list[Opened] = []
    for which, typed in zip(_WHICH, sides, strict=True):
        say_of = partial(say, f"{which} {typed.label}")
        chosen = typed.chosen if running else replace(typed.chosen, run=False)
        spec = chosen.spec(typed.model, started_at=started_at)
        try:
            found.append(opened(typed, say_of, spec=spec))
        except (ReportError, RecordingError) as error:
            say_of(safe(str(error)))
            say_of(f"try {safe(error.remedy)}")
            return None
    return found[0], found[1]


def _on_screen(
    options: CompareOptions,
    sides: tuple[TypedSide, TypedSide],
    wish: AppearanceOptions,
    *,
    started_at: float,
) -> int:
    """Compare on screen until it is left; gives the exit code."""
    # --help, and comparing as text, need no Textual.
    from ..app.compare_app import CompareApp  # noqa: PLC0415
    from ..terminal.crashing import run_to_end  # noqa: PLC0415

    measuring = all(side.chosen.run for side in sides)
    known = _opened(options, sides, running=measuring, started_at=started_at)
    if known is None:
        return BAD_ARGUMENTS
    habits = habits_of(wish, "")
    app = CompareApp(known, measuring=measuring, seconds=options.measure, habits=habits)
    code = run_to_end(app, mouse=habits.mouse)
    return code or app.return_value or 0


def _headless(
    options: CompareOptions, sides: tuple[TypedSide, TypedSide], *, started_at: float
) -> int:
    """Compare, and write it; gives the worse of both exit codes.

    Raises:
        UsageError: the file to write cannot be written.
    """
    running = options.measure is not None
    with Results(options.output) as results:
        known = _opened(options, sides, running=running, started_at=started_at)
        if known is None:
            return BAD_ARGUMENTS
        sessions = asyncio.run(_compared(known, options.measure))
        worst = 0
        for which, one, session, typed in zip(_WHICH, known, sessions, sides, strict=True):
            for line in complaint(session, debug=typed.chosen.debug):
                say(f"{which} {one.label}", line)
            worst = max(worst, exit_code(session))
        trees = (one.side or session.tree for one, session in zip(known, sessions, strict=True))
        if all(tree is not None for tree in trees):
            results.add(_written(known, sessions, options))
    return worst


async def _compared(known: tuple[Opened, Opened], seconds: float | None) -> list[Session]:
    sessions = [one.session for one in known]
    told: list[set[str | None]] = [set(), set()]

    def heard(place: int, message: Told, session: Session) -> None:
        said = progress_line(message)
        lines = (trusted_line(sessions[place], message), None if said in told[place] else said)
        told[place].add(said)  # Each turn begins with the same words.
        sessions[place] = session
        for line in filter(None, lines):
            say(f"{_WHICH[place]} {known[place].label}", line)

    begins = (known[0].begin, known[1].begin)
    await compare(begins, measuring=seconds is not None, seconds=seconds, heard=heard)
    if seconds is None:
        return sessions
    return [
        measured(session) if one.start is not None else session
        for one, session in zip(known, sessions, strict=True)
    ]


def _written(known: tuple[Opened, Opened], sessions: list[Session], options: CompareOptions) -> str:
    a, b = (one.at(session) for one, session in zip(known, sessions, strict=True))
    compared = comparison(a, b)
    in_turns = options.measure is not None and all(one.start is not None for one in known)
    if options.layout == "json":
        return compare_json(compared, top=options.top, in_turns=in_turns) + "\n"
    lines = compare_table(
        compared, columns=columns(options.output), top=options.top, in_turns=in_turns
    )
    return "\n".join(lines) + "\n"
