"""How much of ``other`` each line of the program takes, by samples of the stack.

1. ``other`` is divided into regions: what lies between two parts of a step, such as between the
   backward pass and the optimizer. How long each region is, is measured; samples only divide it. A
   region into which no sample fell is in no line: ``unsampled``.
2. The line of a hidden sample was executed before the line in which its stack was read (rule 3 of
   ``source_lines.py``). It lies behind the last line, in the order of execution, that is known to
   give up the GIL (a sleep, an operator, a part of the step), and is in Python. Where samples that
   were forced saw lines in there, it is one of these, in proportion; else all that is known is that
   stretch of lines.
3. The order of execution is that of the lines of a function; in a loop its last lines come before
   its first ones.
"""

import dis
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import repeat
from types import CodeType
from typing import NamedTuple, TypeAlias

from tui_profiler.messages.training import SourceLine
from tui_profiler.probe.measure.step.source_lines import Frame, Sample, text_of

LAST_SAMPLES = 256
"""Of the stack, in ``other``: few fall into one of a few milliseconds."""
MOST_LINES = 8
MOST_KNOWN = 4096
"""Lines that are known to give up the GIL."""
LONGEST_CODE = 20_000
"""Bytes of a function in which loops are looked for."""
UNTOLD_STEPS = 256
"""Number of last steps for which it is known whether their samples could be told."""

Region: TypeAlias = tuple[str, str]
"""Part of the step before a time in ``other``, and the one after it, forwards excepted; empty at
the begin and the end of a step."""

_CALLS = frozenset(
    code
    for name, code in dis.opmap.items()
    if name.startswith(("CALL", "BINARY_OP", "COMPARE_OP", "CONTAINS_OP", "FOR_ITER"))
    and not name.startswith("CALL_INTRINSIC")
)
"""Instructions that may take long."""


class Stretch(NamedTuple):
    """A line of the program, or several of one function of which one was executed."""

    function: str
    file: str
    first: int
    last: int


class Placed(NamedTuple):
    """A sample in ``other``."""

    sample: Sample
    region: Region


class Shares(NamedTuple):
    """Lines of ``other``."""

    lines: tuple[SourceLine, ...]
    """Most time first."""
    rest: float
    """Share of ``other`` in further lines, 0 to 1."""
    unsampled: float
    """Share of ``other`` in regions without a sample, 0 to 1."""
    samples: int


class LineShares:
    """Lines of the last samples that fell into ``other``, however many steps that takes."""

    def __init__(self) -> None:
        self.samples: deque[Placed] = deque(maxlen=LAST_SAMPLES)
        self._known: dict[tuple[CodeType, int], bool] = {}
        """Lines known to give up the GIL; with whether more of the line is executed after it."""
        self._are_untold: deque[bool] = deque(maxlen=UNTOLD_STEPS)
        self.untold = 0
        """Of the last steps, those whose samples could not be told."""

    def note(self, samples: Iterable[Sample]) -> None:
        """Learn from samples which lines give up the GIL; also from those outside of ``other``."""
        for sample in samples:
            if sample.how == "forced":
                continue
            for depth, frame in enumerate(sample.frames):
                is_whole = depth == 0 and sample.is_direct and not _calls(frame).after
                key = frame.code, frame.number
                self._known[key] = self._known.pop(key, False) or not is_whole
                if len(self._known) > MOST_KNOWN:
                    del self._known[next(iter(self._known))]

    def add_none(self, steps: int) -> None:
        """Add steps without a sample."""
        if self.untold:
            for _ in range(min(steps, UNTOLD_STEPS)):
                self.add(())
        else:
            self._are_untold.extend(repeat(False, min(steps, UNTOLD_STEPS)))

    def add(self, samples: Sequence[Placed], *, is_untold: bool = False) -> None:
        """Add those of one step; or that it is not known whether they are in other models."""
        if len(self._are_untold) == UNTOLD_STEPS:
            self.untold -= self._are_untold[0]
        self._are_untold.append(is_untold)
        self.untold += is_untold
        self.samples.extend(samples)

    def of(
        self, samples: Sequence[Placed], region_seconds: dict[Region, float] | None = None
    ) -> Shares:
        """Return the lines of samples.

        Args:
            samples: in ``other``.
            region_seconds: mean length of each region; None: each sample is as much.
        """
        by_region: dict[Region, list[Sample]] = {}
        for one in samples:
            by_region.setdefault(one.region, []).append(one.sample)
        whole = sum(region_seconds.values()) if region_seconds else 0.0
        weights = {region: len(each) / len(samples) for region, each in by_region.items()}
        unsampled = 0.0
        if region_seconds and any(region_seconds.get(region) for region in by_region):
            # Regions that are new, or only in steps that are not recorded, have no length yet.
            weights = {region: region_seconds.get(region, 0.0) / whole for region in by_region}
            unsampled = max(1.0 - sum(weights.values()), 0.0) if samples else 1.0
        forced = [one.sample for one in samples if one.sample.how == "forced"]
        lines: dict[Stretch, float] = {}
        for region, each in by_region.items():
            for sample in each:
                for stretch, part in self._stretches(sample, forced).items():
                    share = part * weights[region] / len(each)
                    lines[stretch] = lines.get(stretch, 0.0) + share
        by_share = sorted(lines.items(), key=lambda one: -one[1])[:MOST_LINES]
        named = tuple(_source_line(line, share) for line, share in by_share if share > 0)
        rest = sum(lines.values()) - sum(one.share for one in named)
        return Shares(named, rest if rest > 1e-9 else 0.0, unsampled, len(samples))

    def _stretches(self, sample: Sample, forced: Sequence[Sample]) -> dict[Stretch, float]:
        """Return the lines that were executed when a sample was due, with the share of each."""
        if sample.how != "hidden" or not sample.frames:
            line = sample.line
            return {Stretch(line.function, line.file, line.number, line.number): 1.0}
        code, numbers = self._before(sample)
        inside: Counter[Stretch] = Counter()
        for one in forced:
            if any(frame.code is code and frame.number in numbers for frame in one.frames):
                line = one.line
                inside[Stretch(line.function, line.file, line.number, line.number)] += 1
        if inside:
            return {line: count / inside.total() for line, count in inside.items()}
        stretch = Stretch(code.co_qualname, code.co_filename, min(numbers), max(numbers))
        return {stretch: 1.0}

    def _before(self, sample: Sample) -> tuple[CodeType, set[int]]:
        """Return the lines of a function in one of which the thread was before a hidden sample."""
        known = self._known
        for depth, frame in enumerate(sample.frames):
            code, number = frame.code, frame.number
            is_own = bool(depth) or not sample.is_direct or _calls(frame).before
            lines = {number} if is_own else set()
            for scope in _loops_around(code, frame.instruction):
                before = [one for one in scope if one < number]
                after = [one for one in scope if one > number]
                for there, then in ((before, ()), (after, before)):
                    last = next((one for one in reversed(there) if (code, one) in known), None)
                    if last is not None:
                        lines |= {*there[there.index(last) + (not known[code, last]) :], *then}
                        return code, lines or {last}
                lines |= {*before, *after}
            before = [one for one in _lines(code) if one < number]
            last = next((one for one in reversed(before) if (code, one) in known), None)
            if last is not None:
                lines |= {*before[before.index(last) + (not known[code, last]) :]}
                return code, lines or {last}
            if depth == len(sample.frames) - 1:
                return code, lines | {*before} or {number}
        return sample.frames[0].code, {sample.line.number}


class _Calls(NamedTuple):
    before: bool
    after: bool


@lru_cache(maxsize=2048)
def _calls_at(code: CodeType, instruction: int) -> _Calls:
    """Return whether a line runs something before an instruction of it, and after it."""
    compiled = code.co_code
    for start, end, _ in code.co_lines():
        if start <= instruction < end:
            before = not _CALLS.isdisjoint(compiled[start:instruction:2])
            return _Calls(before, not _CALLS.isdisjoint(compiled[instruction + 2 : end : 2]))
    return _Calls(False, False)


def _calls(frame: Frame) -> _Calls:
    return _calls_at(frame.code, frame.instruction)


@lru_cache(maxsize=1024)
def _lines(code: CodeType) -> tuple[int, ...]:
    """Return the lines of a function that are executed, in order."""
    found = {line for *_, line in code.co_lines() if line and line != code.co_firstlineno}
    if code.co_name == "<module>":
        found = {line for *_, line in code.co_lines() if line}
    return tuple(sorted(found))


@lru_cache(maxsize=1024)
def _loops(code: CodeType) -> tuple[tuple[int, int, tuple[int, ...]], ...]:
    """Return the loops of a function, inner ones first: offsets of its begin and end, its lines."""
    if len(code.co_code) > LONGEST_CODE:
        return ()
    found = []
    starts = [(start, end, line) for start, end, line in code.co_lines() if line]
    for one in dis.get_instructions(code):
        if "JUMP" in one.opname and isinstance(one.argval, int) and one.argval < one.offset:
            lines = {
                line for start, end, line in starts if start <= one.offset and end > one.argval
            }
            found.append((one.argval, one.offset, tuple(sorted(lines))))
    return tuple(sorted(found, key=lambda loop: loop[1] - loop[0]))


def _loops_around(code: CodeType, instruction: int) -> list[tuple[int, ...]]:
    """Return the lines of the loops that an instruction is in, inner ones first."""
    return [lines for begin, end, lines in _loops(code) if begin <= instruction <= end]


def _source_line(line: Stretch, share: float) -> SourceLine:
    first = line.first if line.first != line.last else 0
    text = "" if first else text_of(line.file, line.last)
    return SourceLine(line.function, line.file, line.last, share, text, first)


class RegionFinder:
    """Regions of one step.

    Args:
        parts: when each part but forwards began and ended, and its name.
    """

    def __init__(self, parts: Iterable[tuple[float, float, str]]) -> None:
        self._ends: list[float] = []
        self._names: list[str] = []
        until = 0.0
        for _, ended, name in sorted(parts):
            if ended > until:  # Else it is inside of the one before.
                self._ends.append(ended)
                self._names.append(name)
                until = ended

    def at(self, second: float) -> Region:
        """Return the region that a second in ``other`` lies in."""
        place = bisect_right(self._ends, second)
        before = self._names[place - 1] if place else ""
        after = self._names[place] if place < len(self._names) else ""
        return before, after


def seconds_of_regions(
    other: Iterable[tuple[float, float]], regions: RegionFinder
) -> dict[Region, float]:
    """Return the seconds in each region, of the times in which ``other`` was."""
    found: dict[Region, float] = {}
    for began, ended in other:
        region = regions.at((began + ended) / 2)
        found[region] = found.get(region, 0.0) + ended - began
    return found
