"""``--check``: a limit on one figure of the JSON report, such as ``latency.p50_s<=10ms``.

1. A path is that of the JSON object. In a list, ``[conv1]`` is the entry with that path or name,
   ``[type=Conv2d]`` all entries of which that is so, and ``[0]`` the first.
2. A check holds where every figure that it names is known and is within the limit. What is not
   known does not hold, and says why; nor does a bound that could be beyond the limit.
3. What is no check, or names nothing that a report has, is an error and not a check that fails.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from operator import eq, ge, gt, le, lt
from typing import Literal, TypeAlias

from msgspec import Struct

from tui_profiler.reports.json.figure_bounds import figure_bound
from tui_profiler.reports.json.report import Report
from tui_profiler.reports.json_values import Json, paths

Quantity: TypeAlias = Literal[
    "time",
    "bytes",
    "bandwidth",
    "share",
    "work",
    "speed",
    "rate",
    "energy",
    "power",
    "frequency",
    "temperature",
    "mass",
    "number",
]

_NUMBER = re.compile(r"([-+]?(?:\d[\d_]*)?\.?\d+(?:[eE][-+]?\d+)?|[-+]?\d+\.)\s*([A-Za-zµμ%°/]*)")
_PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {f"{prefix}i": 1024.0**power for power, prefix in enumerate("KMGTPE", start=1)}
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
_SMALL = {"m": 1e-3, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "n": 1e-9}
_SYMBOLS: Mapping[Quantity, tuple[str, ...]] = {
    "bytes": ("B",),
    "bandwidth": ("B/s", "B"),
    "work": ("FLOPs", "FLOP", "MACs", "MAC"),
    "speed": ("FLOP/s", "FLOPS"),
    "rate": ("/s",),
    "energy": ("J",),
    "power": ("W",),
    "frequency": ("Hz",),
    "temperature": ("°C", "C"),
    "mass": ("g",),
}
"""What may stand behind a prefix; a prefix alone may too."""
_SHARES = re.compile(
    r"(share|ratio|interval|utilisation|closure|fragmentation|parallel_efficiency|sparsity|prunable"
    r"|mfu|hfu|usage|hit_rate|pruned\[\]\.loss|width\.error"
    r"|ceilings\.(compute\[\]|caches\[\]|memory|operator)\.busy"
    r"|(activation|gradients?)\.(zeros|nan|inf))(\[\])*"
)
_BY_NAME: tuple[tuple[Quantity, re.Pattern[str]], ...] = (
    ("bandwidth", re.compile(r".*bytes_per_s")),
    ("speed", re.compile(r".*flops_per_s")),
    ("rate", re.compile(r"(.*_)?per_s")),
    ("time", re.compile(r".*_s|seconds")),
    ("work", re.compile(r"(.*_)?(flops|macs)")),
    ("bytes", re.compile(r".*bytes.*|memory|total_memory")),
    ("energy", re.compile(r"(.*_)?joules(_per_item)?|.*_j")),
    ("power", re.compile(r".*_w|(.*_)?watts")),
    ("frequency", re.compile(r".*_hz")),
    ("temperature", re.compile(r"(.*_)?celsius")),
    ("mass", re.compile(r".*co2_g")),
)
"""Of figures that are called by what they are counted in."""
_BY_PATH: tuple[tuple[Quantity, re.Pattern[str]], ...] = (
    (
        "bytes",
        re.compile(r"(.*\.)?peak_memory\.[^.]*|train\.memory\.([^.\[]*|checkpointing\[\]\.peak)"),
    ),
    ("energy", re.compile(r".*\.energy\.(low|high)")),
)
_NAMES: Mapping[Quantity, str] = {
    "time": "a time: write 0.5, 0.5s, 10ms, 10us or 10ns",
    "bytes": "in bytes: write 5000, 512MiB or 2GB",
    "bandwidth": "in bytes per second: write 5000, 10GB/s or 10GiB/s",
    "share": "a share of 0 to 1: write 0.5 or 50%",
    "work": "a number: write 5000, 5G or 5GFLOP",
    "speed": "in FLOP per second: write 5e9, 5G or 5GFLOP/s",
    "rate": "a number per second: write 800, 1.5k or 800/s",
    "energy": "in joules: write 0.5, 0.5J or 500mJ",
    "power": "in watts: write 300, 300W or 0.3kW",
    "frequency": "in hertz: write 1.5e9 or 1.5GHz",
    "temperature": "in degrees Celsius: write 80 or 80C",
    "mass": "in grams: write 0.5, 0.5g or 500mg",
    "number": "a number: write 5000 or 5k",
}
_PARTS = re.compile(
    r"\s*(?P<path>(?:\[[^\]]*\]|[^<>=\[])+?)\s*(?P<operator><=|>=|==|<|>)(?P<limit>.*)"
)
_STEP = re.compile(r"(?:^|\.)(?P<name>[^.\[\]]+)|\[(?P<entry>[^\]]*)\]")
_IDENTIFIES = (
    *("path", "name", "type", "phase", "band", "dtype", "method", "stage", "of", "device"),
    *("kind", "what"),
)
"""What an entry of a list is called by, the first that it has before others."""
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<=": le,
    ">=": ge,
    "<": lt,
    ">": gt,
    "==": eq,
}
_MOST_NEAR = 3
_NOT_ADVISED = "not computed; --findings does"


class CheckError(ValueError):
    """A check that cannot be made: what is wrong with it, in a sentence without its point."""


class Limit(Struct, frozen=True):
    """What a figure is compared with."""

    operator: str
    text: str
    """As given on the command line."""
    value: float | None
    """None for a word."""
    unit: str = ""
    """As typed, behind the number."""
    scale: float = 1.0
    """What the unit stands for."""


class Check(Struct, frozen=True):
    """What was asked for."""

    text: str
    path: str
    steps: tuple[str, ...]
    """Names, and ``[...]`` for an entry of a list."""
    limit: Limit

    @property
    def pattern(self) -> str:
        """The path as the schema has it: ``layers[].macs``."""
        return pattern_of(self.steps)


class Outcome(Struct, frozen=True):
    """What became of a check in one report."""

    check: Check
    holds: bool
    value: Json
    """The first figure that is not within the limit, else the first of all; None if not known."""
    at: str = ""
    """Which of several entries has it."""
    why: str = ""
    """Why it is not known, or not known to be within the limit."""


def parse_check(text: str) -> Check:
    """Read a check as it was typed.

    Raises:
        CheckError: it is none, or no report has a figure of that path.
    """
    found = _PARTS.fullmatch(text)
    if found is None:
        raise CheckError(f'"{text}" is not a check such as latency.p50_s<=10ms')
    path = found["path"]
    steps = tuple(_steps(path))
    pattern = pattern_of(steps)
    known = known_paths()
    if "[]" in steps:
        raise CheckError(
            f"{path}: write in [] which entries: a path or name, 0 for the first, or a condition"
            " such as type=Conv2d"
        )
    if pattern not in known:
        inside = [one for one in known if one.startswith((f"{pattern}.", f"{pattern}["))]
        if inside and inside[0].startswith(f"{pattern}["):
            entry = f"{path}[0]{inside[0].removeprefix(f'{pattern}[]')}"
            raise CheckError(f"{path} is a list: write one entry of it, such as {entry}")
        if inside:
            named = (path + one.removeprefix(pattern) for one in inside[:6])
            raise CheckError(f"{path} has several figures: {', '.join(named)}")
        raise CheckError(f"no report has {path}{nearest(pattern, known)}")
    return Check(text, path, steps, parse_limit(found["operator"], found["limit"].strip(), pattern))


@cache
def known_paths() -> tuple[str, ...]:
    """Return the path of every single figure or word that a report can have."""
    return tuple(path for path in paths(Report) if path != "unavailable")


def evaluate(check: Check, report: Mapping[str, Json]) -> Outcome:
    """Hold a check against a report.

    Raises:
        CheckError: the report has no such entry, or the figure cannot be compared with the limit.
    """
    found = list(_figures(report, check, 0, ()))
    outcomes = []
    for value, entries in found:
        at = ", ".join(name for name in (_called(entry) for entry in entries) if name)
        if value is None:
            why = _reason(report, check, entries)
            outcomes.append(Outcome(check, False, None, at, why))
            continue
        holds, why = is_within(value, check.limit, check.path), ""
        bound = figure_bound(report, check.pattern, entries)
        if holds and bound is not None and not bound.allows(check.limit.operator):
            holds, why = False, f"{bound.side} {as_typed(value, check.limit)}: {bound.why}"
        outcomes.append(Outcome(check, holds, value, at, why))
    failed = next((one for one in outcomes if not one.holds), None)
    return failed or outcomes[0]


def nearest(path: str, known: Sequence[str]) -> str:
    """Return the paths that look most like one, as the end of a sentence."""
    found = get_close_matches(path, known, n=_MOST_NEAR, cutoff=0.6)
    last = path.rpartition(".")[2]
    found += [one for one in known if one.rpartition(".")[2] == last and one not in found]
    return f"; near it are {', '.join(found[:_MOST_NEAR])}" if found else ""


def pattern_of(steps: Sequence[str]) -> str:
    """Return a path as the schema has it."""
    parts = ["[]" if step.startswith("[") else f".{step}" for step in steps]
    return "".join(parts).removeprefix(".")


def _steps(path: str) -> Iterator[str]:
    at = 0
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None or (found["name"] and (path[at] == ".") != (at > 0)):
            raise CheckError(f'"{path}" is not a path such as latency.p50_s or layers[conv1].macs')
        yield found["name"] or f"[{found['entry']}]"
        at = found.end()


def _figures(
    value: Json, check: Check, at: int, entries: tuple[Json, ...]
) -> Iterator[tuple[Json, tuple[Json, ...]]]:
    """Yield every figure that the path leads to, with the entries of lists on the way."""
    if at == len(check.steps) or value is None:
        yield value, entries
        return
    step = check.steps[at]
    if step.startswith("["):
        assert isinstance(value, Sequence)
        assert not isinstance(value, str)
        for entry in _entries(value, step[1:-1], check.path):
            yield from _figures(entry, check, at + 1, (*entries, entry))
    else:
        assert isinstance(value, Mapping)
        yield from _figures(value.get(step), check, at + 1, entries)


def _entries(values: Sequence[Json], wanted: str, path: str) -> Sequence[Json]:
    """Return the entries of a list that are meant.

    Raises:
        CheckError: there are none.
    """
    name, is_condition, is_value = wanted.partition("=")
    if is_condition:
        chosen = [v for v in values if isinstance(v, Mapping) and _text(v.get(name)) == is_value]
        if chosen:
            return chosen
    named = [value for value in values if _called(value) == wanted]
    if named:
        return named[:1]
    for key in _IDENTIFIES:
        named = [v for v in values if isinstance(v, Mapping) and v.get(key) == wanted]
        if named:
            return named[:1]
    if wanted.isdecimal() and int(wanted) < len(values):
        return [values[int(wanted)]]
    names = list(dict.fromkeys(_called(value) for value in values))
    instead = nearest(wanted, names) or _some(names)
    raise CheckError(f"{path}: there is no [{wanted}]{instead}")


def _some(names: Sequence[str]) -> str:
    listed = [name for name in names if name][:_MOST_NEAR]
    if not listed and names:
        return "; entries have no names: [0] is the first"
    return f"; there are {', '.join(listed)}" if listed else "; the list is empty"


def _called(entry: Json) -> str:
    """Return what an entry is called by; the root, whose path is empty, by its name."""
    if not isinstance(entry, Mapping):
        return ""
    return next((str(entry[key]) for key in _IDENTIFIES if entry.get(key)), "")


def _text(value: Json) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _reason(report: Mapping[str, Json], check: Check, entries: tuple[Json, ...]) -> str:
    """Return why a figure is not known: the report says it of the figure or of what it is in."""
    if check.steps[0] == "findings" and "findings" not in report:
        return _NOT_ADVISED
    reasons = report["unavailable"]
    assert isinstance(reasons, Mapping)
    for length in range(len(check.steps), 0, -1):
        pattern = pattern_of(check.steps[:length])
        for path, reason in reasons.items():
            if re.sub(r"\[[^\]]*\]", "[]", path) == pattern and _speaks_of(path, entries):
                return str(reason)
    # Layers have no times at all where nothing was measured, and the report says so once.
    without = reasons.get("latency") if {"timing", "energy"} & set(check.steps) else None
    return str(without or "this report does not have it")


def _speaks_of(path: str, entries: tuple[Json, ...]) -> bool:
    for condition, entry in zip(re.findall(r"\[([^\]]*)\]", path), entries, strict=False):
        key, is_condition, wanted = condition.partition("=")
        if is_condition and not (isinstance(entry, Mapping) and _text(entry.get(key)) == wanted):
            return False
    return True


def parse_limit(operator: str, text: str, pattern: str) -> Limit:
    """Read a limit on the figure of that path.

    Raises:
        CheckError: it is no number, or its unit is not the figure's.
    """
    found = _NUMBER.fullmatch(text)
    if found is None:
        if operator == "==" and text:
            return Limit(operator, text, None)
        raise CheckError(f'"{text}" is not a number; {pattern} is {_NAMES[quantity_of(pattern)]}')
    unit, quantity = found[2], quantity_of(pattern)
    scale = _scale(unit, quantity)
    if scale is None:
        raise CheckError(f'"{text}" is not a limit for {pattern}, which is {_NAMES[quantity]}')
    return Limit(operator, text, float(found[1].replace("_", "")) * scale, unit, scale)


def quantity_of(pattern: str) -> Quantity:
    """Tell what the figure of a path is counted in, by its name; an entry of a list as the list."""
    path = pattern.removesuffix("[]")
    name = path.rpartition(".")[2].removesuffix("[]")
    for quantity, form in _BY_PATH:
        if form.fullmatch(path):
            return quantity
    if re.fullmatch(rf"(.*[._])?{_SHARES.pattern}", path):
        return "share"
    return next((quantity for quantity, form in _BY_NAME if form.fullmatch(name)), "number")


def is_within(value: Json, limit: Limit, path: str) -> bool:
    """Tell whether a figure is within a limit.

    Raises:
        CheckError: one of them is a word and the other is none, or words are put in an order.
    """
    if isinstance(value, bool | str):
        if limit.operator != "==":
            raise CheckError(f"{path} is a word ({_text(value)}): only == compares words")
        return _text(value) == limit.text
    if limit.value is None:
        raise CheckError(f'{path} is a number, "{limit.text}" is not')
    assert isinstance(value, int | float)
    return _COMPARE[limit.operator](value, limit.value)


def as_typed(value: Json, limit: Limit) -> str:
    """Return a figure in the unit of its limit, with as many digits as tell it from the limit."""
    if isinstance(value, bool | str):
        return _text(value)
    if not isinstance(value, int | float):
        return "–"
    scaled = value / limit.scale
    for digits in (6, 17):
        text = f"{scaled:.{digits}g}"
        if limit.value is None or value == limit.value or float(text) != limit.value / limit.scale:
            break
    return f"{text}{limit.unit}"


def _scale(unit: str, quantity: Quantity) -> float | None:
    """Return what a unit stands for; None where it is none, or not one of such a figure."""
    if not unit:
        return 1.0
    if quantity == "time":
        return _SECONDS.get(unit)
    if quantity == "share":
        return 0.01 if unit == "%" else None
    prefixes = _PREFIXES
    if quantity in ("bytes", "bandwidth", "number", "work"):
        prefixes = _PREFIXES | _BINARY
    elif quantity in ("energy", "power", "mass"):
        prefixes = _PREFIXES | _SMALL
    elif quantity == "temperature":
        prefixes = {"": 1.0}
    symbols = ("", *_SYMBOLS.get(quantity, ()))
    found = (prefixes.get(unit.removesuffix(one)) for one in symbols if unit.endswith(one))
    return next((scale for scale in found if scale is not None), None)
