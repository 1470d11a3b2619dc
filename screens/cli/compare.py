"""``compare``: two models, or one at two settings, on screen or as text."""

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

from ..options import verbs as options
from ..options.model import Chosen, model_options_but
from ..options.side import TypedSide, typed_side
from ..settings.appearance import AppearanceOptions, look_options
from ..settings.preferences import read_preferences
from ..terminal.standard_output import Results, columns, is_terminal, require_terminal, say
from ..views.compare.opened import Opened, opened

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
@click.argument("a", metavar="A", shell_complete=options.models_and_files)
@click.argument("b", metavar="B", shell_complete=options.models_and_files)
@options.layout(
    "table",
    "json",
    help="Print the comparison instead of showing it. Default without a terminal: table.",
    default=None,
)
@options.output
@options.seconds(
    "--measure",
    "Run each for this long, alternating, and compare latency. On screen: until you quit.",
)
@options.count("--top", "The N largest differences. Default: 12 in the table, all as json.")
@model_options_but("generate")
@look_options
@options.stock_output
@click.pass_obj
def compare_verb(
    started_at: float, /, chosen: Chosen, appearance: AppearanceOptions, **typed: object
) -> int:
    """Compare B with A: totals, settings, the tree node by node, and with --measure the times.

    A and B are models, recordings or JSON reports. Options apply to each that is a model; a quoted
    side has its own: compare resnet50 'resnet50 --batch 8'.
    """
    asked = msgspec.convert(typed, CompareOptions)
    sides = (typed_side(asked.a, chosen), typed_side(asked.b, chosen))
    _refuse_options(sides, chosen, asked.measure)
    if asked.measure is not None and not all(side.chosen.run for side in sides):
        raise click.UsageError("--measure and --no-run exclude each other.")
    on_screen = asked.layout is None and not asked.output and asked.top is None
    if on_screen and is_terminal():
        require_terminal("add --format table")
        return _on_screen(asked, sides, appearance, started_at=started_at)
    return _headless(asked, sides, started_at=started_at)


def _refuse_options(
    sides: tuple[TypedSide, TypedSide], chosen: Chosen, measure: float | None
) -> None:
    """Refuse options of a side that is not a model, and options that apply to neither."""
    why = [_why_fixed(side.model) for side in sides]
    for side, fixed in zip(sides, why, strict=True):
        if fixed:
            options.refuse_options(side.chosen, fixed)
        else:
            options.require_known(side.model)
    if all(why):
        options.refuse_options(chosen, why[0])
        if measure is not None:
            raise click.UsageError(f"{why[0]}, and neither side is a model: omit --measure.")


def _why_fixed(model: str) -> str:
    """Say why asked of a model mean nothing to a side; empty where it is a model."""
    if is_recording(model):
        return options.RECORDING
    return options.REPORT if is_report(model) else ""


def _opened(
    asked: CompareOptions, sides: tuple[TypedSide, TypedSide], *, running: bool, started_at: float
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
            say_of(safe(str(error)), f"try {safe(error.remedy)}")
            return None
    return found[0], found[1]


def _on_screen(
    asked: CompareOptions,
    sides: tuple[TypedSide, TypedSide],
    appearance: AppearanceOptions,
    *,
    started_at: float,
) -> int:
    """Compare on screen until it is left; return the exit code."""
    # --help, and comparing as text, need no Textual.
    from ..terminal.crashing import run_to_end  # noqa: PLC0415
    from ..views.compare.screen import CompareApp  # noqa: PLC0415

    measuring = all(side.chosen.run for side in sides)
    known = _opened(asked, sides, running=measuring, started_at=started_at)
    if known is None:
        return BAD_ARGUMENTS
    preferences = read_preferences(appearance, "")
    app = CompareApp(known, measuring=measuring, seconds=asked.measure, preferences=preferences)
    code = run_to_end(app, mouse=preferences.mouse)
    return code or app.return_value or 0


def _headless(
    asked: CompareOptions, sides: tuple[TypedSide, TypedSide], *, started_at: float
) -> int:
    """Compare, and write it; return the worse of both exit codes.

    Raises:
        UsageError: the file to write cannot be written.
    """
    running = asked.measure is not None
    with Results(asked.output) as results:
        known = _opened(asked, sides, running=running, started_at=started_at)
        if known is None:
            return BAD_ARGUMENTS
        sessions = asyncio.run(_compared(known, asked.measure))
        worst = 0
        for which, one, session, typed in zip(_WHICH, known, sessions, sides, strict=True):
            say(f"{which} {one.label}", *complaint(session, debug=typed.chosen.debug))
            worst = max(worst, exit_code(session))
        trees = (one.side or session.tree for one, session in zip(known, sessions, strict=True))
        if all(tree is not None for tree in trees):
            results.add(_written(known, sessions, asked))
    return worst


async def _compared(known: tuple[Opened, Opened], seconds: float | None) -> list[Session]:
    sessions = [one.session for one in known]
    told: list[set[str | None]] = [set(), set()]

    def heard(place: int, message: Told, session: Session) -> None:
        said = progress_line(message)
        lines = (trusted_line(sessions[place], message), None if said in told[place] else said)
        told[place].add(said)  # Each turn begins with the same words.
        sessions[place] = session
        say(f"{_WHICH[place]} {known[place].label}", *filter(None, lines))

    begins = (known[0].begin, known[1].begin)
    await compare(begins, measuring=seconds is not None, seconds=seconds, heard=heard)
    if seconds is None:
        return sessions
    return [
        measured(session) if one.start is not None else session
        for one, session in zip(known, sessions, strict=True)
    ]


def _written(known: tuple[Opened, Opened], sessions: list[Session], asked: CompareOptions) -> str:
    a, b = (one.at(session) for one, session in zip(known, sessions, strict=True))
    compared = comparison(a, b)
    in_turns = asked.measure is not None and all(one.start is not None for one in known)
    if asked.layout == "json":
        return compare_json(compared, top=asked.top, in_turns=in_turns) + "\n"
    lines = compare_table(compared, columns=columns(asked.output), top=asked.top, in_turns=in_turns)
    return "\n".join(lines) + "\n"
