"""The verb that compares two models, or one at two settings: on screen, or as text."""

from __future__ import annotations

import click
import msgspec

from .finite import Finite
from .look_options import Wish, look_options
from .options import Chosen, model_options, output_option, stock_output
from .output import is_terminal, require_terminal
from .side_options import typed_side
from .verb_group import models_and_files


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

    A and B are models, recordings, or JSON reports. Options hold for both; in quotes a side has its
    own: compare resnet50 'resnet50 --batch 8'.
    """
    from .headless_compare import CompareOptions, run_compare  # noqa: PLC0415

    options = msgspec.convert(typed, CompareOptions)
    sides = (typed_side(options.a, chosen), typed_side(options.b, chosen))
    if options.measure is not None and not all(side.chosen.run for side in sides):
        raise click.UsageError("--measure runs the models and --no-run forbids it: leave out one.")
    on_screen = options.layout is None and not options.output and options.top is None
    if on_screen and is_terminal():
        require_terminal("add --format table, which needs none.")
        from .comparing import run_comparing  # noqa: PLC0415

        return run_comparing(options, sides, wish, started_at=started_at)
    return run_compare(options, sides, started_at=started_at)
