"""Compare the predicted peak of a training step with the allocations of a real one.

``python -m benchmarks.training.memory [--markdown] [--tracker] [NAME]...`` trains each model with
SGD, Adam and AdamW, with and without momentum, autocast, checkpointing and accumulation for some,
and prints what the step takes beside parameters, buffers, inputs and the optimizer's state: its
activations, gradients, temporaries and workspace, as predicted and by ``torch.profiler``'s memory
events of the third step. ``--tracker`` puts torch's ``MemTracker`` on fake tensors beside it, which
knows tensors, but no workspace.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import nn
from torch.distributed._tools.mem_tracker import MemTracker
from torchvision import models

from tui_profiler.messages import TrainingMemory, TrainSpec, known
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.internals import FakeTensorMode
from tui_profiler.probe.trace.measured_peak import most_allocated
from tui_profiler.probe.trace.training.checkpointing import checkpointed, chosen_modules
from tui_profiler.probe.trace.training.optimizers import make_optimizer
from tui_profiler.probe.trace.training.record_step import trace_step
from tui_profiler.probe.trace.training.step import TrainingStep

OPTIMIZERS = ("sgd", "adam", "adamw")
LIMIT = 0.02
_MIB = 1 << 20


class Gpt(nn.Module):
    """A decoder of two blocks on tokens (batch, length)."""

    def __init__(self, width: int = 128, words: int = 500) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, norm_first=True)
            for _ in range(2)
        )
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return logits (batch, length, words)."""
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x, src_mask=mask, is_causal=True)
        found: torch.Tensor = self.head(x)
        return found


def _image(batch: int, side: int) -> Inputs:
    return Inputs((torch.randn(batch, 3, side, side),))


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Inputs]]] = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 64)),
        lambda: Inputs((torch.randn(64, 256),)),
    ),
    "gpt": (Gpt, lambda: Inputs((torch.randint(0, 500, (4, 64)),))),
    "lstm": (lambda: nn.LSTM(64, 128, 2), lambda: Inputs((torch.randn(40, 8, 64),))),
    "gru": (
        lambda: nn.GRU(64, 128, 2, bidirectional=True),
        lambda: Inputs((torch.randn(20, 4, 64),)),
    ),
    "wide_lstm": (
        lambda: nn.LSTM(256, 128, batch_first=True),
        lambda: Inputs((torch.randn(4, 20, 256),)),
    ),
    "resnet18": (models.resnet18, lambda: _image(4, 96)),
    "mobilenet_v3_small": (models.mobilenet_v3_small, lambda: _image(8, 96)),
    "vgg11": (models.vgg11, lambda: _image(2, 96)),
    "transition": (
        lambda: nn.Sequential(nn.BatchNorm2d(1024), nn.ReLU(), nn.Conv2d(1024, 512, 1)),
        lambda: Inputs((torch.randn(4, 1024, 3, 3),)),
    ),
    "squeezenet1_1": (models.squeezenet1_1, lambda: _image(4, 96)),
    "shufflenet_v2_x0_5": (models.shufflenet_v2_x0_5, lambda: _image(8, 96)),
    "densenet121": (models.densenet121, lambda: _image(4, 96)),
    "efficientnet_b0": (models.efficientnet_b0, lambda: _image(4, 96)),
    "convnext_tiny": (models.convnext_tiny, lambda: _image(2, 96)),
    "vit_b_32": (models.vit_b_32, lambda: _image(2, 224)),
    "swin_t": (models.swin_t, lambda: _image(2, 112)),
}
WAYS = (
    TrainSpec("sgd,momentum=0.9"),
    TrainSpec("adamw", accumulate=2),
    TrainSpec("adamw", checkpoint="blocks"),
    TrainSpec("adamw", autocast="bf16"),
)
"""For the models in ``WITH_WAYS`` beside the plain ones."""
WITH_WAYS = ("gpt", "resnet18")
WITH_AUTOCAST = ("transition", "densenet121")


@dataclass(frozen=True)
class Row:
    """What was predicted of one step, and what it took; bytes."""

    name: str
    spec: TrainSpec
    predicted: TrainingMemory
    measured: int
    """What the step had allocated at once, beside what lives all along."""
    tracked: int | None = None
    """The same by ``MemTracker``."""

    @property
    def foretold(self) -> int:
        """The same as predicted."""
        memory = self.predicted
        constant = memory.parameters + memory.buffers + memory.inputs + memory.optimizer_state
        return memory.peak - constant + int(known(memory.workspace) or 0)

    @property
    def error(self) -> float:
        """Of what the step takes."""
        return self.foretold / self.measured - 1


def compared(name: str, spec: TrainSpec, *, tracks: bool = False) -> Row:
    """Predict a step of one model, and run it for real."""
    build, give = MODELS[name]
    torch.manual_seed(0)
    model, inputs = build().train(), give()
    predicted = trace_step(model, [inputs], spec, spec.optimizer).memory
    tracked = _tracked(build, give, spec, predicted) if tracks else None
    return Row(name, spec, predicted, real_peak(model, inputs, spec), tracked)


def real_peak(model: nn.Module, inputs: Inputs, spec: TrainSpec) -> int:
    """Return the most bytes that a step allocates at once: the third one, by torch's events."""
    own = {id(one): one for one in model.parameters() if one.requires_grad}
    optimizer, step = make_optimizer(spec.optimizer, own), TrainingStep(model, inputs, spec)
    chosen = chosen_modules(model, spec.checkpoint) if spec.checkpoint else []
    with checkpointed([module for _, module in chosen]):
        for _ in range(2):
            step.run(optimizer)
        return most_allocated(lambda: step.run(optimizer), torch.device("cpu"))


def _tracked(
    build: Callable[[], nn.Module],
    give: Callable[[], Inputs],
    spec: TrainSpec,
    predicted: TrainingMemory,
) -> int | None:
    """Return what ``MemTracker`` says of the second step on fake tensors, likewise."""
    if spec.checkpoint or spec.accumulate > 1:
        return None
    model, given = build().train().to("meta"), give()  # Initialising reads values.
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        model.to_empty(device="cpu")
        given = Inputs(tuple(mode.from_tensor(one) for one in given.args))
        own = {id(one): one for one in model.parameters() if one.requires_grad}
        optimizer, step = make_optimizer(spec.optimizer, own), TrainingStep(model, given, spec)
        step.run(optimizer)
        tracker = MemTracker()
        tracker.track_external(model, optimizer, *given.args)
        with tracker:
            step.run(optimizer)
        whole = max(found["Total"] for found in tracker.get_tracker_snapshot("peak").values())
    constant = predicted.parameters + predicted.buffers + predicted.inputs
    return int(whole) - constant - predicted.optimizer_state


def main() -> int:
    """Print a row for each model and optimizer; 1 where one is beyond the limit."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("names", nargs="*", metavar="NAME")
    arguments.add_argument("--markdown", action="store_true")
    arguments.add_argument("--tracker", action="store_true")
    wanted = arguments.parse_args()
    warnings.simplefilter("ignore")
    bar = " | " if wanted.markdown else "  "
    beyond = 0
    for name, spec in _cases(wanted.names):
        row = compared(name, spec, tracks=wanted.tracker)
        beyond += abs(row.error) > LIMIT
        tracked = "" if row.tracked is None else f"{row.tracked / _MIB:.2f}"
        cells = (
            f"{name:20}",
            f"{spec.optimizer:18}",
            f"{spec.checkpoint or spec.autocast or ('x2' if spec.accumulate > 1 else ''):8}",
            f"{row.foretold / _MIB:10.2f}",
            f"{row.measured / _MIB:10.2f}",
            f"{row.error:+8.2%}",
            f"{row.predicted.phase:9}",
            *((f"{tracked:>10}",) if wanted.tracker else ()),
        )
        print(bar.join(cells), flush=True)
    print(f"beyond {LIMIT:.0%}: {beyond}")
    return int(beyond > 0)


def _cases(names: list[str]) -> Iterator[tuple[str, TrainSpec]]:
    for name in names or MODELS:
        yield from ((name, TrainSpec(optimizer)) for optimizer in OPTIMIZERS)
        if name in WITH_WAYS:
            yield from ((name, spec) for spec in WAYS)
        if name in WITH_AUTOCAST:
            yield name, TrainSpec("adamw", autocast="bf16")


if __name__ == "__main__":
    sys.exit(main())
