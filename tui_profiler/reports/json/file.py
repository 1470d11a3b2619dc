"""What a report says of a file of weights, and what it cannot say of parameters alone."""

from __future__ import annotations

from tui_profiler.messages import NO_FORWARD
from tui_profiler.reports.json_values import Json, Unavailable
from tui_profiler.session import Session, Tree

_OF_MODEL = (
    "total_macs",
    "total_flops",
    "total_memory",
    "arithmetic_intensity",
    "coverage",
    "real_run",
    "breakdown",
    "layer_types",
    "intensity_bands",
    "bottlenecks",
)
_OF_LAYER = (
    "calls",
    "macs",
    "flops",
    "uncosted",
    "memory",
    "input_bytes",
    "weight_bytes",
    "output_bytes",
    "output_shape",
    "arithmetic_intensity",
    "bottleneck",
)


def file_section(session: Session) -> Json:
    """Give what a look into the model's file told; null where the model is no file."""
    found = session.file
    if found is None:
        return None
    return {
        "kind": found.kind,
        "content": found.content,
        "bytes": found.bytes,
        "tensors": found.tensors,
        "checksum": found.checksum,
        "globals": found.globals,
        "untrusted_globals": found.untrusted_globals,
        "problems": [
            {"file": problem.file, "where": problem.where or None, "what": problem.what}
            for problem in found.problems
        ],
        "problem_count": found.problem_count,
        "hint": found.hint or None,
    }


def without_forward(report: dict[str, Json], unavailable: Unavailable) -> None:
    """Put null, with the reason, where only a forward pass gives a figure."""
    for name in _OF_MODEL:
        report[name] = _replaced(name, unavailable)


def layer_without_forward(layer: dict[str, Json], unavailable: Unavailable) -> None:
    """Do the same in one layer."""
    for name in _OF_LAYER:
        layer[name] = _replaced(f"layers[].{name}", unavailable)


def _replaced(path: str, unavailable: Unavailable) -> Json:
    """Give null; this reason goes before those of the parts, which are no more."""
    for known in [known for known in unavailable.reasons if known.startswith(f"{path}.")]:
        del unavailable.reasons[known]
    unavailable.reasons[path] = NO_FORWARD
    return None


def why_no_environment(tree: Tree) -> str:
    """Say why there is no environment: torch was not needed, or the worker was silent."""
    if tree.has_forward:
        return "the worker did not tell it"
    return "torch was not imported: the parameters were read without it"
