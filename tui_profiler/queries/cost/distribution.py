"""How a model's layers and operators are distributed: by class of layer, by band of intensity."""

from typing import Literal, TypeAlias

from msgspec import Struct

from tui_profiler.messages import Unknown
from tui_profiler.queries.cost.bound import intensity, why_not_counted
from tui_profiler.session import Tree

Band: TypeAlias = Literal["below 10", "10 to 50", "50 to 100", "above 100"]

BANDS: tuple[Band, ...] = ("below 10", "10 to 50", "50 to 100", "above 100")
"""FLOPs per byte: the product's own classes. 10 and 50 are in the band that they begin, 100 in the
one that it ends."""


class LayerType(Struct, frozen=True):
    """All modules of one class that run operators or own parameters themselves."""

    type: str
    """Name of the class."""
    count: int
    """Modules, each at every place where it is called from."""
    parameters: int
    """Owned by these modules, without those of modules inside."""
    flops: int | Unknown
    """Of their own operators, in one forward."""
    share: float | None
    """Of all FLOPs; None where there are none, or these are not known."""


class BandShare(Struct, frozen=True):
    """All operators of one band of intensity."""

    band: Band
    ops: int
    """Calls in one forward. Views, which move nothing, are in no band."""
    flops: int
    flops_share: float | None
    """Of all FLOPs; None where there are none."""


def layer_types(tree: Tree) -> tuple[LayerType, ...]:
    """Return the model's layers by class, most FLOPs first, then most modules."""
    flops, uncosted, parameters = _own(tree)
    found: dict[str, list[int]] = {}
    for index, node in enumerate(tree.nodes):
        if node.kind == "module" and (flops[index] or parameters[index] or _runs(tree, index)):
            sums = found.setdefault(node.type, [0, 0, 0, 0])
            own = (1, parameters[index], flops[index], uncosted[index])
            for position, value in enumerate(own):
                sums[position] += value
    whole = sum(flops)
    types = [
        LayerType(name, count, owned, *shared(tree, spent, left, whole))
        for name, (count, owned, spent, left) in found.items()
    ]
    return tuple(sorted(types, key=lambda one: (-(one.share or 0.0), -one.count, one.type)))


def shared(tree: Tree, flops: int, uncosted: int, whole: int) -> tuple[int | Unknown, float | None]:
    """Return the FLOPs of some operators, and their share of all.

    Args:
        tree: that they are in.
        flops: that were counted.
        uncosted: how many of them have no formula.
        whole: FLOPs of the tree.
    """
    if uncosted and not flops:
        return Unknown(why_not_counted(tree)), None
    return flops, flops / whole if whole else None


def intensity_bands(tree: Tree) -> tuple[BandShare, ...]:
    """Return every band, with the operators whose FLOPs per byte are in it."""
    ops, flops = dict.fromkeys(BANDS, 0), dict.fromkeys(BANDS, 0)
    for node, cost in zip(tree.nodes, tree.costs, strict=True):
        ratio = intensity(cost)
        if node.kind == "op" and ratio is not None:
            band = band_of(ratio)
            ops[band] += cost.ops
            flops[band] += cost.flops
    whole = sum(flops.values())
    return tuple(
        BandShare(band, ops[band], flops[band], flops[band] / whole if whole else None)
        for band in BANDS
    )


def band_of(flops_per_byte: float) -> Band:
    """Return the band that an intensity is in."""
    if flops_per_byte < 10:
        return "below 10"
    if flops_per_byte < 50:
        return "10 to 50"
    return "50 to 100" if flops_per_byte <= 100 else "above 100"


def _own(tree: Tree) -> tuple[list[int], list[int], list[int]]:
    """Return every module's FLOPs, operators without a formula, and parameters.

    Without those of modules inside.
    """
    flops, uncosted, parameters = [0] * len(tree), [0] * len(tree), [0] * len(tree)
    for index, (node, cost) in enumerate(zip(tree.nodes, tree.costs, strict=True)):
        if node.kind == "op":
            flops[node.parent] += cost.flops
            uncosted[node.parent] += cost.uncosted
        else:
            parameters[index] = sum(
                _elements(weight.shape)
                for weight in node.weights
                if not weight.is_buffer and not weight.shared_with
            )
    return flops, uncosted, parameters


def _elements(shape: tuple[int, ...]) -> int:
    product = 1
    for size in shape:
        product *= size
    return product


def _runs(tree: Tree, index: int) -> bool:
    return any(tree.nodes[child].kind == "op" for child in tree.children(index))
