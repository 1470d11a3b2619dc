"""The verbs that set up: the configuration, completion in a shell, programs that listen."""

import errno
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from tui_profiler.formatting.text import safe
from tui_profiler.system import pth_file
from tui_profiler.verbs.outcome import DONE, MODEL_FAILED

from ..terminal.standard_output import put, say

_WHOLE_WORDS = r"""
# Bash cuts words at ":", and a name such as demo:cnn holds one: the pieces are put together for the
# question, and what is on the line already is taken off the answers.
_tui_profiler_whole_words() {
    local whole=() former= word
    for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
        if [[ ${#whole[@]} -gt 0 && ( $word == :* || $former == *: ) ]]; then
            whole[-1]+=$word
        else
            whole+=("$word")
        fi
        former=$word
    done
    local COMP_WORDS=("${whole[@]}") COMP_CWORD=$((${#whole[@]} - 1))
    _tui_profiler_completion "$1"
    if [[ ${whole[-1]} == *:* && $COMP_WORDBREAKS == *:* ]]; then
        local begun=${whole[-1]%"${whole[-1]##*:}"}
        COMPREPLY=("${COMPREPLY[@]#"$begun"}")
    fi
}

complete -o nosort -F _tui_profiler_whole_words tui-profiler
"""


@click.command("config")
def config_verb() -> int:
    """Print the path of the configuration file and the current settings, as commented TOML.

    tui-profiler config > FILE writes a file to start from. Invalid settings are reported on
    standard error, with exit code 2.
    """
    from ..settings.config import as_toml, config_path, read_config  # noqa: PLC0415

    found = read_config(config_path())
    put(as_toml(found))
    for sentence in found.sentences():
        click.echo(sentence, err=True)
    return 2 if found.problems else 0


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_verb(context: click.Context, shell: str) -> int:
    """Print the completion script of SHELL, for verbs, options and names.

    \b
    bash   eval "$(tui-profiler completion bash)"           in ~/.bashrc
    zsh    eval "$(tui-profiler completion zsh)"            in ~/.zshrc
    fish   tui-profiler completion fish > ~/.config/fish/completions/tui-profiler.fish
    """  # noqa: D301 # click's own mark: do not wrap
    script = get_completion_class(shell)
    assert script is not None  # Those of click's that the argument names.
    name = "tui-profiler"
    source = script(context.find_root().command, {}, name, "_TUI_PROFILER_COMPLETE").source()
    put(source + (_WHOLE_WORDS if shell == "bash" else "\n"))
    return 0


@click.command("enable")
def enable_verb() -> int:
    """Have programs of this environment listen for viewers where TUI_PROFILER=1.

    Writes one line, a .pth file, into the environment's site-packages. A program that is started
    with TUI_PROFILER=1, and each process that it starts, can then be attached to as if it called
    tui_profiler.watch(model), whichever model it runs. Without the variable nothing is imported.
    """
    path = pth_file.file_path()
    return _changed(
        path,
        pth_file.enable,
        done=f"wrote {path}",
        nothing=f"enabled already: {path}",
        then="TUI_PROFILER=1 python PROGRAM, then tui-profiler attach",
    )


@click.command("disable")
def disable_verb() -> int:
    """Remove the line that enable wrote; programs that listen already go on listening."""
    path = pth_file.file_path()
    return _changed(
        path, pth_file.disable, done=f"removed {path}", nothing=f"not enabled: no file {path}"
    )


def _changed(
    path: Path, change: Callable[[Path], bool], *, done: str, nothing: str, then: str = ""
) -> int:
    """Change the environment's file and say what was done."""
    try:
        is_changed = change(path)
    except OSError as error:
        say(change.__name__, *not_changed(change.__name__, path, error))
        return MODEL_FAILED
    put(f"{safe(done if is_changed else nothing)}\n")
    if then:
        put(f"try {then}\n")
    return DONE


def not_changed(verb: str, path: Path, error: OSError) -> tuple[str, str]:
    """Return why the environment's file was not written or removed, and what to try."""
    where = path.parent if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS) else path
    instead = f"sudo {shlex.quote(sys.executable)} -m tui_profiler {verb}"
    if error.errno == errno.EROFS:  # No user may write there.
        instead = "tui-profiler attach PID: it needs no file"
    return safe(f"{where} cannot be written: {error.strerror}"), safe(f"try {instead}")
