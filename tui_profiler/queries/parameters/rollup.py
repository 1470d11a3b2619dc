"""Statistics of parameters summed per node.

1. A node's figures include all parameters in and below it, without buffers. Shared values count
   once per node.
2. Means, standard deviations and norms are of all values together, not means of figures.
3. Where a tensor has no figures, or not all yet, ``looked_at`` is less than ``tensors``.
"""

import math
from collections import Counter
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.figures.moments import Sums, joined
from tui_profiler.messages import Figure, TensorStatistics, Unknown, known
from tui_profiler.messages.parameters import Moments
from tui_profiler.session import Session, Tree
from tui_profiler.session.parameters import Parameters
from tui_profiler.session.tree import weight_name

PRUNING_LOSS = 0.1
"""Error of the norm of a tensor, for the share of prunable values."""


class ParameterSums(Struct, frozen=True):
    """All parameters in and below one node."""

    sums: Sums = Sums()
    tensors: int = 0
    looked_at: int = 0
    """Of them, with moments."""
    bytes: int = 0
    near_zeros: int = 0
    prunable: float = 0.0
    """Prunable values, tensor by tensor."""
    norm: float = 0.0
    """Largest spectral norm of a tensor."""
    recommended_bytes: float = 0.0
    """With every tensor at its recommended width."""
    entropy_bytes: float = 0.0
    """Entropy bound."""
    pressed_bytes: float = 0.0
    """Compressed, by the better of two byte orders."""
    dead: int = 0
    outliers: int = 0
    near_duplicates: int = 0
    """Dead, outlier and near-duplicate channels of all tensors together."""

    @property
    def std(self) -> Figure:
        """Standard deviation of the population."""
        if not self.sums.count:
            return Unknown("no value is known")
        return math.sqrt(self.sums.second / self.sums.count)

    @property
    def skewness(self) -> Figure:
        """Third central moment over std³."""
        return _over(self.sums, self.sums.third, 1.5)

    @property
    def kurtosis(self) -> Figure:
        """Fourth central moment over std⁴, less 3."""
        found = _over(self.sums, self.sums.fourth, 2.0)
        return found if isinstance(found, Unknown) else found - 3

    @property
    def l2(self) -> float:
        """Root of the sum of squares."""
        return math.sqrt(self.sums.squares)


def rolled_up(session: Session) -> dict[int, ParameterSums]:
    """Return the sums of every node with parameters, by its index in the tree."""
    tree, found = session.tree, session.parameters
    return _rolled_up(tree, found) if tree is not None and found is not None else {}


def _rolled_up(tree: Tree, found: Parameters) -> dict[int, ParameterSums]:
    figures = {one.name: one for one in found.tensors if not one.shared_with}
    owned = list(_owned(tree, figures))
    times = Counter(one.name for _, one in owned)
    nodes: dict[int, ParameterSums] = {}
    for index, one in owned:
        if times[one.name] == 1:
            nodes[index] = _together(nodes.get(index, ParameterSums()), _of(one))
    # Each node once into its parent: a hostile tree is deep, with many tensors in its leaves.
    for index in range(len(tree) - 1, 0, -1):
        if index in nodes:
            above = tree.nodes[index].parent
            nodes[above] = _together(nodes.get(above, ParameterSums()), nodes[index])
    counted: dict[int, set[str]] = {}
    for index, one in owned:
        if times[one.name] == 1:
            continue
        for place in (index, *tree.ancestors(index)):
            names = counted.setdefault(place, set())
            if one.name not in names:
                names.add(one.name)
                nodes[place] = _together(nodes.get(place, ParameterSums()), _of(one))
    return dict(sorted(nodes.items()))


def _owned(
    tree: Tree, figures: dict[str, TensorStatistics]
) -> Iterator[tuple[int, TensorStatistics]]:
    """Yield (node, tensor) of every parameter, for each of its names."""
    for index, node in enumerate(tree.nodes):
        for weight in node.weights:
            one = figures.get(weight.shared_with or weight_name(node, weight))
            if one is not None and not weight.is_buffer:
                yield index, one


def sums_of(moments: Moments) -> Sums:
    """Return the sums of a tensor's moments."""
    count, std = moments.count, moments.std
    if not count:
        return Sums(nans=moments.nans, infinities=moments.infinities)
    third, fourth = known(moments.skewness), known(moments.kurtosis)
    return Sums(
        count=count,
        mean=moments.mean,
        second=count * std**2,
        # Products overflow to infinity, where powers raise.
        third=count * (third or 0.0) * std * std * std,
        fourth=0.0 if fourth is None else count * (fourth + 3) * std * std * std * std,
        magnitudes=moments.l1,
        minimum=moments.minimum,
        maximum=moments.maximum,
        zeros=moments.zeros,
        nans=moments.nans,
        infinities=moments.infinities,
    )


def prunable(one: TensorStatistics) -> float | None:
    """Return the share of prunable values of a tensor; None where not known."""
    return next((part.sparsity for part in one.pruned if part.loss == PRUNING_LOSS), None)


def _of(one: TensorStatistics) -> ParameterSums:
    alone = ParameterSums(tensors=1, bytes=one.bytes, recommended_bytes=_recommended(one))
    if one.moments is None or one.pending:
        return alone
    norm = known(one.spectral.norm) if one.spectral is not None else None
    rows, pressed = one.channels, one.compression
    alike = known(rows.near_duplicates) if rows is not None else None
    ratio = min(pressed.ratio, pressed.planes_ratio, 1.0) if pressed is not None else 1.0
    return replace(
        alone,
        sums=sums_of(one.moments),
        looked_at=1,
        near_zeros=one.moments.near_zeros,
        prunable=(prunable(one) or 0.0) * one.moments.count,
        norm=norm or 0.0,
        entropy_bytes=one.bytes * (pressed.bound if pressed is not None else 1.0),
        pressed_bytes=one.bytes * ratio,
        dead=rows.dead if rows is not None else 0,
        outliers=rows.outliers if rows is not None else 0,
        near_duplicates=int(alike) if alike and math.isfinite(alike) else 0,
    )


def _together(one: ParameterSums, other: ParameterSums) -> ParameterSums:
    return ParameterSums(
        sums=joined(one.sums, other.sums),
        tensors=one.tensors + other.tensors,
        looked_at=one.looked_at + other.looked_at,
        bytes=one.bytes + other.bytes,
        near_zeros=one.near_zeros + other.near_zeros,
        prunable=one.prunable + other.prunable,
        norm=max(one.norm, other.norm),
        recommended_bytes=one.recommended_bytes + other.recommended_bytes,
        entropy_bytes=one.entropy_bytes + other.entropy_bytes,
        pressed_bytes=one.pressed_bytes + other.pressed_bytes,
        dead=one.dead + other.dead,
        outliers=one.outliers + other.outliers,
        near_duplicates=one.near_duplicates + other.near_duplicates,
    )


def _recommended(one: TensorStatistics) -> float:
    return one.bytes - (one.width.saved_bytes if one.width is not None else 0)


def _over(sums: Sums, powers: float, power: float) -> Figure:
    if not sums.count:
        return Unknown("no value is known")
    variance = sums.second / sums.count
    scale = variance**power if 0 < variance < 1e150 else 0.0
    if sums.minimum == sums.maximum or not scale:
        return Unknown("all values are equal")
    return powers / sums.count / scale
