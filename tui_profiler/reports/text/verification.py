"""Figures of tui-profiler and of other counters, as text.

No line is wider than ``columns`` cells, and none holds anything but safe text.
"""

from collections.abc import Callable, Iterable
from typing import Final

from tui_profiler.figures.units import UNAVAILABLE, ZERO, count, dtype, shape, size, thousands
from tui_profiler.formatting.text import safe, wrap
from tui_profiler.messages import Count, Counted, ModelFacts, SecondOpinion
from tui_profiler.queries.cost.verification import (
    Check,
    Verdict,
    Verification,
    checks,
    peak_bytes_of,
)
from tui_profiler.reports.text.text import heading, in_cells
from tui_profiler.session import Tree

LEAST_COLUMNS = 78
"""A narrower terminal wraps the lines: better than losing figures."""

_NAME_CELLS = 14
_VERDICT_CELLS = 14
_VERDICTS: Final[dict[Verdict, str]] = {
    "holds": "passes",
    "fails": "FAILS",
    "not compared": "not compared",
}


def verification_table(made: Verification, *, columns: int) -> tuple[str, ...]:
    """Return the comparison as lines.

    Args:
        made: its session has a tree.
        columns: cells of the widest line; at least 78 are taken.
    """
    cells = max(columns, LEAST_COLUMNS)
    tree = made.session.tree
    if tree is None or tree.done is None:
        return ("nothing to verify: the model was not traced",)
    lines = [
        *_identity(made.session.model),
        "",
        heading("figures", "one forward; a multiply-add is 1 MAC, 2 FLOP"),
        _row("", "parameters", "MACs", "FLOP", "peak memory"),
        *_rows(made, tree),
        "",
        heading("checks", "tui-profiler against other counters"),
    ]
    for check in checks(made):
        lines += _check_lines(check, cells)
    lines += _skipped(made.opinions, tree.done.uncosted, cells)
    return tuple(in_cells(line, cells) for line in lines)


def _identity(model: ModelFacts | None) -> list[str]:
    if model is None:
        return ["unknown model"]
    return [
        f"{safe(model.name)}  {safe(model.type)}  from {safe(model.source)}, {safe(model.device)}",
        *(
            f"  {safe(part.name)} {shape(part.shape)} {dtype(safe(part.dtype))} ({safe(part.why)})"
            for part in model.inputs
        ),
    ]


def _row(name: str, parameters: str, macs: str, flops: str, peak: str) -> str:
    return f"  {name:<{_NAME_CELLS}}{parameters:>17}{macs:>22}{flops:>9}{peak:>13}"


def _rows(made: Verification, tree: Tree) -> list[str]:
    cost, peak = tree.costs[0], peak_bytes_of(tree)
    lines = [
        _row(
            "tui-profiler",
            thousands(cost.parameters),
            thousands(cost.macs),
            count(cost.flops),
            UNAVAILABLE if peak is None else size(peak),
        ),
        *_published_row(made.session.model),
    ]
    for opinion in made.opinions:
        cells = (
            _cell(opinion, opinion.parameters, thousands),
            _cell(opinion, opinion.macs, thousands),
            _cell(opinion, opinion.flops, count),
            _cell(opinion, opinion.peak_bytes, size),
        )
        lines.append(_row(opinion.counter, *cells))
    return lines


def _published_row(model: ModelFacts | None) -> list[str]:
    """Return what torchvision publishes, times the batch."""
    if model is None or (model.published_gmacs is None and model.published_parameters is None):
        return []
    parameters, gmacs = model.published_parameters, model.published_gmacs
    return [
        _row(
            "published",
            ZERO if parameters is None else thousands(parameters),
            ZERO if gmacs is None else f"{gmacs * (model.batch or 1):,.3f} G",
            ZERO,
            ZERO,
        )
    ]


def _cell(opinion: SecondOpinion, value: Count, written: Callable[[int], str]) -> str:
    """Return a figure; a dash where the counter failed, a dot where it does not count this."""
    if isinstance(value, int):
        return written(value)
    return UNAVAILABLE if opinion.error else ZERO


def _check_lines(check: Check, cells: int) -> list[str]:
    """Return one verdict with its condition, then what is excluded, and the difference."""
    begin = f"  {_VERDICTS[check.verdict]:<{_VERDICT_CELLS}}{check.against:<{_NAME_CELLS}}"
    lines = [begin + check.tolerance]
    indent = " " * len(begin)
    for part in check.left_out:
        text = f"without {safe(part.name)}: counted as 0 there, {thousands(part.macs)} here"
        lines += _wrapped(indent, text, cells)
    return [*lines, *_wrapped(indent, safe(check.why), cells)]


def _skipped(opinions: Iterable[SecondOpinion], uncosted: tuple[str, ...], cells: int) -> list[str]:
    """Name what each counts as 0, and what it counts that is not a multiply-accumulate."""
    theirs = [(opinion.counter, _named(opinion.skipped)) for opinion in opinions]
    zero = [("tui-profiler", ", ".join(map(safe, uncosted))), *theirs]
    other = [(opinion.counter, _amounts(opinion.others)) for opinion in opinions]
    return [
        *_section(heading("counted as 0", "operators without a formula"), zero, cells),
        *_section(heading("excluded", "counted there, not multiply-adds"), other, cells),
    ]


def _section(title: str, parts: Iterable[tuple[str, str]], cells: int) -> list[str]:
    lines: list[str] = []
    for name, text in parts:
        first, *more = _wrapped(" " * (2 + _NAME_CELLS), text, cells) or ("",)
        if text:
            lines += [f"  {name:<{_NAME_CELLS}}{first.lstrip()}", *more]
    return ["", title, *lines] if lines else []


def _named(operators: Iterable[Counted]) -> str:
    """Return names with their calls, the most first."""
    by_calls = sorted(operators, key=lambda part: (-(part.calls or 0), part.name))
    return ", ".join(safe(part.name) + _times(part.calls) for part in by_calls)


def _times(calls: int | None) -> str:
    return "" if calls is None else f"×{calls}"


def _amounts(operators: Iterable[Counted]) -> str:
    return ", ".join(f"{safe(part.name)} {thousands(part.amount)}" for part in operators)


def _wrapped(indent: str, text: str, cells: int) -> list[str]:
    return [indent + line for line in wrap(text, cells - len(indent))]
