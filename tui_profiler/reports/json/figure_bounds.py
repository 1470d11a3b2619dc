"""Figures of the JSON report that are bounds: what a check may conclude from them.

1. Operators without a formula: MACs and FLOPs are lower bounds.
2. Work that depends on the data: figures on paper are upper bounds, or neither (``about``), unless
   a real forward cost the same.
3. Problems of a model's file: numbers of parameters are lower bounds.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from tui_profiler.reports.json_values import Json

Side: TypeAlias = Literal["at least", "at most", "about"]


class FigureBound(Struct, frozen=True):
    """In which direction a figure may be off, and why."""

    side: Side
    why: str

    def allows(self, operator: str) -> bool:
        """Return whether a figure within a limit is then within it for sure."""
        return operator in _DECIDES[self.side]


_DECIDES: Mapping[Side, tuple[str, ...]] = {
    "at least": (">", ">="),
    "at most": ("<", "<="),
    "about": (),
}
_WORK = r"(total_)?(macs|flops)|arithmetic_intensity"
_BYTES = r"(total_)?memory|(input|output|weight)_bytes|peak_memory\.(activations|workspace|total)"
_ON_PAPER = re.compile(rf"(layers\[\]\.|phases\[\]\.)?({_WORK}|{_BYTES})")
_ONLY_WORK = re.compile(rf"(layers\[\]\.|phases\[\]\.)?({_WORK})")
_IN_FILE = re.compile(r"total_(parameters|parameter_bytes)|file\.(tensors|bytes)")
_REAL = ("total_macs", "total_flops", "total_memory")
_MOST_NAMES = 3


def figure_bound(
    report: Mapping[str, Json], pattern: str, entries: Sequence[Json]
) -> FigureBound | None:
    """Return how a figure is bounded; None where it is exact.

    Args:
        report: the JSON object.
        pattern: path of the figure, as the schema has it.
        entries: entries of lists on the way to it.
    """
    problems = _inside(report, "file", "problem_count")
    if _IN_FILE.fullmatch(pattern) and isinstance(problems, int) and problems:
        return FigureBound(
            "at least", f"{problems} problem{'s' * (problems != 1)} of the file: see file.problems"
        )
    if not _ON_PAPER.fullmatch(pattern):
        return None
    layer = entries[0] if pattern.startswith("layers[].") and entries else None
    side = _by_data(report, layer)
    if side is not None and not _is_confirmed(report):
        return FigureBound(side, f"it depends on the data{_names(report, 'bounded')}")
    if _ONLY_WORK.fullmatch(pattern) and _uncosted(report, layer):
        return FigureBound("at least", f"operators without a formula{_names(report, 'uncosted')}")
    return None


def _by_data(report: Mapping[str, Json], layer: Json) -> Side | None:
    """Return how a layer's work depends on the data, or that of the whole model."""
    if isinstance(layer, Mapping):
        found = layer.get("bounded")
    else:
        if not _inside(report, "coverage", "bounded"):
            return None
        layers = report.get("layers")
        root = layers[0] if isinstance(layers, Sequence) and layers else None
        # Where the report has no layers it is not known which of both it is.
        found = root.get("bounded") if isinstance(root, Mapping) else "about"
    return found if found in ("at most", "about") else None


def _is_confirmed(report: Mapping[str, Json]) -> bool:
    """Return whether one real forward cost what was counted."""
    real = report.get("real_run")
    return isinstance(real, Mapping) and all(real.get(one) == report.get(one) for one in _REAL)


def _uncosted(report: Mapping[str, Json], layer: Json) -> bool:
    if isinstance(layer, Mapping):
        return bool(layer.get("uncosted"))
    ops, costed = (_inside(report, "coverage", name) for name in ("ops", "costed"))
    return ops != costed


def _names(report: Mapping[str, Json], of: str) -> str:
    names = _inside(report, "coverage", of)
    if not isinstance(names, Sequence) or not names:
        return ""
    more = ", …" if len(names) > _MOST_NAMES else ""
    return f" ({', '.join(map(str, names[:_MOST_NAMES]))}{more})"


def _inside(report: Mapping[str, Json], name: str, field: str) -> Json:
    inside = report.get(name)
    return inside.get(field) if isinstance(inside, Mapping) else None
