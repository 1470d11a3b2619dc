"""What the values of parameters are like, as JSON."""

from __future__ import annotations

import struct

from tui_profiler.messages import TensorStatistics, Unknown
from tui_profiler.messages.parameters import (
    Channels,
    Compression,
    Histogram,
    Moments,
    Quantised,
    Sampled,
    Spectral,
    Width,
)
from tui_profiler.queries.parameters.rollup import ParameterSums, rolled_up
from tui_profiler.reports.json_values import Json, Unavailable
from tui_profiler.reports.parameters_text import in_order
from tui_profiler.session import Session

NOT_ASKED = "not analysed; --parameters does it"
_EACH = "parameters.tensors[]"


def parameters_section(session: Session, top: int | None, unavailable: Unavailable) -> Json:
    """Give every tensor, and every node's parameters rolled up; null where nobody asked.

    Args:
        session: as it was left.
        top: only so many tensors, the largest.
        unavailable: collects why figures are null.
    """
    found = session.parameters
    if found is None:
        return unavailable.missing("parameters", NOT_ASKED)
    tensors = in_order(session, found)
    if top is not None:
        tensors = sorted(tensors, key=lambda one: (one.moments is None, -one.bytes))[:top]
    done, tree = found.done, session.tree
    sums = rolled_up(session)
    return {
        "is_random": found.started.is_random,
        "weights": found.started.weights,
        "tensors_looked_at": done.tensors if done is not None else None,
        "bytes_read": done.bytes if done is not None else None,
        "seconds": done.seconds if done is not None else None,
        "is_whole": done is not None and not done.was_stopped and not done.why,
        "why": done.why or None if done is not None else "it was not finished",
        "left_out": found.started.left_out,
        "tensors": [_tensor(one, unavailable) for one in tensors],
        "modules": [
            _module(tree.nodes[index].path, one, unavailable)
            for index, one in sums.items()
            if tree is not None
        ],
    }


def _tensor(one: TensorStatistics, unavailable: Unavailable) -> Json:
    if one.moments is None:
        reason = f"the same values as {one.shared_with}" if one.shared_with else one.why_none
        unavailable.missing(f"{_EACH}.moments", reason or "not analysed")
    return {
        "name": one.name,
        "owner": one.owner,
        "shape": one.shape,
        "dtype": one.dtype,
        "bytes": one.bytes,
        "storage_bytes": one.storage_bytes,
        "alignment": one.alignment or None,
        "is_buffer": one.is_buffer,
        "is_contiguous": one.is_contiguous,
        "shared_with": one.shared_with or None,
        "why_none": one.why_none or None,
        "moments": _moments(one.moments, unavailable),
        "histogram": _histogram(one.histogram),
        "pruned": [{"loss": part.loss, "sparsity": part.sparsity} for part in one.pruned],
        "channels": _channels(one.channels, unavailable),
        "spectral": _spectral(one.spectral, unavailable),
        "quantised": [_quantised(part, unavailable) for part in one.quantised],
        "quantised_on": _sampled(one.quantised_on),
        "width": _width(one.width),
        "compression": _compression(one.compression),
        "missing": dict(one.whys),
    }


def _moments(found: Moments | None, unavailable: Unavailable) -> Json:
    if found is None:
        return None
    at = f"{_EACH}.moments"
    none = "no value is finite"

    def figure(name: str, value: float) -> Json:
        return unavailable.figure(f"{at}.{name}", value if found.count else Unknown(none))

    return {
        "count": found.count,
        "nans": found.nans,
        "infinities": found.infinities,
        "zeros": found.zeros,
        "near_zeros": found.near_zeros,
        "near_zero_below": found.near_zero_below,
        "sparsity": figure("sparsity", found.zeros / max(found.count, 1)),
        "mean": figure("mean", found.mean),
        "std": figure("std", found.std),
        "minimum": figure("minimum", found.minimum),
        "maximum": figure("maximum", found.maximum),
        "skewness": unavailable.figure(f"{at}.skewness", found.skewness),
        "kurtosis": unavailable.figure(f"{at}.kurtosis", found.kurtosis),
        "l1": figure("l1", found.l1),
        "l2": figure("l2", found.l2),
    }


def _histogram(found: Histogram | None) -> Json:
    if found is None:
        return None
    return {
        "edges": numbers(found.edges, "d"),
        "counts": numbers(found.counts, "Q"),
        "entropy_bits": found.entropy_bits,
    }


def numbers(column: bytes, kind: str) -> tuple[float, ...]:
    """Give a column of little-endian numbers: ``d`` float64, ``Q`` uint64, ``f`` float32."""
    return struct.unpack(f"<{len(column) // struct.calcsize(kind)}{kind}", column)


def _channels(found: Channels | None, unavailable: Unavailable) -> Json:
    if found is None:
        return None
    return {
        "count": found.count,
        "size": found.size,
        "norms": numbers(found.norms, "f"),
        "dead": found.dead,
        "outliers": found.outliers,
        "first_outliers": found.first_outliers,
        "pruned": [{"loss": part.loss, "channels": part.channels} for part in found.pruned],
        "near_duplicates": unavailable.figure(
            f"{_EACH}.channels.near_duplicates", found.near_duplicates
        ),
        "compared": found.compared,
        "heads": found.heads or None,
        "head_norms": found.head_norms,
    }


def _spectral(found: Spectral | None, unavailable: Unavailable) -> Json:
    if found is None:
        return None
    return {
        "norm": unavailable.figure(f"{_EACH}.spectral.norm", found.norm),
        "method": found.method,
        "rows": found.rows,
        "columns": found.columns,
        "iterations": found.iterations,
        "tolerance": found.tolerance,
    }


def _quantised(found: Quantised, unavailable: Unavailable) -> Json:
    return {
        "format": found.format,
        "granularity": found.granularity,
        "group": found.group or None,
        "sqnr_db": unavailable.figure(f"{_EACH}.quantised[].sqnr_db", found.sqnr_db),
        "bits": found.bits,
    }


def _sampled(found: Sampled | None) -> Json:
    return None if found is None else {"values": found.values, "of": found.of}


def _width(found: Width | None) -> Json:
    if found is None:
        return None
    return {
        "format": found.format,
        "granularity": found.granularity or None,
        "bits": found.bits,
        "error": found.error,
        "saved_bytes": found.saved_bytes,
        "why": found.why,
    }


def _compression(found: Compression | None) -> Json:
    if found is None:
        return None
    return {
        "entropy_bits": found.entropy_bits,
        "bound": found.bound,
        "codec": found.codec,
        "ratio": found.ratio,
        "planes_ratio": found.planes_ratio,
        "sampled": _sampled(found.sampled),
    }


def _module(path: str, found: ParameterSums, unavailable: Unavailable) -> Json:
    at, sums = "parameters.modules[]", found.sums
    counted = sums.count or None
    return {
        "path": path,
        "tensors": found.tensors,
        "looked_at": found.looked_at,
        "bytes": found.bytes,
        "count": sums.count,
        "nans": sums.nans,
        "infinities": sums.infinities,
        "zeros": sums.zeros,
        "near_zeros": found.near_zeros,
        "mean": unavailable.figure(f"{at}.mean", sums.mean if counted else None),
        "std": unavailable.figure(f"{at}.std", found.std),
        "minimum": unavailable.figure(f"{at}.minimum", sums.minimum if counted else None),
        "maximum": unavailable.figure(f"{at}.maximum", sums.maximum if counted else None),
        "skewness": unavailable.figure(f"{at}.skewness", found.skewness),
        "kurtosis": unavailable.figure(f"{at}.kurtosis", found.kurtosis),
        "l1": unavailable.figure(f"{at}.l1", sums.magnitudes),
        "l2": unavailable.figure(f"{at}.l2", found.l2),
        "largest_spectral_norm": unavailable.figure(f"{at}.largest_spectral_norm", found.norm),
        "prunable": found.prunable / counted if counted else None,
        "recommended_bytes": round(found.recommended_bytes),
        "entropy_bytes": round(found.entropy_bytes),
        "pressed_bytes": round(found.pressed_bytes),
        "dead": found.dead,
        "outliers": found.outliers,
        "near_duplicates": found.near_duplicates,
    }
