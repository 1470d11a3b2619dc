"""``unused-parameters``, ``pruning``, ``quantise-weights``: findings about the weights.

Removing a channel removes its part of the layer's time. Setting single values to zero does not: a
dense kernel multiplies zeros like any other value. The width of a quantised parameter is the
narrowest one with an SQNR of at least 30 dB, by its values.
"""

from tui_profiler.figures.units import duration, size
from tui_profiler.findings.evidence import quantities
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check, counted
from tui_profiler.findings.evidence.memory import memory_gain, owners, trained_values
from tui_profiler.findings.evidence.time_share import LEAST_SHARE, share_of, spent
from tui_profiler.messages import Figure, TensorStatistics, Unknown
from tui_profiler.session import Session, Tree


@check(
    "unused-parameters",
    holds_in="both",
    reads=(quantities.TREE,),
    uses=(quantities.PEAK,),
)
def unused_parameters(session: Session) -> Finding | None:
    """Find modules with parameters of a shape that no operator around them reads.

    A fused operator reads the weights of modules that are not called: so the operators inside the
    nearest module that is called are searched for tensors of these shapes.
    """
    tree = session.tree
    if tree is None or not tree.has_forward or not len(tree):
        return None
    if any(node.is_opaque for node in tree.nodes) or tree.phase:
        return None  # A compiled region names no operators; another phase may read the rest.
    found = _unread(tree)
    unread = sum(found.values())
    share = share_of(unread, tree.costs[0].parameter_bytes)
    if not unread or share < LEAST_SHARE:
        return None
    return Finding(
        kind="unused-parameters",
        title=f"remove unused parameters of {counted(len(found), 'module')}",
        why=(
            "No operator of this forward reads them: training heads, leftover layers, or a branch"
            " that these inputs do not take. Check before removing them."
        ),
        nodes=tuple(sorted(found, key=lambda node: -found[node])),
        evidence=(
            Evidence("parameters that no operator reads", unread, "B", "derived"),
            Evidence("of all parameters", share, "share", "derived"),
        ),
        gains=(memory_gain(tree, unread, f"{size(unread)} that no operator reads"),),
        why_no_trial="removing them changes no output, only memory and file size",
    )


def _unread(tree: Tree) -> dict[int, int]:
    """Return the bytes of parameters that are not read, by the module that owns them."""
    found: dict[int, int] = {}
    shapes: dict[int, set[tuple[int, ...]]] = {}
    for index, node in enumerate(tree.nodes):
        owned = [one for one in node.weights if not one.is_buffer and not one.shared_with]
        if not owned or node.note.startswith("also at"):
            continue
        around = index
        while around > 0 and not tree.nodes[around].calls:
            around = tree.nodes[around].parent
        if around not in shapes:
            shapes[around] = _read_shapes(tree, around)
        unread = sum(one.bytes for one in owned if one.shape not in shapes[around])
        if unread:
            found[index] = unread
    return found


def _read_shapes(tree: Tree, module: int) -> set[tuple[int, ...]]:
    """Return the shapes that operators inside a module read."""
    inside = (tree.nodes[index] for index in range(module, tree.ends[module]))
    return {tensor.shape for node in inside if node.kind == "op" for tensor in node.inputs}


LOSS = 0.05
"""Accepted relative error of a tensor's weights, by their norm."""


@check(
    "pruning",
    holds_in="inference",
    reads=(quantities.TREE, quantities.STATISTICS),
    uses=quantities.TIME_OF_NODES,
)
def pruning(session: Session) -> Finding | None:
    """Find layers with prunable channels, by the values of their weights."""
    tree, every = session.tree, trained_values(session)
    found = tuple(one for one in every if _channels(one))
    saved = sum(one.bytes * _part(one) for one in found)
    if tree is None or not len(tree):
        return None
    if share_of(saved, sum(one.bytes for one in every)) < LEAST_SHARE:
        return None
    by_saved = tuple(sorted(found, key=lambda one: -one.bytes * _part(one)))
    channels = sum(map(_channels, found))
    dead = sum(one.channels.dead for one in found if one.channels is not None)
    alike = _near_duplicates(found)
    values = [(one, one.moments.count) for one in every if one.pruned and one.moments is not None]
    zeros = sum(_sparsity(one) * count for one, count in values)
    prunable = share_of(zeros, sum(count for _, count in values))
    return Finding(
        kind="pruning",
        title=f"prune {counted(channels, 'channel')}",
        why=(
            f"They hold at most {LOSS:.0%} of the norm of their layer's weights. The layers that"
            " consume them become smaller too. The model needs fine-tuning afterwards."
        ),
        nodes=owners(session, by_saved),
        evidence=(
            Evidence("prunable channels", channels, "count", "measured"),
            Evidence("dead channels (all zeros)", dead, "count", "measured"),
            Evidence("near-duplicate channels", alike, "count", "measured"),
            Evidence("prunable values, of all", prunable, "share", "measured"),
            Evidence("bytes of the prunable channels", saved, "B", "derived"),
        ),
        gains=(
            _time(session, tree, found),
            Gain("memory", Unknown("the layers that consume them are not known"), "those bytes"),
        ),
        why_no_trial="a pruned model needs fine-tuning before it can be used",
    )


def _near_duplicates(found: tuple[TensorStatistics, ...]) -> Figure:
    """Return the near-duplicate channels of tensors; unknown where those of one are."""
    total = 0.0
    for one in found:
        figure = one.channels.near_duplicates if one.channels is not None else 0.0
        if isinstance(figure, Unknown):
            return Unknown(f"{one.name}: {figure.reason}")
        total += figure
    return total


def _channels(one: TensorStatistics) -> int:
    """Return the channels of a tensor that are prunable at the accepted error."""
    if one.channels is None or len(one.shape) < 2:
        return 0
    return next((part.channels for part in one.channels.pruned if part.loss == LOSS), 0)


def _part(one: TensorStatistics) -> float:
    return _channels(one) / one.channels.count if one.channels is not None else 0.0


def _sparsity(one: TensorStatistics) -> float:
    return next((part.sparsity for part in one.pruned if part.loss == LOSS), 0.0)


def _time(session: Session, tree: Tree, found: tuple[TensorStatistics, ...]) -> Gain:
    """Return the gain of each layer's time times the share of its channels that is prunable."""
    formula = "each layer's time × its share of prunable channels"
    total, whole = 0.0, 0.0
    for one in found:
        node = tree.find(one.owner)
        took = spent(session, (node,)) if node is not None and tree.has_forward else None
        if took is None or isinstance(took, Unknown):
            return Gain("time", Unknown("the times of these layers are not known"), formula)
        total += took.seconds * _part(one)
        whole = took.whole
    said = f"{formula}: {duration(total)} of {duration(whole)}"
    return Gain("time", share_of(total, whole), said, "estimated")


@check(
    "quantise-weights",
    holds_in="inference",
    reads=(quantities.TREE, quantities.STATISTICS),
    uses=(quantities.PEAK,),
)
def quantise_weights(session: Session) -> Finding | None:
    """Find parameters that can be stored in fewer bits, by their values."""
    tree, every = session.tree, trained_values(session)
    narrower = [
        (one, one.width) for one in every if one.width is not None and one.width.saved_bytes > 0
    ]
    narrower.sort(key=lambda pair: -pair[1].saved_bytes)
    saved = sum(width.saved_bytes for _, width in narrower)
    held = sum(one.bytes for one in every)
    if tree is None or not len(tree) or share_of(saved, held) < LEAST_SHARE:
        return None
    worst, width = max(narrower, key=lambda pair: pair[1].error)
    return Finding(
        kind="quantise-weights",
        title=f"quantise {counted(len(narrower), 'parameter')} to fewer bits",
        why=(
            "In fewer bits these parameters keep an SQNR of at least 30 dB. The effect on the"
            " output is measured by the sensitivity of each layer, on the weights screen."
        ),
        nodes=owners(session, tuple(one for one, _ in narrower)),
        evidence=(
            Evidence("quantisable parameters", len(narrower), "count", "measured"),
            Evidence("bytes saved", saved, "B", "derived"),
            Evidence(f"largest relative error, {worst.name}", width.error, "share", "measured"),
        ),
        gains=(memory_gain(tree, saved, f"{size(saved)} of {size(held)} of parameters"),),
        why_no_trial="narrow weights need their own kernels; int8-dynamic tries linear layers",
    )
