"""Composition root: arguments to a source, then the app or a headless verb.

Only what every verb needs is imported here; each verb imports the rest itself, the app after its
worker was started, so that torch is imported there while Textual is imported here.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import click
import msgspec

from tui_profiler import __version__
from tui_profiler.messages import ListModels
from tui_profiler.recording.kind import is_recording

from ..options.model import (
    BUDGET_HELP,
    Chosen,
    Share,
    check_option,
    file_option,
    model_options,
    output_option,
    stock_output,
    table_or_json,
)
from ..options.numbers import Finite
from ..options.refusals import PROGRAM, RECORDING, refuse_options, require_models
from ..settings.appearance_options import Wish, look_options
from ..terminal.standard_output import not_written, require_terminal
from ..web.driver import is_served
from ..web.launch import to_browsers
from .attach import attach, attach_to, relay, remote_python, require_remote
from .ceilings import ceilings
from .compare import compare
from .findings_option import findings_option
from .first_word import Verbs, models_and_files
from .onnx import onnx
from .parameter_options import parameters_option, require_parameters
from .record import open_verb, played, record
from .report_all_options import zoo_options
from .setup import completion, config
from .standard_streams import mend_streams
from .sweep import sweep
from .try_ import try_verb

_EPILOG = """\b
Examples:
  tui-profiler                                  choose what to open
  tui-profiler resnet50                         explore it, running
  tui-profiler demo:decoder --batch 4
  tui-profiler net.py:build --args '{"width": 64}' --input 1,3,64,64
  tui-profiler resnet50 --web                   the same, in a browser
  tui-profiler report resnet50 --measure 5      a table, with times
  tui-profiler report vgg16 resnet18 --format json > two.jsonl
  tui-profiler report resnet50 --check 'total_macs<=5G'
  tui-profiler verify resnet50 vit_b_16         our figures beside those of others
  tui-profiler try resnet50                     changes that could make it faster, measured
  tui-profiler compare resnet50 'resnet50 --batch 8'
  tui-profiler sweep resnet50 --batch 1,2,4,8   how it grows, and where the knee is
  tui-profiler run train.py --epochs 3          your script, with a look inside
  tui-profiler attach                           look into a program that watches a model
  tui-profiler report --all torchvision --output zoo --jobs 2
  tui-profiler models 'efficientnet*'
  tui-profiler record resnet50 -o a.rec --seconds 60
  tui-profiler open a.rec                       play it, on any machine
  tui-profiler ceilings --again                 what this machine can do at most, measured anew
  tui-profiler config                           your settings, and where their file lies

Exit codes: 0 done, 1 the model could not be loaded, traced or run, or has no times,
2 bad arguments, 3 a check or tolerance does not hold, 70 a mistake of ours, 130 interrupted."""


@click.group(
    cls=Verbs,
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


@_verbs.command("explore", short_help="Run a model and look inside, on screen.")
@click.argument("model", default="", shell_complete=models_and_files)
@model_options
@look_options
@stock_output
@click.option(
    "--no-remembered",
    "remembers",
    default=True,
    flag_value=False,
    help="Neither show the tree of last time nor keep this one.",
)
@click.option("--web", is_flag=True, help="In a browser of this machine instead of the terminal.")
@click.pass_obj
def _explore(
    started_at: float, /, model: str, chosen: Chosen, wish: Wish, *, remembers: bool, web: bool
) -> int:
    """Run MODEL and look inside, on screen. The verb may be left out.

    Without MODEL, what can be opened is listed to choose from.
    """
    if is_recording(model):
        refuse_options(chosen, RECORDING)
    if web and not is_served():
        return to_browsers(model)
    if is_recording(model):
        return played(model, wish=wish)
    require_terminal()
    from .run_parts.explore import run_model, run_start  # noqa: PLC0415

    if not model:
        return run_start(chosen, wish=wish, remembers=remembers)
    spec = chosen.spec(model, started_at=started_at)
    return run_model(spec, wish=wish, remembers=remembers)


@_verbs.command("report", short_help="Print what models cost, and with --measure take.")
@click.argument("names", metavar="MODEL...", nargs=-1, shell_complete=models_and_files)
@attach_to
@remote_python
@click.option(
    "--format",
    "layout",
    type=click.Choice(["table", "text", "json", "csv", "markdown", "perfetto"]),
    default="table",
    show_default=True,
    help="text and markdown are the full report, json is one object per model (several are JSON"
    " Lines), csv one line per node, perfetto a trace for ui.perfetto.dev.",
)
@output_option
@check_option
@click.option(
    "--measure",
    type=Finite(min=0, min_open=True),
    metavar="SECONDS",
    help="Run the model for so long, and report its times.",
)
@click.option(
    "--top", type=click.IntRange(min=1), metavar="N", help="Only the N most expensive layers."
)
@findings_option
@parameters_option
@model_options
@click.pass_obj
@zoo_options
def _report(started_at: float, /, chosen: Chosen, **typed: object) -> int:
    """Print what each MODEL costs on paper, and with --measure how long it takes.

    A MODEL may be a recording: then its last figures are printed, measured ones included.
    """
    from .run_parts.report import ReportOptions, run_report  # noqa: PLC0415

    options = msgspec.convert(typed, ReportOptions)
    if bool(options.names) == bool(options.attach):
        raise click.UsageError("A MODEL is needed, or --attach NAME; not both.")
    require_remote(options.attach, options.remote_python)
    if options.measure is not None and not chosen.run:
        raise click.UsageError("--measure runs the model and --no-run forbids it: leave out one.")
    if options.measure is not None and any(map(is_recording, options.names)):
        raise click.UsageError("A recording cannot be measured again: leave out --measure.")
    if any(map(is_recording, options.names)):
        refuse_options(chosen, RECORDING)
    if options.attach:
        refuse_options(chosen, PROGRAM)
    require_parameters(options.parameters, options.layout, options.attach, options.names)
    return run_report(options, chosen, started_at=started_at)


@_verbs.command("verify", short_help="Hold our figures against those of other counters.")
@click.argument(
    "names", metavar="MODEL...", nargs=-1, required=True, shell_complete=models_and_files
)
@table_or_json
@output_option
@click.option(
    "--timeout",
    type=Finite(min=0, min_open=True),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="How long each counter may take.",
)
@model_options
@click.pass_obj
def _verify(started_at: float, /, chosen: Chosen, **typed: object) -> int:
    """Count each MODEL, and hold the figures against those of others.

    They are what torchvision publishes, torch.utils.flop_counter, fvcore where it is installed, and
    the memory that a real forward allocates: each counts in a process of its own.
    """
    from .run_parts.verify import VerifyOptions, run_verify  # noqa: PLC0415

    options = msgspec.convert(typed, VerifyOptions)
    require_models(options.names, "counted again")
    return run_verify(options, chosen, started_at=started_at)


@_verbs.command("models", short_help="List the names of models.")
@click.argument("pattern", default="")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def _models(pattern: str, debug: bool) -> int:
    """List the models that have names: all, or those with PATTERN in their name (or a glob)."""
    from .run_parts.report import run_models  # noqa: PLC0415

    return run_models(ListModels(pattern), debug=debug)


@_verbs.command(
    "run",
    short_help="Run a script of yours, and look at the model in it.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option("-m", "is_module", is_flag=True, help="SCRIPT is a module, as in python -m.")
@click.option(
    "--format",
    "layout",
    type=click.Choice(["table", "json"]),
    help="Without the explorer: the terminal is the script's, and a report follows at its end.",
)
@file_option("--output", default="", help="Write the report there.")
@click.option("--budget", type=Share(), default="2%", show_default=True, help=BUDGET_HELP)
@click.option(
    "--model",
    metavar="NAME",
    default="",
    help="Model to show: its class, CLASS#INDEX or variable, such as trainer.model (* and ? match);"
    " default: the outermost that runs.",
)
@look_options
@stock_output
@click.argument("script", shell_complete=models_and_files)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def _run(started_at: float, /, wish: Wish, **typed: object) -> int:
    """Run SCRIPT with its ARGUMENTS, unchanged, and look at the model that it calls.

    What it prints is in the log (L). Its exit code is ours. With --format it keeps the terminal,
    and a report is written when it ends: to FILE, or to standard error.
    """
    from .run_parts.run import RunOptions, run_script  # noqa: PLC0415

    options = msgspec.convert(typed, RunOptions)
    if options.layout is None:
        require_terminal("add --format table")
    return run_script(options, wish, started_at=started_at)


_verbs.add_command(attach)
_verbs.add_command(compare)
_verbs.add_command(record)
_verbs.add_command(open_verb)
_verbs.add_command(relay)
_verbs.add_command(try_verb)
_verbs.add_command(onnx)
_verbs.add_command(sweep)
_verbs.add_command(ceilings)
_verbs.add_command(config)
_verbs.add_command(completion)


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out a command line and give the exit code.

    Args:
        arguments: without the program's name; None takes those of this process.
    """
    started_at = time.time()
    mend_streams()
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
        from ..terminal.crash_report import CRASHED, Circumstances, tell  # noqa: PLC0415

        tell(error, Circumstances())
        return CRASHED
    return result if isinstance(result, int) else 0
