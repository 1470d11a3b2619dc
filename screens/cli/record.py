"""``record``: what the explorer would show, to a file."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable

import click
import msgspec
from msgspec import Struct

from tui_profiler import __version__
from tui_profiler.figures.units import size, thousands
from tui_profiler.formatting.text import safe
from tui_profiler.messages import LoadSpec, Start
from tui_profiler.queries.training.values import nan_words
from tui_profiler.recording.frames import Header
from tui_profiler.recording.kind import RecordingError
from tui_profiler.recording.writer import Writer, create, overwrite
from tui_profiler.serving.address import Address
from tui_profiler.session import Session
from tui_profiler.source import Source
from tui_profiler.source.attached import AttachError
from tui_profiler.source.other_programs import WithPrograms
from tui_profiler.source.serving import with_serving
from tui_profiler.source.spawned import worker
from tui_profiler.verbs.outcome import BAD_ARGUMENTS, MODEL_FAILED, complaint, exit_code
from tui_profiler.verbs.record import record

from ..options import verbs as options
from ..options.model import Chosen, model_options
from ..start.programs import follow, refused
from ..terminal.standard_output import say, speaker


class RecordOptions(Struct, frozen=True):
    """What was typed after ``record``, the options of the model apart."""

    model: str
    attach: str
    remote_python: str
    output: str
    seconds: float | None
    serving: Address | None
    force: bool


@click.command("record")
@options.model_or_none
@options.attach_to
@options.remote_python
@options.new_file
@options.seconds("--seconds", "Run the model for this long; default: until ctrl+C.")
@options.serving
@options.force
@model_options
@click.pass_obj
def record_verb(started_at: float, /, chosen: Chosen, **typed: object) -> int:
    """Run MODEL and record everything that the explorer shows, to open later or elsewhere.

    The file stays readable after a crash or when the disk is full. It contains names, paths,
    arguments and what the model prints, but no tensor values.
    """
    asked = msgspec.convert(typed, RecordOptions)
    if bool(asked.model) == bool(asked.attach):
        raise click.UsageError("A MODEL is needed, or --attach NAME; not both.")
    options.require_remote(asked.attach, asked.remote_python)
    if asked.seconds is not None and not chosen.run:
        raise click.UsageError("--seconds and --no-run exclude each other.")
    options.require_models([asked.model], "recorded again")
    if asked.attach:
        options.refuse_options(chosen, options.PROGRAM)
    return _run(asked, chosen, started_at=started_at)


def _run(asked: RecordOptions, chosen: Chosen, *, started_at: float) -> int:
    """Record a model in a worker, or in a program, and return the exit code."""
    name = asked.model or asked.attach
    spec = chosen.spec(name, started_at=started_at, seconds=asked.seconds)
    attached: Source | None = None
    if asked.attach:
        try:  # Before the file is made.
            attached = follow(
                *(asked.attach, asked.remote_python),
                seconds=asked.seconds,
                started_at=started_at,
            )
        except AttachError as error:
            return refused(error)
    header = Header(started_at, socket.gethostname(), __version__, spec)
    try:
        make = overwrite if asked.force else create
        writer = Writer(make(asked.output), header)
    except RecordingError as error:
        say(asked.output, str(error), f"try {error.remedy}")
        return BAD_ARGUMENTS
    if writer.failure:  # Before anything of the model is started.
        writer.close("", 0.0)
        os.unlink(asked.output)
        say(asked.output, f"cannot be written: {safe(writer.failure)}", *writer.remedies)
        return MODEL_FAILED
    now = options.steady_clock(started_at)
    why = "it was interrupted"
    try:
        session, why = asyncio.run(_record(spec, attached, asked.serving, writer, now))
    finally:
        writer.close(why, now())
    return _told(session, writer, asked, chosen)


async def _record(
    spec: LoadSpec,
    attached: Source | None,
    serving: Address | None,
    writer: Writer,
    now: Callable[[], float],
) -> tuple[Session, str]:
    """Record until it is over; an interrupt ends it in order."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # As nohup asks for.
            loop.add_signal_handler(number, stop.set)
    until = "" if spec.seconds is not None or not spec.run else "; ctrl+C ends the recording"
    say(spec.model, f"recording{until}")
    source = attached or WithPrograms(worker(Start(spec)))
    source = with_serving(source, serving)
    return await record(source, writer, stop, now=now, progress=speaker(spec.model))


def _told(session: Session, writer: Writer, asked: RecordOptions, chosen: Chosen) -> int:
    say(asked.model or asked.attach, *complaint(session, debug=chosen.debug))
    code = exit_code(session)
    if code == BAD_ARGUMENTS and not writer.failure:
        os.unlink(asked.output)
        say(asked.output, "not written: nothing was recorded")
        return code
    written = f"{thousands(writer.frames)} frames, {size(writer.bytes_written)}"
    if writer.failure:
        ended = f"recording ended: {safe(writer.failure)}; what is there is readable"
        say(asked.output, ended, *writer.remedies)
        code = code or MODEL_FAILED
    if writer.dropped:
        say(asked.output, f"{thousands(writer.dropped)} messages dropped: the disk is too slow")
    if found := nan_words(session):
        say(asked.model or asked.attach, found)
    say(asked.output, f"wrote {written}; tui-profiler open {safe(asked.output)} plays it")
    return code
