"""A torch.export archive: its program, with the modules that it was made from put back."""

import io
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import Parameter
from pathlib import Path

import torch
from torch import nn
from torch.export import ExportedProgram, unflatten
from torch.export.passes import move_to_device_pass

from tui_profiler.archive.reading.file_region import ArchiveError, open_file
from tui_profiler.archive.reading.zips import read_zip
from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.common.errors import model_failed, needs_trust, reason, wrong_request
from tui_profiler.probe.load.common.loaded_model import Loaded, Settings, loaded, place
from tui_profiler.probe.load.common.safe_reading import held, weights_only
from tui_profiler.probe.load.files.export_safety import dangers, unpicklable
from tui_profiler.probe.load.inputs.input_candidates import typed_call
from tui_profiler.probe.load.inputs.input_tensors import Candidates, forward_with, specs_of
from tui_profiler.probe.torch_compat.forward_inputs import Inputs

_IN_ORDER = Parameter.POSITIONAL_OR_KEYWORD
_EXAMPLE = "its example inputs"
_SPECIFIED = "its graph's inputs"
_FREE_AXIS = 8
"""Size of an axis that is free and has no example, where its range allows it."""


def load_exported(path: Path, spec: LoadSpec, settings: Settings) -> Loaded:
    """Load an exported program and restore its module hierarchy."""
    if spec.trust:
        program = _load(path, spec.model, settings)
    else:
        with held(path, spec.model) as same:
            _refuse_dangers(same, spec.model)
            with weights_only():
                program = _load(same, spec.model, settings)
    model = place(_with_modules(program), settings)
    return loaded(
        model,
        "torch.export archive",
        "its own",
        lambda _, settings: _candidates(program, spec, settings),
        settings,
    )


def _refuse_dangers(path: Path, shown: str) -> None:
    try:
        found = list(dangers(path))
        if not found:
            with open_file(path) as region:
                found += unpicklable(read_zip(region), _refused_by_weights_only)
    except (ArchiveError, ValueError, RecursionError) as error:
        what = f"{shown} is a torch.export archive that cannot be read: {reason(error)}"
        raise model_failed(what, error=error) from error
    if found:
        raise needs_trust(shown, found)


def _refused_by_weights_only(pickled: bytes) -> str:
    try:
        torch.load(io.BytesIO(pickled), map_location="meta", weights_only=True)
    except Exception as error:
        return reason(error)
    return ""


def _load(path: Path, shown: str, settings: Settings) -> ExportedProgram:
    try:
        # As a stream: a path must end in .pt2, and what a file is its name does not say.
        with _silenced(), path.open("rb") as stream:
            program = torch.export.load(stream)
            if settings.device.type == "cuda":
                program = move_to_device_pass(program, settings.device)
    except Exception as error:
        what = f"{shown} is a torch.export archive that torch cannot load: {reason(error)}"
        raise model_failed(what, error=error) from error
    # Texts of Python in the file, which ``module()`` would evaluate; the graph itself has checks.
    program._guards_code = []
    return program


@contextmanager
def _silenced() -> Iterator[None]:
    """Silence warnings of torch's, which say nothing about the file that the error does not."""
    logger = logging.getLogger("torch")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logger.setLevel(level)


def _with_modules(program: ExportedProgram) -> nn.Module:
    with _silenced():
        try:
            model: nn.Module = unflatten(program)
        except Exception:
            # Some graphs cannot be cut into modules again; their operators stand under the root.
            return program.module(check_guards=False)
    name = _root_type(program)
    if name:
        # The class is where the name of a module's class is looked for.
        model.__class__ = type(name, (type(model),), {})
    return model


def _root_type(program: ExportedProgram) -> str:
    """Return the class name of the model that was exported, where its graph remembers it."""
    for node in program.graph.nodes:
        for path, type_ in (node.meta.get("nn_module_stack") or {}).values():
            name = str(type_).rpartition(".")[2]
            if not path and name.isidentifier():
                return name
    return ""


def _candidates(program: ExportedProgram, spec: LoadSpec, settings: Settings) -> Sequence[Inputs]:
    if spec.inputs:
        return Candidates((typed_call(spec.inputs, _likeness(program), settings),), settings)
    example = program.example_inputs
    args, kwargs = example if example is not None else (_specified(program), {})
    return (_inputs(program, tuple(args), dict(kwargs), settings, has_example=example is not None),)


def _inputs(
    program: ExportedProgram,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    settings: Settings,
    *,
    has_example: bool,
) -> Inputs:
    leaves, structure = torch.utils._pytree.tree_flatten((args, dict(kwargs)))
    shapes = _shapes(program)
    batch_axis, why_no_batch = _batch_axis(program, leaves, shapes)
    if settings.batch is not None:
        _check_batch(program, batch_axis, settings.batch)
    fitted = [
        _fitted(leaf, shape, batch_axis, settings)
        for leaf, shape in zip(leaves, shapes, strict=True)
    ]
    given, named = torch.utils._pytree.tree_unflatten(fitted, structure)
    names = program.graph_signature.user_inputs
    flat = len(names) == len(given) + len(named)
    why = _EXAMPLE if has_example else _SPECIFIED
    return Inputs(
        args=tuple(given),
        kwargs=named,
        specs=tuple(
            part
            for index, value in enumerate(given)
            for part in specs_of(value, str(names[index]) if flat else f"args[{index}]", why)
        )
        + tuple(part for name, value in named.items() for part in specs_of(value, name, why)),
        batch=_size_along(batch_axis, fitted, shapes),
        why_no_batch=why_no_batch,
    )


def _shapes(program: ExportedProgram) -> list[tuple[int | torch.SymInt, ...]]:
    found: list[tuple[int | torch.SymInt, ...]] = [
        tuple(value.shape) if isinstance(value, torch.Tensor) else ()
        for value in _user_inputs(program)
    ]
    # Constants among the arguments have no placeholder of their own name.
    missing = len(program.graph_signature.user_inputs) - len(found)
    return found + [()] * missing


def _user_inputs(program: ExportedProgram) -> Iterator[object]:
    """Yield what the graph says of each user input that has a placeholder."""
    wanted = set(map(str, program.graph_signature.user_inputs))
    for node in program.graph.nodes:
        if node.op == "placeholder" and node.name in wanted:
            yield node.meta.get("val")


def _batch_axis(
    program: ExportedProgram,
    leaves: Sequence[object],
    shapes: Sequence[tuple[int | torch.SymInt, ...]],
) -> tuple[int | torch.SymInt | None, str]:
    """Return the size of the batch axis, or why none is known.

    An axis of any size is the batch if the outputs have it too, and no recurrence is along it. Of
    fixed sizes no other can be tried: there it is the first axis that a convolution or an embedding
    is given.
    """
    given = [
        shape
        for leaf, shape in zip(leaves, shapes, strict=True)
        if isinstance(leaf, torch.Tensor) and shape
    ]
    if not given:
        return None, ""
    free = [size for shape in given for size in shape[:2] if isinstance(size, torch.SymInt)]
    if free:
        kept = _symbols_of_outputs(program) - _symbols_of_time(program)
        found = next((size for size in free if size.node.expr in kept), None)
        return found, "" if found is not None else "no output follows an axis of any size"
    if _begins_with_items(program):
        return given[0][0], ""
    return None, "it was exported with fixed sizes: no other can be tried"


def _symbols_of_outputs(program: ExportedProgram) -> set[object]:
    outputs = [node for node in program.graph.nodes if node.op == "output"]
    given = torch.utils._pytree.tree_leaves([node.args for node in outputs])
    return {
        size.node.expr
        for one in given
        for size in getattr(_value(one), "shape", ())
        if isinstance(size, torch.SymInt)
    }


def _symbols_of_time(program: ExportedProgram) -> set[object]:
    """Return the sizes of axes along which a recurrent operator runs."""
    found: set[object] = set()
    for node in program.graph.nodes:
        name = str(node.target)
        if any(part in name for part in ("lstm", "gru", "rnn_tanh", "rnn_relu")) and node.args:
            shape = getattr(_value(node.args[0]), "shape", ())
            is_batch_first = bool(node.args) and node.args[-1] is True
            time = shape[1 if is_batch_first else 0] if len(shape) > 2 else None
            if isinstance(time, torch.SymInt):
                found.add(time.node.expr)
    return found


def _value(node: object) -> object:
    return getattr(node, "meta", {}).get("val")


_TAKES_ITEMS = ("conv1d", "conv2d", "conv3d", "convolution", "embedding")


def _begins_with_items(program: ExportedProgram) -> bool:
    """Tell whether an input goes into a convolution or an embedding with a batch axis first."""
    wanted = set(map(str, program.graph_signature.user_inputs))
    for node in program.graph.nodes:
        name = str(node.target).removeprefix("aten.").partition(".")[0]
        if node.op != "call_function" or name not in _TAKES_ITEMS:
            continue
        taken = node.args[1 if name == "embedding" else 0]
        shape = getattr(_value(taken), "shape", ())
        weight = getattr(_value(node.args[0 if name == "embedding" else 1]), "shape", ())
        is_whole = len(shape) == (2 if name == "embedding" else len(weight))
        if str(taken) in wanted and is_whole:
            return True
    return False


def _size_along(
    batch: int | torch.SymInt | None,
    fitted: Sequence[object],
    shapes: Sequence[tuple[int | torch.SymInt, ...]],
) -> int | None:
    """Return the size of the batch axis, as the inputs have it."""
    if not isinstance(batch, torch.SymInt):
        return batch
    for value, shape in zip(fitted, shapes, strict=True):
        for axis, size in enumerate(shape):
            is_batch = isinstance(size, torch.SymInt) and size.node.expr == batch.node.expr
            if isinstance(value, torch.Tensor) and is_batch:
                return int(value.shape[axis])
    return None


def _check_batch(program: ExportedProgram, axis: int | torch.SymInt | None, batch: int) -> None:
    if isinstance(axis, torch.SymInt):
        bounds = program.range_constraints.get(axis.node.expr)
        if bounds is None or bounds.lower <= batch <= bounds.upper:
            return
        what = f"it was exported for batches of {bounds.lower} to {bounds.upper}, not {batch}"
        raise wrong_request(what, (f"--batch {bounds.upper}", "the largest that it takes"))
    if axis != batch:
        has = f"a fixed batch of {axis}" if axis is not None else "no known batch axis"
        remedy = (f"--batch {axis}", "as it was exported") if axis is not None else None
        raise wrong_request(f"it was exported with {has}", *([remedy] if remedy else []))


def _fitted(
    value: object,
    shape: tuple[int | torch.SymInt, ...],
    batch_axis: int | torch.SymInt | None,
    settings: Settings,
) -> object:
    """Move and cast a tensor, and repeat its items to the batch size that was asked for."""
    if not isinstance(value, torch.Tensor):
        return value
    tensor = value.detach()
    if settings.batch is not None and isinstance(batch_axis, torch.SymInt):
        for axis, size in enumerate(shape):
            if isinstance(size, torch.SymInt) and size.node.expr == batch_axis.node.expr:
                places = torch.arange(settings.batch) % max(tensor.shape[axis], 1)
                tensor = tensor.index_select(axis, places.to(tensor.device))
    dtype = settings.dtype if tensor.is_floating_point() else None
    return tensor.to(device=settings.device, dtype=dtype or tensor.dtype)


def _specified(program: ExportedProgram) -> tuple[object, ...]:
    """Make inputs of the shapes that the graph takes, where the archive holds no example."""
    made: list[object] = []
    for value in _user_inputs(program):
        if isinstance(value, torch.Tensor):
            sizes = [_size(program, axis) for axis in value.shape]
            generator = torch.Generator().manual_seed(len(made))
            if value.dtype.is_floating_point:
                made.append(torch.randn(sizes, generator=generator).to(value.dtype))
            else:
                made.append(torch.zeros(sizes, dtype=value.dtype))
    return tuple(made)


def _size(program: ExportedProgram, axis: int | torch.SymInt) -> int:
    if not isinstance(axis, torch.SymInt):
        return axis
    bounds = program.range_constraints.get(axis.node.expr)
    if bounds is None:
        return _FREE_AXIS
    return int(min(max(_FREE_AXIS, bounds.lower), bounds.upper))


def _likeness(program: ExportedProgram) -> nn.Module:
    """Return a module with the signature of the program, for what the user types to be bound to."""
    likeness = nn.Module()
    names = map(str, program.graph_signature.user_inputs)
    likeness.forward = forward_with([Parameter(name, _IN_ORDER) for name in names])
    return likeness
