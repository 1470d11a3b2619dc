"""The most sensitive layers: predicted, measured, and measured by independent code.

``python -m benchmarks.weights.sensitivity [trained resnet50 demo:decoder] [--change int8 --per
channel]``

For each model, three lists of the output's error when one weight is changed:

- *predicted*: from first derivatives, nothing changed (what the screen shows before it measures);
- *measured*: what the product measures, on the inputs of the live run;
- *elsewhere*: measured here by other code (a deep copy, torch's own fake quantisation where it has
  one) on other inputs, which the product never saw.

Told are Spearman's rank correlation, how many of the five first are the same, and what the five
that are named cost elsewhere, as a share of what the worst five there cost. ``trained`` is a
convolutional network that the script trains on made-up pictures; the others have random weights.
"""

from __future__ import annotations

import argparse
import copy
import math
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from torch import nn

from tui_profiler.messages import LoadSpec, Message, known
from tui_profiler.messages.parameters import (
    MeasureSensitivity,
    Scheme,
    Sensitivity,
    SensitivityDone,
)
from tui_profiler.probe.load.load import load
from tui_profiler.probe.parameters.sensitivity import (
    Meter,
    Outputs,
    changed,
    channel_axis_of,
    distance,
)
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.trace import trace

OTHER_INPUTS = 3
FIRST = 5


def spearman(one: Sequence[float], other: Sequence[float]) -> float:
    """Rank correlation, ties by their mean rank."""
    return float(np.corrcoef(_ranks(one), _ranks(other))[0, 1])


def _ranks(values: Sequence[float]) -> np.ndarray:
    array = np.asarray(values, dtype=float)
    return np.array([(array < v).sum() + ((array == v).sum() - 1) / 2 for v in array])


def common(one: dict[str, float], other: dict[str, float], first: int = FIRST) -> int:
    """How many of the first names are the same."""
    return len(set(most(one, first)) & set(most(other, first)))


def cost(named: dict[str, float], really: dict[str, float], first: int = FIRST) -> float:
    """What the first that are named cost, as a share of the most that so many cost."""
    return sum(really[one] for one in most(named, first)) / sum(
        really[one] for one in most(really, first)
    )


def most(errors: dict[str, float], first: int = FIRST) -> list[str]:
    return sorted(errors, key=lambda name: -errors[name])[:first]


def measured(
    model: nn.Module, inputs: Inputs, scheme: Scheme
) -> tuple[dict[str, Sensitivity], SensitivityDone]:
    """What the product says."""
    nodes = trace(model, (inputs,)).nodes
    told: list[Message] = []
    meter = Meter(model, nodes, inputs, is_random=False, tell=told.append, now=time.perf_counter)
    meter.run(MeasureSensitivity(scheme, most_seconds=600), lambda: False)
    end = told[-1]
    assert isinstance(end, SensitivityDone)
    assert not end.why, end.why
    return {one.name: one for one in told if isinstance(one, Sensitivity) and one.done}, end


def elsewhere(
    model: nn.Module, others: Callable[[int], Inputs], names: Sequence[str], scheme: Scheme
) -> dict[str, float]:
    """The same question answered by other code on other inputs: root mean square over them."""
    model = copy.deepcopy(model)
    squares = dict.fromkeys(names, 0.0)
    for seed in range(OTHER_INPUTS):
        other = others(seed)
        outputs = Outputs(model, other)
        with torch.no_grad():
            reference = [one.clone() for one in outputs.run()]
            for name in names:
                path, _, last = name.rpartition(".")
                module = model.get_submodule(path)
                weight = getattr(module, last)
                kept = weight.detach().clone()
                weight.copy_(_by_torch(weight, scheme, channel_axis_of(module)))
                error = distance(reference, outputs.run())
                weight.copy_(kept)
                squares[name] += error.relative**2  # type: ignore[union-attr] # known on these
        outputs.restore()
    return {name: math.sqrt(square / OTHER_INPUTS) for name, square in squares.items()}


def _by_torch(weight: torch.Tensor, scheme: Scheme, axis: int) -> torch.Tensor:
    levels = {"int8": 127, "int4": 7}.get(scheme.change)
    if levels is None:
        return changed(weight, scheme, axis)
    if scheme.per == "tensor":
        scale = max(float(weight.abs().max()) / levels, 1e-12)
        return torch.fake_quantize_per_tensor_affine(weight, scale, 0, -levels, levels)
    axes = [other for other in range(weight.dim()) if other != axis]
    scales = (weight.abs().amax(dim=axes) / levels).clamp_min(1e-12)
    zeros = torch.zeros(len(scales), dtype=torch.int32)
    return torch.fake_quantize_per_channel_affine(weight, scales, zeros, axis, -levels, levels)


def _other_inputs(inputs: Inputs, seed: int) -> Inputs:
    chance = torch.Generator().manual_seed(1000 + seed)

    def other(value: object) -> object:
        if not isinstance(value, torch.Tensor):
            return value
        if value.is_floating_point():
            return torch.randn(value.shape, generator=chance).to(value.dtype)
        top = int(value.max()) + 1
        return torch.randint(0, max(top, 2), value.shape, generator=chance).to(value.dtype)

    keywords = {name: other(value) for name, value in inputs.kwargs.items()}
    return Inputs(tuple(map(other, inputs.args)), keywords)


def trained() -> tuple[nn.Module, Inputs, str]:
    """A network that tells eight kinds of gratings apart, trained here for a few seconds."""
    torch.manual_seed(0)
    block = lambda i, o, s: nn.Sequential(  # noqa: E731
        nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU()
    )
    model = nn.Sequential(
        *(block(1, 16, 1), block(16, 24, 2), block(24, 32, 1), block(32, 48, 2)),
        *(block(48, 48, 1), block(48, 64, 2), block(64, 64, 1)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8)),
    )
    optimiser = torch.optim.Adam(model.parameters(), 2e-3)
    right = 0.0
    for step in range(220):
        pictures, kinds = gratings(64)
        scores = model(pictures)
        loss = nn.functional.cross_entropy(scores, kinds)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step >= 200:
            right += float((scores.argmax(1) == kinds).float().mean()) / 20
    model.eval()
    return model, Inputs((gratings(8)[0],)), f"trained here, {right:.0%} right"


def gratings(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    kinds = torch.randint(0, 8, (count,))
    angle = (kinds % 4) * math.pi / 4 + torch.randn(count) * 0.12
    waves = torch.where(kinds < 4, 3.0, 5.0) + torch.randn(count) * 0.3
    y, x = torch.meshgrid(torch.linspace(0, 1, 28), torch.linspace(0, 1, 28), indexing="ij")
    along = torch.cos(angle)[:, None, None] * x + torch.sin(angle)[:, None, None] * y
    phase = torch.rand(count)[:, None, None] * 2 * math.pi
    clean = torch.sin(2 * math.pi * waves[:, None, None] * along + phase)
    return (clean + torch.randn(count, 28, 28) * 0.8)[:, None], kinds


def other_gratings(seed: int) -> Inputs:
    torch.manual_seed(1000 + seed)
    return Inputs((gratings(32)[0],))


def made(name: str) -> tuple[nn.Module, Inputs, str]:
    if name == "trained":
        return trained()
    loaded = load(LoadSpec(name))
    inputs = trace(loaded.model, loaded.candidates, name=name).inputs
    model = loaded.initialise() if loaded.initialise is not None else loaded.model
    return model, inputs, f"{loaded.weights} weights"


def compare(name: str, scheme: Scheme) -> tuple[str, ...]:
    """One row of the table."""
    model, inputs, weights = made(name)
    found, end = measured(model, inputs, scheme)
    ours = {one: float(known(said.output_error) or 0.0) for one, said in found.items()}
    predicted = {one: float(known(said.predicted) or 0.0) for one, said in found.items()}
    noise = {one: float(known(said.weight_error) or 0.0) for one, said in found.items()}
    others = other_gratings if name == "trained" else partial(_other_inputs, inputs)
    other = elsewhere(model, others, list(ours), scheme)
    names = list(ours)

    def rank(errors: dict[str, float]) -> str:
        rho = spearman([errors[one] for one in names], [other[one] for one in names])
        return f"{rho:.2f}, {common(errors, other)} of {FIRST}, {cost(errors, other):.0%}"

    said = spearman([predicted[one] for one in names], [ours[one] for one in names])
    worst = ", ".join(one.removesuffix(".weight") for one in most(ours))
    print(f"{name}: most sensitive {worst}", flush=True)
    return (
        *(name, weights, str(len(names)), rank(ours), rank(predicted), rank(noise)),
        *(
            f"{said:.2f}, {common(predicted, ours)} of {FIRST}, {cost(predicted, ours):.0%}",
            f"{end.seconds:.1f} s",
        ),
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("models", nargs="*", default=["trained", "resnet50", "demo:decoder"])
    options.add_argument("--change", default="int8")
    options.add_argument("--per", default="channel")
    options.add_argument("--share", type=float, default=0.5)
    given = options.parse_args()
    scheme = Scheme(given.change, given.per, given.share)
    rows = [compare(name, scheme) for name in given.models]
    told = f"rank correlation, how many of the first {FIRST} are the same, what those named cost"
    print(f"\n{given.change} per {given.per}: {told}\n")
    heads = ("model", "weights", "layers", "measured : elsewhere", "predicted : elsewhere")
    heads = (*heads, "weight's own error : elsewhere", "predicted : measured", "took")
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * len(heads))
    for row in rows:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
