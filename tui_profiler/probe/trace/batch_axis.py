"""Which axis of the inputs counts items, found by trying: no axis is taken for the batch unseen.

The first axis of the first input may count nodes, time steps, tokens of several sequences, or the
rows of a mask. So an axis is made longer, on fake tensors, in all inputs that are as long there. It
is the batch axis if the forward still runs, the output's axis follows, and no operator combines
what lies along it (``item_flow.py``). The first axis is tried first, then the second one.

Where two inputs of unlike length pass by themselves (points and queries), neither is the batch. A
list of images is a batch of them if the model returns a list of as many.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import torch
from msgspec.structs import replace as replace_fields

from tui_profiler.archive.reading.garbage_collection import without_collector
from tui_profiler.messages import Unknown
from tui_profiler.probe.cost.call import tensors_in
from tui_profiler.probe.load.common import errors
from tui_profiler.probe.load.common.loaded_model import free_bytes
from tui_profiler.probe.load.inputs.input_tensors import Candidates
from tui_profiler.probe.torch_compat.dynamo_later import dynamo_later
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.internals import FakeTensor, tree_leaves, tree_map_only
from tui_profiler.probe.trace import failure
from tui_profiler.probe.trace.fake.data_dependent import Bounds
from tui_profiler.probe.trace.item_flow import Item, ItemFlow, Mixed, TooLongError, Whole
from tui_profiler.probe.trace.record import passed, with_retry
from tui_profiler.probe.trace.snapshot import Snapshot
from tui_profiler.probe.trace.trace import Trace, trace
from tui_profiler.probe.trace.tree import weights
from tui_profiler.probe.trace.tree.growing_tree import Places
from tui_profiler.probe.trace.tree.lifetimes import Lifetimes
from tui_profiler.probe.trace.tree.module_stack import ModuleStack
from tui_profiler.system import real_time as time

LEAST_SECONDS, TIMES_AS_LONG = 10.0, 6.0
"""All axes are tried in so many seconds, or in so many times what the trace took."""
_PRIMES = (23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109)
_NO_SIZE = 2**61 - 1
"""Divides none."""
_MOST_TRIED = 4
"""Sizes of one axis."""
_IDS = (torch.int64, torch.int32)
_IMAGE_AXES = 3
_MOST_CHANNELS = 4

Axes: TypeAlias = tuple[int | None, ...]
"""Of each tensor among the inputs, in order."""


def of_batch(
    model: torch.nn.Module,
    candidates: Sequence[Inputs],
    batch: int | None,
    known: Inputs | None = None,
) -> Sequence[Inputs]:
    """Return candidates in the batch size that was asked for, on the axis that is the batch.

    Args:
        model: left as it is.
        candidates: arguments to try, in the size that they were made in.
        batch: None leaves them as they are.
        known: the candidate that runs, with its batch axis, where it was found before.

    Raises:
        LoadError: the inputs have no batch axis.
        TraceError: the model raised on every candidate.
    """
    if batch is None:
        return candidates
    inputs = candidates[0] if len(candidates) == 1 else None
    if inputs is None or inputs.batch_axes is None:
        inputs = known or with_batch(model, trace(model, candidates))
    if inputs.batch == batch:
        return (inputs,)
    larger = resized(inputs, batch)
    if isinstance(candidates, Candidates):
        # Values of their own for each item, where the guess was right.
        for made in candidates.of_batch(batch):
            if made.specs == larger.specs:
                return (replace(made, batch=batch, batch_axes=larger.batch_axes),)
    return (larger,)


def resized(inputs: Inputs, batch: int) -> Inputs:
    """Return inputs of another batch size: their items, repeated in order, or the first of them.

    Raises:
        LoadError: they have no batch axis, or there is no memory for so many.
    """
    if inputs.batch is None or inputs.batch_axes is None:
        raise errors.wrong_request(
            f"its inputs have no batch axis: {inputs.why_no_batch}",
            ("without --batch", "runs the inputs as they are"),
        )
    _check_memory(inputs, batch)
    along = iter(inputs.batch_axes)
    places = torch.arange(batch) % inputs.batch

    def of_size(tensor: torch.Tensor) -> torch.Tensor:
        axis = next(along)
        return tensor if axis is None else tensor.index_select(axis, places.to(tensor.device))

    args, kwargs, specs, axes = inputs.args, inputs.kwargs, inputs.specs, inputs.batch_axes
    images = _list_of_images(inputs)
    if images is not None:
        longer = [images[place] for place in places.tolist()]
        args = (longer,) if args else ()
        kwargs = dict.fromkeys(kwargs, longer)
        axes = (None,) * batch
        if len(specs) == len(images):
            specs = tuple(
                replace_fields(specs[place], name=_at(specs[place].name, at))
                for at, place in enumerate(places.tolist())
            )
    else:
        args, kwargs = tree_map_only(torch.Tensor, of_size, (args, kwargs))
        made = _tensors(replace(inputs, args=args, kwargs=kwargs))
        if len(specs) == len(made):
            specs = tuple(
                replace_fields(spec, shape=tuple(tensor.shape))
                for spec, tensor in zip(specs, made, strict=True)
            )
    return replace(inputs, args=args, kwargs=kwargs, specs=specs, batch=batch, batch_axes=axes)


def _at(name: str, place: int) -> str:
    return f"{name.partition('[')[0]}[{place}]"


def _check_memory(inputs: Inputs, batch: int) -> None:
    """Refuse what cannot be held: asking the system would end the process, not raise."""
    tensors = _tensors(inputs)
    now = sum(t.nbytes for t in tensors if t.device.type != "meta")
    wanted, free = now * batch / (inputs.batch or 1), free_bytes(tensors[0].device)
    if now and wanted > free:
        gib = 2.0**30
        raise errors.wrong_request(
            f"the inputs need {wanted / gib:.3g} GiB; {free / gib:.3g} GiB of memory is free",
            ("--batch 1", "one item"),
            ("--device meta", "costs only, nothing is run"),
        )


def with_batch(model: torch.nn.Module, traced: Trace) -> Inputs:
    """Return the inputs of a trace with the batch axis that was found, or why there is none.

    Args:
        model: left as it is.
        traced: on fake inputs; of one that needs real values no other size is tried.
    """
    inputs = traced.inputs
    with without_collector(), dynamo_later():
        found = _found(model, traced)
    if isinstance(found, Unknown):
        return replace(inputs, batch=None, batch_axes=None, why_no_batch=found.reason)
    batch, axes = found
    return replace(inputs, batch=batch, batch_axes=axes, why_no_batch="")


def _found(model: torch.nn.Module, traced: Trace) -> tuple[int, Axes] | Unknown:
    inputs = traced.inputs
    tensors = _tensors(inputs)
    if not any(tensor.dim() for tensor in tensors):
        return Unknown("no input has an axis")
    if any(tensor.is_nested for tensor in tensors):
        return Unknown("the inputs are ragged")
    if traced.method == "dispatch:real":
        return Unknown("forward needs real values, so that no other size was tried")
    took = traced.done.attempts[-1].seconds if traced.done.attempts else 0.0
    until = time.perf_counter() + max(LEAST_SECONDS, TIMES_AS_LONG * took)
    images = _list_of_images(inputs)
    if images is not None:
        return _of_images(model, traced, images, until)
    size = _prime(traced, tensors)
    if size is None:
        return Unknown("no other size can be told from those of the forward")
    reasons: list[str] = []
    for chosen in (_along_first(tensors), _along_second(tensors)):
        found: list[Axes] = []
        for axes in chosen:
            why = _why_not(model, traced, axes, size, until)
            if not why:
                found.append(axes)
            else:
                reasons.append(why)
        if len({_length(tensors, axes) for axes in found}) > 1:
            return Unknown("inputs of unlike lengths pass through forward, each by itself")
        if found:
            return _length(tensors, found[0]), found[0]
    return Unknown(reasons[0] if reasons else "no input has an axis")


def _tensors(inputs: Inputs) -> list[torch.Tensor]:
    leaves = tree_leaves((inputs.args, inputs.kwargs))
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _length(tensors: Sequence[torch.Tensor], axes: Axes) -> int:
    return next(
        int(tensor.shape[axis])
        for tensor, axis in zip(tensors, axes, strict=True)
        if axis is not None
    )


def _along_first(tensors: Sequence[torch.Tensor]) -> Iterator[Axes]:
    """Yield the first axis of all inputs that are equally long there."""
    sizes = dict.fromkeys(int(tensor.shape[0]) for tensor in tensors if tensor.dim())
    for size in [*sizes][:_MOST_TRIED]:
        yield tuple(0 if t.dim() and t.shape[0] == size else None for t in tensors)


def _along_second(tensors: Sequence[torch.Tensor]) -> Iterator[Axes]:
    """Yield the second axis, and the first one of inputs that are as long there.

    Of (time, batch, features), or of ids (time, batch): of two axes the second are features.
    """
    sizes = dict.fromkeys(
        int(tensor.shape[1])
        for tensor in tensors
        if tensor.dim() > 2 or (tensor.dim() == 2 and tensor.dtype in _IDS)
    )
    for size in [*sizes][:_MOST_TRIED]:
        # States of a recurrent network have it second, where a mask has it first.
        second: Axes = tuple(1 if t.dim() > 1 and t.shape[1] == size else None for t in tensors)
        both: Axes = tuple(
            0 if axis is None and t.dim() and t.shape[0] == size else axis
            for t, axis in zip(tensors, second, strict=True)
        )
        first: Axes = tuple(
            0 if t.dim() and t.shape[0] == size else axis
            for t, axis in zip(tensors, second, strict=True)
        )
        yield from dict.fromkeys((second, both, first))


def _prime(traced: Trace, tensors: Sequence[torch.Tensor]) -> int | None:
    """Return a size that divides none of the forward's."""
    sizes = {int(size) for tensor in tensors for size in tensor.shape}
    for node in traced.nodes:
        shapes = [one.shape for one in (*node.inputs, *node.outputs)]
        sizes.update(*shapes, *(one.shape for one in node.weights))
    sizes.discard(0)
    return next((prime for prime in _PRIMES if all(size % prime for size in sizes)), None)


def _why_not(model: torch.nn.Module, traced: Trace, axes: Axes, size: int, until: float) -> str:
    """Return why these axes are no batch; empty where they are."""
    which = "first" if 0 in axes else "second"
    try:
        flow, output = _run(model, traced, axes, size, until)
    except TooLongError:
        return f"whether the {which} axis is a batch was not found in time"
    except Exception as error:  # noqa: BLE001, RUF100 - of the model's own code
        said = failure.one_line(error)
        return f"with another size of the {which} axis forward raises {said}"
    states = [(tensor, flow.state_of(tensor)) for tensor in tensors_in(output)]
    for _, state in states:
        if isinstance(state, Mixed):
            return f"{state.operator} combines what lies along the {which} axis"
    wholes = [
        state for tensor, state in states if isinstance(state, Whole) and flow.has_axis(tensor)
    ]
    if any(state.order is not None for state in wholes):
        return f"the output picks entries of the {which} axis by values"
    if wholes:
        return ""
    if len({state.place for _, state in states if isinstance(state, Item)}) == size:
        return ""
    return f"the output has no axis that follows the {which} one of the input"


def _run(
    model: torch.nn.Module, traced: Trace, axes: Axes, size: int, until: float
) -> tuple[ItemFlow, object]:
    """Run the model on fake inputs of another size."""
    inputs = traced.inputs
    with passed(model, inputs, traced.method) as fakes:
        along = iter(axes)

        def larger(tensor: torch.Tensor) -> torch.Tensor:
            axis = next(along)
            if axis is None:
                return tensor
            shape = (*tensor.shape[:axis], size, *tensor.shape[axis + 1 :])
            return _fake(tensor, shape)

        args, kwargs = tree_map_only(torch.Tensor, larger, (fakes.args, fakes.kwargs))
        return _forward(model, args, kwargs, size, until)


def _fake(like: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    if not isinstance(like, FakeTensor):
        return like.new_zeros(shape)
    with like.fake_mode:
        return torch.empty(shape, dtype=like.dtype, device=like.device)


def _forward(
    model: torch.nn.Module,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    size: int,
    until: float,
) -> tuple[ItemFlow, object]:
    def follow(kind: type[ItemFlow], bounds: Bounds) -> tuple[ItemFlow, object]:
        return _followed(kind, model, args, kwargs, bounds, size, until)

    return with_retry(
        model,
        partial(follow, ItemFlow),
        partial(follow, _FlowAroundCompiler),
        final=TooLongError,
    )


class _FlowAroundCompiler(ItemFlow):  # type: ignore[no-untyped-call] # torch has no types here
    """Steps aside while ``torch.compile`` works."""

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let the compiler run."""
        return True


def _followed(
    kind: type[ItemFlow],
    model: torch.nn.Module,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    bounds: Bounds,
    size: int,
    until: float,
) -> tuple[ItemFlow, object]:
    places, tensors = Places(model, ""), tensors_in((args, kwargs))
    snapshot = Snapshot(model)
    lifetimes = Lifetimes(weights.stored_tensors(model), tensors)
    flow = kind(ModuleStack(places), frozenset(), lifetimes, snapshot, bounds)
    flow.follow(size, until, tensors)
    try:
        with torch.no_grad(), flow:
            return flow, model(*args, **kwargs)
    finally:
        snapshot.restore()


def _list_of_images(inputs: Inputs) -> list[torch.Tensor] | None:
    """Return the list of images that is passed, where that is all."""
    values = [*inputs.args, *inputs.kwargs.values()]
    given_list = values[0] if len(values) == 1 else None
    if type(given_list) is not list or not given_list:
        return None
    is_image = all(
        isinstance(one, torch.Tensor)
        and one.dim() == _IMAGE_AXES
        and one.shape[0] <= _MOST_CHANNELS
        for one in given_list
    )
    return given_list if is_image else None


def _of_images(
    model: torch.nn.Module, traced: Trace, images: list[torch.Tensor], until: float
) -> tuple[int, Axes] | Unknown:
    """Return how many images are passed, if the model returns as many of something."""
    longer = replace(traced.inputs, args=([*images, images[-1]],), kwargs={})
    if traced.inputs.kwargs:
        longer = replace(
            longer, args=(), kwargs=dict.fromkeys(traced.inputs.kwargs, longer.args[0])
        )
    try:
        with passed(model, longer, traced.method) as fakes:
            _, output = _forward(model, fakes.args, fakes.kwargs, _NO_SIZE, until)
    except TooLongError:
        return Unknown("one image more was not tried in time")
    except Exception as error:  # noqa: BLE001, RUF100 - of the model's own code
        return Unknown(f"with one image more forward raises {failure.one_line(error)}")
    if isinstance(output, list | tuple) and len(output) == len(images) + 1:
        return len(images), (None,) * len(images)
    return Unknown("the output has not as many parts as the list of the input")
