"""``attach`` and ``relay``: a running program in the explorer, from here or another host."""

import sys

import click

from tui_profiler.connection.sockets import is_in_own_directory
from tui_profiler.formatting.text import safe
from tui_profiler.messages import LoadSpec
from tui_profiler.serving.address import Address
from tui_profiler.source.attached import (
    Attached,
    AttachError,
    attached,
    connect,
    find,
    not_listening,
    unprepared,
)
from tui_profiler.source.optimizer_trials import WithOptimizerTrials
from tui_profiler.source.other_programs import WithPrograms
from tui_profiler.source.ranks import by_run, is_rank, is_whole_run
from tui_profiler.source.remote import relay
from tui_profiler.source.serving import with_serving
from tui_profiler.source.torch_processes import UsersPrograms
from tui_profiler.verbs.outcome import DONE, MODEL_FAILED

from ..options import verbs as options
from ..settings.appearance import AppearanceOptions, look_options
from ..settings.preferences import read_preferences
from ..start.programs import candidates, choose, columns, listening, matching, refused, source_of
from ..terminal.standard_output import put, require_terminal, say


@click.command("attach")
@click.argument("who", metavar="[NAME|PID]", default="")
@click.option(
    "--list", "only_list", is_flag=True, help="List programs with torch, watched or not, and exit."
)
@options.remote_python
@options.serving
@look_options
@options.stock_output
@click.pass_obj
def attach_verb(
    started_at: float,
    /,
    who: str,
    only_list: bool,
    remote_python: str,
    serving: Address | None,
    appearance: AppearanceOptions,
) -> int:
    """Attach to a running program, read-only.

    NAME is the name passed to tui_profiler.watch(model), or the class of the model; without it, a
    single program is attached to and several are listed, as is one whose sockets lie in another
    directory than this shell's. A PID needs no preparation: a listener is
    started in that process. On another host: ssh://[user@]host[:port][/NAME|PID].
    """
    options.require_remote(who, remote_python)
    if only_list and options.is_remote(who):
        raise click.UsageError(
            "--list shows this host only; try ssh HOST tui-profiler attach --list."
        )
    if only_list:
        return _list(who)
    require_terminal('try "tui-profiler report --attach NAME --measure 10"')
    return run_attached(
        who,
        remote_python=remote_python,
        appearance=appearance,
        started_at=started_at,
        serving=serving,
    )


def _list(who: str) -> int:
    """Print every program that ``who`` fits, one a line; exit code 1 where there are none."""
    listens = find()
    found = [*listens, *not_listening(UsersPrograms(), listens)]
    fitting = matching(found, who)
    put("".join(f"{'  '.join(columns(one))}\n" for one in fitting))
    if fitting:
        return 0
    try:
        candidates(found, who)
    except AttachError as error:
        return refused(error)
    return MODEL_FAILED


def run_attached(
    who: str,
    *,
    remote_python: str,
    appearance: AppearanceOptions,
    started_at: float,
    serving: Address | None = None,
) -> int:
    """Show one program until the explorer is left; return the exit code.

    Args:
        who: name or process id, or an address; empty for any.
        remote_python: an interpreter on another host.
        appearance: theme and glyphs as typed.
        started_at: Unix time when the command was started.
        serving: where a server beside it exports its metrics.
    """
    try:
        if options.is_remote(who):
            source: Attached | int = source_of(who, remote_python, started_at)
        else:
            source = _picked(who, appearance=appearance, started_at=started_at, serving=serving)
    except AttachError as error:
        return refused(error)
    if isinstance(source, int):
        return source

    def again(spec: LoadSpec) -> Attached:
        raise AssertionError("an attached program is never restarted")

    spec = LoadSpec(source.program.name, started_at=started_at, observed="program")
    from ..app.explorer_app import run_explorer  # noqa: PLC0415 # --help needs no Textual

    shown = source if options.is_remote(who) else WithPrograms(WithOptimizerTrials(source))
    return run_explorer(with_serving(shown, serving), again, spec, appearance=appearance)


def _picked(
    who: str, *, appearance: AppearanceOptions, started_at: float, serving: Address | None
) -> Attached | int:
    """Attach to what fits, chosen by hand where there are several or where it may be another's.

    Without a name, only a program of this environment's own directory is attached to at once.

    Return an exit code where none was chosen, or where it is a run of several ranks and was left.
    """
    found = listening(who)
    try:
        fitting = by_run(candidates(found, who))
    except AttachError:
        if who or not not_listening(UsersPrograms(), found):
            raise
        fitting = []
    is_meant = bool(who) or all(is_in_own_directory(one.place) for one in fitting)
    if len(fitting) != 1 or not is_meant:
        from ..start.picker import pick  # noqa: PLC0415

        picked, code = pick(who, read_preferences(appearance))
        if picked is None:
            return code
        chosen = picked if picked.listens else unprepared(picked.place.pid)
    else:
        chosen = fitting[0]
    if chosen.program is not None and (is_whole_run(chosen) or is_rank(chosen.program)):
        from ..app.ranks_app import run_ranks  # noqa: PLC0415

        return run_ranks(
            chosen,
            chosen.program,
            appearance=appearance,
            started_at=started_at,
            serving=serving,
        )
    return attached(chosen.place, started_at)


@click.command("relay")
@click.argument("who", metavar="[NAME|PID]", default="")
@click.option("--stdio", is_flag=True, required=True, help="Speak over standard input and output.")
def relay_verb(who: str, stdio: bool) -> int:
    """Relay a watched program of this host over standard input and output."""
    try:
        connected = connect(choose(who).place)
    except (OSError, AttachError) as error:
        say("relay", safe(str(error)))
        return MODEL_FAILED
    relay(connected, sys.stdin.fileno(), sys.stdout.fileno())
    return DONE
