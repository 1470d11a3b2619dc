"""Sensitivity: error of the model's output if one weight changes, measured weight by weight.

1. A weight is changed by giving it other memory (``replaced``); one forward runs on the inputs of
   the live run, and it gets its memory back.
2. Each forward starts from the same state of the model and of the random generators.
3. It ends after a limited time, and at once on another request; the model is restored, also after
   an exception.
4. Weights with the largest predicted error are measured first.

First order: y′ − y = J·Δw. For a vector v of random signs the mean of (v·J·Δw)² is ‖J·Δw‖²
(Hutchinson 1990, doi 10.1080/03610919008812866), and v·J is one backward pass, for all weights at
once. With ``_PROBES`` passes the standard error of the norm is about a fifth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import nn

from tui_profiler import messages
from tui_profiler.messages import Figure, Message, Node, Unknown, known
from tui_profiler.messages.parameters import Format, Scheme
from tui_profiler.probe.parameters.storage import LARGEST, stored
from tui_profiler.probe.parameters.subjects import is_under
from tui_profiler.probe.parameters.values import reach
from tui_profiler.probe.process.wire_names import writable
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.forward_tokens import CACHES
from tui_profiler.probe.torch_compat.internals import parameters_of, storage_key
from tui_profiler.probe.torch_compat.kv_cache import remade, tensors_of
from tui_profiler.probe.trace.snapshot import Snapshot
from tui_profiler.system import real_time as time

_PROBES = 12
_SEED = 20100914


def _predicted_errors(
    run: Callable[[], list[torch.Tensor]],
    weights: Sequence[torch.Tensor],
    change_of: Callable[[int], torch.Tensor],
    is_over: Callable[[], bool],
) -> list[Figure]:
    """Estimate ‖J·Δw‖₂ of each weight, without changing any.

    Args:
        run: returns the output of one forward, on the same inputs each time.
        weights: the weights.
        change_of: returns Δw of the weight at an index.
        is_over: returns whether to stop.
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
"""Bytes that operators write per forward: about what a backward pass keeps."""
MOST_KEPT_BYTES = 1 << 29
"""Of changes of weights, kept for all backward passes."""
MOST_SECONDS = 600.0
_MOST_REASON = 200
_NOT_YET = Unknown("not measured yet")


class Target(NamedTuple):
    """A weight, and the tensors that share its memory, or why it cannot be changed."""

    owner: str
    name: str
    weight: torch.Tensor
    channel_axis: int
    aliases: Aliases | Unknown


class Meter:
    """Measures the sensitivity of one model.

    Args:
        model: the root; restored afterwards.
        nodes: its tree.
        inputs: of its forwards.
        is_random: whether its weights are randomly initialised.
        tell: sends a message.
        now: returns seconds since the start of the command.
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

    def run(self, request: messages.MeasureSensitivity, is_over: Callable[[], bool]) -> None:
        """Measure, and report weight by weight.

        Args:
            request: which weights, and how they are changed.
            is_over: returns whether to stop.
        """
        began = time.perf_counter()
        scheme, under = request.scheme, request.under
        until = began + min(request.most_seconds, MOST_SECONDS)
        targets = list(self._targets(under))
        self._tell(
            messages.SensitivityStarted(self._now(), scheme, len(targets), self._is_random, under)
        )
        why = "no weights with two or more axes" if not targets else ""
        if targets:
            outputs = Outputs(self._model, self._inputs)
            try:
                why = self._measure(outputs, targets, scheme, is_over, until)
            except Exception as error:  # The user's model may raise anything.
                why = f"the forward fails: {type(error).__name__}: {error}"
            finally:
                outputs.restore()
        self._tell(
            messages.SensitivityDone(
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
        """Measure; return why it ended early."""
        with torch.no_grad():
            reference = [tensor.clone() for tensor in outputs.run()]
            if not reference:
                return "the output has no floating-point values"
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
    ) -> messages.Sensitivity:
        return messages.Sensitivity(
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
        """Return the predicted error of each weight, as a share of the output's norm."""
        written = sum(
            one.bytes for node in self._nodes if node.kind == "op" for one in node.outputs
        )
        if written > MOST_SAVED_BYTES:
            return [Unknown("its gradients would keep over 2 GiB")] * len(targets)
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
        except Exception as error:  # Measuring needs no gradients.
            reason = f"no gradients: {type(error).__name__}: {error}"[:_MOST_REASON]
            return [Unknown(writable(reason))] * len(targets)
        return [one if isinstance(one, Unknown) else _figure(one / norm) for one in found]

    def _weight_error(self, target: Target, scheme: Scheme) -> Figure:
        with torch.no_grad():
            if not bool(torch.isfinite(target.weight.float()).all()):
                return Unknown("it has NaN or infinite values")
            found = distance([target.weight], [changed(target.weight, scheme, target.channel_axis)])
        if isinstance(found, Unknown):
            return Unknown("it is all zeros")
        return found.relative

    def _targets(self, under: str) -> Iterator[Target]:
        """Yield the requested weights, each once, in the order of the tree."""
        storages = Storages([*self._model.parameters(), *self._model.buffers()])
        seen: set[int] = set()
        for node in self._nodes:
            if node.kind == "op" or not node.weights:
                continue
            try:
                module = self._model.get_submodule(node.path)
            except AttributeError:  # The module was removed after the trace.
                continue
            for name, weight in parameters_of(module).items():
                full = f"{node.path}.{name}" if node.path else name
                if weight is None or id(weight) in seen or not _is_weight(weight):
                    continue
                seen.add(id(weight))
                if is_under(full, under):
                    aliases = aliases_of(weight, storages.beside(weight))
                    yield Target(node.path, full, weight, channel_axis_of(module), aliases)


def _is_weight(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is a plain weight with two or more axes."""
    is_plain = type(tensor) in (nn.Parameter, torch.Tensor) and tensor.layout is torch.strided
    is_there = tensor.device.type != "meta" and tensor.numel() > 0
    return is_plain and is_there and tensor.is_floating_point() and tensor.dim() >= 2


def _figure(value: float) -> Figure:
    return value if math.isfinite(value) else Unknown("its gradients are not finite")


_CHUNK = 1 << 20
"""Values compared at once, in float64."""
MOST_BUFFER_BYTES = 1 << 30
"""Of buffers, which are copied and restored before each forward."""


class Distance(NamedTuple):
    """Difference of two outputs."""

    relative: float
    """‖y′ − y‖₂ / ‖y‖₂."""
    largest: float
    """Largest |y′ − y|."""


class Outputs:
    """Runs a model from the same state, with copies of the same inputs.

    Args:
        model: its state is restored before each forward, and by ``restore``.
        inputs: of each forward.
    """

    def __init__(self, model: nn.Module, inputs: Inputs) -> None:
        self._model = model
        self._inputs = inputs
        self._snapshot = Snapshot(model)
        buffers = [buffer for buffer in model.buffers() if buffer is not None]
        if sum(buffer.numel() * buffer.element_size() for buffer in buffers) <= MOST_BUFFER_BYTES:
            self._snapshot.before_write(buffers)

    def restore(self) -> None:
        """Restore the model and the random generators."""
        self._snapshot.restore()

    def run(self) -> list[torch.Tensor]:
        """Return the floating-point outputs of one forward, in order, without KV caches."""
        self._snapshot.restore()
        copies = remade((self._inputs.args, self._inputs.keywords()), torch.clone)
        assert isinstance(copies, tuple)
        arguments, keywords = copies
        found = self._model(*arguments, **keywords)
        if isinstance(found, Mapping):
            found = {name: value for name, value in found.items() if name not in CACHES}
        return [tensor for tensor in tensors_of(found) if _is_of_numbers(tensor)]


def distance(
    reference: Sequence[torch.Tensor], found: Sequence[torch.Tensor]
) -> Distance | Unknown:
    """Return the difference of two outputs, over all their tensors, in float64."""
    if [one.shape for one in reference] != [one.shape for one in found]:
        return Unknown("the change alters the shape of the output")
    squares, squared_errors, largest = 0.0, 0.0, 0.0
    for one, other in zip(reference, found, strict=True):
        for before, after in zip(_parts(one), _parts(other), strict=True):
            exact = before.double()
            error = after.double() - exact
            squares += float(exact.square().sum())
            squared_errors += float(error.square().sum())
            largest = max(largest, float(error.abs().max()))
    if not math.isfinite(squares) or not math.isfinite(squared_errors):
        return Unknown("the output has NaN or infinite values")
    if not squares:
        return Unknown("the output is all zeros")
    return Distance(math.sqrt(squared_errors / squares), largest)


def largest_of(outputs: Sequence[torch.Tensor]) -> float:
    """Return the largest magnitude."""
    return max(float(_flat(one).abs().max()) for one in outputs)


def norm_of(outputs: Sequence[torch.Tensor]) -> float:
    """Return the L2 norm of all tensors together."""
    squares = 0.0
    for one in outputs:
        for part in _parts(one):
            squares += float(part.double().square().sum())
    return math.sqrt(squares)


def _parts(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.split(_flat(tensor), _CHUNK)


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.detach()
    return (torch.view_as_real(flat) if flat.is_complex() else flat).reshape(-1)


def _is_of_numbers(tensor: torch.Tensor) -> bool:
    is_plain = tensor.layout is torch.strided and not tensor.is_nested and tensor.numel() > 0
    return is_plain and (tensor.is_floating_point() or tensor.is_complex())


def changed(weight: torch.Tensor, scheme: Scheme, channel_axis: int = 0) -> torch.Tensor:
    """Return a weight changed by a scheme.

    Args:
        weight: with two or more axes, and finite values.
        scheme: the change.
        channel_axis: its axis of output channels.
    """
    exact = weight.detach().to(torch.promote_types(weight.dtype, torch.float32))
    if scheme.change == "values":
        found = without_values(exact, scheme.share)
    elif scheme.change == "channels":
        found = without_channels(exact, scheme.share, channel_axis)
    else:
        axes = [axis for axis in range(exact.dim()) if axis != channel_axis]
        found = quantised(exact, scheme.change, axes if scheme.per == "channel" else None)
    return found.to(weight.dtype)


def quantised(exact: torch.Tensor, form: Format, axes: list[int] | None) -> torch.Tensor:
    """Return values quantised and dequantised.

    Args:
        exact: float32 or float64.
        form: the format.
        axes: those that share a scale; None: all.
    """
    magnitude = exact.abs()
    top = magnitude.amax() if axes is None else magnitude.amax(dim=axes, keepdim=True)
    top = torch.where(top > 0, top, torch.ones_like(top))
    scale = top / LARGEST[form]
    return stored(exact / scale, form, LARGEST[form]).mul_(scale)


def without_values(exact: torch.Tensor, share: float) -> torch.Tensor:
    """Return a copy with the smallest values set to 0: exactly this share, rounded."""
    count = round(exact.numel() * min(max(share, 0.0), 1.0))
    found = exact.clone()
    if not count:
        return found
    magnitude = exact.abs().flatten()
    limit = magnitude.kthvalue(count).values
    goes = magnitude < limit
    # Of equal magnitudes the first are set to 0, so that the count is exact.
    equal = (magnitude == limit).nonzero().flatten()
    goes[equal[: count - int(goes.sum())]] = True
    return found.masked_fill_(goes.view(exact.shape), 0.0)


def without_channels(exact: torch.Tensor, share: float, axis: int) -> torch.Tensor:
    """Return a copy with the weakest output channels set to 0; at least one channel stays."""
    channels = exact.shape[axis]
    count = min(round(channels * min(max(share, 0.0), 1.0)), channels - 1)
    axes = [other for other in range(exact.dim()) if other != axis]
    norms = torch.linalg.vector_norm(exact, dim=axes)
    weakest = norms.argsort(stable=True)[:count]
    return exact.index_fill(axis, weakest, 0.0)


def channel_axis_of(module: nn.Module) -> int:
    """Return the axis of output channels of a module's weights."""
    return 1 if isinstance(module, nn.modules.conv._ConvTransposeNd) else 0


class Aliases(NamedTuple):
    """The tensors that share memory with a weight, the weight first."""

    tensors: tuple[torch.Tensor, ...]
    low: int
    """Index of their first value in the storage."""
    high: int
    """Index behind their last value."""


class Storages:
    """Parameters and buffers of a model by storage."""

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        self._tensors: dict[int, list[torch.Tensor]] = {}
        for tensor in tensors:
            key = storage_key(tensor)
            if key is not None and tensor.numel():
                self._tensors.setdefault(key, []).append(tensor)

    def beside(self, weight: torch.Tensor) -> list[torch.Tensor]:
        """Return the tensors in the storage of one of them."""
        key = storage_key(weight)
        return [] if key is None else self._tensors.get(key, [])


def aliases_of(weight: torch.Tensor, beside: Iterable[torch.Tensor]) -> Aliases | Unknown:
    """Return the tensors that share memory with a weight, or why it cannot be replaced.

    Args:
        weight: strided, not empty.
        beside: tensors in the same storage.
    """
    if any(
        size > 1 and step == 0 for size, step in zip(weight.shape, weight.stride(), strict=True)
    ):
        return Unknown("it is expanded: one value stands for many")
    found = {id(weight): weight}
    low, high = _span(weight)
    for tensor in beside:
        first, last = _span(tensor)
        if tensor.dtype != weight.dtype:
            return Unknown("a tensor of another dtype shares its storage")
        if first < high and low < last:
            found[id(tensor)] = tensor
            low, high = min(low, first), max(high, last)
    return Aliases(tuple(found.values()), low, high)


@contextmanager
def replaced(aliases: Aliases, values: torch.Tensor) -> Iterator[None]:
    """Give a weight, and the tensors that share its memory, other values meanwhile."""
    weight, low = aliases.tensors[0], aliases.low
    with torch.no_grad():
        memory = weight.detach().as_strided((aliases.high - low,), (1,), low).clone()
        memory.as_strided(weight.shape, weight.stride(), weight.storage_offset() - low).copy_(
            values
        )
    before = [tensor.data for tensor in aliases.tensors]
    try:
        for tensor in aliases.tensors:
            place = tensor.storage_offset() - low
            tensor.data = memory.as_strided(tensor.shape, tensor.stride(), place)
        yield
    finally:
        for tensor, own in zip(aliases.tensors, before, strict=True):
            tensor.data = own


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the indices of a tensor's first value in its storage, and behind its last."""
    first = int(tensor.storage_offset())
    return first, first + reach(tensor.shape, tensor.stride())
