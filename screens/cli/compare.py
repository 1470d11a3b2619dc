"""The verb that compares two models, or one at two settings: on screen, or as text."""

from __future__ import annotations

import click
import msgspec

from tui_profiler.recording.kind import is_recording
from tui_profiler.reports.json.report_file import is_report

from ..options.model import Chosen, model_options, output_option, stock_output
from ..options.numbers import Finite
from ..options.refusals import RECORDING, REPORT, refuse_options
from ..options.side import TypedSide, typed_side
from ..settings.appearance_options import Wish, look_options
from ..terminal.standard_output import is_terminal, require_terminal
from .first_word import models_and_files


@click.command("compare", short_help="Hold two models against each other, on screen or as text.")
@click.argument("a", metavar="A", shell_complete=models_and_files)
@click.argument("b", metavar="B", shell_complete=models_and_files)
@click.option(
    "--format",
    "layout",
    type=click.Choice(["table", "json"]),
    help="Without the screen: print it. Where there is no terminal: table.",
)
@output_option
@click.option(
    "--measure",
    type=Finite(min=0, min_open=True),
    metavar="SECONDS",
    help="Run each for so long, in turns, and compare their times. On screen they run until it is"
    " left.",
)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    metavar="N",
    help="The N worst differences: 12 in the table without it, all layers as json.",
)
@model_options
@look_options
@stock_output
@click.pass_obj
def compare(started_at: float, /, chosen: Chosen, wish: Wish, **typed: object) -> int:
    """Hold B against A: totals, settings, the tree node by node, and with --measure the times.

    A and B are models, recordings, or JSON reports. Options hold for each that is a model; a
    side in quotes has its own: compare resnet50 'resnet50 --batch 8'.
    """
    from ..views.compare.headless import CompareOptions, run_compare  # noqa: PLC0415

    options = msgspec.convert(typed, CompareOptions)
    sides = (typed_side(options.a, chosen), typed_side(options.b, chosen))
    _refuse_options(sides, chosen, options.measure)
    if options.measure is not None and not all(side.chosen.run for side in sides):
        raise click.UsageError("--measure runs the models and --no-run forbids it: leave out one.")
    on_screen = options.layout is None and not options.output and options.top is None
    if on_screen and is_terminal():
        require_terminal("add --format table")
        from .run_parts.compare import run_comparing  # noqa: PLC0415

        return run_comparing(options, sides, wish, started_at=started_at)
    return run_compare(options, sides, started_at=started_at)


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
