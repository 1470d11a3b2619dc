"""The options with which ``report`` takes many models at once, a file for each."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

import click
import msgspec
from click.core import ParameterSource

from ..options.model import Chosen
from ..options.numbers import Finite

MOST_JOBS = 256

_Command = TypeVar("_Command", bound=Callable[..., object])

_OPTIONS = (
    click.option(
        "--all",
        "group",
        type=click.Choice(["demo", "torchvision", "timm", "ultralytics"]),
        help="Instead of MODEL: every model of that source, a JSON file for each in --output.",
    ),
    click.option(
        "--shard",
        metavar="I/N",
        default="0/1",
        help="With --all: the I-th of N equal parts, counted from 0.",
    ),
    click.option(
        "--jobs",
        type=click.IntRange(1, MOST_JOBS),
        metavar="N",
        help="With --all: so many models at once.",
    ),
    click.option("--again", is_flag=True, help="With --all: also those that are there already."),
    click.option(
        "--timeout",
        type=Finite(min=0, min_open=True),
        default=600.0,
        show_default=True,
        metavar="SECONDS",
        help="With --all: how long each model may take.",
    ),
    click.option(
        "--ray",
        metavar="ADDRESS",
        default="",
        help="With --all: run them on a Ray cluster; local starts one here.",
    ),
)
_NAMES = ("group", "shard", "jobs", "again", "timeout", "ray")
_OF_ONE = {
    "checks": "--check",
    "findings": "--findings",
    "parameters": "--parameters",
    "remote_python": "--remote-python",
}


def zoo_options(command: _Command) -> Callable[..., object]:
    """Add the options to ``report``: with ``--all`` the zoo is run in place of it."""

    @functools.wraps(command)
    def with_zoo(started_at: float, /, chosen: Chosen, **typed: object) -> object:
        zoo = {name: typed.pop(name) for name in _NAMES}
        if zoo["group"] is None:
            _refuse_alone()
            return command(started_at, chosen=chosen, **typed)
        from .run_parts.report_all import ZooOptions, run_zoo  # noqa: PLC0415

        _refuse_beside(typed, chosen)
        fields = {name: typed[name] for name in ("output", "measure", "top")}
        return run_zoo(msgspec.convert({**zoo, **fields}, ZooOptions), chosen)

    decorated: Callable[..., object] = with_zoo
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def _refuse_alone() -> None:
    """Refuse an option of the zoo where there is none."""
    source = click.get_current_context().get_parameter_source
    for name in _NAMES[1:]:
        if source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} goes with --all, which is not there.")


def _refuse_beside(typed: dict[str, object], chosen: Chosen) -> None:
    """Refuse what cannot be meant for many models, or for files of JSON."""
    source = click.get_current_context().get_parameter_source
    if typed["names"] or typed.get("attach"):
        raise click.UsageError("--all takes every model of a source: leave out MODEL and --attach.")
    if not typed["output"]:
        raise click.UsageError("--all writes a file for each model: give --output DIR.")
    if source("layout") is ParameterSource.COMMANDLINE and typed["layout"] != "json":
        raise click.UsageError("--all writes JSON: leave out --format.")
    for name, option in _OF_ONE.items():
        if typed.get(name):
            raise click.UsageError(f"{option} is for the report of a model: leave it out.")
    if typed["measure"] is not None and not chosen.run:
        raise click.UsageError("--measure runs the models and --no-run forbids it: leave out one.")
