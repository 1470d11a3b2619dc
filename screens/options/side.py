"""What is typed for one side of a comparison: a model, and options that hold for it alone."""

import os
import shlex
from collections.abc import Callable
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import asdict

from tui_profiler.formatting.text import safe

from .model import Chosen, model_options


class TypedSide(Struct, frozen=True):
    """One side as typed."""

    label: str
    model: str
    """A model, a recording or a report."""
    chosen: Chosen
    """With the options of both; ``typed`` are its own."""


def typed_side(text: str, chosen: Chosen | None = None) -> TypedSide:
    """Take a side apart: ``resnet50``, or ``resnet50 --batch 8`` in quotes.

    Args:
        text: as typed. A file of that whole name is that file, whatever blanks are in it.
        chosen: the options of both; those of the side come before them. None: there are none.

    Raises:
        UsageError: it is not written as a command line, or has options that there are not.
    """
    try:
        words = ["--", text] if os.path.exists(text) else shlex.split(text)
    except ValueError as error:
        raise click.UsageError(
            f'"{safe(text)}" is not written as a command line: {error}'
        ) from error
    if not words:
        raise click.UsageError("A side of the comparison is empty.")
    usual = None if chosen is None else asdict(chosen)
    try:
        with _SIDE.make_context("compare", list(words), default_map=usual) as context:
            model, its = context.invoke(_SIDE.callback or _nothing, **context.params)
    except click.UsageError as error:
        raise click.UsageError(f'In "{safe(text)}": {safe(error.format_message())}') from error
    return TypedSide(text, model, its)


def _nothing(**typed: object) -> Any:
    raise AssertionError(typed)


def _taken(model: str, chosen: Chosen) -> tuple[str, Chosen]:
    return model, chosen


_with_options: Callable[..., object] = model_options(_taken)
_SIDE = click.command("side", add_help_option=False)(click.argument("model")(_with_options))
