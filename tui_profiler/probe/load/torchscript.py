"""A TorchScript archive: loaded as it is, its inputs told by its graph and its weights.

Loading runs none of its code. Its first run does: TorchScript can do what its operators can.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from inspect import Parameter, Signature
from pathlib import Path

import torch
from torch import nn

from tui_profiler.messages import LoadSpec
from tui_profiler.probe.inputs import Inputs
from tui_profiler.probe.load.errors import LoadError, model_failed, reason
from tui_profiler.probe.load.given import candidates_for
from tui_profiler.probe.load.guesses import guesses
from tui_profiler.probe.load.layers import modules_in_order
from tui_profiler.probe.load.loaded import Loaded
from tui_profiler.probe.load.settings import Settings, as_the_model, place
from tui_profiler.probe.load.tensors import Call, Candidates
from tui_profiler.probe.scripted_internals import (
    argument_types,
    silenced,
    weights_of_graph,
)

_UNKNOWN_OPERATOR = "Unknown builtin op: "
_CONVOLUTIONS: dict[int, type[nn.Module]] = {3: nn.Conv1d, 4: nn.Conv2d, 5: nn.Conv3d}
"""By the number of axes of the weight."""
_LIBRARIES = {"torchvision": "torchvision", "torchaudio": "torchaudio"}
"""Which import registers a namespace of operators."""


def load_torchscript(path: Path, spec: LoadSpec, settings: Settings) -> Loaded:
    """Load a scripted or traced model from its archive.

    Raises:
        LoadError: torch cannot read it, or lacks an operator that it uses.
    """
    model = place(_load(path, spec.model), settings)
    settings = as_the_model(model, settings)
    return Loaded(
        model=model,
        facts_source="TorchScript archive",
        weights="its own",
        candidates=_candidates(model, spec, settings),
        initialise=None,
        published_gmacs=None,
        published_parameters=None,
        remake=lambda model, batch: _candidates(model, spec, replace(settings, batch=batch)),
    )


def _load(path: Path, shown: str) -> nn.Module:
    try:
        return _read(path)
    except Exception as error:
        unknown = _unknown_operator(error)
        namespace = unknown.partition("::")[0]
        if namespace in _LIBRARIES and importlib.util.find_spec(_LIBRARIES[namespace]):
            importlib.import_module(_LIBRARIES[namespace])
            return _read_again(path, shown)
        raise _failed(error, shown) from error


def _read_again(path: Path, shown: str) -> nn.Module:
    try:
        return _read(path)
    except Exception as error:
        raise _failed(error, shown) from error


def _read(path: Path) -> nn.Module:
    with silenced():
        model: nn.Module = torch.jit.load(str(path), map_location="cpu")  # type: ignore[no-untyped-call] # torch has no types here
        return model.eval()


def _failed(error: Exception, shown: str) -> LoadError:
    unknown = _unknown_operator(error)
    if unknown:
        namespace = unknown.partition("::")[0]
        what = f"{shown} uses the operator {unknown}, which this torch does not have"
        return model_failed(what, (f"pip install {namespace}", "if that is what registers it"))
    what = f"{shown} is a TorchScript archive that torch cannot load: {reason(error)}"
    return model_failed(what, error=error)


def _unknown_operator(error: Exception) -> str:
    _, found, rest = str(error).partition(_UNKNOWN_OPERATOR)
    return rest.split()[0].rstrip(".") if found and rest.split() else ""


def _candidates(model: nn.Module, spec: LoadSpec, settings: Settings) -> Sequence[Inputs]:
    likeness = likeness_of(model)
    if spec.inputs:
        return candidates_for(likeness, None, spec, settings)
    lists = {name for name, type_, _ in argument_types(model) if type_ == "List[Tensor]"}
    calls = [_with_lists(call, lists) for call in guesses(likeness)]
    return Candidates(calls, settings)


def _with_lists(call: Call, lists: set[str]) -> Call:
    """Pass a list of tensors where ``forward`` takes one, as detectors do."""
    return replace(
        call,
        positional=tuple(
            (name, replace(wish, is_list=name in lists)) for name, wish in call.positional
        ),
    )


def likeness_of(model: nn.Module) -> nn.Module:
    """Give an ordinary module with the first layers and the signature of a scripted one.

    What guesses inputs asks modules of torch's own classes; a scripted layer keeps only the name
    of its class and its weights. The likeness has no values and cannot be called.
    """
    root = nn.Module()
    for path, module in modules_in_order(model):
        made = _layer_like(module)
        if made is not None:
            _put(root, path or "layer", made)
    if not any(True for _ in root.children()):
        for index, (kind, weight) in enumerate(weights_of_graph(model)):
            made = _layer_of(kind, weight)
            if made is not None:
                _put(root, f"layer{index}", made)
    root.forward = _with_signature(model)
    return root


def _with_signature(model: nn.Module) -> Callable[..., object]:
    def forward(*_args: object, **_kwargs: object) -> object:
        raise NotImplementedError("only its signature is asked for")

    forward.__signature__ = Signature(  # type: ignore[attr-defined] # inspect reads it
        [
            Parameter(
                name,
                Parameter.POSITIONAL_OR_KEYWORD,
                default=None if has_default else Parameter.empty,
            )
            for name, _, has_default in argument_types(model)
        ]
    )
    return forward


def _put(root: nn.Module, path: str, layer: nn.Module) -> None:
    *above, name = path.split(".")
    here = root
    for part in above:
        if part not in here._modules:
            here.add_module(part, nn.Module())
        inner = here._modules[part]
        assert inner is not None
        here = inner
    here.add_module(name, layer)


def _layer_like(module: nn.Module) -> nn.Module | None:
    """Give torch's own layer of the same kind and width; None for what takes no input of ours."""
    kind = str(getattr(module, "original_name", ""))
    weights = dict(module.named_parameters(recurse=False))
    weight = weights.get("weight")
    if weight is not None:
        return _layer_of(kind, weight)
    with torch.device("meta"):
        match kind:
            case "LSTM" | "GRU" | "RNN" if "weight_ih_l0" in weights:
                recurrent: type[nn.Module] = getattr(nn, kind)
                width = weights["weight_ih_l0"].shape[1]
                return recurrent(width, 1, batch_first=_is_batch_first(module))
            case "MultiheadAttention" if "in_proj_weight" in weights:
                return nn.MultiheadAttention(weights["in_proj_weight"].shape[1], 1)
    return None


def _layer_of(kind: str, weight: torch.Tensor) -> nn.Module | None:
    """Give the layer of a kind with a weight: (out, in, ...), of an embedding (ids, width)."""
    convolution = _CONVOLUTIONS.get(weight.dim())
    with torch.device("meta"):
        match kind:
            case "Conv1d" | "Conv2d" | "Conv3d" if convolution is not None:
                return convolution(weight.shape[1], weight.shape[0], tuple(weight.shape[2:]))
            case "Embedding" | "EmbeddingBag" if weight.dim() == 2:
                return nn.Embedding(weight.shape[0], weight.shape[1])
            case "Linear" | "NonDynamicallyQuantizableLinear" if weight.dim() == 2:
                return nn.Linear(weight.shape[1], weight.shape[0])
    return None


def _is_batch_first(module: nn.Module) -> bool:
    return bool(getattr(module, "batch_first", False))
