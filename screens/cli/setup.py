"""The verbs that set the program up: its configuration, and completion in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from ..terminal.standard_output import put

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
    from ..settings.config import config_path, read_config  # noqa: PLC0415
    from ..settings.config_file import actions, as_toml  # noqa: PLC0415

    found = read_config(config_path(), actions())
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
