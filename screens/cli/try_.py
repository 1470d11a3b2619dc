"""``try``: changes that could make models faster, measured."""

import asyncio
import time
from typing import Literal

import click
import msgspec
from msgspec import Struct

from tui_profiler.messages import (
    STEP_KINDS,
    STEP_ONLY,
    TRIAL_KINDS,
    LoadSpec,
    Start,
    TrialKind,
    Wish,
)
from tui_profiler.reports.json.trials import trials_json
from tui_profiler.reports.text.trials import trials_table
from tui_profiler.session import EMPTY, Session
from tui_profiler.source.spawned import worker
from tui_profiler.verbs.outcome import DONE, complaint, exit_code
from tui_profiler.verbs.trials import try_out

from ..options import verbs as options
from ..options.model import Chosen, model_options_but
from ..terminal.standard_output import Results, columns, say, speaker

MOST_GIB = 1 << 20
_GIB = 1 << 30
_WORDS: dict[TrialKind, str] = {
    "fold-conv-bn": "fold BatchNorms into the preceding convolutions",
    "channels-last": "channels_last memory format",
    "bf16-autocast": "bfloat16 autocast",
    "fp16-autocast": "float16 autocast",
    "int8-dynamic": "dynamic int8 quantisation of linear layers",
    "compile": "torch.compile",
    "sdpa": "attention by scaled_dot_product_attention",
    "larger-batch": "a larger batch: speed-up per item",
    "inference-mode": "torch.inference_mode instead of no_grad",
    "threads": "another number of intra-op threads",
    "static-kv-cache": "a KV cache of fixed size",
    "remove-dropout-identity": "remove Dropout and Identity modules (no-ops in eval mode)",
    "checkpoint": "activation checkpointing of the repeated blocks (--train)",
    "optimizer-loop": "fused=True or foreach=True for the optimizer (--train)",
}
_EPILOG = "\b\nKinds:\n" + "\n".join(f"  {kind:<25}{_WORDS[kind]}" for kind in TRIAL_KINDS)


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

    def wishes(self, *, trains: bool) -> tuple[Wish, ...]:
        """Return what to try, each kind once: of a forward, or of a training step."""
        usual = STEP_KINDS if trains else tuple(k for k in TRIAL_KINDS if k not in STEP_ONLY)
        most = None if self.most_memory is None else int(self.most_memory * _GIB)
        most_seconds = max(self.most_seconds, self.seconds)
        return tuple(
            Wish(kind, seconds=self.seconds, most_seconds=most_seconds, most_bytes=most)
            for kind in dict.fromkeys(self.kinds or usual)
        )


@click.command("try", epilog=_EPILOG)
@options.models
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(TRIAL_KINDS),
    metavar="KIND",
    help="Kind of change to try; may be repeated. Default: all; with --train, all of training.",
)
@options.seconds(
    "--seconds", "Time that a trial measures, at most.", 10.0, options.FiniteRange(0.1, 3600)
)
@options.seconds(
    "--most-seconds",
    "Time limit of measuring; importing torch, loading and compiling do not count.",
    120.0,
    options.FiniteRange(1, 24 * 3600),
)
@click.option(
    "--most-memory",
    type=options.FiniteRange(0.1, MOST_GIB),
    metavar="GIB",
    help="Maximum memory per trial. Default: 80 % of the free memory.",
)
@options.seconds("--measure", "Measured time before the trials, for the predictions.", 3.0)
@options.table_or_json
@options.output
@model_options_but("update", "peak_flops", "generate")
@click.pass_obj
def try_verb(started_at: float, /, chosen: Chosen, **typed: object) -> int:
    """Try changes on each MODEL, and print predicted beside measured speed-ups.

    Each trial runs in a separate process, the changed model and the original in turn: the speed-up
    has a 95 % interval, and outputs are compared. The running model is not changed. With --train
    training steps are compared, and their gradients.
    """
    if not chosen.run:
        raise click.UsageError("try runs the model: omit --no-run.")
    asked = msgspec.convert(typed, TryOptions)
    options.require_models(asked.names, "changed")
    worst = DONE
    with Results(asked.output) as results:
        for name in asked.names:
            spec = chosen.spec(name, started_at=started_at, seconds=asked.measure)
            session = _tried(spec, asked, results)
            started_at = time.time()
            say(name, *complaint(session, debug=chosen.debug))
            worst = max(worst, exit_code(session))
            if session.trials:
                _write(session, asked, results)
    return worst


def _tried(spec: LoadSpec, asked: TryOptions, results: Results) -> Session:
    """Try everything on one model; where that is interrupted, write the trials until then."""
    wishes, kept = asked.wishes(trains=spec.train is not None), [EMPTY]
    progress = speaker(spec.model)
    try:
        return asyncio.run(
            try_out(worker(Start(spec)), wishes, progress=progress, kept=kept.append)
        )
    except KeyboardInterrupt:
        done = len(kept) - 1
        if done:
            progress(f"interrupted after {done} of {len(wishes)} trials; their results follow")
            _write(kept[-1], asked, results)
        raise


def _write(session: Session, asked: TryOptions, results: Results) -> None:
    if asked.layout == "json":
        results.add(trials_json(session) + "\n")
    else:
        results.add_lines(trials_table(session, columns=columns(asked.output)))
