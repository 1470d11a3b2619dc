"""``attach``, put together: who can be attached to, which of them, the app."""

from __future__ import annotations

from tui_profiler.canvas import ASCII, UNICODE
from tui_profiler.messages import LoadSpec
from tui_profiler.source.attached import Attached, AttachError, find
from tui_profiler.text import safe
from tui_profiler.verbs.outcome import MODEL_FAILED

from .app import run_explorer
from .output import put, say
from .programs import columns, matching

HOW = "in the program: import tui_profiler; tui_profiler.watch(model)"


def list_programs(who: str) -> int:
    """Print every watched model that ``who`` fits, one a line; exit code 1 where there are none."""
    found = matching(find(), who)
    put("".join(f"{'  '.join(columns(one))}\n" for one in found))
    if not found:
        _say_none(who)
    return 0 if found else MODEL_FAILED


def run_attached(who: str, *, ascii_only: bool) -> int:
    """Look into one program until it is left; gives the exit code.

    Args:
        who: name or process id; empty for any.
        ascii_only: draw with ASCII characters only.
    """
    answering = [one for one in matching(find(), who) if one.program is not None]
    if not answering:
        _say_none(who)
        return MODEL_FAILED
    chosen = answering[0]
    if len(answering) > 1:
        from .picker import pick  # noqa: PLC0415

        picked, code = pick(who, ASCII if ascii_only else UNICODE)
        if picked is None:
            return code
        chosen = picked
    try:
        source = Attached(chosen.place)
    except AttachError as error:
        say("attach", safe(str(error)))
        return MODEL_FAILED

    def again(spec: LoadSpec) -> Attached:
        return Attached(chosen.place)

    spec = LoadSpec(source.program.name, started_at=source.started_at)
    return run_explorer(source, again, spec, ascii_only=ascii_only)


def _say_none(who: str) -> None:
    what = f"nothing called {safe(who)!r} can be attached to" if who else "nothing to attach to"
    say("attach", f"{what}; no program of yours watches a model" if not who else what)
    say("attach", f"try {HOW}" if not who else "try tui-profiler attach --list")
