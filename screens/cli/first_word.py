"""What the first word of a command line may be, a verb or a model; and how a shell completes it."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem

from ..terminal.standard_output import is_terminal
from ..web.launch import TYPED

_DEMO_MODELS = Path(__file__).resolve().parents[2] / "demo_models"


class Verbs(click.Group):
    """A group whose first argument may be a model instead of a verb, or none: it is explored."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the verb before a model that stands alone; without a word, before nothing."""
        if not args and is_terminal():
            args = ["explore"]
        if args and args[0] not in (*self.commands, "--help", "--version"):
            args = ["explore", *args]
        ctx.meta[TYPED] = tuple(args)
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Give the verbs and the models that begin so."""
        found = super().shell_complete(ctx, incomplete)
        return [*models_and_files(ctx, None, incomplete), *found]


def models_and_files(
    context: click.Context, parameter: click.Parameter | None, incomplete: str
) -> list[CompletionItem]:
    """Give how a model may go on: a demo model's name, or a file, which the shell looks for.

    The names of libraries are not among them: finding those takes seconds.
    """
    names = sorted(f"demo:{path.stem}" for path in _DEMO_MODELS.glob("[!_]*.py"))
    found = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    # First: in bash, click's script forgets there what came before.
    return [CompletionItem(incomplete, type="file"), *found]
