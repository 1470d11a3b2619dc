"""``try``, put together: worker, verb, report, output."""

from __future__ import annotations

import asyncio
import time
from typing import Literal

from msgspec import Struct

from tui_profiler.messages import TRIAL_KINDS, LoadSpec, Start, TrialKind, Wish
from tui_profiler.reports.json.trials import trials_json
from tui_profiler.reports.text.trials import trials_table
from tui_profiler.session import EMPTY, Session
from tui_profiler.source.spawned import Spawned, worker_command
from tui_profiler.verbs.outcome import DONE, complaint, exit_code
from tui_profiler.verbs.trials import try_out

from ...options.model import Chosen
from ...terminal.standard_output import Results, columns, say, speaker

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
    worst = DONE
    with Results(options.output) as results:
        for name in options.names:
            spec = chosen.spec(name, started_at=started_at, seconds=options.measure)
            session = _tried(spec, options, results)
            started_at = time.time()
            for line in complaint(session, debug=chosen.debug):
                say(name, line)
            worst = max(worst, exit_code(session))
            if session.trials:
                results.add(_written(session, options, is_first=not results.count))
    return worst


def _tried(spec: LoadSpec, options: TryOptions, results: Results) -> Session:
    """Try everything on one model; where that is interrupted, the trials until then are kept."""
    source = Spawned(worker_command(), first=[Start(spec)])
    wishes, kept = options.wishes(), [EMPTY]
    progress = speaker(spec.model)
    try:
        return asyncio.run(try_out(source, wishes, progress=progress, kept=kept.append))
    except KeyboardInterrupt:
        done = len(kept) - 1
        if done:
            progress(f"interrupted after {done} of {len(wishes)} trials; they are kept")
            results.add(_written(kept[-1], options, is_first=not results.count))
        raise


def _written(session: Session, options: TryOptions, *, is_first: bool) -> str:
    if options.layout == "json":
        return trials_json(session) + "\n"
    lines = trials_table(session, columns=columns(options.output))
    return ("" if is_first else "\n") + "\n".join(lines) + "\n"
