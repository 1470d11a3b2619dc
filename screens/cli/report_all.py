"""``report --all``: every model of a source, a file for each."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import click
import msgspec
import psutil
from click.core import ParameterSource
from msgspec import Struct
from msgspec.structs import replace

from tui_profiler import __version__
from tui_profiler.figures.units import clock
from tui_profiler.formatting.text import safe
from tui_profiler.messages import ListModels, Request
from tui_profiler.reports.json.zoo_files import Shard, asked, in_shard, parse_shard
from tui_profiler.reports.json_values import Json
from tui_profiler.source.forked import Forked, Template, TemplateError
from tui_profiler.source.spawned import Spawned, worker
from tui_profiler.verbs import outcome
from tui_profiler.verbs.one_request import models
from tui_profiler.verbs.zoo import Job, Made, is_there, keep, progress, zoo

from ..options.model import Chosen
from ..terminal.standard_output import NotWritten, say

ROOM_BYTES = 2 * 2**30
"""Of memory that must be free before another worker is begun beside those that run."""
_ZOO = "zoo"
_IMPORTED = {
    "demo": ("torch",),
    "torchvision": ("torch", "torchvision"),
    "timm": ("torch", "torchvision", "timm"),
    "ultralytics": ("torch", "torchvision"),
}
"""Once for all models of a source."""
_TRACING = ("torch._dynamo", "tui_profiler.probe.worker.run")
"""What every model needs besides."""
_LIBRARIES = ("torch", "torchvision", "timm", "ultralytics")
_OF_ONE = {
    "by": "--by",
    "depth": "--depth",
    "checks": "--check",
    "findings": "--findings",
    "parameters": "--parameters",
    "remote_python": "--remote-python",
}


class ZooOptions(Struct, frozen=True):
    """What was typed after ``report --all``, the options of the model apart."""

    group: Literal["demo", "torchvision", "timm", "ultralytics"]
    shard: str
    jobs: int | None
    again: bool
    timeout: float
    ray: str
    output: str
    measure: float | None
    top: int | None


def report_all(chosen: Chosen, typed: dict[str, object]) -> int:
    """Make the files that are not there yet, and return the exit code.

    Args:
        chosen: the options of the models.
        typed: every other option of ``report``.

    Raises:
        UsageError: the shard or the folder cannot be had, or an option is not meant for this.
    """
    _refuse_beside(typed, chosen)
    options = msgspec.convert(typed, ZooOptions)
    if options.ray and find_spec("ray") is None:
        raise click.UsageError("Ray is not installed. pip install 'tui-profiler[ray]'")
    shard, folder = _shard(options.shard), _folder(options.output)
    names, code = _names(options.group, debug=chosen.debug)
    if code != outcome.DONE:
        return code
    jobs = [_job(name, options, chosen) for name in in_shard(names, shard)]
    left = [job for job in jobs if options.again or not is_there(job, folder)]
    of = f", shard {shard.index}/{shard.count}" if shard.count > 1 else ""
    there = f"; {len(jobs) - len(left)} are there already" if len(left) < len(jobs) else ""
    say(_ZOO, f"{len(jobs)} models of {options.group}{of}{there}")
    at_once = options.jobs or 1
    if options.measure is not None and at_once > 1:
        say(_ZOO, f"{at_once} are measured at once: they share the cores, so each is slower")
    tally = _Tally(folder, len(left))
    try:
        _run(left, options, tally.take)
    except KeyboardInterrupt:
        say(_ZOO, f"interrupted: {tally.done} of {len(left)} done; the same command resumes")
        return outcome.INTERRUPTED
    return tally.told()


def _refuse_beside(typed: dict[str, object], chosen: Chosen) -> None:
    """Refuse what cannot be meant for many models, or for files of JSON."""
    source = click.get_current_context().get_parameter_source
    if typed["names"] or typed.get("attach"):
        raise click.UsageError("--all excludes MODEL and --attach.")
    if not typed["output"]:
        raise click.UsageError("--all needs --output DIR.")
    if source("layout") is ParameterSource.COMMANDLINE and typed["layout"] != "json":
        raise click.UsageError("--all writes JSON: omit --format.")
    for name, option in _OF_ONE.items():
        if typed.get(name):
            raise click.UsageError(f"{option} is for the report of a model: omit it.")
    if typed["measure"] is not None and not chosen.run:
        raise click.UsageError("--measure and --no-run exclude each other.")


class _Tally:
    """Keeps files as they come, and tells how far it is."""

    def __init__(self, folder: Path, total: int) -> None:
        self.done = 0
        self._folder, self._total = folder, total
        self._failed: list[Made] = []
        self._began = time.monotonic()

    def take(self, made: Made) -> None:
        """Write one file; the first of them makes the folder.

        Raises:
            NotWritten: it cannot be written: the disk is full.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            keep(made, self._folder)
        except OSError as error:
            raise NotWritten(f"The report of {safe(made.name)}", error) from error
        self.done += 1
        if made.code:
            self._failed.append(made)
        took = time.monotonic() - self._began
        say(_ZOO, progress(made, self.done, self._total, took_seconds=took))

    def told(self) -> int:
        """Say how it came out, and return the exit code."""
        took = clock(time.monotonic() - self._began)
        good = self.done - len(self._failed)
        say(_ZOO, f"{good} reports and {len(self._failed)} failures in {took}")
        return outcome.MODEL_FAILED if self._failed else outcome.DONE


def _run(jobs: list[Job], options: ZooOptions, kept: Callable[[Made], None]) -> None:
    if not jobs:
        return
    if not options.ray:
        _run_here(jobs, options, kept)
        return
    from tui_profiler.verbs.zoo_ray import RayError, zoo_on_ray  # noqa: PLC0415

    try:
        zoo_on_ray(jobs, options.ray, at_once=options.jobs, kept=kept)
    except RayError as error:
        raise click.UsageError(f"{safe(str(error))}.") from error


def _run_here(jobs: list[Job], options: ZooOptions, kept: Callable[[Made], None]) -> None:
    """Make every file on this machine, in processes that are forked where that can be done.

    What is measured is measured in processes that are started, as ``report`` does.
    """
    at_once = options.jobs or 1
    if options.measure is not None or len(jobs) < 2:
        asyncio.run(zoo(jobs, worker, at_once=at_once, has_room=_has_room, kept=kept))
        return
    with Template((*_IMPORTED[options.group], *_TRACING)) as template:
        workers = _Workers(template)
        asyncio.run(zoo(jobs, workers.begin, at_once=at_once, has_room=_has_room, kept=kept))


class _Workers:
    """Forks workers; starts them where that cannot be done, and says why once."""

    def __init__(self, template: Template) -> None:
        self._template: Template | None = template
        try:
            template.wait()
        except TemplateError as error:
            self._give_up(error)

    def begin(self, request: Request) -> Spawned:
        """Begin one."""
        if self._template is not None:
            try:
                return Forked(self._template, [request])
            except TemplateError as error:
                self._give_up(error)
        return worker(request)

    def _give_up(self, error: TemplateError) -> None:
        self._template = None
        say(_ZOO, f"each model imports torch again: {safe(str(error))}")


def _shard(text: str) -> Shard:
    try:
        return parse_shard(text)
    except ValueError as error:
        raise click.UsageError(f"--shard: {safe(str(error))}.") from error


def _folder(output: str) -> Path:
    """Return where files go, which need not be there yet: nothing is made before there is a file.

    Raises:
        UsageError: no file could be written there.
    """
    folder = Path(output).absolute()
    there = next(place for place in (folder, *folder.parents) if os.path.lexists(place))
    if not there.is_dir():
        raise click.UsageError(f"--output {safe(output)} is not a directory and cannot be created.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise click.UsageError(f"--output {safe(output)} cannot be written.")
    return folder


def _names(group: str, *, debug: bool) -> tuple[list[str], int]:
    """Return the names of a source's models, and an exit code above 0 where there are none."""
    session = asyncio.run(models(worker(ListModels(""))))
    say(_ZOO, *outcome.complaint(session, debug=debug))
    listed = session.listed.names if session.listed is not None else ()
    names = [name for source, name in listed if source == group]
    if not names and session.listed is not None:
        say(_ZOO, f"{group} is not installed here", f"try pip install 'tui-profiler[{group}]'")
        return [], outcome.BAD_ARGUMENTS
    return names, outcome.exit_code(session)


def _job(name: str, options: ZooOptions, chosen: Chosen) -> Job:
    wanted = replace(chosen, run=options.measure is not None)
    spec = wanted.spec(name, started_at=0.0, seconds=options.measure)
    origin: dict[str, Json] = {
        "version": __version__,
        "libraries": {name: found for name in _LIBRARIES if (found := _version(name))},
        "asked": asked(spec, options.top),
        "jobs": options.jobs or 1 if options.measure is not None else 1,
    }
    return Job(spec, options.top, options.timeout, origin)


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return ""


def _has_room() -> bool:
    return int(psutil.virtual_memory().available) >= ROOM_BYTES
