"""Compare the predicted peak memory with the allocations of a real forward, per model.

``OMP_NUM_THREADS=1 python benchmarks/costs/memory.py [--batch N] [--markdown] [NAME]...`` prints
parameters, multiply-accumulates and each term of the peak, predicted and measured. The weights are
random: no size depends on them. ``cpu`` is measured with ``torch.profiler``'s memory events, and
``--device cuda`` with the caching allocator's statistics, which do not tell workspace apart.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torchvision import models

from benchmarks.costs.workspace import measured_workspace
from tui_profiler.messages import InputSpec, PeakMemory, known
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.measured_peak import MeasuredPeak, measured_peak
from tui_profiler.probe.trace.trace import trace

_MIB = 1 << 20
_TOKENS = 128


@dataclass(frozen=True)
class Subject:
    """A model with its inputs."""

    model: torch.nn.Module
    inputs: Inputs


@dataclass(frozen=True)
class Row:
    """What was foretold of one model, and what it took."""

    name: str
    parameters: int
    macs: int
    predicted: PeakMemory
    measured: MeasuredPeak
    workspace: int | None
    """Measured; None on a GPU."""

    @property
    def weights_bytes(self) -> float:
        """Parameters and buffers, which both sides have."""
        return (known(self.predicted.parameters) or 0) + (known(self.predicted.buffers) or 0)

    @property
    def foretold_bytes(self) -> float:
        """Activations and workspace."""
        peak = self.predicted
        return (known(peak.activations) or 0) + (known(peak.workspace) or 0)

    @property
    def error_of_forward(self) -> float:
        """Of what the forward itself takes: the weights make every total look good."""
        return self.foretold_bytes / self.measured.peak_bytes - 1

    @property
    def error_of_total(self) -> float:
        """With the weights, as memory is asked for."""
        whole = self.weights_bytes + self.measured.peak_bytes
        return (self.weights_bytes + self.foretold_bytes) / whole - 1


def _image(model: torch.nn.Module, side: int, batch: int) -> Subject:
    return Subject(model, _given(torch.rand(batch, 3, side, side)))


def _given(tensor: torch.Tensor) -> Inputs:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return Inputs((tensor,), {}, (InputSpec("", tuple(tensor.shape), dtype, "benchmark"),))


def _bert(batch: int) -> Subject:
    from transformers import BertConfig, BertModel

    return Subject(BertModel(BertConfig()), _given(torch.randint(0, 1000, (batch, _TOKENS))))


def _yolo(batch: int) -> Subject:
    from ultralytics.nn.tasks import DetectionModel

    return _image(DetectionModel("yolov8n.yaml", verbose=False), 640, batch)


def _torchvision(name: str) -> Callable[[int], Subject]:
    return lambda batch: _image(models.get_model(name, weights=None), 224, batch)


SUBJECTS: dict[str, Callable[[int], Subject]] = {
    **{
        name: _torchvision(name)
        for name in (
            *("alexnet", "vgg16", "resnet18", "resnet50", "resnet101"),
            *("mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "densenet121"),
            *("convnext_tiny", "vit_b_16", "swin_t"),
        )
    },
    "bert-base": _bert,
    "yolov8n": _yolo,
}


def measured_row(name: str, batch: int, device: str) -> Row:
    """Build a model, foretell its peak and measure it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        subject = SUBJECTS[name](batch)
    model = subject.model.eval().to(device)
    inputs = Inputs(tuple(t.to(device) for t in subject.inputs.args), {}, subject.inputs.specs)
    made = trace(model, (inputs,))
    found = measured_peak(model, inputs)
    workspace = measured_workspace(model, inputs) if device == "cpu" else None
    root = made.costs[0]
    return Row(name, root.parameters, root.macs, made.done.peak_memory, found, workspace)


def _line(row: Row, separator: str) -> str:
    mib = [
        row.weights_bytes,
        known(row.predicted.activations) or 0,
        known(row.predicted.workspace) or 0,
        row.weights_bytes + row.foretold_bytes,
        row.weights_bytes + row.measured.peak_bytes,
    ]
    scratch = row.workspace
    tensors = row.measured.peak_bytes - (scratch or 0)
    return separator.join(
        [
            f"{row.name:18}",
            f"{row.parameters / 1e6:8.3f}",
            f"{row.macs / 1e9:8.3f}",
            *(f"{size / _MIB:9.2f}" for size in mib[:3]),
            f"{tensors / _MIB:9.2f}",
            "        –" if scratch is None else f"{scratch / _MIB:9.2f}",
            *(f"{size / _MIB:9.2f}" for size in mib[3:]),
            f"{row.error_of_forward:+8.2%}",
            f"{row.error_of_total:+8.2%}",
        ]
    )


_HEADINGS = (
    *(f"{'model':18}", "  M param", "    GMAC", "  weights", "  tensors", "  scratch"),
    *(" tensors*", " scratch*", "    total", "   total*", " forward", "   total"),
)


def main() -> int:
    """Print the table; an asterisk is a measured column, sizes are MiB."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--markdown", action="store_true")
    asked = parser.parse_args()
    separator = " | " if asked.markdown else " "
    print(separator.join(_HEADINGS))
    for name in asked.names or SUBJECTS:
        print(_line(measured_row(name, asked.batch, asked.device), separator), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
