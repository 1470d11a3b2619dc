"""Which models load and trace, by which method, and why the others do not.

``python benchmarks/costs/coverage.py [--family NAME]... [--seed N] [--sample N] [--no-run]`` takes
every architecture of torchvision (those made for whole numbers both as floating point and as whole
numbers), a random sample of timm's, and YOLO v5, v8 and 11 from n to m. Those of transformers are
tried by ``coverage_transformers.py``.

Each model is loaded and traced as the command line would, in a process of its own with a limit of
time and memory; without ``--no-run`` it also gets its values and runs once. A failure is printed
with its reason. Seconds are those of the process on the CPU, on one thread, for loading and
tracing; importing the libraries is done beforehand, once.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import os
import random
import resource
import select
import signal
import statistics
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.architectures.timm_models import timm_names
from tui_profiler.probe.load.architectures.torchvision_models import (
    architecture_names,
    task_of,
)
from tui_profiler.probe.load.load import load
from tui_profiler.probe.trace.trace import trace

SEED = 20261121
SAMPLE = 60
_SECONDS = 300.0
_GIB = 24.0


@dataclass(frozen=True)
class Subject:
    """One model to be tried."""

    family: str
    """Under which it is counted: ``torchvision``, ``timm``."""
    name: str
    """As it is printed."""
    spec: LoadSpec
    """What the command line would ask for."""


@dataclass(frozen=True)
class Outcome:
    """What came of one model."""

    family: str
    name: str
    method: str = ""
    """By which it was traced; empty where it was not."""
    load_seconds: float = 0.0
    trace_seconds: float = 0.0
    attempts: list[tuple[str, str]] = field(default_factory=list)
    """(method, error) of each attempt, in order."""
    inputs: list[str] = field(default_factory=list)
    gmacs: float = 0.0
    parameters: int = 0
    uncosted: list[str] = field(default_factory=list)
    bounded: list[str] = field(default_factory=list)
    run: str = ""
    """``ran``, why it did not, or empty where it was not asked to."""
    failure: str = ""
    """Why there is no tree."""

    @property
    def seconds(self) -> float:
        """Return the seconds of loading and tracing together."""
        return self.load_seconds + self.trace_seconds


def torchvision_subjects(seed: int, sample: int) -> list[Subject]:
    """Return every architecture, quantised ones both as float and as quantised."""
    subjects = [Subject("torchvision", name, _spec(name)) for name in architecture_names()]
    whole = [name for name in architecture_names() if task_of(name) == "quantization"]
    arguments = '{"quantize": true}'
    return subjects + [
        Subject("torchvision, whole numbers", name, _spec(name, arguments)) for name in whole
    ]


def timm_subjects(seed: int, sample: int) -> list[Subject]:
    """Return a random sample of timm's architectures."""
    chosen = random.Random(seed).sample(timm_names(), min(sample, len(timm_names())))
    return [Subject("timm", name, _spec(f"timm:{name}")) for name in chosen]


def yolo_subjects(seed: int, sample: int) -> list[Subject]:
    """Return YOLO v5, v8 and 11 in the three smallest scales, other tasks in the smallest."""
    names = [f"{version}{scale}" for version in ("yolov5", "yolov8", "yolo11") for scale in "nsm"]
    tasks = ("seg", "pose", "obb", "cls")
    names += [f"{version}n-{task}" for version in ("yolov8", "yolo11") for task in tasks]
    return [Subject("YOLO", name, _spec(f"{name}.yaml")) for name in names]


FAMILIES: dict[str, Callable[[int, int], list[Subject]]] = {
    "torchvision": torchvision_subjects,
    "timm": timm_subjects,
    "yolo": yolo_subjects,
}


def tried(subject: Subject, *, running: bool) -> Outcome:
    """Load and trace one model, and run it where asked to; a failure is an outcome."""
    began = time.process_time()
    try:
        loaded = load(subject.spec)
        candidates = tuple(loaded.candidates)
        read = time.process_time()
        made = trace(loaded.model, candidates, subject.spec.tracer, name=subject.name)
    except (Exception, SystemExit) as error:
        return Outcome(subject.family, subject.name, failure=_one_line(error))
    ended = time.process_time()
    cost = made.costs[0]
    return Outcome(
        subject.family,
        subject.name,
        method=made.method,
        load_seconds=read - began,
        trace_seconds=ended - read,
        attempts=[(attempt.method, attempt.error) for attempt in made.done.attempts],
        inputs=[f"{s.name} {tuple(s.shape)} {s.dtype}: {s.why}" for s in made.inputs.specs],
        gmacs=cost.macs / 1e9,
        parameters=cost.parameters,
        uncosted=list(made.done.uncosted),
        bounded=list(made.done.bounded),
        run=_run(loaded, made.inputs) if running else "",
    )


def in_a_process(subject: Subject, *, running: bool, seconds: float, gib: float) -> Outcome:
    """Try one model in a fork of this process, within limits of wall time and address space."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        _child(subject, writer, running, gib)
    os.close(writer)
    text, is_whole = _read_within(reader, seconds)
    os.close(reader)
    if not is_whole:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if is_whole and text:
        return Outcome(**json.loads(text))
    ended = os.waitstatus_to_exitcode(status)
    why = f"took more than {seconds:g} s" if not is_whole else f"its process ended with {ended}"
    return Outcome(subject.family, subject.name, failure=why)


def table(outcomes: Iterable[Outcome]) -> str:
    """Return one line per family, then every failure and every model with a remark."""
    outcomes = list(outcomes)
    lines = [f"{'family':28} {'tried':>6} {'traced':>7} {'median s':>9} {'most s':>7}  by method"]
    for family in dict.fromkeys(outcome.family for outcome in outcomes):
        of_family = [outcome for outcome in outcomes if outcome.family == family]
        traced = [outcome for outcome in of_family if outcome.method]
        times = [outcome.seconds for outcome in traced] or [0.0]
        methods = Counter(outcome.method for outcome in traced)
        lines.append(
            f"{family:28} {len(of_family):6} {len(traced):7} {statistics.median(times):9.2f}"
            f" {max(times):7.2f}  {', '.join(f'{m} {n}' for m, n in methods.most_common())}"
        )
    lines += ["", *_remarks(outcomes)]
    return "\n".join(lines)


def main() -> int:
    """Try the models that were asked for; 1 where one did not trace, or did not run."""
    parser = argparse.ArgumentParser(description="Which models load and trace.")
    parser.add_argument("--family", action="append", choices=list(FAMILIES))
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--sample", type=int, default=SAMPLE)
    parser.add_argument("--only", default="", help="names that hold this")
    parser.add_argument("--no-run", dest="run", action="store_false")
    parser.add_argument("--seconds", type=float, default=_SECONDS, help="for one model")
    parser.add_argument("--gib", type=float, default=_GIB, help="of address space")
    parser.add_argument("--output", type=Path, help="JSON Lines, one for each model")
    chosen = parser.parse_args()
    subjects = [
        subject
        for family in chosen.family or FAMILIES
        for subject in FAMILIES[family](chosen.seed, chosen.sample)
        if chosen.only in subject.name
    ]
    _import_beforehand({subject.family for subject in subjects})
    outcomes = []
    for place, subject in enumerate(subjects, start=1):
        outcome = in_a_process(subject, running=chosen.run, seconds=chosen.seconds, gib=chosen.gib)
        outcomes.append(outcome)
        said = outcome.failure or f"{outcome.method}, {outcome.seconds:.2f} s, {outcome.run}"
        print(f"{place}/{len(subjects)} {subject.name}: {said}", file=sys.stderr, flush=True)
    if chosen.output:
        chosen.output.write_text("".join(json.dumps(asdict(o)) + "\n" for o in outcomes))
    print(f"seed {chosen.seed}, sample {chosen.sample}, {'run' if chosen.run else 'not run'}")
    print(table(outcomes))
    return int(any(o.failure or o.run not in ("", "ran") for o in outcomes))


def _spec(model: str, arguments: str = "") -> LoadSpec:
    return LoadSpec(model=model, arguments=arguments, threads=1, ceilings=False)


def _run(loaded: object, inputs: object) -> str:
    """Initialise the model's weights and call it once on real tensors."""
    if loaded.cannot_run:
        return f"not run: {loaded.cannot_run}"
    try:
        model = loaded.initialise() if loaded.initialise is not None else loaded.model
        with torch.no_grad():
            model(*inputs.args, **inputs.kwargs)
    except (Exception, SystemExit) as error:
        return _one_line(error)
    return "ran"


def _child(subject: Subject, writer: int, running: bool, gib: float) -> None:
    """Try it, write the outcome and end, past everything that the parent left to be done."""
    try:
        limit = int(gib * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome = tried(subject, running=running)
        os.write(writer, json.dumps(asdict(outcome)).encode())
    finally:
        os._exit(0)


def _read_within(reader: int, seconds: float) -> tuple[str, bool]:
    """Read to the end; False where it did not come in time."""
    deadline = time.monotonic() + seconds
    parts: list[bytes] = []
    while True:
        ready, _, _ = select.select([reader], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return "", False
        part = os.read(reader, 1 << 16)
        if not part:
            return b"".join(parts).decode(), True
        parts.append(part)


def _remarks(outcomes: list[Outcome]) -> list[str]:
    lines = []
    for outcome in outcomes:
        label = f"{outcome.family} {outcome.name}"
        if outcome.failure:
            lines.append(f"NOT TRACED  {label}: {outcome.failure}")
        elif outcome.run not in ("", "ran"):
            lines.append(f"NOT RUN     {label}: {outcome.run}")
        if outcome.method and len(outcome.attempts) > 1:
            first = next(error for _, error in outcome.attempts)
            lines.append(f"later       {label}: {outcome.method}, as {first}")
        if outcome.uncosted:
            lines.append(f"uncosted    {label}: {', '.join(outcome.uncosted)}")
        if outcome.bounded:
            lines.append(f"bound       {label}: {', '.join(outcome.bounded)}")
    return lines


def _import_beforehand(families: set[str]) -> None:
    """Import what the models need, so that no process of theirs pays for it."""
    if "timm" in families:
        importlib.import_module("timm")
    if "YOLO" in families:
        load(_spec("yolov8n-cls.yaml"))


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:400]


if __name__ == "__main__":
    sys.exit(main())
