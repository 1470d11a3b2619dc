"""A model written as an ONNX file: what is asked for, and what the file holds."""

from __future__ import annotations

from tui_profiler.messages.base import OnWire


class Exported(OnWire, frozen=True):
    """An ONNX file was written, and passed its check."""

    path: str
    """Where to, absolute."""
    files: tuple[str, ...]
    """Names of the files: the model and, where they are many, the values beside it."""
    bytes: int
    """Of these files."""
    opset: int
    """Version of ONNX's own operators."""
    exporter: str
    """What wrote it: ``torch 2.15.0, onnx 1.23.2``."""
    operators: int
    """Nodes of the graph, functions that it calls not looked into."""
    inputs: tuple[str, ...]
    """Name, type and shape of each."""
    parameters: int
    """Of the model, shared ones once."""
    parameters_in_file: int
    """Of them, those in the graph before the exporter's own folding."""
    missing: tuple[str, ...]
    """Parameters of the model that are not there: no output depends on them."""
    values_in_file: int
    """Elements of all constants in the file as it is: parameters, buffers, and what was folded."""
