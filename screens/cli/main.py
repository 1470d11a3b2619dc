"""The command line: its verbs and their list, and what became of it as an exit code.

A verb is a file of this folder, which is imported when the verb is typed: ``--help`` and
``--version`` wait for none of them, and a model for no other verb than its own.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tui_profiler import __version__

from ..terminal.standard_output import is_terminal, not_written
from ..web.launch import TYPED

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_EPILOG = """\b
Examples:
  tui-profiler                                  list what can be opened
  tui-profiler resnet50                         explore it while it runs
  tui-profiler demo:decoder --batch 4
  tui-profiler net.py:build --args '{"width": 64}' --input 1,3,64,64
  tui-profiler resnet50 --web                   the same, in a browser
  tui-profiler report resnet50 --measure 5      a table, with times
  tui-profiler report vgg16 resnet18 --format json > two.jsonl
  tui-profiler report resnet50 --check 'total_macs<=5G'
  tui-profiler verify resnet50 vit_b_16         cross-check with other counters
  tui-profiler try resnet50                     changes that could make it faster, measured
  tui-profiler compare resnet50 'resnet50 --batch 8'
  tui-profiler sweep resnet50 --batch 1,2,4,8   how it scales, and the saturation point
  tui-profiler run train.py --epochs 3          your script, with the explorer
  tui-profiler attach                           attach to a running program
  tui-profiler report --all torchvision --output zoo --jobs 2
  tui-profiler models 'efficientnet*'
  tui-profiler record resnet50 -o a.rec --seconds 60
  tui-profiler open a.rec                       play it, on any machine
  tui-profiler ceilings --again                 calibrate the roofline
  tui-profiler mcp                              serve coding agents
  tui-profiler config                           your settings, and the path of their file

Exit codes: 0 done, 1 loading, tracing or running the model failed, or there are no times,
2 invalid arguments, 3 a check or tolerance failed, 70 internal error, 130 interrupted."""


_VERBS = (
    ("attach", "attach", "Attach to a running program."),
    ("ceilings", "ceilings", "Show the calibrated roofline of this machine, or calibrate it."),
    ("compare", "compare", "Compare two models, recordings or reports."),
    ("completion", "setup", "Print the completion script of a shell."),
    ("config", "setup", "Print the current settings as a configuration file."),
    ("disable", "setup", "Undo enable."),
    ("enable", "setup", "Have programs started with TUI_PROFILER=1 listen for viewers."),
    ("explore", "explore", "Explore a running model on screen."),
    ("export", "export", "Export metrics of a program to Prometheus or OpenTelemetry."),
    ("fit", "fit", "Report which GPUs a model fits on, from data sheets."),
    ("mcp", "mcp.verb", "Start a Model Context Protocol server for coding agents."),
    ("models", "models", "List the names of models."),
    ("onnx", "onnx", "Export a model to ONNX."),
    ("open", "open", "Play a recording, on screen."),
    ("record", "record", "Record a running model to a file."),
    ("relay", "attach", "Internal: run by attach on the remote host."),
    ("report", "report", "Report parameters, FLOPs and memory; with --measure also latency."),
    ("run", "run", "Run a script and profile the model it calls."),
    (
        "sweep",
        "sweep",
        "Measure how a model scales with batch size, sequence length, threads and dtype.",
    ),
    ("try", "try_", "Try changes that could make models faster."),
    ("verify", "verify", "Cross-check figures with fvcore, FlopCounterMode and others."),
)
"""Each with the module of this folder that has it, as ``NAME_verb``, and its line in the list."""


class _Listed(click.Command):
    """A verb as the list shows it; its module has the rest."""

    def __init__(self, name: str, module: str, short_help: str) -> None:
        super().__init__(name, short_help=short_help)
        self._module = module

    def loaded(self) -> click.Command:
        """Return the verb itself."""
        module = importlib.import_module(f".{self._module}", __package__)
        found: click.Command = getattr(module, f"{self.name}_verb")
        return found


class _Verbs(click.Group):
    """A group whose first argument may be a model instead of a verb, or none: it is explored."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the verb before a model that stands alone; without a word, before nothing."""
        if not args and is_terminal():
            args = ["explore"]
        if args and args[0] not in (*self.commands, "--help", "--version"):
            from ..options.verbs import require_known  # noqa: PLC0415 # as the verbs

            with ctx:
                require_known(args[0], self.list_commands(ctx))
            args = ["explore", *args]
        ctx.meta[TYPED] = tuple(args)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Import the verb that was typed."""
        name, verb, rest = super().resolve_command(ctx, args)
        return name, verb.loaded() if isinstance(verb, _Listed) else verb, rest

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the verbs and the models that begin so."""
        from ..options.verbs import models_and_files  # noqa: PLC0415 # as the verbs

        found = super().shell_complete(ctx, incomplete)
        return [*models_and_files(ctx, None, incomplete), *found]


@click.group(
    cls=_Verbs,
    commands=[_Listed(*row) for row in _VERBS],
    epilog=_EPILOG,
    subcommand_metavar="MODEL | VERB [ARGUMENTS]",
    context_settings={"max_content_width": 100},
)
@click.version_option(__version__, prog_name="tui-profiler")
def _verbs() -> None:
    """See the inside of a running PyTorch model.

    MODEL is a name (resnet50, timm:NAME, demo:cnn), a file (model.pt, model.pt2, yolov8n.yaml,
    weights.safetensors), a directory (hf:DIR), or your own class or factory
    (path/to/file.py:build, package.module:Class). With a MODEL alone it is explored on screen; the
    options are those of explore.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out a command line and give the exit code.

    Args:
        arguments: without the program's name; None takes those of this process.
    """
    started_at = time.time()
    _mend_streams()
    try:
        result = _verbs.main(
            args=None if arguments is None else list(arguments),
            prog_name="tui-profiler",
            obj=started_at,
            standalone_mode=False,
        )
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except Exception as error:
        if isinstance(error, OSError) and not_written(error):
            return 1
        from ..terminal.crash_report import CRASHED, CrashContext, tell  # noqa: PLC0415

        tell(error, CrashContext())
        return CRASHED
    return result if isinstance(result, int) else 0


def _mend_streams() -> None:
    """Open what is closed, and let no character be refused.

    1. A descriptor below 3 that is closed is opened on ``/dev/null``: the next socket would take
       its number, and whatever prints would write into it.
    2. What the locale cannot say (``×`` in ASCII) is spelled out, as Python does on standard error.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # Takes the least number that is free: this one.
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
