"""A TorchScript archive: loaded as it is, its inputs told by its graph and its weights.

``torch.jit.load`` runs code of the archive: ``__setstate__`` of every class that has one. The first
trace and run execute the rest of it. TorchScript has no Python, but its operators can read and
write files (``aten::save``, ``aten::from_file``). Without trust, all code is therefore read before
torch sees it, and what names any other operator than those of ``allowed_operators.py`` is refused.
"""

import importlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from inspect import Parameter
from pathlib import Path

import torch
from torch import nn

from tui_profiler.archive.formats import torchscript_code
from tui_profiler.archive.pickles.reader import read_pickle
from tui_profiler.archive.pickles.safe_globals import is_loaded_by_torch
from tui_profiler.archive.reading.file_region import ArchiveError, open_file
from tui_profiler.archive.reading.zips import Zip, read_member, read_zip, unexpected_members
from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.common import loaded_model
from tui_profiler.probe.load.common.errors import LoadError, model_failed, needs_trust, reason
from tui_profiler.probe.load.common.safe_reading import held
from tui_profiler.probe.load.files.allowed_operators import described_operator, refused_names
from tui_profiler.probe.load.inputs.guesses import guesses
from tui_profiler.probe.load.inputs.input_candidates import candidates_for
from tui_profiler.probe.load.inputs.input_tensors import Call, Candidates, forward_with
from tui_profiler.probe.torch_compat import scripted
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.modules import modules_in_order

_UNKNOWN_OPERATOR = "Unknown builtin op: "
_CONVOLUTIONS: dict[int, type[nn.Module]] = {3: nn.Conv1d, 4: nn.Conv2d, 5: nn.Conv3d}
"""By the number of axes of the weight."""
_PICKLES = (
    "data.pkl", "constants.pkl", "traced_inputs.pkl", "bytecode.pkl", "mobile_debug_handles.pkl",
)  # fmt: skip
_LIBRARIES = ("torchaudio", "torchvision")
"""Whose import registers the operators of that namespace."""


def load_torchscript(
    path: Path, spec: LoadSpec, settings: loaded_model.Settings
) -> loaded_model.Loaded:
    """Load a scripted or traced model from its archive."""
    if spec.trust:
        read = _load(path, spec.model)
    else:
        with held(path, spec.model) as same:
            _refuse_dangers(same, spec.model)
            read = _load(same, spec.model)
    model = loaded_model.place(read, settings)
    return loaded_model.loaded(
        model,
        "TorchScript archive",
        "its own",
        lambda model, settings: _candidates(model, spec, settings),
        loaded_model.as_the_model(model, settings),
        knows_batch=False,
    )


def _refuse_dangers(path: Path, shown: str) -> None:
    try:
        with open_file(path) as region:
            found = list(dangers(read_zip(region)))
    except ArchiveError as error:
        what = f"{shown} is a TorchScript archive that cannot be read: {error.what} ({error.where})"
        raise model_failed(what, error=error) from error
    if found:
        raise needs_trust(shown, found)


def dangers(archive: Zip) -> Iterator[str]:
    """Say what in a TorchScript archive does more than compute, as clauses with their places.

    Raises:
        ArchiveError: Its code or a pickle is damaged.
    """
    for name in unexpected_members(archive, "torch.jit.save"):
        yield f"the member {name}, which torch.jit does not write"
    for member in _PICKLES:
        if member in archive.members:
            names = read_pickle(read_member(archive, member)).names
            yield from (f"an object {name} in {member}" for name in names if not _is_built_in(name))
    code = torchscript_code.read_code(archive)
    _import_libraries(code.operators)
    yield from code.others
    for name in refused_names(code.operators):
        yield f"a call of {described_operator(name)} in {code.operators[name]}"
    for name in refused_names(f"aten::{attribute}" for attribute in code.attributes):
        where = code.attributes[name.removeprefix("aten::")]
        yield f"a call of {described_operator(name)} in {where}"


def _is_built_in(name: str) -> bool:
    """Say whether the C++ reader of TorchScript's pickles makes a plain value of a name."""
    if name.startswith(torchscript_code.CUSTOM_CLASSES):
        return name in torchscript_code.QUANTIZED_CLASSES
    return name.startswith(("__torch__.", "torch.jit._pickle.")) or is_loaded_by_torch(name)


def _import_libraries(operators: Iterable[str]) -> bool:
    """Register operators that torch itself does not have; say whether any library has some."""
    namespaces = {name.partition("::")[0] for name in operators}
    found = [name for name in _LIBRARIES if name in namespaces and importlib.util.find_spec(name)]
    for library in found:
        importlib.import_module(library)
    return bool(found)


def _load(path: Path, shown: str) -> nn.Module:
    try:
        return _read(path)
    except Exception as error:
        # Whose operators are registered by a library, which is imported now.
        if not _import_libraries([_unknown_operator(error)]):
            raise _failed(error, shown) from error
    try:
        return _read(path)
    except Exception as error:
        raise _failed(error, shown) from error


def _read(path: Path) -> nn.Module:
    with scripted.silenced():
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


def _candidates(
    model: nn.Module, spec: LoadSpec, settings: loaded_model.Settings
) -> Sequence[Inputs]:
    likeness = likeness_of(model)
    if spec.inputs:
        return candidates_for(likeness, None, spec, settings)
    lists = {name for name, type_, _ in scripted.argument_types(model) if type_ == "List[Tensor]"}
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
    """Return an ordinary module with the first layers and the signature of a scripted one.

    What guesses inputs asks modules of torch's own classes; a scripted layer keeps only the name
    of its class and its weights. The likeness has no values and cannot be called.
    """
    root = nn.Module()
    for path, module in modules_in_order(model):
        made = _layer_like(module)
        if made is not None:
            _put(root, path or "layer", made)
    if not any(True for _ in root.children()):
        for index, (kind, weight) in enumerate(scripted.weights_of_graph(model)):
            made = _layer_of(kind, weight)
            if made is not None:
                _put(root, f"layer{index}", made)
    root.forward = forward_with(
        [_parameter(name, has) for name, _, has in scripted.argument_types(model)]
    )
    return root


def _parameter(name: str, has_default: bool) -> Parameter:
    default = None if has_default else Parameter.empty
    return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=default)


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
    """Return torch's own layer of the same kind and width; None for what takes no input of ours."""
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
    """Return the layer of a kind with a weight: (out, in, ...), of an embedding (ids, width)."""
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
