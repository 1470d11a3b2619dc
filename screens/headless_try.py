"""``try``, put together: worker, verb, report, output."""

from __future__ import annotations

import asyncio
import time
from typing import Literal

from msgspec import Struct

from tui_profiler.messages import TRIAL_KINDS, Start, TrialKind, Wish
from tui_profiler.reports.json_trials import trials_json
from tui_profiler.reports.trials import trials_table
from tui_profiler.session import Session
from tui_profiler.source.spawned import Spawned, worker_command
from tui_profiler.verbs.outcome import DONE, complaint, exit_code
from tui_profiler.verbs.trials import try_out

from .options import Chosen
from .output import columns, put, put_into, require_writable, say, speaker

_GIB = 1 << 30


class TryOptions(Struct, frozen=True):
    """What was typed after ``try``, the options of the model apart."""

    names: tuple[str, ...]
    kinds: tuple[TrialKind, ...]
    seconds: float
    most_seconds: float
    most_memory: float | None
    measure: float
    layout: Literal["table", "json"]
    output: str

    def wishes(self) -> tuple[Wish, ...]:
        """Give what to try, each kind once."""
        most = None if self.most_memory is None else int(self.most_memory * _GIB)
        kinds = tuple(dict.fromkeys(self.kinds)) or TRIAL_KINDS
        return tuple(
            Wish(
                kind,
                seconds=self.seconds,
                most_seconds=max(self.most_seconds, self.seconds),
                most_bytes=most,
            )
            for kind in kinds
        )


def run_try(options: TryOptions, chosen: Chosen, *, started_at: float) -> int:
    """Try every model in turn and give the worst of their exit codes.

    Raises:
        UsageError: the file to write cannot be written.
    """
    require_writable(options.output)
    worst = DONE
    kept: list[str] = []
    for name in options.names:
        spec = chosen.spec(name, started_at=started_at, seconds=options.measure)
        source = Spawned(worker_command(), first=[Start(spec)])
        session = asyncio.run(try_out(source, options.wishes(), progress=speaker(name)))
        started_at = time.time()
        for line in complaint(session, debug=chosen.debug):
            say(name, line)
        worst = max(worst, exit_code(session))
        if not session.trials:
            continue
        text = _written(session, options, is_first=not kept)
        kept.append(text)
        if not options.output:
            put(text)
    if options.output and kept:
        put_into(options.output, "".join(kept).encode())
    return worst


def _written(session: Session, options: TryOptions, *, is_first: bool) -> str:
    if options.layout == "json":
        return trials_json(session) + "\n"
    lines = trials_table(session, columns=columns(options.output))
    return ("" if is_first else "\n") + "\n".join(lines) + "\n"
