"""What a model is given in training beside its inputs, so that it computes its own loss.

| model | given |
|---|---|
| Hugging Face's, whose ``forward`` takes ``labels`` | labels by the kind of its head: of tokens, \
items, places, boxes; and ``use_cache=False``, as its ``Trainer`` has it |
| torchvision's detectors, whose ``forward`` takes ``targets`` | one box with label, mask and \
keypoints for each image |

Values are the simplest that are valid. What does not fit is seen when the model is run: then the
loss is made of its outputs.
"""

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias, overload

import torch

from tui_profiler.messages import InputSpec
from tui_profiler.probe.cost.call import tensors_in
from tui_profiler.probe.torch_compat.forward_inputs import Inputs

_WHY = "for its own loss"
_Targets: TypeAlias = Mapping[str, object]


class WithTargets(Sequence[Inputs]):
    """Candidates, before them the first one with targets where the model takes such."""

    def __init__(self, model: torch.nn.Module, candidates: Sequence[Inputs]) -> None:
        self._targeted = list(_trained(model, candidates[0])) if len(candidates) else []
        self._candidates = candidates

    def __len__(self) -> int:
        return len(self._targeted) + len(self._candidates)

    @overload
    def __getitem__(self, index: int) -> Inputs: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Inputs]: ...
    def __getitem__(self, index: int | slice) -> Inputs | Sequence[Inputs]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        first = len(self._targeted)
        return self._targeted[index] if index < first else self._candidates[index - first]


def _trained(model: torch.nn.Module, inputs: Inputs) -> Iterator[Inputs]:
    takes = _parameters_of(model)
    if "targets" in takes and "targets" not in inputs.kwargs:
        images = inputs.args[0] if inputs.args else inputs.kwargs.get("images")
        if isinstance(images, list) and images and len(inputs.args) < 2:
            yield _added(inputs, {"targets": [_box(image) for image in images]})
        return
    config = getattr(model, "config", None)
    if config is None:
        return
    without_cache: _Targets = {"use_cache": False} if "use_cache" in takes else {}
    if not inputs.kwargs.keys() & {"labels", "start_positions"}:
        for targets in _labels(type(model).__name__, config, inputs, takes):
            yield _added(inputs, {**without_cache, **targets})
    if without_cache:
        yield _added(inputs, without_cache)


def _parameters_of(model: torch.nn.Module) -> frozenset[str]:
    try:
        return frozenset(inspect.signature(model.forward).parameters)
    except (TypeError, ValueError):
        return frozenset()


def _added(inputs: Inputs, more: _Targets) -> Inputs:
    specs = [
        InputSpec(name, tuple(one.shape), str(one.dtype).removeprefix("torch."), _WHY)
        for name, value in more.items()
        for one in tensors_in(value)
    ]
    return dataclasses.replace(
        inputs,
        kwargs={**inputs.kwargs, **more},
        specs=(*inputs.specs, *specs),
        # Models check labels by their values.
        concrete=inputs.concrete | {name for name, value in more.items() if not _is_on_meta(value)},
    )


def _is_on_meta(value: object) -> bool:
    return any(one.device.type == "meta" for one in tensors_in(value))


def _box(image: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return one target: a box over the middle of an image (3, height, width)."""
    height, width = image.shape[-2:]
    device = image.device
    sides = [width / 4, height / 4, 3 * width / 4, 3 * height / 4]
    keypoints = torch.tensor([width / 2, height / 2, 1.0], device=device)
    return {
        "boxes": torch.tensor([sides], device=device),
        "labels": torch.ones(1, dtype=torch.int64, device=device),
        "masks": torch.ones(1, height, width, dtype=torch.uint8, device=device),
        "keypoints": keypoints.expand(1, 17, 3).contiguous(),
    }


def _labels(name: str, config: object, inputs: Inputs, takes: frozenset[str]) -> Iterator[_Targets]:
    """Yield labels that may suit, likeliest first."""
    given = {**dict(zip(_names(inputs), inputs.args, strict=False)), **inputs.kwargs}
    first = next(iter(tensors_in(list(given.values()))), None)
    if first is None or not first.dim():
        return
    batch, device = first.shape[0], first.device
    tokens = given.get("decoder_input_ids", given.get("input_ids"))

    def zeros(*shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        return torch.zeros(shape, dtype=dtype, device=device)

    of_items: Callable[[], _Targets] = lambda: {"labels": zeros(batch)}  # noqa: E731 # a row each
    if "start_positions" in takes:
        yield {"start_positions": zeros(batch), "end_positions": zeros(batch)}
    if "labels" not in takes:
        return
    if "Segmentation" in name and first.dim() == 4:
        yield {"labels": zeros(batch, *first.shape[-2:])}
    if "ObjectDetection" in name:
        box = torch.full((1, 4), 0.5, device=device)
        yield {"labels": [{"class_labels": zeros(1), "boxes": box} for _ in range(batch)]}
    is_of_items = any(word in name for word in ("Sequence", "Image", "Audio", "Video", "Choice"))
    if is_of_items and "Seq2Seq" not in name:
        yield of_items()
    if isinstance(tokens, torch.Tensor) and tokens.dim() == 2:
        yield {"labels": tokens.clone() if "Token" not in name else zeros(*tokens.shape)}
    elif "CTC" in name or "Seq2Seq" in name or "ConditionalGeneration" in name:
        yield {"labels": zeros(batch, 2) + 1}
    yield of_items()


def _names(inputs: Inputs) -> tuple[str, ...]:
    return tuple(spec.name for spec in inputs.specs[: len(inputs.args)])
