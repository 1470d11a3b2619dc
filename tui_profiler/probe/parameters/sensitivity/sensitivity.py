"""What the model's output loses when the weights of one layer change: measured, weight by weight.

1. A weight is changed by giving it other memory (``changed_weights.py``), one forward runs on the
   inputs of the live run, and it gets its own memory back.
2. Each forward begins from the same state of the model and of the random generators.
3. It ends after a bounded time, and at once when anything else is asked; nothing but the state of
   the model before is left, also after an exception.
4. What is predicted to cost most is measured first, so that a bounded time is well spent.

First order: y′ − y = J·Δw. For a vector v of random signs the mean of (v·J·Δw)² is ‖J·Δw‖²
(Hutchinson 1990, doi 10.1080/03610919008812866), and v·J is one pass backwards: it gives the figure
of every weight at once. Over ``_PROBES`` passes the estimate of the norm is right to about a fifth.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import nn

from tui_profiler.messages import Figure, Message, Node, Unknown, known
from tui_profiler.messages.parameters import (
    MeasureSensitivity,
    Scheme,
    Sensitivity,
    SensitivityDone,
    SensitivityStarted,
)
from tui_profiler.probe.parameters.sensitivity.changed_weights import (
    Aliases,
    Storages,
    aliases_of,
    changed,
    channel_axis_of,
    replaced,
)
from tui_profiler.probe.parameters.sensitivity.outputs import (
    Distance,
    Outputs,
    distance,
    largest_of,
    norm_of,
)
from tui_profiler.probe.process.wire_names import writable
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.internals import parameters_of

_PROBES = 12
_SEED = 20100914


def _predicted_errors(
    run: Callable[[], list[torch.Tensor]],
    weights: Sequence[torch.Tensor],
    change_of: Callable[[int], torch.Tensor],
    is_over: Callable[[], bool],
) -> list[Figure]:
    """Estimate ‖J·Δw‖₂ of each weight; nothing is changed.

    Args:
        run: gives the output of one forward, on the same inputs each time.
        weights: those that could be changed.
        change_of: gives Δw of the weight of that index.
        is_over: tells that something else is wanted.
    """
    squares = [0.0] * len(weights)
    chance = torch.Generator().manual_seed(_SEED)
    with torch.enable_grad(), _differentiable(weights):
        outputs = [output for output in run() if output.requires_grad]
        if not outputs:
            return [Unknown("its forward records no gradients")] * len(weights)
        for probe in range(_PROBES):
            if is_over():
                return [Unknown("stopped before it was known")] * len(weights)
            gradients = torch.autograd.grad(
                outputs,
                list(weights),
                [_signs(output, chance) for output in outputs],
                retain_graph=probe < _PROBES - 1,
                allow_unused=True,
            )
            for index, gradient in enumerate(gradients):
                if gradient is not None:
                    squares[index] += _product(gradient, change_of(index)) ** 2
    return [math.sqrt(square / _PROBES) for square in squares]


@contextmanager
def _differentiable(weights: Sequence[torch.Tensor]) -> Iterator[None]:
    frozen = [weight for weight in weights if not weight.requires_grad]
    try:
        for weight in frozen:
            weight.requires_grad_(True)
        yield
    finally:
        for weight in frozen:
            weight.requires_grad_(False)


def _signs(like: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
    signs = torch.randint(0, 2, tuple(like.shape), generator=chance, dtype=torch.int8) * 2 - 1
    return signs.to(device=like.device, dtype=like.dtype)


def _product(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one.double() * other.double()).sum())


MOST_SAVED_BYTES = 2 << 30
"""Of what operators write in one forward: about what a pass backwards needs to be kept."""
MOST_KEPT_BYTES = 1 << 29
"""Of changes of weights, kept so that they are computed once for all passes backwards."""
MOST_SECONDS = 600.0
_MOST_REASON = 200
_NOT_YET = Unknown("not measured yet")


class Target(NamedTuple):
    """A weight that can be changed, or why not."""

    owner: str
    name: str
    weight: torch.Tensor
    channel_axis: int
    aliases: Aliases | Unknown


class Meter:
    """Measures the sensitivity of one model.

    Args:
        model: the root; left as it is found.
        nodes: its tree.
        inputs: what it is run on.
        is_random: whether its weights are those of an initialisation.
        tell: takes each message.
        now: gives seconds since the command was started.
    """

    def __init__(
        self,
        model: nn.Module,
        nodes: Sequence[Node],
        inputs: Inputs,
        *,
        is_random: bool,
        tell: Callable[[Message], None],
        now: Callable[[], float],
    ) -> None:
        self._model = model
        self._nodes = nodes
        self._inputs = inputs
        self._is_random = is_random
        self._tell = tell
        self._now = now
        self._measured = 0
        self._noise: Figure = Unknown("no forward was run")
        self._output_largest: Figure = Unknown("no forward was run")

    def run(self, request: MeasureSensitivity, is_over: Callable[[], bool]) -> None:
        """Measure what was asked, and tell it weight by weight.

        Args:
            request: which weights, and how they are changed.
            is_over: tells that something else is wanted.
        """
        began = time.perf_counter()
        scheme, under = request.scheme, request.under
        until = began + min(request.most_seconds, MOST_SECONDS)
        targets = list(self._targets(under))
        self._tell(SensitivityStarted(self._now(), scheme, len(targets), self._is_random, under))
        why = "no weight of two axes or more here" if not targets else ""
        if targets:
            outputs = Outputs(self._model, self._inputs)
            try:
                why = self._measure(outputs, targets, scheme, is_over, until)
            except Exception as error:  # The user's model: it may raise anything.
                why = f"the forward fails: {type(error).__name__}: {error}"
            finally:
                outputs.restore()
        self._tell(
            SensitivityDone(
                self._now(),
                scheme,
                time.perf_counter() - began,
                self._measured,
                self._noise,
                self._output_largest,
                writable(why[:_MOST_REASON]),
            )
        )

    def _measure(
        self,
        outputs: Outputs,
        targets: list[Target],
        scheme: Scheme,
        is_over: Callable[[], bool],
        until: float,
    ) -> str:
        """Measure; gives why it ended before its time."""
        with torch.no_grad():
            reference = [tensor.clone() for tensor in outputs.run()]
            if not reference:
                return "the output holds no floating-point numbers"
            noise = distance(reference, outputs.run())
            if isinstance(noise, Unknown):
                return noise.reason
            self._noise, self._output_largest = noise.relative, largest_of(reference)
        predicted = self._predict(outputs, targets, scheme, norm_of(reference), is_over)
        known_first = [(-(known(figure) or 0.0), at) for at, figure in enumerate(predicted)]
        order = [at for _, at in sorted(known_first)]
        errors = [self._weight_error(target, scheme) for target in targets]
        for at in order:
            self._tell(self._figure(targets[at], scheme, errors[at], predicted[at], _NOT_YET))
        for at in order:
            if is_over():
                return f"stopped: {self._measured} of {len(targets)} weights were measured"
            if time.perf_counter() > until:
                return f"out of time: {self._measured} of {len(targets)} weights were measured"
            found = self._one(outputs, reference, targets[at], scheme, errors[at])
            self._measured += 1
            self._tell(self._figure(targets[at], scheme, errors[at], predicted[at], found))
        return ""

    def _one(
        self,
        outputs: Outputs,
        reference: Sequence[torch.Tensor],
        target: Target,
        scheme: Scheme,
        weight_error: Figure,
    ) -> Distance | Unknown:
        """Run one forward with one weight changed."""
        if isinstance(weight_error, Unknown):
            return weight_error
        if isinstance(target.aliases, Unknown):
            return target.aliases
        with torch.no_grad():
            values = changed(target.weight, scheme, target.channel_axis)
            with replaced(target.aliases, values):
                return distance(reference, outputs.run())

    def _figure(
        self,
        target: Target,
        scheme: Scheme,
        weight_error: Figure,
        predicted: Figure,
        found: Distance | Unknown,
    ) -> Sensitivity:
        return Sensitivity(
            owner=writable(target.owner),
            name=writable(target.name),
            scheme=scheme,
            weight_error=weight_error,
            predicted=predicted,
            output_error=found if isinstance(found, Unknown) else found.relative,
            largest=found if isinstance(found, Unknown) else found.largest,
            at=self._now(),
            done=self._measured,
        )

    def _predict(
        self,
        outputs: Outputs,
        targets: list[Target],
        scheme: Scheme,
        norm: float,
        is_over: Callable[[], bool],
    ) -> list[Figure]:
        """Return what each weight would cost, as a share of the output's norm."""
        written = sum(
            one.bytes for node in self._nodes if node.kind == "op" for one in node.outputs
        )
        if written > MOST_SAVED_BYTES:
            return [Unknown("its derivatives would keep over 2 GiB")] * len(targets)
        kept: dict[int, torch.Tensor] = {}
        kept_bytes = 0

        def change_of(index: int) -> torch.Tensor:
            nonlocal kept_bytes
            if index not in kept:
                target = targets[index]
                with torch.no_grad():
                    change = changed(target.weight, scheme, target.channel_axis) - target.weight
                kept_bytes += change.numel() * change.element_size()
                if kept_bytes > MOST_KEPT_BYTES:
                    return change
                kept[index] = change
            return kept[index]

        weights = [target.weight for target in targets]
        try:
            found = _predicted_errors(outputs.run, weights, change_of, is_over)
        except Exception as error:  # No derivative of one operator is no reason not to measure.
            reason = f"no derivatives: {type(error).__name__}: {error}"[:_MOST_REASON]
            return [Unknown(writable(reason))] * len(targets)
        return [one if isinstance(one, Unknown) else _figure(one / norm) for one in found]

    def _weight_error(self, target: Target, scheme: Scheme) -> Figure:
        with torch.no_grad():
            if not bool(torch.isfinite(target.weight.float()).all()):
                return Unknown("NaN or infinite values in it")
            found = distance([target.weight], [changed(target.weight, scheme, target.channel_axis)])
        if isinstance(found, Unknown):
            return Unknown("nothing but zeros in it")
        return found.relative

    def _targets(self, under: str) -> Iterator[Target]:
        """Yield the weights that were asked for, each once, in the order of the tree."""
        storages = Storages([*self._model.parameters(), *self._model.buffers()])
        seen: set[int] = set()
        for node in self._nodes:
            if node.kind == "op" or not node.weights:
                continue
            try:
                module = self._model.get_submodule(node.path)
            except AttributeError:  # The tree speaks of a part that is not there any more.
                continue
            for name, weight in parameters_of(module).items():
                full = f"{node.path}.{name}" if node.path else name
                if weight is None or id(weight) in seen or not _is_weight(weight):
                    continue
                seen.add(id(weight))
                if not under or full == under or full.startswith(f"{under}."):
                    aliases = aliases_of(weight, storages.beside(weight))
                    yield Target(node.path, full, weight, channel_axis_of(module), aliases)


def _is_weight(tensor: torch.Tensor) -> bool:
    """Tell a plain parameter of two axes or more from biases, factors, and stored bits."""
    is_plain = type(tensor) in (nn.Parameter, torch.Tensor) and tensor.layout is torch.strided
    is_there = tensor.device.type != "meta" and tensor.numel() > 0
    return is_plain and is_there and tensor.is_floating_point() and tensor.dim() >= 2


def _figure(value: float) -> Figure:
    return value if math.isfinite(value) else Unknown("its derivatives are not finite")
