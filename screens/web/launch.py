"""``--web``: the server of the pages, started from what was typed."""

import click

TYPED = "tui_profiler.typed"
"""Where click's context keeps the whole command line."""


def to_browsers(model: str) -> int:
    """Serve what was typed to browsers of this machine until ctrl+C; return the exit code.

    Raises:
        UsageError: the library for it is not installed.
    """
    try:
        from .server import serve  # noqa: PLC0415 # only --web needs what it imports
    except ModuleNotFoundError as error:
        why = f"--web needs {error.name}, which is not installed"
        raise click.UsageError(f'{why}: pip install "tui-profiler[web]"') from None
    return serve(click.get_current_context().meta[TYPED], f"tui-profiler {model}")
