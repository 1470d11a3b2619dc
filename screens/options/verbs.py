"""What verbs share: options declared once, what they refuse, numbers, and how models complete."""

import importlib.util
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import click
from click.shell_completion import CompletionItem
from msgspec import Struct

from tui_profiler.formatting.text import safe
from tui_profiler.queries.cost.flat import By
from tui_profiler.queries.hardware.data_sheets import DataSheet, data_sheet, data_sheets
from tui_profiler.recording.kind import is_recording
from tui_profiler.reports.json.report_file import is_report
from tui_profiler.serving.address import Address, address
from tui_profiler.system.demos import PREFIX, demo_names
from tui_profiler.system.library_names import library_names

from .from_text import FromText
from .model import STOCK_OUTPUT, Chosen, file_option

_BARE_NAME = re.compile(r"[A-Za-z_][\w-]*")
_OF_NO_MODULE = (".rec", ".json", ".jsonl", ".onnx")
"""Ends of files that can be missing, and that no module of Python has."""
_LIKE_A_VERB = 0.66
"""As difflib measures it; ``rnu`` and ``run`` have 0.67."""
_LIKE_A_MODEL = 0.6
_MOST_LIKE = 3

_Command = TypeVar("_Command", bound=Callable[..., Any])
ReportLayout: TypeAlias = Literal["table", "text", "json", "csv", "markdown", "perfetto"]


class ReportOptions(Struct, frozen=True):
    """What was typed after ``report``, the options of the model apart."""

    names: tuple[str, ...]
    attach: str
    remote_python: str
    layout: ReportLayout
    output: str
    measure: float | None
    top: int | None
    checks: tuple[str, ...]
    findings: bool = False
    parameters: bool = False
    by: By | None = None
    depth: int | None = None
    on: DataSheet | None = None
    brief: bool = False
    serving: Address | None = None


RECORDING = "A recording cannot be changed"
REPORT = "A report cannot be changed"
PROGRAM = "An attached program cannot be changed"
_HARMLESS = frozenset({"--no-run", "--debug"})
"""Nothing is run anyway, and what went wrong is always told."""


def models_and_files(
    context: click.Context, parameter: click.Parameter | None, incomplete: str
) -> list[CompletionItem]:
    """Return how a model may go on: a demo model's name, or a file, which the shell looks for.

    The names of libraries are not among them: finding those takes seconds.
    """
    found = [CompletionItem(name) for name in _demos() if name.startswith(incomplete)]
    # First: in bash, click's script forgets there what came before.
    return [CompletionItem(incomplete, type="file"), *found]


def _demos() -> list[str]:
    return [f"{PREFIX}{name}" for name in demo_names()]


def _ask_for_stock_output(context: click.Context, option: click.Parameter, asked: bool) -> None:
    if asked:
        os.environ[STOCK_OUTPUT] = "1"


class FiniteRange(click.FloatRange):
    """A range of numbers that has neither ``nan``, which no limit holds off, nor ``inf``."""

    def convert(
        self, value: float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number; ``value`` is text where it was typed."""
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return found


def _device(text: str) -> DataSheet:
    found = data_sheet(text)
    if found is None:
        known = ", ".join(one.name for one in data_sheets())
        raise ValueError(f"there is no data sheet of {safe(text)!r}; there are {known}.")
    return found


def devices(text: str) -> tuple[DataSheet, ...]:
    """Return the data sheets of devices between commas, each once, in the order typed.

    Raises:
        ValueError: one has none, or there is no device.
    """
    found = (_device(name.strip()) for name in text.split(",") if name.strip())
    sheets = tuple({sheet.name: sheet for sheet in found}.values())
    if not sheets:
        raise ValueError("no device is named")
    return sheets


def _metrics_address(text: str) -> Address:
    if importlib.util.find_spec("prometheus_client") is None:
        raise ValueError("prometheus_client is not installed: pip install 'tui-profiler[serving]'")
    try:
        return address(text)
    except ValueError as error:
        raise ValueError(f"{safe(text)!r}: {error}.") from None


DEVICE = FromText("device", _device)
"""A device that has a data sheet."""
DEVICES = FromText("devices", devices)
"""Devices between commas."""
_ABOVE_ZERO = FiniteRange(min=0, min_open=True)


def seconds(
    name: str, help: str, default: float | None = None, allowed: click.FloatRange = _ABOVE_ZERO
) -> Callable[[_Command], _Command]:
    """Return an option of so many seconds."""
    return click.option(
        name,
        type=allowed,
        default=default,
        show_default=default is not None,
        metavar="SECONDS",
        help=help,
    )


def count(
    name: str, help: str, default: int | None = None, *, least: int = 1, most: int | None = None
) -> Callable[[_Command], _Command]:
    """Return an option of a whole number."""
    return click.option(
        name,
        type=click.IntRange(least, most),
        default=default,
        show_default=default is not None,
        metavar="N",
        help=help,
    )


def layout(*names: str, help: str, default: str | None = "table") -> Callable[[_Command], _Command]:
    """Return the option that chooses one of several formats."""
    return click.option(
        "--format",
        "layout",
        type=click.Choice(names),
        default=default,
        show_default=default is not None,
        help=help,
    )


def steady_clock(started_at: float) -> Callable[[], float]:
    """Return what counts seconds from a Unix time, also where the machine's clock is set later."""
    began = time.monotonic() - (time.time() - started_at)
    return lambda: time.monotonic() - began


model = click.argument("model", shell_complete=models_and_files)
model_or_none = click.argument("model", default="", shell_complete=models_and_files)
models = click.argument(
    "names", metavar="MODEL...", nargs=-1, required=True, shell_complete=models_and_files
)
output = file_option("--output", default="", help="Write to FILE instead of stdout.")
new_file = file_option("--output", "-o", required=True, help="Output file.")
force = click.option("--force", is_flag=True, help="Overwrite an existing file.")
table_or_json = layout(
    "table", "json", help="json is one object per model; several are JSON Lines."
)
stock_output = click.option(
    "--stock-output",
    is_flag=True,
    expose_value=False,
    callback=_ask_for_stock_output,
    help="Use Textual's own output, for terminals with rendering artefacts.",
)
remote_python = click.option(
    "--remote-python",
    metavar="PATH",
    default="",
    help="With ssh://: the remote Python that has tui-profiler installed.",
)
attach_to = click.option(
    "--attach",
    metavar="NAME",
    default="",
    help="Attach to a running program that calls tui_profiler.watch(model).",
)

serving = click.option(
    "--serving",
    type=FromText("url", _metrics_address),
    metavar="URL",
    help="Also show the metrics of a vLLM, SGLang or TGI server, such as"
    " http://127.0.0.1:8000/metrics. The URL is read by this command, not by the program.",
)


def require_known(name: str, verbs: Iterable[str] = ()) -> None:
    """Refuse a name that no model has, without importing torch.

    It is that of an architecture that torchvision does not have, or of a recording, report or
    ONNX file that is not there: the loader would take it for a module of Python.

    Args:
        name: what was typed.
        verbs: those that could have been meant there.

    Raises:
        UsageError: there is no such model; the error names models and verbs like it.
    """
    if os.path.lexists(name):
        if os.path.isfile(name) and is_report(name):
            what = f"{safe(name)} is a report: tui-profiler compare reads it."
            raise click.UsageError(what)
        return
    if name.casefold().endswith(_OF_NO_MODULE):
        raise click.UsageError(f"There is no file {safe(name)!r}.")
    if not _BARE_NAME.fullmatch(name):
        return  # Another source, or the user's own code.
    names = library_names("torchvision")
    if names is None or name.casefold() in names:
        return
    from difflib import get_close_matches  # noqa: PLC0415 # most names are right

    verb = get_close_matches(name.casefold(), verbs, n=1, cutoff=_LIKE_A_VERB)
    near = _models_like(name.casefold(), names, _LIKE_A_VERB if verb else _LIKE_A_MODEL)
    likely = [*(f"the verb {one}" for one in verb), *near]
    meant = f" Did you mean {' or '.join(likely)}?" if likely else ""
    what = "No model or verb" if verbs else "No model"
    raise click.UsageError(f'{what} is named "{safe(name)}".{meant} tui-profiler models lists all.')


def _models_like(name: str, torchvision: Iterable[str], cutoff: float) -> list[str]:
    """Return the models that a name may mean, as they are typed.

    Those of timm are hundreds and like each other: without its prefix the whole name is meant,
    and others only where nothing else is like it.
    """
    from difflib import get_close_matches  # noqa: PLC0415 # most names are right

    demos = _demos()
    timm = library_names("timm") or frozenset()
    whole = [f"demo:{name}"] * (f"demo:{name}" in demos) + [f"timm:{name}"] * (name in timm)
    near = get_close_matches(name, [*sorted(torchvision), *demos], n=_MOST_LIKE, cutoff=cutoff)
    found = [*whole, *(one for one in near if one not in whole)]
    if not found:
        like = get_close_matches(name, sorted(timm), n=_MOST_LIKE, cutoff=cutoff)
        found = [f"timm:{one}" for one in like]
    return found[:_MOST_LIKE]


def refuse_options(chosen: Chosen, why: str) -> None:
    """Refuse options of a model where none is loaded.

    Args:
        chosen: what was typed.
        why: what is there instead, as the beginning of a sentence.

    Raises:
        UsageError: there are such options.
    """
    typed = [option for option in chosen.typed if option not in _HARMLESS]
    if typed:
        raise click.UsageError(f"{why}: omit {', '.join(typed)}.")


def require_script(script: str) -> None:
    """Refuse a script that is not there.

    Raises:
        UsageError: it is not.
    """
    if not Path(script).exists():
        raise click.UsageError(f"There is no file {safe(script)!r}.")
    if Path(script).is_dir() and not Path(script, "__main__.py").exists():
        raise click.UsageError(f"{safe(script)!r} is a folder without a __main__.py.")


def require_module(name: str) -> None:
    """Refuse a module that is not there.

    Raises:
        UsageError: it is not.
    """
    sys.path.insert(0, "")
    try:
        is_there = importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        is_there = False
    finally:
        sys.path.pop(0)
    if not is_there:
        raise click.UsageError(f"There is no module called {safe(name)!r}.")


def require_models(names: Sequence[str], done: str) -> None:
    """Refuse a recording where a model is to be run, and a single name that no model has.

    Args:
        names: what was typed.
        done: what cannot be done to a recording, as a participle.

    Raises:
        UsageError: one is a recording, or the only one is unknown.
    """
    if any(map(is_recording, names)):
        raise click.UsageError(f"A recording cannot be {done}: give a model.")
    if len(names) == 1:  # One of several costs the others nothing.
        require_known(names[0])


def require_remote(who: str, remote_python: str) -> None:
    """Refuse ``--remote-python`` without another host.

    Raises:
        UsageError: it was typed, and ``who`` is not an ``ssh://`` address.
    """
    if remote_python and not is_remote(who):
        raise click.UsageError("--remote-python needs ssh://HOST.")


def is_remote(who: str) -> bool:
    """Tell whether a program is named by an ``ssh://`` address."""
    from tui_profiler.source.remote import SCHEME  # noqa: PLC0415 # most never need it

    return who.startswith(SCHEME)
