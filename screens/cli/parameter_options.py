"""The option that has ``report`` look at the values of parameters, and where it cannot."""

from __future__ import annotations

from collections.abc import Sequence

import click

from tui_profiler.recording.kind import is_recording

parameters_option = click.option(
    "--parameters",
    is_flag=True,
    help="Look at every value of the parameters as well: statistics, quantisation, pruning.",
)


def require_parameters(wanted: bool, layout: str, attach: str, names: Sequence[str]) -> None:
    """Refuse what has no values to look at, or no place for what they are like.

    Raises:
        UsageError: it says what to leave out.
    """
    if not wanted:
        return
    if layout in ("csv", "perfetto"):
        raise click.UsageError(f"{layout} holds no --parameters: leave it out, or --format.")
    if attach:
        raise click.UsageError("The parameters of a program that is not ours are left alone.")
    if any(map(is_recording, names)):
        raise click.UsageError("A recording holds no values: leave out --parameters.")
