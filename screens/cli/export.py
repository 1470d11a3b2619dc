"""``export``: metrics of a running program, for Prometheus or an OpenTelemetry collector."""

import asyncio
import signal
import socket
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack, contextmanager, suppress
from urllib.parse import urlsplit

import click
import msgspec
from msgspec import Struct

from tui_profiler.formatting.text import safe
from tui_profiler.session import apply
from tui_profiler.source import Source
from tui_profiler.source.attached import AttachError
from tui_profiler.source.script import Script
from tui_profiler.verbs.export import EXTRA, Latest, end, otlp_exporter, send, serve

from ..options import verbs as options
from ..options.model import BUDGET_HELP, SHARE
from ..start.programs import follow, refused
from ..terminal.standard_output import say

_MOST_PORT = 65_535


class ExportOptions(Struct, frozen=True):
    """What was typed after ``export``."""

    attach: str
    remote_python: str
    runs: bool
    listen: str
    otlp: str
    every: float
    top: int
    budget: float
    seconds: float | None
    arguments: tuple[str, ...]


@click.command(
    "export",
    context_settings={"allow_interspersed_args": False},
)
@options.attach_to
@options.remote_python
@click.option("--run", "runs", is_flag=True, help="Run a script: SCRIPT and its ARGUMENTS follow.")
@click.option(
    "--listen",
    default="127.0.0.1:9400",
    show_default=True,
    metavar="HOST:PORT",
    help="Address at which Prometheus scrapes /metrics; empty: none.",
)
@click.option(
    "--otlp",
    default="",
    metavar="URL",
    help="Also send to an OpenTelemetry collector, such as http://localhost:4318/v1/metrics.",
)
@options.seconds("--every", "With --otlp: interval between exports.", 15.0)
@options.count("--top", "Export the N modules with the most self time.", 20)
@click.option("--budget", type=SHARE, default="2%", show_default=True, help=BUDGET_HELP)
@options.seconds("--seconds", "Stop after this time; default: when the program ends, or at ctrl+C.")
@click.argument("arguments", metavar="[SCRIPT [ARGUMENTS]...]", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def export_verb(started_at: float, /, **typed: object) -> int:
    """Export metrics of a program: step, forward and module times, throughput, memory, energy.

    The program calls tui_profiler.watch(model) (--attach), or is a script started with --run.
    Prometheus scrapes --listen; --otlp sends to a collector. The program never waits for it.
    """
    asked = msgspec.convert(typed, ExportOptions)
    _refuse(asked)
    latest, address = Latest(asked.top), _address(asked.listen)
    if asked.runs:
        options.require_script(asked.arguments[0])
    if address is not None:
        _require_free(asked.listen, address)  # Before anything of the user's is started.
    if not asked.runs:
        return _attached(asked, latest, address, started_at)
    script = Script(asked.arguments, started_at=started_at, budget=asked.budget, owns_terminal=True)
    try:
        with _outlets(latest, asked, address):
            asyncio.run(_followed(script, latest))
    finally:
        script.wait()  # An error here must not end the script.
    return script.end()


def _attached(
    asked: ExportOptions, latest: Latest, address: tuple[str, int] | None, started_at: float
) -> int:
    try:
        source = follow(
            asked.attach, asked.remote_python, seconds=asked.seconds, started_at=started_at
        )
    except AttachError as error:
        return refused(error)
    with _outlets(latest, asked, address):
        asyncio.run(_until_stopped(_followed(source, latest)))
    return 0


def _refuse(asked: ExportOptions) -> None:
    """Refuse what excludes each other.

    Raises:
        UsageError: there is such an option, or nothing to follow, or nowhere to send to.
    """
    if bool(asked.attach) == asked.runs:
        raise click.UsageError("Give either --attach NAME or --run SCRIPT.")
    if asked.runs != bool(asked.arguments):
        raise click.UsageError("--run needs a SCRIPT." if asked.runs else "A SCRIPT needs --run.")
    if asked.runs and asked.seconds is not None:
        raise click.UsageError("--run lasts as long as the script: omit --seconds.")
    if not asked.listen and not asked.otlp:
        raise click.UsageError("Nowhere to export to: give --listen HOST:PORT or --otlp URL.")
    if asked.otlp and not _is_url(asked.otlp):
        raise click.UsageError(f"--otlp {safe(asked.otlp)!r} is not http://HOST:PORT/PATH.")
    options.require_remote(asked.attach, asked.remote_python)


def _is_url(typed: str) -> bool:
    try:
        url = urlsplit(typed)
        return url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:  # Of the port, or of an address in brackets.
        return False


def _address(listen: str) -> tuple[str, int] | None:
    """Return host and port; None where nothing listens.

    Raises:
        UsageError: it is not an address.
    """
    if not listen:
        return None
    host, _, port = listen.rpartition(":")
    if not port.isdecimal() or int(port) > _MOST_PORT:
        raise click.UsageError(f"--listen {safe(listen)!r} is not HOST:PORT.")
    return host.strip("[]") or "0.0.0.0", int(port)  # as Prometheus reads :9400


def _require_free(listen: str, address: tuple[str, int]) -> None:
    """Refuse an address that cannot be listened on.

    Raises:
        UsageError: it is one.
    """
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(address)
        except OSError as error:
            why = error.strerror or str(error)
            raise click.UsageError(f"--listen {safe(listen)}: {safe(why)}.") from None


@contextmanager
def _outlets(
    latest: Latest, asked: ExportOptions, address: tuple[str, int] | None
) -> Iterator[None]:
    """Serve and send meanwhile; what was newest at the end is sent once more.

    Raises:
        UsageError: an extra is not installed.
    """
    with ExitStack() as closing:
        try:
            if address is not None:
                port, close = serve(latest, *address)
                closing.callback(close)
                host = f"[{address[0]}]" if ":" in address[0] else address[0]
                say("export", f"http://{host}:{port}/metrics")
            if asked.otlp:
                provider = send(latest, otlp_exporter(asked.otlp), asked.every)
                closing.callback(end, provider)
                say("export", f"every {asked.every:g} s to {safe(asked.otlp)}")
        except ImportError:
            raise click.UsageError(f"export needs more packages: {EXTRA}") from None
        yield


async def _followed(source: Source, latest: Latest) -> None:
    """Keep the newest session until the program ends."""
    try:
        async for message in source.messages():
            latest.session = apply(latest.session, message)
    finally:
        await source.close()


async def _until_stopped(following: Coroutine[None, None, None]) -> None:
    """Await it until a signal asks us to stop."""
    task, loop = asyncio.ensure_future(following), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # As nohup asks for.
            loop.add_signal_handler(number, task.cancel)
    with suppress(asyncio.CancelledError):
        await task
