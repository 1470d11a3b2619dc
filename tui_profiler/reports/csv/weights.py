"""Weights as CSV: one line a parameter or buffer, plain numbers, an empty cell for what is unknown.

Shares and errors are of 1, noise is in dB. ``predicted_error`` and ``output_error`` are relative
errors of the model's output under ``change``; text is never a formula, as in ``csv_nodes``.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from tui_profiler.figures.units import shape_cell
from tui_profiler.messages import known
from tui_profiler.queries.parameters.weights import Column, WeightRow, figure, scheme_words
from tui_profiler.reports.csv.nodes import as_text

COLUMNS = (
    *("name", "shape", "dtype", "bytes", "is_buffer", "shared_with", "values", "nans"),
    *("infinities", "mean", "std", "minimum", "maximum", "zeros", "int8_db", "width", "width_bits"),
    *("prunable", "change", "predicted_error", "output_error", "largest_error"),
)


def csv_weights(rows: Iterable[WeightRow]) -> str:
    """Return the text of the file, its first line the names of the columns."""
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(COLUMNS)
    for row in rows:
        lines.writerow(_line(row))
    return out.getvalue()


def _line(row: WeightRow) -> tuple[object, ...]:
    found, one = row.statistics, row.sensitivity
    moments = found.moments if found is not None else None
    width = found.width if found is not None else None
    of_values: tuple[object, ...] = ("",) * 6
    if moments is not None:
        of_values = (
            *(moments.nans, moments.infinities),
            *(f"{value:.9g}" for value in (moments.mean, moments.std)),
            *(f"{value:.9g}" for value in (moments.minimum, moments.maximum)),
        )
    return (
        *(as_text(row.name), shape_cell(row.shape), as_text(row.dtype), row.bytes),
        *(int(row.is_buffer), as_text(row.shared_with), row.values, *of_values),
        *(_digits(row, "zeros"), _digits(row, "int8")),
        *(as_text(width.format) if width is not None else "", _digits(row, "width")),
        *(_digits(row, "prune"), scheme_words(one.scheme) if one is not None else ""),
        *(_digits(row, "predicted"), _digits(row, "error")),
        _number(known(one.largest)) if one is not None else "",
    )


def _digits(row: WeightRow, column: Column) -> str:
    return _number(known(figure(row, column)))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.9g}"
