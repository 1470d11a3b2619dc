"""Public programs, alone and under ``run``: equal output, and figures against independent timers.

    python -m benchmarks.training.public_programs --programs DIR [--keep DIR] [NAME...]

``DIR`` has a folder ``OWNER+NAME`` for each repository, with its files (``git clone --depth 1
https://github.com/OWNER/NAME DIR/OWNER+NAME``); a program whose file is not there is skipped.
Packages that a program needs (gymnasium, tyro, einops, pycocotools, gunicorn) may lie in folders,
``--site``. ``program_table.py`` lists the programs and makes their data.

Each program runs three times, with the same seed: alone; under ``tui-profiler run``, timed by
``program_timers.py`` as well, so that both measure the same seconds; and alone with its lines
traced, which gives the true shares of the lines of ``other``. What the first two print must be
equal but for printed times. Means of recorded steps are compared with those of all steps in the
same seconds: a part differs if it is off by more than 5 % of the step and by more than half the
95 % interval of a mean of that number of steps. ``--keep`` writes reports, recordings and times.

The exit code is 1 where an output, an exit code or a figure differs.
"""

import argparse
import http.client
import itertools
import json
import math
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import psutil

from benchmarks.training.program_table import OWN, PROGRAMS, Program
from benchmarks.training.program_timers import RAISED

TOLERANCE, LINE_TOLERANCE = 0.05, 0.1
PARTS = ("data", "forward", "backward", "clip", "optimizer", "other")
FIRST_STEPS = 100
"""Steps that are not compared with others for a slow one."""
LEAST_SAMPLES = 50
"""Fewer are marked, with their number: such shares are not judged."""
MOST_STEPS = 256
"""Steps of which the rate is reported."""
READY_SECONDS = 60.0
END_SECONDS = 30.0
LEAST_AGE_SECONDS = 2.0
"""Age of a process that is attached to, at least."""
GRADIENTS, TRAINING, PARAMETERS = 1, 2, 4
"""Bits of the mode of a forward (``program_timers.py``)."""
_TIMERS = Path(__file__).with_name("program_timers.py")
_ANY_TIME = r"0x[0-9a-f]+"


class Interval(NamedTuple):
    """A timed part of a program."""

    kind: str
    began: float
    ended: float
    name: str
    rows: int
    mode: int
    thread: int

    @property
    def is_between(self) -> bool:
        """Whether it is a forward without gradients, as of an evaluation or a rollout."""
        return self.kind == "forward" and not self.mode & GRADIENTS


class Step(NamedTuple):
    """A training step by the independent timers, in seconds."""

    began: float
    ended: float
    parts: Counter[str]
    between: float
    """Evaluations and rollouts."""
    rows: Counter[str]
    """Rows of the inputs of forwards with gradients, by model."""
    fetched: int
    """Rows of the batches of its data loader, each as long as the first input of a forward."""

    @property
    def seconds(self) -> float:
        """Length without evaluations and rollouts."""
        return self.ended - self.began - self.between


class Times(NamedTuple):
    """What the timers of one process kept."""

    intervals: list[Interval]
    stays: list[tuple[float, float, int]]
    lines: list[tuple[str, str, int]]


class Run(NamedTuple):
    """How a program ended and what it printed."""

    code: int
    output: str
    errors: str
    seconds: float
    attached: int | None = None
    """Process id of the process that was attached to."""


def read_times(begin: Path, pid: int | None = None) -> Times:
    """Return what a process kept; without ``pid`` that with the most intervals."""
    files = begin.parent.glob(f"{begin.name}{'*' if pid is None else pid}.json")
    kept = [json.loads(file.read_text()) for file in files]
    if not kept:
        return Times([], [], [])
    most = max(kept, key=lambda each: len(each["intervals"]))
    read = (Interval(*each) for each in most["intervals"])
    # A forward of a module without parameters is not one of a model.
    kept_intervals = [each for each in read if each.kind != "forward" or each.mode & PARAMETERS]
    intervals = sorted(kept_intervals, key=lambda each: each.began)
    lines = [(name, file, number) for name, file, number in most["lines"]]
    return Times(intervals, [tuple(each) for each in most["stays"]], lines)


def ending_times(intervals: Sequence[Interval]) -> list[float]:
    """Return when steps ended: those of the optimizer that steps least often, the last of a cycle.

    If one optimizer steps only after another has finished, the steps of all. Without any, the ends
    of backward passes.
    """
    steps: dict[str, list[float]] = defaultdict(list)
    for interval in intervals:
        if interval.kind == "optimizer":
            steps[interval.name].append(interval.ended)
    if not steps:
        return [interval.ended for interval in intervals if interval.kind == "backward"]
    spans = sorted((times[0], times[-1]) for times in steps.values())
    if all(after[0] > before[1] for before, after in itertools.pairwise(spans)):
        return sorted(time for times in steps.values() for time in times)
    fewest = min(map(len, steps.values()))
    rare = [times for times in steps.values() if len(times) <= fewest + 1]
    return max(rare, key=lambda times: times[0])


def exclusive_parts(intervals: Sequence[Interval]) -> Counter[str]:
    """Return the seconds of each kind; each moment belongs to the innermost interval."""
    parts: Counter[str] = Counter()
    open_intervals: list[Interval] = []
    for interval in intervals:
        while open_intervals and open_intervals[-1].ended <= interval.began:
            open_intervals.pop()
        seconds = interval.ended - interval.began
        parts[interval.kind] += seconds
        if open_intervals:
            parts[open_intervals[-1].kind] -= seconds
        open_intervals.append(interval)
    return parts


def spans_between(intervals: Sequence[Interval]) -> list[tuple[float, float]]:
    """Return when evaluations and rollouts began, with the wait for their first batch, and ended.

    A single forward without gradients and without a batch is a part of its step.
    """
    spans: list[tuple[float, float, int]] = []
    is_open = False
    before: Interval | None = None
    for interval in intervals:
        if interval.is_between:
            has_batch = before is not None and before.kind == "data"
            if is_open:
                began, _, count = spans.pop()
            else:
                began = before.began if before is not None and has_batch else interval.began
                count = has_batch
            spans.append((began, interval.ended, count + 1))
            is_open = True
        elif interval.kind != "data":
            is_open = False
        before = interval
    return [(began, ended) for began, ended, count in spans if count > 1]


def true_steps(times: Times) -> list[Step]:
    """Return the steps of the thread that trains."""
    threads = Counter(each.thread for each in times.intervals if each.kind == "backward")
    if not threads:
        return []
    [(thread, _)] = threads.most_common(1)
    intervals = [each for each in times.intervals if each.thread == thread]
    ends, steps, at = ending_times(intervals), [], 0
    for began, ended in itertools.pairwise(ends):
        while at < len(intervals) and intervals[at].ended <= began:
            at += 1
        inside = []
        for interval in intervals[at:]:
            if interval.began >= ended:
                break
            if interval.began >= began:
                inside.append(interval)
        spans = spans_between(inside)
        training = [
            each for each in inside if not any(start <= each.began < end for start, end in spans)
        ]
        rows = Counter[str]()
        for each in training:
            if each.kind == "forward" and each.mode & GRADIENTS:
                rows[each.name] += each.rows
        batches = sum(each.kind == "data" and each.name != RAISED for each in training)
        batch = next((each.rows for each in training if each.kind == "forward"), 0)
        parts = exclusive_parts(training)
        between = sum(end - start for start, end in spans)
        parts["other"] = ended - began - between - sum(parts.values())
        steps.append(Step(began, ended, parts, between, rows, batches * batch))
    return steps


def line_shares(times: Times, steps: Sequence[Step]) -> dict[str, float]:
    """Return the true shares of lines in ``other``: ``file:number`` and 0 to 1."""
    seconds: Counter[int] = Counter()
    at = 0
    evaluations = spans_between([each for each in times.intervals if each.kind != "clip"])
    skipped = iter(sorted(evaluations))
    span = next(skipped, None)
    for ended, stay, line in times.stays:
        while at < len(steps) and steps[at].ended < ended:
            at += 1
        if at == len(steps):
            break
        while span is not None and span[1] < ended:
            span = next(skipped, None)
        if ended >= steps[at].began and not (span is not None and span[0] <= ended <= span[1]):
            seconds[line] += stay
    whole = sum(seconds.values())
    shares: Counter[str] = Counter()
    for line, took in seconds.items():
        _, file, number = times.lines[line]
        shares[f"{Path(file).name}:{number}"] += took / whole
    return dict(shares)


def half_interval(values: Sequence[float], count: int) -> float:
    """Return half a 95 % interval of a mean of ``count`` of these values."""
    if len(values) < 2 or count < 1:
        return math.inf
    return 1.96 * statistics.stdev(values) / math.sqrt(count)


class Figures:
    """Figures beside the true ones, as lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.wrong: list[str] = []

    def compare(
        self, name: str, shown: float | None, true: float, allowed: float, text: str = "{:.4g}"
    ) -> None:
        """Add a figure.

        Args:
            name: of the figure.
            shown: by the profiler; None if it is unknown.
            true: by the timers.
            allowed: largest difference.
            text: format of both.
        """
        if shown is None:
            self.lines.append(f"  {name:24} {'-':>12} {text.format(true):>12}")
            return
        is_right = abs(shown - true) <= allowed
        mark = "" if is_right else "  WRONG"
        shown_text, true_text = text.format(shown), text.format(true)
        self.lines.append(f"  {name:24} {shown_text:>12} {true_text:>12}{mark}")
        if not is_right:
            self.wrong.append(f"{name}: {shown_text} shown, {true_text} true")

    def add(self, name: str, shown: object, true: object = "") -> None:
        """Add a figure that is not judged."""
        self.lines.append(f"  {name:24} {shown!s:>12} {true!s:>12}")


def compare_step(report: dict[str, Any], times: Times, traced: Times, *, is_cut: bool) -> Figures:
    """Return the figures of the step and of its lines beside the true ones.

    Args:
        report: of the profiler.
        times: of the same run.
        traced: of the run whose lines were traced.
        is_cut: whether the program was ended within its last step, which the profiler did not see.
    """
    figures, shown = Figures(), report["step"]
    steps = true_steps(times)[: -1 if is_cut else None]
    if not shown or not steps or not shown["last_count"]:
        figures.add("step", shown["count"] if shown else "none", f"{len(steps)} steps")
        if steps and not shown:
            figures.wrong.append(f"step: none shown, {len(steps)} steps true")
        return figures
    figures.compare("steps", shown["count"], len(steps) + 1, max(16.0, 0.1 * len(steps)), "{:.0f}")
    last = steps[-min(MOST_STEPS, shown["last_count"] or len(steps)) :]
    lengths = sorted(step.seconds for step in last)
    mean = statistics.fmean(lengths)
    # Means and parts are without those far longer, which have what else lies between two steps.
    usual = sorted(last, key=lambda step: step.seconds)[: len(last) - shown["last_longer"]] or last
    usual_mean = statistics.fmean(step.seconds for step in usual)
    figures.compare(
        "last mean, ms", _times(shown["last_mean_s"], 1e3), usual_mean * 1e3, 50 * usual_mean
    )
    median = statistics.median(lengths)
    figures.compare("p50, ms", _times(shown["p50_s"], 1e3), median * 1e3, 50 * median)
    figures.compare("steps/s", shown["per_s"], 1 / mean, TOLERANCE / mean)
    rows = sum((step.rows for step in last), Counter[str]())
    if rows:
        # Of several models without a loader: pairs, of which one has several inputs.
        items = sum(step.fetched for step in last) or min(rows.values())
        items_per_second = items / len(last) / mean
        allowed = TOLERANCE * items_per_second
        figures.compare("items/s", shown["items_per_s"], items_per_second, allowed)
    recorded = shown["recorded"]
    for part in PARTS:
        values = [step.parts[part] / usual_mean for step in usual]
        part_shown = shown["parts"][part]
        allowed = max(TOLERANCE, half_interval(values, recorded) if recorded else 0.0)
        share = None if part_shown is None else part_shown["share"]
        figures.compare(f"{part}, share", share, statistics.fmean(values), allowed, "{:.1%}")
    if recorded:
        whole = _known(shown["mean_s"])
        parts = sum(part["mean_s"] for part in shown["parts"].values() if part is not None)
        figures.compare("sum of parts, ms", parts * 1e3, whole * 1e3, 1e-3 * whole * 1e3)
        figures.add("mean of recorded, ms", f"{whole * 1e3:.4g}", f"of {recorded}")
    counted = steps[-shown["count"] :]
    between = sum(step.between for step in counted) / (counted[-1].ended - counted[0].began)
    shares = [kind["share"] for kind in shown["between"]]
    figures.compare("between steps", sum(shares), between, TOLERANCE, "{:.1%}")
    if slowest := shown["slowest"]:
        longest = max(step.seconds for step in counted[FIRST_STEPS:]) * 1e3
        figures.compare("slowest, ms", slowest["seconds"] * 1e3, longest, TOLERANCE * longest)
    shares = line_shares(traced, true_steps(traced))
    for line in (shown["other"] or [])[:3]:
        place = line["where"].rsplit(", ", 1)[-1].rsplit("/", 1)[-1]
        lines = re.fullmatch(r"(.+):(\d+)(?:-(\d+))?", place)
        is_judged = shares and (shown["other_samples"] or 0) >= LEAST_SAMPLES
        if not is_judged or lines is None:
            figures.add(f"line {place}"[:24], f"{line['share']:.1%}")
            continue
        file, first, last_line = lines[1], int(lines[2]), int(lines[3] or lines[2])
        true = sum(shares.get(f"{file}:{number}", 0.0) for number in range(first, last_line + 1))
        allowed = max(LINE_TOLERANCE, shown["other_error"] or 0.0)
        figures.compare(f"line {place}"[:24], line["share"], true, allowed, "{:.1%}")
    figures.add("samples of lines", shown["other_samples"])
    for place, share in sorted(shares.items(), key=lambda pair: -pair[1])[:3]:
        figures.add(f"true line {place}"[:24], "", f"{share:.1%}")
    return figures


def compare_models(report: dict[str, Any], times: Times) -> Figures:
    """Return the models that ran and the times of forwards."""
    figures = Figures()
    forwards: dict[str, list[Interval]] = defaultdict(list)
    for interval in times.intervals:
        if interval.kind == "forward":
            forwards[interval.name.split("#")[0]].append(interval)
    whole = sum(each.ended - each.began for kept in forwards.values() for each in kept)
    shown = {model["type"]: model for model in report["models"] or []}
    for name, kept in forwards.items():
        share = sum(each.ended - each.began for each in kept) / whole
        share_shown = shown.get(name, {}).get("share")
        figures.add(f"forwards of {name}"[:24], _text(share_shown), f"{share:.3g}, {len(kept)}")
    name = (report["model"] or "").split(".")[-1]
    figures.add("shown", name)
    kinds: dict[tuple[int, int], list[float]] = defaultdict(list)
    for kept in forwards.values():
        for each in kept:
            kinds[each.mode, each.rows].append(each.ended - each.began)
    for (mode, rows), seconds in sorted(kinds.items(), key=lambda pair: -len(pair[1]))[:3]:
        figures.add(
            f"forward, mode {mode} rows {rows}",
            "",
            f"{len(seconds)}: mean {statistics.fmean(seconds) * 1e3:.4g},"
            f" p50 {statistics.median(seconds) * 1e3:.4g},"
            f" last p50 {statistics.median(seconds[-200:]) * 1e3:.4g} ms",
        )
    if latency := report["latency"]:
        figures.add("latency", json.dumps(latency)[:300])
    return figures


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _known(value: float | None) -> float:
    return math.nan if value is None else value


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


class Runner:
    """Runs the programs, in copies of the environment.

    Args:
        programs: folder of checkouts.
        site: folders of packages that only the programs need.
        kept: folder of reports and times.
        threads: of torch.
        traces_lines: whether each program also runs alone with its lines traced.
    """

    def __init__(
        self,
        programs: Path,
        site: Sequence[Path],
        kept: Path,
        *,
        threads: int,
        traces_lines: bool,
    ) -> None:
        self._programs, self._kept, self._traces_lines = programs, kept, traces_lines
        injected = kept / "site-packages"  # Code in such a folder is a library's.
        injected.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_TIMERS, injected / "sitecustomize.py")
        self._path = os.pathsep.join(map(str, [injected, *site]))
        self._threads = threads

    def run(self, name: str) -> list[str] | None:
        """Run a program three times; prints its figures, returns what is wrong.

        None: the program is not there.
        """
        program = PROGRAMS[name]
        folder = (self._programs / program.repository / program.folder).resolve()
        if program.make_data is not None and (program.repository == OWN or folder.exists()):
            program.make_data(folder)
        file = program.arguments.split()[0]
        if not folder.exists() or (file != "-m" and not (folder / file).exists()):
            print(f"{name}: skipped, {folder / file} is not there", flush=True)
            return None
        begin = self._kept / re.sub(r"\W+", "_", name)
        for old in begin.parent.glob(f"{begin.name}[-.]*"):
            old.unlink()
        alone = self._alone(program, folder, {})
        report, recording = begin.with_suffix(".json"), begin.with_suffix(".rec")
        watched = self._watched(program, folder, begin, report, recording)
        traced = alone
        if self._traces_lines:
            files = str((folder / program.files).resolve())
            given = {"PROGRAM_TIMES": f"{begin}-traced-", "PROGRAM_LINES": files}
            traced = self._alone(program, folder, given)
        wrong = _compare_outputs(program, alone, watched, "under run")
        wrong += _compare_outputs(program, alone, traced, "traced")
        begin.with_suffix(".out").write_text(watched.output + "\n--- errors\n" + watched.errors)
        begin.with_suffix(".alone").write_text(alone.output + "\n--- errors\n" + alone.errors)
        print(
            f"{name}: exit {alone.code}, {watched.code} under run, {traced.code} traced;"
            f" {alone.seconds:.0f}, {watched.seconds:.0f}, {traced.seconds:.0f} s"
        )
        if report.exists():
            shown = json.loads(report.read_text())
            times = read_times(Path(f"{begin}-run-"), watched.attached)
            tables = [compare_models(shown, times)]
            if true_steps(times) or shown["step"]:
                lines = read_times(Path(f"{begin}-traced-"))
                tables.insert(0, compare_step(shown, times, lines, is_cut=program.steps > 0))
            for figures in tables:
                print("\n".join(figures.lines))
                wrong += figures.wrong
        else:
            wrong.append(f"no report: {watched.errors.strip().splitlines()[-1:]}")
        self._write_text(begin, recording)
        for sentence in wrong:
            print(f"  wrong: {sentence}")
        print(flush=True)
        return wrong

    def _write_text(self, begin: Path, recording: Path) -> None:
        """Write the text report with findings, to be read."""
        if recording.exists():
            command = [_profiler(), "report", str(recording), "--findings"]
            environment = {**os.environ, "PYTHONPATH": self._path}
            read = subprocess.run(
                command, capture_output=True, text=True, check=False, env=environment
            )
            begin.with_suffix(".txt").write_text(read.stdout + read.stderr)

    def _alone(self, program: Program, folder: Path, environment: dict[str, str]) -> Run:
        return self._run(program, folder, [sys.executable, *program.arguments.split()], environment)

    def _watched(
        self, program: Program, folder: Path, begin: Path, report: Path, recording: Path
    ) -> Run:
        options = ["--format", "json", "--output", str(report), "--record", str(recording)]
        command = [_profiler(), "run", *options, *program.arguments.split()]
        given = {"PROGRAM_TIMES": f"{begin}-run-"}
        return self._run(program, folder, command, given, report if program.attaches else None)

    def _run(
        self,
        program: Program,
        folder: Path,
        command: list[str],
        given: dict[str, str],
        report: Path | None = None,
    ) -> Run:
        """Run a command; with ``report`` one of the processes that it starts is reported there."""
        environment = {
            **os.environ,
            "PYTHONPATH": f"{self._path}{os.pathsep}{(folder / program.files).resolve()}",
            "PROGRAM_SEED": "0",
            "PROGRAM_STEPS": str(program.steps),
            "OMP_NUM_THREADS": str(self._threads),
            "MPLBACKEND": "Agg",
            "TORCH_HOME": str(folder / "hub"),
            "HF_HUB_OFFLINE": "1",
            "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1",  # For programs older than torch 2.6.
            **given,
        }
        began = time.monotonic()
        with TemporaryDirectory() as kept:
            output, errors = Path(kept, "output"), Path(kept, "errors")
            with output.open("wb") as out, errors.open("wb") as err:
                process = subprocess.Popen(
                    command,
                    cwd=folder,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                )
                with _ended(process), _attached(process, report) as attached:
                    answers = _ask(program, process) if program.requests else ""
                    code = process.wait(END_SECONDS if program.requests else program.seconds)
            printed = answers + output.read_text(errors="replace")
            seconds = time.monotonic() - began
            pid = attached[0] if attached else None
            return Run(code, printed, errors.read_text(errors="replace"), seconds, pid)


@contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """End the process and what it started, if it has not ended by then."""
    try:
        yield
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        raise
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _ask(program: Program, process: subprocess.Popen[bytes]) -> str:
    """Send the requests of a server, then end it; returns the answers."""
    port = int(re.findall(r"(?:--port |:)(\d{4})", program.arguments)[0])
    deadline, answers = time.monotonic() + READY_SECONDS, []
    for number, rows in enumerate(program.requests):
        while True:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
                connection.request("GET", f"/{rows}")
                answers.append(connection.getresponse().read().decode())
                connection.close()
                break
            except OSError:
                # Until it listens.
                if number or time.monotonic() > deadline or process.poll() is not None:
                    raise
                time.sleep(0.2)
        time.sleep(0.01)
    process.send_signal(program.stop)
    return "".join(answers)


@contextmanager
def _attached(process: subprocess.Popen[bytes], report: Path | None) -> Iterator[list[int]]:
    """Report a process that ``process`` has started, meanwhile; its process id comes at the end."""
    pids: list[int] = []
    if report is None:
        yield pids
        return
    parent = psutil.Process(process.pid)
    thread = threading.Thread(target=lambda: pids.extend(_attach(parent, report)), daemon=True)
    thread.start()
    yield pids
    thread.join(END_SECONDS)


def _attach(parent: psutil.Process, report: Path) -> list[int]:
    """Report a process that the script of ``run`` has started, once one runs a model.

    Returns:
        Its process id; nothing if there was none in time.
    """
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        for process in parent.children(recursive=True) if parent.is_running() else ():
            try:
                is_script = process.ppid() == parent.pid
                has_torch = any("libtorch_python" in part.path for part in process.memory_maps())
                is_young = time.time() - process.create_time() < LEAST_AGE_SECONDS
            except psutil.Error:
                continue
            if has_torch and not is_script and not is_young:
                command = [_profiler(), "report", "--attach", str(process.pid), "--measure", "8"]
                command += ["--format", "json", "--output", str(report)]
                subprocess.run(command, capture_output=True, check=False)
                return [process.pid]
        time.sleep(1.0)
    return []


def _profiler() -> str:
    return str(Path(sys.executable).with_name("tui-profiler"))


def _masked(program: Program, text: str) -> list[str]:
    for pattern in (*program.masks, _ANY_TIME):
        text = re.sub(pattern, "…", text)
    return text.replace("\r", "\n").splitlines()


def _compare_outputs(program: Program, alone: Run, other: Run, how: str) -> list[str]:
    """Return how the output or exit code of a run differs from that of the program alone."""
    wrong = []
    if alone.code != other.code:
        wrong.append(f"exit code {other.code} {how}, {alone.code} alone: {other.errors[-300:]}")
    before, after = _masked(program, alone.output), _masked(program, other.output)
    if before != after:
        pairs = zip(before, after, strict=False)
        first = next((pair for pair in pairs if pair[0] != pair[1]), (len(before), len(after)))
        wrong.append(f"output {how}: {first[1]!r}, alone: {first[0]!r}")
    return wrong


def run_all(runner: Runner, names: Iterable[str]) -> int:
    """Run programs; returns how many are wrong."""
    wrong = {}
    for name in names:
        try:
            found = runner.run(name)
        except subprocess.TimeoutExpired as error:
            found = [f"longer than {error.timeout:.0f} s"]
            print(f"{name}: {found[0]}", flush=True)
        if found:
            wrong[name] = found
    for name, sentences in wrong.items():
        print(f"{name}: {'; '.join(sentences)}"[:400])
    return len(wrong)


def main() -> int:
    """Print the figures of every program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", default=list(PROGRAMS))
    parser.add_argument("--programs", type=Path, required=True)
    parser.add_argument("--site", type=Path, action="append", default=[])
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--no-lines", action="store_true", help="without the third run")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    with TemporaryDirectory() as temporary:
        kept = (options.keep or Path(temporary)).resolve()
        site = [folder.resolve() for folder in options.site]
        runner = Runner(
            options.programs.resolve(),
            site,
            kept,
            threads=options.threads,
            traces_lines=not options.no_lines,
        )
        return int(run_all(runner, options.names) > 0)


if __name__ == "__main__":
    sys.exit(main())
