"""``attach``, put together: who can be attached to, which of them, the app."""

from __future__ import annotations

from tui_profiler.messages import LoadSpec
from tui_profiler.source.attached import Attached, AttachError, attached, find
from tui_profiler.source.ranks import by_run, is_rank, is_whole_run
from tui_profiler.source.remote import SCHEME
from tui_profiler.verbs.outcome import MODEL_FAILED

from ...app.explorer_app import run_explorer
from ...settings.appearance_options import Wish
from ...settings.preferences import habits_of
from ...start.programs import candidates, columns, matching, refused, source_of
from ...terminal.standard_output import put


def list_programs(who: str) -> int:
    """Print every watched model that ``who`` fits, one a line; exit code 1 where there are none."""
    found = find()
    fitting = matching(found, who)
    put("".join(f"{'  '.join(columns(one))}\n" for one in fitting))
    if fitting:
        return 0
    try:
        candidates(found, who)
    except AttachError as error:
        return refused(error)
    return MODEL_FAILED


def run_attached(who: str, *, remote_python: str, wish: Wish, started_at: float) -> int:
    """Look into one program until it is left; gives the exit code.

    Args:
        who: name or process id, or an address; empty for any.
        remote_python: an interpreter on another host.
        wish: what was typed of the look.
        started_at: Unix time when the command was started.
    """
    try:
        if who.startswith(SCHEME):
            source: Attached | int = source_of(who, remote_python, started_at)
        else:
            source = _picked(who, wish=wish, started_at=started_at)
    except AttachError as error:
        return refused(error)
    if isinstance(source, int):
        return source

    def again(spec: LoadSpec) -> Attached:
        raise AssertionError("what is attached to is not started again")

    spec = LoadSpec(source.program.name, started_at=started_at, observed="program")
    return run_explorer(source, again, spec, wish=wish)


def _picked(who: str, *, wish: Wish, started_at: float) -> Attached | int:
    """Attach to what fits, chosen by hand where there are several.

    Gives an exit code where none was chosen, or where it is a run of several ranks and was left.
    """
    fitting = by_run(candidates(find(), who))
    chosen = fitting[0]
    if len(fitting) > 1:
        from ...start.picker import pick  # noqa: PLC0415

        picked, code = pick(who, habits_of(wish))
        if picked is None:
            return code
        chosen = picked
    if chosen.program is not None and (is_whole_run(chosen) or is_rank(chosen.program)):
        from ...app.ranks_app import run_ranks  # noqa: PLC0415

        return run_ranks(chosen, chosen.program, wish=wish, started_at=started_at)
    return attached(chosen.place, started_at)
