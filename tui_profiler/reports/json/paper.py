"""What a model costs on paper, as JSON: its peak memory and how its work is distributed."""

from __future__ import annotations

from tui_profiler.messages import PeakMemory
from tui_profiler.queries.cost.breakdown import architecture_of, breakdown
from tui_profiler.queries.cost.distribution import intensity_bands, layer_types
from tui_profiler.queries.cost.totals import known_peak_bytes, peak_bytes
from tui_profiler.reports.json_values import Json, Unavailable
from tui_profiler.session import Tree

_NO_CACHE = "forward returned no cache"


def peak_memory(at: str, tree: Tree, peak: PeakMemory, unavailable: Unavailable) -> Json:
    """Give the parts of the peak, who is alive at it, and what it was found from.

    Args:
        at: path of the object in the report.
        tree: whose nodes made the tensors.
        peak: of one forward.
        unavailable: takes the reasons for what is not known.
    """
    figure = unavailable.figure
    return {
        "parameters": figure(f"{at}.parameters", peak.parameters),
        "buffers": figure(f"{at}.buffers", peak.buffers),
        "activations": figure(f"{at}.activations", peak.activations),
        "workspace": figure(f"{at}.workspace", peak.workspace),
        "kv_cache": figure(f"{at}.kv_cache", peak.kv_cache, _NO_CACHE),
        "total": figure(f"{at}.total", peak_bytes(peak)),
        "at_least": figure(f"{at}.at_least", known_peak_bytes(peak)),
        "at": _path(tree, peak.at),
        "alive": [{"path": _path(tree, node), "bytes": size} for node, size in peak.alive],
        "coverage": {
            "tensors": peak.tensors,
            "known_dtypes": peak.tensors,
            "sized": peak.sized,
            "aliases": peak.tensors - peak.sized - peak.skipped,
            "skipped": peak.skipped,
        },
    }


def kinds(tree: Tree) -> dict[str, Json]:
    """Give the architecture's class, and FLOPs by operator, by layer and by intensity."""
    parts = breakdown(tree)
    return {
        "architecture": architecture_of(tree),
        "breakdown": [
            {"type": part.type, "count": part.count, "flops": part.flops, "share": part.share}
            for part in parts
        ],
        "layer_types": [
            {
                "type": part.type,
                "count": part.count,
                "parameters": part.parameters,
                "flops": part.flops,
                "share": part.share,
            }
            for part in layer_types(tree)
        ],
        "intensity_bands": [
            {
                "band": part.band,
                "ops": part.ops,
                "flops": part.flops,
                "flops_share": part.flops_share,
            }
            for part in intensity_bands(tree)
        ],
    }


def _path(tree: Tree, node: int) -> Json:
    return tree.nodes[node].path if 0 <= node < len(tree) else None
