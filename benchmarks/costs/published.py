"""Compare our MACs and parameters with torchvision's, for every weight entry.

``python benchmarks/costs/published.py [PATTERN]...`` prints one line per entry (``name/ENTRY``):
published GMACs (``weights.meta["_ops"]``) and ours, published parameters and ours, and why they
differ where they do. Run it as ``OMP_NUM_THREADS=1 python benchmarks/costs/published.py``.

1. A model is built by its own builder with the entry's weights, whose file is not fetched: heads,
   frozen norms and image sizes are those of the weights. Values are left as they were allocated, as
   no count depends on them, except where the model must really run.
2. Inputs are those that torchvision counts with (``test/common_extended_utils.py`` and
   ``detection_models_input_dims`` of ``test/test_extended_models.py``): 512 x 512 noise through the
   entry's transforms, 16 frames of it for video, and a size for each detector.
3. What a two-stage detector computes depends on how many proposals are left. Its line has the bound
   (all are kept), and the figure of a real run with random weights. torchvision ran it with trained
   weights on noise: that lies below the bound, and is no figure of any other image.
4. Quantised models run for real. What is published of them was counted on the float model.
"""

from __future__ import annotations

import fnmatch
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torchvision import models
from torchvision.models import WeightsEnum

from tui_profiler.messages import InputSpec
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.record import record
from tui_profiler.probe.trace.trace import Trace, trace
from tui_profiler.probe.trace.tracers import DISPATCH_REAL

SAMPLE = (
    "alexnet/IMAGENET1K_V1",
    "deeplabv3_mobilenet_v3_large/COCO_WITH_VOC_LABELS_V1",
    "densenet121/IMAGENET1K_V1",
    "efficientnet_b4/IMAGENET1K_V1",
    "googlenet/IMAGENET1K_V1",
    "inception_v3/IMAGENET1K_V1",
    "maxvit_t/IMAGENET1K_V1",
    "mvit_v2_s/KINETICS400_V1",
    "raft_small/C_T_V2",
    "regnet_y_16gf/IMAGENET1K_SWAG_E2E_V1",
    "resnet50/IMAGENET1K_V2",
    "ssdlite320_mobilenet_v3_large/COCO_V1",
    "swin_t/IMAGENET1K_V1",
    "swin3d_t/KINETICS400_V1",
    "vit_b_16/IMAGENET1K_SWAG_E2E_V1",
    "vit_b_32/IMAGENET1K_V1",
)
"""One of each family, small: the test in the suite; the benchmark itself takes all."""

_DETECTOR_SIZES = {
    "fasterrcnn_mobilenet_v3_large_320_fpn": 320,
    "keypointrcnn_resnet50_fpn": 1333,
    "ssd300_vgg16": 300,
    "ssdlite320_mobilenet_v3_large": 320,
}
_DETECTOR_SIZE = 800
_SIZE = 512
_FRAMES = 16

_TWO_STAGES = "two stages: published for the proposals of trained weights on noise"


class SkipInitialisation(TorchFunctionMode):
    """Leaves new parameters as they were allocated: filling them takes longer than tracing."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if getattr(func, "__module__", "") == "torch.nn.init":
            return kwargs["tensor"] if kwargs and "tensor" in kwargs else args[0]
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True)
class Published:
    """A model as one weight entry has it, with what torchvision says of it."""

    name: str
    """``resnet50/IMAGENET1K_V1``."""
    folder: str
    """Of torchvision: ``detection``, ``quantization``, ``models`` …"""
    model: torch.nn.Module
    inputs: Inputs
    gmacs: float
    parameters: int


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    published: Published
    gmacs: float
    parameters: int
    run_gmacs: float | None
    """Of a real run, where the count depends on values."""
    is_bound: bool
    seconds: float

    @property
    def is_equal(self) -> bool:
        """Both figures are the published ones."""
        return self.has_equal_macs and self.parameters == self.published.parameters

    @property
    def has_equal_macs(self) -> bool:
        """Equal to the three decimals that are published."""
        return f"{self.gmacs:.3f}" == f"{self.published.gmacs:.3f}"


def entry_names() -> list[str]:
    """Name every weight entry of every model."""
    return [
        f"{name}/{entry.name}"
        for name in models.list_models()
        for entry in models.get_model_weights(name)
    ]


def build(full_name: str) -> Published:
    """Build a model as one of its weight entries has it, without fetching their file."""
    name, _, entry_name = full_name.partition("/")
    entry = models.get_model_weights(name)[entry_name]
    folder = models.get_model_builder(name).__module__.split(".")[-2]
    is_run = folder in ("detection", "quantization")
    keywords = {"quantize": True} if folder == "quantization" else {}
    filled: AbstractContextManager[object] = nullcontext() if is_run else SkipInitialisation()
    torch.manual_seed(0)
    with filled, no_files(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = models.get_model(name, weights=entry, **keywords).eval()
    inputs = _inputs(name, folder, entry)
    return Published(full_name, folder, model, inputs, entry.meta["_ops"], entry.meta["num_params"])


@contextmanager
def no_files() -> Iterator[None]:
    """Let torchvision's builders take weights as if their files had been read."""
    with ExitStack() as stack:
        for owner, name, result in (
            (WeightsEnum, "get_state_dict", {}),
            (torch.nn.Module, "load_state_dict", None),
        ):
            stack.enter_context(mock.patch.object(owner, name, return_value=result))
        yield


def _inputs(name: str, folder: str, entry: WeightsEnum) -> Inputs:
    side = _DETECTOR_SIZES.get(name, _DETECTOR_SIZE) if folder == "detection" else _SIZE
    leading = {"detection": (), "video": (1, _FRAMES)}.get(folder, (1,))
    noise = torch.randn((*leading, 3, side, side))
    transforms = entry.transforms()
    given = transforms(noise, noise) if folder == "optical_flow" else (transforms(noise),)
    specs = tuple(InputSpec("", tuple(t.shape), "float32", "its transforms") for t in given)
    return Inputs((list(given),) if folder == "detection" else tuple(given), {}, specs, 1)


def gmacs(made: Trace) -> float:
    """Return our MACs and parameters."""
    return made.costs[0].macs / 1e9


def counted(published: Published) -> Row:
    """Trace a model, and run it for real too where the trace is a bound."""
    started = time.process_time()
    made = trace(published.model, (published.inputs,))
    seconds = time.process_time() - started
    is_bound = "torchvision::nms" in made.done.bounded
    return Row(
        published=published,
        gmacs=gmacs(made),
        parameters=made.costs[0].parameters,
        run_gmacs=_run_gmacs(published) if is_bound else None,
        is_bound=is_bound,
        seconds=seconds,
    )


def _run_gmacs(published: Published) -> float:
    recording = record(published.model, published.inputs, DISPATCH_REAL, "")
    return sum(place.own.macs for place in recording.places.in_preorder()) / 1e9


def explanation(row: Row) -> str | None:
    """Say why a row is not equal; None where nothing explains it."""
    published = row.published
    if row.is_equal:
        return ""
    if published.folder == "quantization" and row.has_equal_macs:
        left = published.parameters - packed_parameters(published.model)
        return f"weights are packed; {left:,} of the float model's were folded norms, dropped heads"
    two_stages = published.name.partition("_")[0] in ("fasterrcnn", "maskrcnn", "keypointrcnn")
    if two_stages and row.parameters == published.parameters and row.gmacs >= published.gmacs:
        return _TWO_STAGES
    return None


def packed_parameters(model: torch.nn.Module) -> int:
    """Count the weights and biases that quantised layers keep packed."""
    count = 0
    for module in model.modules():
        weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
        if callable(weight) and callable(bias):
            parts = (weight(), bias())
            count += sum(part.numel() for part in parts if part is not None)
    return count


def main(patterns: list[str]) -> int:
    """Print the table; 1 where a figure is not the published one and nothing explains it."""
    wanted = patterns or ["*"]
    names = [n for n in entry_names() if any(fnmatch.fnmatch(n, p) for p in wanted)]
    print(f"{'entry':52} {'published':>9} {'ours':>9} {'run':>9} {'parameters':>12} {'ours':>12}")
    unequal = unexplained = 0
    for name in names:
        row = counted(build(name))
        why = explanation(row)
        unequal += not row.is_equal
        unexplained += why is None
        run = "" if row.run_gmacs is None else f"{row.run_gmacs:.3f}"
        print(
            f"{name:52} {row.published.gmacs:9.3f} {row.gmacs:9.3f}{'≤' if row.is_bound else ' '}"
            f"{run:>9} {row.published.parameters:12,} {row.parameters:12,}"
            f"  {'UNEXPLAINED' if why is None else why}",
            flush=True,
        )
    print(f"{len(names)} entries, {len(names) - unequal} equal, {unexplained} unexplained")
    return int(unexplained > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
