"""What the tools of ``mcp`` answer: text for coding agents, from the sources and reports of others.

1. Nothing is changed. Programs are attached to read-only, and only those that listen already: no
   listener is started in any. A model is traced and not run; no file is
   trusted, no Python code that a target names is run, nothing is downloaded, no host is called.
2. An answer has at most ``MOST_BYTES``, and names and messages in it have passed ``text.safe``.
3. One target is opened at a time, each within ``LIMIT_SECONDS``; its worker ends with the call,
   also where the client cancels it or leaves.
"""

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial

import click
from msgspec.structs import replace

from tui_profiler.formatting.text import middle, safe
from tui_profiler.messages import Start
from tui_profiler.queries.compare.comparison import comparison
from tui_profiler.queries.compare.side import Side, side_of
from tui_profiler.recording.kind import RecordingError, is_recording
from tui_profiler.reports.json.reader import read_report
from tui_profiler.reports.json.report import layer_as_json
from tui_profiler.reports.json.report_file import ReportError, is_report
from tui_profiler.reports.json.sections.findings import findings_section
from tui_profiler.reports.json_values import Json, one_line, plain
from tui_profiler.reports.text.brief import TOP, brief, node_of
from tui_profiler.reports.text.compare import compare_table
from tui_profiler.session import Session, Tree
from tui_profiler.source import Source
from tui_profiler.source.adapters import TimeLimited
from tui_profiler.source.attached import AttachError, attached, find
from tui_profiler.source.recorded import last_session
from tui_profiler.source.spawned import worker
from tui_profiler.verbs.outcome import complaint
from tui_profiler.verbs.report import followed, is_complete

from ...options.side import typed_side
from ...options.verbs import require_known
from ...start.programs import HOW, choose_listening, columns

MOST_BYTES = 8192
LIMIT_SECONDS = 120.0
PROGRAM = "program:"
SECONDS, MOST_SECONDS = 3.0, 30.0
MOST_PROGRAMS = 40
_COLUMNS = 100
_MOST_CHILDREN, _MOST_PATHS = 20, 8
_MOST_LINE = 200
_NAME = re.compile(r"[^:]+|demo:[\w-]+|timm:[\w.-]+|hf:.+")
"""A file, an architecture, or a source that runs no code of its own without trust."""
_ALLOWED = frozenset(
    {"--args", "--input", "--batch", "--dtype", "--threads", "--tracer", "--no-run", "--debug"}
    | {"--train", "--optimizer", "--checkpoint", "--accumulate", "--autocast"}
)
"""Options of a model that change what is traced, and nothing else."""


class NoAnswerError(Exception):
    """A tool cannot answer; a sentence or two that an agent can act on."""


class Tools:
    """The tools; one of them opens a target at a time.

    Args:
        limit_seconds: for opening one target.
    """

    def __init__(self, limit_seconds: float = LIMIT_SECONDS) -> None:
        self._limit_seconds = limit_seconds
        self._turn = asyncio.Lock()

    def all(self) -> tuple[Callable[..., Awaitable[str]], ...]:
        """Return each as a function, whose name and first lines an agent reads."""
        return (self.list_programs, self.summary, self.node, self.findings, self.compare)

    async def list_programs(self) -> str:
        """List the running programs that can be attached to: name, process, command, how long."""
        found = await asyncio.to_thread(find)
        if not found:
            return f"no watched process found; {HOW}"
        lines = [middle("  ".join(columns(one)), _MOST_LINE) for one in found[:MOST_PROGRAMS]]
        more = len(found) - len(lines)
        return _bounded("\n".join((*lines, *([f"and {more} more"] if more else []))))

    async def summary(self, target: str, top: int = TOP, seconds: float = SECONDS) -> str:
        """Report a program, recording or model in at most 2 KiB of Markdown.

        Totals with their provenance, the verdict, the top nodes with their ids, the first findings.
        """
        return await self._answer(
            target, seconds, lambda session, _: brief(session, max(1, min(top, 100)))
        )

    async def node(self, target: str, path: str = "", seconds: float = SECONDS) -> str:
        """Report one node as JSON, as a layer of the JSON report, with the paths of its children.

        Times are seconds, sizes bytes. What is null has its reason in `unavailable`.
        """

        def written(session: Session, tree: Tree) -> str:
            at = node_of(tree, path)
            if at is None:
                raise NoAnswerError(
                    f"no node, or more than one, has the path {safe(path)!r}; summary lists paths,"
                    " and node without a path lists the children of the model"
                )
            children = [tree.nodes[child].path for child in tree.children(at)]
            found = layer_as_json(session, at)
            more = len(children) - _MOST_CHILDREN
            return _json(
                {**found, "children": children[:_MOST_CHILDREN], "children_left_out": max(more, 0)},
                "children",
            )

        return await self._answer(target, seconds, written)

    async def findings(self, target: str, top: int = 5, seconds: float = SECONDS) -> str:
        """Report advice as JSON, by gain: evidence, predicted gain, paths of the nodes."""

        def written(session: Session, tree: Tree) -> str:
            section = findings_section(session, tree)
            shown = section.found[: max(1, min(top, 10))]
            cut = [replace(one, paths=one.paths[:_MOST_PATHS]) for one in shown]
            left_out = [
                len(one.paths) - len(few.paths) for one, few in zip(shown, cut, strict=True)
            ]
            values = plain(replace(section, found=cut))
            return _json(
                {
                    **values,
                    "paths_left_out": left_out,
                    "found_left_out": len(section.found) - len(shown),
                },
                "found",
            )

        return await self._answer(target, seconds, written)

    async def compare(self, a: str, b: str, top: int = 12, seconds: float = SECONDS) -> str:
        """Compare B with A: totals, settings, and the nodes that differ most, as a table.

        Each is a target as of summary, or a JSON report. Differences are B - A.
        """

        async def compared() -> str:
            sides = [await self._side(target, seconds) for target in (a, b)]
            rows = max(1, min(top, 20))
            return "\n".join(compare_table(comparison(*sides), columns=_COLUMNS, top=rows))

        return _bounded(await self._alone(compared))

    async def _answer(
        self, target: str, seconds: float, written: Callable[[Session, Tree], str]
    ) -> str:
        """Open a target and write about it."""

        async def answered() -> str:
            session, tree = await self._opened(target, seconds)
            return await asyncio.to_thread(written, session, tree)

        return _bounded(await self._alone(answered))

    async def _alone(self, work: Callable[[], Coroutine[None, None, str]]) -> str:
        """Do one thing at a time, in a task that ends what it started even where this is cancelled.

        A task group of anyio cancels again at each await, also while a worker is being ended.
        """

        async def in_turn() -> str:
            async with self._turn:
                return await work()

        task = asyncio.create_task(in_turn())
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            raise

    async def _side(self, target: str, seconds: float) -> Side:
        if is_report(target):
            try:
                return await asyncio.to_thread(read_report, target, target)
            except ReportError as error:
                raise NoAnswerError(f"{error}; try {error.remedy}") from error
        session, _ = await self._opened(target, seconds)
        return side_of(target, session)

    async def _opened(self, target: str, seconds: float) -> tuple[Session, Tree]:
        """Return what is known of a target, with its tree.

        Raises:
            NoAnswerError: it cannot be opened, or has no tree in time.
        """
        try:
            if target.startswith(PROGRAM):
                is_measured, who = True, target.removeprefix(PROGRAM)
                source = await asyncio.to_thread(_program, who, seconds)
            elif is_recording(target):
                session, _ = await asyncio.to_thread(last_session, target)
                return session, _tree(session, target)
            else:
                is_measured, source = False, _model(target)
        except click.UsageError as error:
            raise NoAnswerError(error.format_message()) from error
        except AttachError as error:
            raise NoAnswerError(f"{error}; try {error.instead or 'list_programs'}") from error
        except RecordingError as error:
            raise NoAnswerError(f"{error}; try {error.remedy}") from error
        enough = partial(is_complete, measuring=is_measured)
        session, is_late = await followed(source, enough, seconds=self._limit_seconds)
        late_after = self._limit_seconds if is_late else None
        return session, _tree(session, target, late_after)


def _program(who: str, seconds: float) -> Source:
    """Attach to the one program of this host that fits, of those that listen already."""
    began = time.monotonic()
    source = attached(choose_listening(who).place)
    limited = max(0.1, min(seconds, MOST_SECONDS))
    return TimeLimited(source, limited, lambda: time.monotonic() - began)


def _model(target: str) -> Source:
    """Start a worker that traces a model.

    Raises:
        UsageError: it is not written as a command line, or asks for what is not done here.
    """
    typed = typed_side(target)
    refused = [option for option in typed.chosen.typed if option not in _ALLOWED]
    if refused:
        raise click.UsageError(f"{', '.join(refused)} is not available here: use the command line.")
    if not _NAME.fullmatch(typed.model) or typed.model.endswith(".py"):
        raise click.UsageError(
            f"{safe(typed.model)!r} is Python code, which is not run here; for a running program"
            f" type {PROGRAM}NAME, else use tui-profiler report on the command line."
        )
    require_known(typed.model)
    spec = replace(typed.chosen, run=False).spec(typed.model, started_at=time.time())
    return worker(Start(spec))


def _tree(session: Session, target: str, late_after: float | None = None) -> Tree:
    tree = session.tree
    if tree is not None and tree.done is not None and len(tree):
        return tree
    said = list(complaint(session, debug=False))
    if late_after is not None:
        said.insert(0, f"no complete tree within {late_after:g} s")
    raise NoAnswerError(f"{safe(target)}: {'; '.join(said) or 'it ended without a tree'}")


def _json(found: dict[str, Json], last: str) -> str:
    """Return values as JSON in which every text is safe.

    Args:
        found: what is known.
        last: the list from whose end entries are left out until it fits, and counted.
    """
    shown = {key: _safe(value) for key, value in found.items()}
    entries, left_out = shown[last], shown[f"{last}_left_out"]
    assert isinstance(entries, list)
    assert isinstance(left_out, int)
    for more in range(len(entries) + 1):
        kept: dict[str, Json] = {
            last: entries[: len(entries) - more],
            f"{last}_left_out": left_out + more,
        }
        text = one_line({**shown, **kept})
        if len(text) <= MOST_BYTES:
            return text
    raise NoAnswerError(f"the answer is longer than {MOST_BYTES} bytes")


def _safe(value: Json) -> Json:
    match value:
        case str():
            return safe(value)
        case dict():
            return {safe(key): _safe(part) for key, part in value.items()}
        case list() | tuple():
            return [_safe(part) for part in value]
    return value


def _bounded(text: str) -> str:
    """Return the first lines of a text that fit, and say so where some are left out."""
    if len(text.encode()) <= MOST_BYTES:
        return text
    lines, size, said = text.split("\n"), 0, "… and {} more lines"
    for kept, line in enumerate(lines):
        size += len(line.encode()) + 1
        if size > MOST_BYTES - len(said) - len(os.linesep):
            return "\n".join((*lines[:kept], said.format(len(lines) - kept)))
    return text
