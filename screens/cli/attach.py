"""The verbs that look into other programs, and the options that others share with them."""

from __future__ import annotations

import click

from ..options.model import stock_output
from ..settings.appearance_options import Wish, look_options
from ..terminal.standard_output import require_terminal

remote_python = click.option(
    "--remote-python",
    metavar="PATH",
    default="",
    help="With ssh://: the Python there that has tui-profiler.",
)
attach_to = click.option(
    "--attach",
    metavar="NAME",
    default="",
    help="Instead of MODEL: a program that watches one, as for the verb attach.",
)


def require_remote(who: str, remote_python: str) -> None:
    """Refuse ``--remote-python`` where nothing is looked at on another host.

    Raises:
        UsageError: it was typed, and ``who`` is no ``ssh://`` address.
    """
    if remote_python and not _is_remote(who):
        raise click.UsageError("--remote-python goes with ssh://HOST, which is not there.")


@click.command("attach", short_help="Look into a running program, on screen.")
@click.argument("who", metavar="[NAME|PID]", default="")
@click.option("--list", "only_list", is_flag=True, help="Print what can be attached to, and stop.")
@remote_python
@look_options
@stock_output
@click.pass_obj
def attach(started_at: float, /, who: str, only_list: bool, remote_python: str, wish: Wish) -> int:
    """Look into a program that runs tui_profiler.watch(model); leaving changes nothing there.

    NAME is what watch was given, or the class of the model. Where there are several programs, they
    are listed to choose from. On another host it is ssh://[user@]host[:port][/NAME|PID].
    """
    from .run_parts.attach import list_programs, run_attached  # noqa: PLC0415

    require_remote(who, remote_python)
    if only_list and _is_remote(who):
        raise click.UsageError("--list is of this host: ssh HOST tui-profiler attach --list.")
    if only_list:
        return list_programs(who)
    require_terminal('try "tui-profiler report --attach NAME --measure 10"')
    return run_attached(who, remote_python=remote_python, wish=wish, started_at=started_at)


@click.command("relay", short_help="What attach runs on another host, by ssh.")
@click.argument("who", metavar="[NAME|PID]", default="")
@click.option("--stdio", is_flag=True, required=True, help="Speak over standard input and output.")
def relay(who: str, stdio: bool) -> int:
    """Carry bytes between a program of this host and standard input and output."""
    from .run_parts.relay import run_relay  # noqa: PLC0415

    return run_relay(who)


def _is_remote(who: str) -> bool:
    from tui_profiler.source.remote import SCHEME  # noqa: PLC0415 # most never need it

    return who.startswith(SCHEME)
