"""What a model needs of a device's memory, and how much of it fits.

1. What a forward, or a training step, takes is counted on paper at three batch sizes. Between them
   and beyond it follows straight lines, as tensors with a batch axis do.
2. Scratch memory of a processor's operators is none of a GPU's. In its place is an allowance:
   cuBLAS's workspace (``CUBLAS_WORKSPACE_CONFIG``: 8,320 KiB, 32 MiB from Hopper on, in torch's
   ``CUDABlas``), and beside each convolution of a forward its input and output once more, which
   cuDNN needs to change the layout, but of pointwise ones, which are products; in a step as much as
   the larger one of the two, of the largest.
   Peaks of 18 forwards on an H200: ``benchmarks/gpu/memory.py``.
3. What the driver, torch's kernels and fragmentation take is left free: the reserve.
4. Split over devices, weights, cache, gradients and state are divided evenly; activations and
   allowances are whole on each.
5. Where memory depends on the data, an upper bound that fits decides; nothing else does.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import floor
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.messages import Unknown, known
from tui_profiler.queries.cost.totals import batch_axis
from tui_profiler.queries.forward.memory import weight_bytes
from tui_profiler.queries.hardware.data_sheets import DataSheet
from tui_profiler.queries.hardware.on_device import NOT_TRACED, LeastTime, least_time, phases
from tui_profiler.session import Bounded, Session, Tree

Split: TypeAlias = Literal[2, 4, 8]
SPLITS: tuple[Split, ...] = (2, 4, 8)
RESERVE_BYTES = 1 << 30
CUBLAS_BYTES, CUBLAS_HOPPER_BYTES = 8320 << 10, 32 << 20
_FROM_HOPPER = ("H100", "H200", "B200")
_CONVOLUTION = "conv"
"""In the names of torch's operators of convolution, ``aten::convolution`` and others."""


class Need(Struct, frozen=True):
    """Bytes that are alive at the peak, at one batch size."""

    batch: int | None
    """None where the inputs have no batch axis, or none was found."""
    weights: float
    """Parameters and buffers."""
    cache: float
    """Keys and values that a language model keeps."""
    state: float
    """Gradients and the optimizer's state; 0 of a forward."""
    activations: float
    """The rest of what is alive at the peak, inputs included."""
    convolution: float
    """Allowance of rule 2: what convolutions add to the peak; 0 without any."""
    depends: Bounded | None = None
    """How what is not weights depends on the data."""
    why_no_batch: Unknown = Unknown("its inputs have no batch axis")
    """Where ``batch`` is None."""

    @property
    def divided(self) -> float:
        """What several devices divide, by rule 4."""
        return self.weights + self.cache + self.state

    @property
    def whole(self) -> float:
        """What is whole on each of them; without cuBLAS's workspace, which the device decides."""
        return self.activations + self.convolution


class Fit(Struct, frozen=True):
    """Whether a model fits in a device's memory, and up to which batch."""

    need: float
    """Bytes at the smallest batch that was counted, allowances included."""
    free: float
    """Of the device, less the reserve."""
    largest_batch: int | Unknown
    """0 where not even the smallest batch that was counted fits."""
    split: Split | None
    """How many such devices hold the smallest batch together, where one does not; None where one
    does, and where eight do not."""
    depends: Bounded | None = None
    """How the need depends on the data."""

    @property
    def fits(self) -> bool | None:
        """Whether one device holds it; None where the data decides, by rule 5."""
        if self.depends == "about" or (self.depends and not self.is_below):
            return None
        return self.is_below

    @property
    def is_below(self) -> bool:
        """Whether the need as it is told is no more than what is free."""
        return self.need <= self.free


def need_of(session: Session) -> Need | Unknown:
    """Return what a session's model needs, by rules 1 and 2.

    A model that generates needs that of the phase that takes more.
    """
    trees = phases(session)
    found_batch = batch_axis(session.model)
    batch = None if isinstance(found_batch, Unknown) else found_batch
    if session.training_memory is not None:
        return _told(_of_a_step(session, trees, batch), found_batch)
    found = [_told(_of_a_forward(tree, batch), found_batch) for tree in trees]
    whole = [one for one in found if isinstance(one, Need)]
    if not found or len(whole) < len(found):
        return next(
            (one for one in found if isinstance(one, Unknown)), Unknown("it was not traced")
        )
    return max(whole, key=lambda one: one.divided + one.whole)


def _told(need: Need | Unknown, batch: int | Unknown) -> Need | Unknown:
    """Return what is needed, with the reason why there is no batch axis, if there is none."""
    if isinstance(need, Unknown) or not isinstance(batch, Unknown):
        return need
    return replace(need, why_no_batch=batch)


def _of_a_forward(tree: Tree, batch: int | None) -> Need | Unknown:
    if tree.done is None or not tree.has_forward:
        return NOT_TRACED
    peak = tree.done.peak_memory
    cache = peak.kv_cache if peak.kv_cache is not None else 0.0
    for part in (peak.parameters, peak.buffers, peak.activations, cache):
        if isinstance(part, Unknown):
            return part
    return Need(
        batch=batch,
        weights=weight_bytes(tree),
        cache=known(cache) or 0.0,
        state=0.0,
        activations=known(peak.activations) or 0.0,
        convolution=_beside_convolutions(tree),
        depends=tree.depends(0),
    )


def _beside_convolutions(tree: Tree) -> float:
    """Return by how much copies of their inputs and outputs raise the peak of a forward."""
    memory = tree.memory
    if memory is None:
        return _largest_convolution(tree)
    peak = most = max(memory.live, default=0)
    for node, live in zip(memory.nodes, memory.live, strict=True):
        cost, at = tree.costs[node], tree.nodes[node]
        if _is_convolution(tree, node) and not _is_pointwise(tree, node):
            copies = (cost.input_bytes + cost.output_bytes) // max(at.calls, 1)
            most = max(most, live + copies)
    return float(most - peak)


def _is_convolution(tree: Tree, node: int) -> bool:
    return (
        tree.nodes[node].kind == "op"
        and _CONVOLUTION in tree.nodes[node].name
        and tree.costs[node].macs > 0
    )


def _is_pointwise(tree: Tree, node: int) -> bool:
    given = tree.nodes[node].inputs
    return len(given) > 1 and all(size == 1 for size in given[1].shape[2:])


def _of_a_step(session: Session, trees: tuple[Tree, ...], batch: int | None) -> Need:
    assert session.training_memory is not None
    memory = session.training_memory.memory
    state = float(
        memory.uses[0] + memory.optimizer_state
    )  # Gradients are alive at the peak or not.
    weights = float(memory.parameters + memory.buffers)
    return Need(
        batch=batch,
        weights=weights,
        cache=0.0,
        state=state,
        activations=max(memory.peak - weights - state, 0.0),
        convolution=max((_largest_convolution(tree) for tree in trees), default=0.0),
        depends=next((found for tree in trees if (found := tree.depends(0))), None),
    )


def _largest_convolution(tree: Tree) -> float:
    found = 0.0
    for index, (node, cost) in enumerate(zip(tree.nodes, tree.costs, strict=True)):
        if _is_convolution(tree, index):
            found = max(found, max(cost.input_bytes, cost.output_bytes) / max(node.calls, 1))
    return found


def fit(needs: tuple[Need, ...], sheet: DataSheet, reserve: float = RESERVE_BYTES) -> Fit:
    """Return what fits on a device.

    Args:
        needs: of one batch size, or of several, the smallest first.
        sheet: the device.
        reserve: bytes left free, by rule 3.
    """
    first = needs[0]
    library = cublas_bytes(sheet)
    free = sheet.memory_bytes - reserve
    need = first.divided + first.whole + library
    split = next((of for of in SPLITS if first.divided / of + first.whole + library <= free), None)
    largest = _largest_batch(needs, free - library)
    return Fit(need, free, largest, None if need <= free else split, first.depends)


def cublas_bytes(sheet: DataSheet) -> int:
    """Return the workspace of cuBLAS on a device, by rule 2."""
    return CUBLAS_HOPPER_BYTES if sheet.name.startswith(_FROM_HOPPER) else CUBLAS_BYTES


def _largest_batch(needs: tuple[Need, ...], free: float) -> int | Unknown:
    """Return the batch at which a line through the counted ones reaches ``free``, by rule 1."""
    counted = [(need.batch, need.divided + need.whole) for need in needs if need.batch is not None]
    if not counted:
        return needs[0].why_no_batch
    if len(counted) < 2:
        return Unknown("it could not be traced at larger batches")
    if counted[0][1] > free:
        return 0
    for (batch, taken), (next_batch, next_taken) in pairwise(counted):
        per_item = (next_taken - taken) / (next_batch - batch)
        is_last = next_batch == counted[-1][0]
        if per_item <= 0:
            if is_last:
                return Unknown("memory does not grow with the batch")
            continue
        if is_last or next_taken > free:
            return batch + floor((free - taken) / per_item)
    return Unknown("memory does not grow with the batch")


def devices_needed(held: Fit) -> int | Unknown:
    """Return how many devices hold a model together."""
    if held.is_below:
        return 1
    return Unknown("it does not fit on 8 of them") if held.split is None else held.split


class Fitted(Struct, frozen=True):
    """A model on a device."""

    sheet: DataSheet
    fit: Fit | Unknown
    least: tuple[tuple[str, LeastTime | Unknown], ...]
    """By phase; empty for a model that has one."""


def fitted(
    sessions: Sequence[Session], sheets: Iterable[DataSheet], reserve: float
) -> tuple[Fitted, ...]:
    """Return a model on each device.

    Args:
        sessions: at one batch size, or at several, the smallest first.
        sheets: the devices.
        reserve: bytes of their memory that are left free.
    """
    needs = [need_of(session) for session in sessions]
    counted = tuple(need for need in needs if isinstance(need, Need))
    why = next((need for need in needs if isinstance(need, Unknown)), None)
    trees = phases(sessions[0])
    return tuple(
        Fitted(
            sheet,
            why or fit(counted, sheet, reserve),
            tuple((tree.phase, least_time(tree, 0, sheet)) for tree in trees),
        )
        for sheet in sheets
    )
