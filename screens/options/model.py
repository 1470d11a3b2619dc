"""The options that say which model to load and how to run it: typed text to a ``LoadSpec``."""

import functools
import os
import re
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypeVar

import click
import msgspec
from click.core import ParameterSource
from msgspec import Struct

from tui_profiler.formatting.text import safe
from tui_profiler.messages import LoadSpec, TrainSpec

from .from_text import FromText
from .grid_intensity import Typed, grid_intensity

MOST_BATCH = 2**31 - 1
MOST_THREADS = 4096
MOST_TOKENS = 1_000_000
BUDGET_HELP = "Maximum profiling overhead."

STOCK_OUTPUT = "TUI_PROFILER_STOCK_OUTPUT"
"""Environment variable with which Textual draws by itself (``terminal/output.py``)."""

LEAST_MEMORY = 1 << 30
_RATE = re.compile(r"(\d+(?:\.\d+)?(?:[eE]\+?\d+)?)\s*([KMGTPE])?")
_MEMORY_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT])(?:i?B)?", re.IGNORECASE)

Autocast: TypeAlias = Literal["bf16", "fp16"]

_Command = TypeVar("_Command", bound=Callable[..., object])


class Chosen(Struct, frozen=True):
    """What was typed after the model."""

    arguments: str
    inputs: tuple[str, ...]
    batch: int | None
    weights: str
    device: str
    dtype: str
    threads: int | None
    tracer: str
    trust: bool
    run: bool
    budget: float
    grid_intensity: Typed | None
    debug: bool
    typed: tuple[str, ...] = ()
    """Which of these options were typed, as they are spelt."""
    memory_limit: int | None = None
    """Bytes; 0: no limit, None: the free memory less a reserve."""
    train: bool = False
    optimizer: str = ""
    """Empty: the default."""
    checkpoint: str = ""
    accumulate: int | None = None
    autocast: Autocast | None = None
    update: bool = False
    peak_flops: float | None = None
    generate: int | None = None

    def spec(self, model: str, *, started_at: float, seconds: float | None = None) -> LoadSpec:
        """Return the request for one model.

        Args:
            model: as typed.
            started_at: Unix time at which the command was started.
            seconds: stop after running for so long; None runs until asked.

        Raises:
            UsageError: the name or the working directory cannot be told to a worker, or there are
                options of training without ``--train``.
        """
        _require_text("The name of the model", model)
        grid = self.grid_intensity
        return LoadSpec(
            model=model,
            **{name: getattr(self, name) for name in OF_REQUEST},
            seconds=seconds,
            grid_grams_per_kwh=None if grid is None else grid.grams_per_kwh,
            grid_named="" if grid is None else grid.named,
            folder=_folder(),
            started_at=started_at,
            memory_limit_bytes=self.memory_limit,
            train=self._training(),
            generate=self._generating(),
        )

    def _generating(self) -> int | None:
        if self.train and self.generate is not None:
            raise click.UsageError("--generate and --train cannot be combined.")
        return self.generate

    def _training(self) -> TrainSpec | None:
        if self.train:
            usual = TrainSpec()
            return TrainSpec(
                optimizer=self.optimizer or usual.optimizer,
                checkpoint=self.checkpoint,
                accumulate=self.accumulate or usual.accumulate,
                autocast=self.autocast or usual.autocast,
                update=self.update,
                peak_flops=self.peak_flops,
            )
        given = {
            "--optimizer": self.optimizer,
            "--checkpoint": self.checkpoint,
            "--accumulate": self.accumulate,
            "--autocast": self.autocast,
            "--update": self.update,
            "--peak-flops": self.peak_flops,
        }
        found = [option for option, value in given.items() if value]
        if found:
            raise click.UsageError(f"{found[0]} applies to training steps: add --train.")
        return None


OF_REQUEST = (
    *("arguments", "inputs", "batch", "weights", "device", "dtype"),
    *("threads", "tracer", "trust", "run", "budget"),
)
"""Fields that the request has under the same names."""


def _folder() -> str:
    try:
        folder = os.getcwd()
    except FileNotFoundError:
        raise click.UsageError("The working directory is gone: change to one that is.") from None
    _require_text("The path of the working directory", folder)
    return folder


def _require_text(what: str, written: str) -> None:
    # Bytes of a path that are no UTF-8 come as lone surrogates, which no message can hold.
    try:
        written.encode()
    except UnicodeEncodeError:
        raise click.UsageError(f"{what} is not UTF-8 ({safe(written)}): rename it.") from None


def _share(text: str) -> float:
    text = text.strip()
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise ValueError(f'"{text}" is not a share such as 2% or 0.02') from None
    if not 0 < share <= 1:
        raise ValueError(f'"{text}" is not above 0% and up to 100%')
    return share


def _rate(text: str) -> float:
    found = _RATE.fullmatch(text.strip())
    rate = float(found[1]) * 1000.0 ** (" KMGTPE".index(found[2] or " ")) if found else 0.0
    if not 0 < rate < 1e24:
        raise ValueError(f'"{text}" is not a rate such as 989T')
    return rate


def _memory_size(text: str) -> int:
    text = text.strip()
    if text.casefold() == "none":
        return 0
    found = _MEMORY_SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f'"{text}" is not a size such as 8GiB, nor none')
    count = float(found[1]) * 1024 ** ("KMGT".index(found[2].upper()) + 1)
    if not LEAST_MEMORY <= count <= 2**60:
        raise ValueError(f'"{text}" is not between 1GiB (which torch needs) and 1048576TiB')
    return int(count)


SHARE = FromText("share", _share)
"""A share above 0 and up to 1, typed as ``2%`` or ``0.02``."""
RATE = FromText("rate", _rate)
"""A rate above 0, typed as ``989T`` or ``9.89e14``."""
MEMORY_SIZE = FromText("size", _memory_size)
"""Bytes, typed as ``8GiB``, or ``none``, which is 0."""
GRID_INTENSITY = FromText("grid intensity", grid_intensity)
"""Grams above 0, or a country of the table by its code or English name."""


def named(context: click.Context, option: click.Parameter, value: str) -> str:
    """Refuse an empty word, such as a variable of the shell's that is not set.

    Raises:
        BadParameter: one was typed.
    """
    source = context.get_parameter_source(option.name or "")
    if value or source is not ParameterSource.COMMANDLINE:
        return value
    raise click.BadParameter("it is empty: give a value, or omit the option.")


def file_option(*names: str, **settings: Any) -> Callable[[_Command], _Command]:
    """Return option that names a file: shells complete it, and it is checked where it is used."""
    named_file = {"type": click.Path(readable=False), "metavar": "FILE", "callback": named}
    return click.option(*names, **{**named_file, **settings})


_OPTIONS = (
    click.option(
        "--args",
        "arguments",
        default="",
        metavar="JSON",
        help="Factory arguments as JSON: an object is keyword arguments, an array positional.",
    ),
    click.option(
        "--input",
        "inputs",
        multiple=True,
        metavar="[NAME=]SHAPE[:DTYPE]",
        help="An input, instead of the inferred one, as 1,3,224,224 or tokens=1,16:int64."
        " May be repeated.",
    ),
    click.option("--batch", type=click.IntRange(1, MOST_BATCH), help="Size of the batch axis."),
    file_option(
        "--weights",
        default="",
        metavar="FILE|NAME|DEFAULT",
        help="Weights to load (default: random). The only option that downloads.",
    ),
    click.option("--device", default="cpu", show_default=True, metavar="cpu|cuda[:N]"),
    click.option(
        "--dtype",
        default="",
        metavar="DTYPE",
        callback=named,
        help="Cast the model: float16, bfloat16, …",
    ),
    click.option("--threads", type=click.IntRange(1, MOST_THREADS), help="Intra-op threads."),
    click.option(
        "--tracer",
        type=click.Choice(["auto", "dispatch", "fx", "export"]),
        default="auto",
        show_default=True,
        help="How the model is traced; auto chooses a tracer that works.",
    ),
    click.option("--trust", is_flag=True, help="Run code that a model file contains."),
    click.option(
        "--no-run", "run", is_flag=True, default=True, flag_value=False, help="Trace only."
    ),
    click.option(
        "--budget",
        type=SHARE,
        default="2%",
        show_default=True,
        metavar="SHARE",
        help=BUDGET_HELP,
    ),
    click.option(
        "--grid-intensity",
        type=GRID_INTENSITY,
        metavar="G_PER_KWH|COUNTRY",
        help="Grams of CO₂ per kWh at the machine's location, or the country, by name or"
        " ISO code; default: no CO₂ figures.",
    ),
    click.option(
        "--memory-limit",
        type=MEMORY_SIZE,
        metavar="SIZE|none",
        help="Maximum memory of the worker, such as 8GiB. Default: the free memory less a reserve"
        " of a tenth (256 MiB to 2 GiB). none sets no limit.",
    ),
    click.option(
        "--train",
        is_flag=True,
        help="Run training steps: forward, loss, backward, optimizer. Without --update the learning"
        " rate is 0 and weights do not change.",
    ),
    click.option(
        "--optimizer",
        default="",
        metavar="NAME[,KEY=VALUE]",
        callback=named,
        help="With --train: a class of torch.optim with settings, such as sgd,momentum=0.9."
        " Default: adamw.",
    ),
    click.option(
        "--checkpoint",
        default="",
        metavar="blocks|PATTERN",
        callback=named,
        help="With --train: recompute activations in the backward, of the repeated blocks or of"
        " modules by path, such as 'layers.*'.",
    ),
    click.option(
        "--accumulate",
        type=click.IntRange(1, MOST_BATCH),
        metavar="N",
        help="With --train: forward and backward passes per step.",
    ),
    click.option(
        "--autocast",
        type=click.Choice(["bf16", "fp16"]),
        help="With --train: run forward and loss under torch.autocast.",
    ),
    click.option("--update", is_flag=True, help="With --train: steps update the weights."),
    click.option(
        "--peak-flops",
        type=RATE,
        metavar="FLOPS",
        help="With --train: FLOP/s that MFU and HFU refer to, such as 989T. Default: the measured"
        " roof of the dtype.",
    ),
    click.option(
        "--generate",
        type=click.IntRange(1, MOST_TOKENS),
        metavar="N",
        help="Call generate() of a transformers language model instead of forward: prefill, then N"
        " new tokens per row, greedy.",
    ),
    click.option("--debug", is_flag=True, help="Show tracebacks."),
)


_UNTYPED: dict[str, object] = {"batch": None, "dtype": "", "threads": None}
TRAINING = (
    *("train", "optimizer", "checkpoint", "accumulate"),
    *("autocast", "update", "peak_flops", "generate"),
)
"""Options of training and of requests, which some verbs do not have."""


def model_options(command: _Command) -> Callable[..., object]:
    """Add the options to a command, which gets them as one ``chosen``."""
    return _with_options(command, ())


def model_options_but(*without: str) -> Callable[[_Command], Callable[..., object]]:
    """Return the same for a command with options of its own of these names.

    In ``chosen`` they are as if nothing was typed.
    """
    return functools.partial(_with_options, without=without)


def _with_options(command: _Command, without: tuple[str, ...]) -> Callable[..., object]:
    @functools.wraps(command)
    def with_chosen(**typed: object) -> object:
        names = [name for name in Chosen.__struct_fields__ if name != "typed"]
        own = {name: typed[name] for name in typed if name not in names or name in without}
        found = {name: typed[name] for name in names if name not in without}
        found |= {name: _UNTYPED[name] for name in without if name in _UNTYPED}
        found["typed"] = _typed([name for name in names if name not in without])
        return command(chosen=msgspec.convert(found, Chosen), **own)

    decorated: Callable[..., object] = with_chosen
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
        added: list[click.Parameter] = vars(decorated)["__click_params__"]  # As click keeps them.
        if added[-1].name in without:
            added.pop()
    return decorated


def _typed(names: list[str]) -> tuple[str, ...]:
    context = click.get_current_context()
    return tuple(
        option.opts[0]
        for option in context.command.params
        if option.name in names
        and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
    )
