"""Our figures beside those of others: what must be equal, what may differ, and whether it is so.

1. Published parameters are equal, published GMACs to the three decimals that they have.
2. ``torch.utils.flop_counter`` has as many MACs (its FLOPs halved) as we have without the operators
   that it counts 0 for. They are named, with what we count for them.
3. fvcore, which rounds in ``einsum``, is within 0.1 % of the same; its arithmetic that is no
   multiply-accumulates is left out. Where it skips one operator that is several of ours, nothing
   can be compared.
4. The peak of memory that was predicted is within 10 % of what a real forward allocates.
5. Where figures depend on the data, ours are bounds: the others are at most as high.
"""

from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.messages import Counter, SecondOpinion, Unknown
from tui_profiler.queries.cost.bound import BY_VALUE
from tui_profiler.queries.cost.totals import known_peak_bytes
from tui_profiler.session import Session, Tree
from tui_profiler.session.data_dependence import of_whole

PUBLISHED_DECIMALS = 3
FVCORE_SHARE = 0.001
MEMORY_SHARE = 0.10

Against: TypeAlias = Literal["published"] | Counter
FigureName: TypeAlias = Literal["parameters", "macs", "peak_bytes"]
Verdict: TypeAlias = Literal["holds", "fails", "not compared"]

_HIDES_PRODUCTS = {
    "scaled_dot_product_attention": ("_scaled_dot_product_", "scaled_dot_product_attention"),
    "_native_multi_head_attention": (),
    "_transformer_encoder_layer_fwd": (),
    "bilinear": ("_trilinear",),
    "lstm": ("mkldnn_rnn_layer", "_cudnn_rnn", "miopen_rnn"),
    "gru": ("_cudnn_rnn", "miopen_rnn"),
    "rnn_tanh": ("_cudnn_rnn", "miopen_rnn"),
    "rnn_relu": ("_cudnn_rnn", "miopen_rnn"),
    "lstm_cell": (),
    "gru_cell": (),
    "rnn_tanh_cell": (),
    "rnn_relu_cell": (),
    "conv_tbc": (),
    "baddbmm": (),
    "addbmm": (),
    "mv": (),
    "dot": (),
    "embedding_bag": ("_embedding_bag",),
}
"""Operators of jit traces that hold products, to how the names of ours that do the same begin."""


class Verification(Struct, frozen=True, eq=False):
    """One model, with what others say of it."""

    session: Session
    """Ours: the tree, and what is published."""
    opinions: tuple[SecondOpinion, ...] = ()


class Part(Struct, frozen=True):
    """An operator that another counter counts 0 for, though it has multiply-accumulates."""

    name: str
    """As ours: ``aten._native_multi_head_attention``."""
    macs: int
    """What we count for all its calls."""


class Check(Struct, frozen=True):
    """One figure of ours against one of another's."""

    against: Against
    figure: FigureName
    tolerance: str
    """What must hold, in a few words."""
    verdict: Verdict
    ours: int | None = None
    theirs: float | None = None
    left_out: tuple[Part, ...] = ()
    """Subtracted from tui-profiler's figure before it is compared."""
    why: str = ""
    """The difference, or why nothing can be compared; empty where they are equal."""


def verify_verdict(made: Verification) -> Verdict:
    """Return ``fails`` where one check does, ``not compared`` where nothing could be checked."""
    verdicts = {check.verdict for check in checks(made)}
    if "fails" in verdicts:
        return "fails"
    return "holds" if "holds" in verdicts else "not compared"


def checks(made: Verification) -> tuple[Check, ...]:
    """Return what can be checked, in the order of the rules above; none where there is no tree."""
    tree = made.session.tree
    if tree is None or not len(tree):
        return ()
    found = _published(made.session, tree)
    for opinion in made.opinions:
        found += _of_opinion(opinion, tree)
    return tuple(found)


def peak_bytes_of(tree: Tree) -> int | None:
    """Return our prediction of the peak, its known parts added up; None for a tree without one."""
    return None if tree.done is None else int(known_peak_bytes(tree.done.peak_memory))


def _published(session: Session, tree: Tree) -> list[Check]:
    model, found = session.model, []
    if model is None:
        return []
    if (parameters := model.published_parameters) is not None:
        found.append(_equal_parameters("published", tree, parameters))
    if (theirs := model.published_gmacs) is not None:
        batch = model.batch or 1
        ours = tree.costs[0].macs / batch / 1e9
        is_equal = f"{ours:.{PUBLISHED_DECIMALS}f}" == f"{theirs:.{PUBLISHED_DECIMALS}f}"
        found.append(
            Check(
                against="published",
                figure="macs",
                tolerance=f"GMACs per item equal to {PUBLISHED_DECIMALS} decimals",
                verdict="holds" if is_equal else "fails",
                ours=tree.costs[0].macs,
                theirs=theirs * batch * 1e9,
                why=""
                if is_equal
                else f"{ours:.{PUBLISHED_DECIMALS}f} here, {theirs:.3f} published",
            )
        )
    return found


def _of_opinion(opinion: SecondOpinion, tree: Tree) -> list[Check]:
    if opinion.error:
        figure: FigureName = "peak_bytes" if opinion.counter == "measured" else "macs"
        stated = _tolerance(opinion, tree)
        return [Check(opinion.counter, figure, stated, "not compared", why=opinion.error)]
    found = []
    if isinstance(opinion.parameters, int):
        found.append(_equal_parameters(opinion.counter, tree, opinion.parameters))
    if isinstance(opinion.macs, int):
        found.append(_macs(opinion, opinion.macs, tree))
    if isinstance(opinion.peak_bytes, int):
        found.append(_peak(opinion, opinion.peak_bytes, tree))
    return found


def _equal_parameters(against: Against, tree: Tree, theirs: int) -> Check:
    ours = tree.costs[0].parameters
    return Check(
        against=against,
        figure="parameters",
        tolerance="parameters equal",
        verdict="holds" if ours == theirs else "fails",
        ours=ours,
        theirs=theirs,
        why="" if ours == theirs else _apart(ours, theirs),
    )


def _macs(opinion: SecondOpinion, theirs: int, tree: Tree) -> Check:
    ours = tree.costs[0].macs
    by_name = _macs_by_name(tree)
    left_out, hidden = _left_out(opinion, by_name, _calls_by_name(tree))
    rest = ours - sum(part.macs for part in left_out)
    check = Check(
        against=opinion.counter,
        figure="macs",
        tolerance=_tolerance(opinion, tree),
        verdict="holds",
        ours=ours,
        theirs=theirs,
        left_out=left_out,
    )
    share = FVCORE_SHARE if opinion.counter == "fvcore" else 0.0
    if abs(theirs - rest) <= share * max(theirs, rest) or (_is_bound(tree) and theirs <= rest):
        return replace(check, why="" if theirs == rest else _apart(rest, theirs))
    if hidden and theirs < rest:
        why = f"it skips {hidden}, which stands for several operators here"
        return replace(check, verdict="not compared", why=why)
    if _is_by_value(tree):
        return replace(check, verdict="not compared", why=f"{_apart(rest, theirs)}; {BY_VALUE}")
    return replace(check, verdict="fails", why=_apart(rest, theirs) + _where(opinion, by_name))


def _peak(opinion: SecondOpinion, theirs: int, tree: Tree) -> Check:
    ours = peak_bytes_of(tree)
    check = Check("measured", "peak_bytes", _tolerance(opinion, tree), "holds", ours, theirs)
    if ours is None or not theirs:
        why = "nothing was predicted" if ours is None else "nothing was allocated"
        return replace(check, verdict="not compared", why=why)
    off = (ours - theirs) / theirs
    holds = abs(off) <= MEMORY_SHARE or (_is_bound(tree) and ours >= theirs)
    why = "" if ours == theirs else f"predicted {abs(off):.1%} too {'high' if off > 0 else 'low'}"
    if not holds and _is_by_value(tree):
        return replace(check, verdict="not compared", why=f"{why}; {BY_VALUE}")
    return replace(check, verdict="holds" if holds else "fails", why=why)


def _tolerance(opinion: SecondOpinion, tree: Tree) -> str:
    if opinion.counter == "measured":
        least = "at most the prediction, or " if _is_bound(tree) else ""
        return f"peak memory {least}within {MEMORY_SHARE:.0%}"
    figure = "its FLOPs / 2" if opinion.counter == "flop_counter" else "what it calls FLOPs"
    equal = "equal" if opinion.counter == "flop_counter" else f"within {FVCORE_SHARE:.1%}"
    return f"MACs ({figure}) {'at most the upper bound here' if _is_bound(tree) else equal}"


def _is_bound(tree: Tree) -> bool:
    return tree.done is not None and of_whole(tree.done.bounded) == "at most"


def _is_by_value(tree: Tree) -> bool:
    return tree.done is not None and of_whole(tree.done.bounded) == "about"


def _left_out(
    opinion: SecondOpinion, by_name: dict[str, int], calls: dict[str, int]
) -> tuple[tuple[Part, ...], str]:
    """Return our operators it skips, and one whose calls there are not all calls of its name."""
    found: dict[str, int] = {}
    hidden = ""
    for skipped in opinion.skipped:
        bare = _bare(skipped.name)
        starts = _HIDES_PRODUCTS.get(bare, ())
        same = {
            name: macs
            for name, macs in by_name.items()
            if _bare(name) == bare or (starts and _bare(name).startswith(starts))
        }
        found |= same
        more_there = (skipped.calls or 0) > sum(calls.get(name, 0) for name in same)
        can_hide = bare in _HIDES_PRODUCTS or not skipped.name.startswith("aten")
        if can_hide and (not same or more_there):  # the rest stands in other operators of ours
            hidden = hidden or skipped.name
    return tuple(Part(name, macs) for name, macs in found.items()), hidden


def _macs_by_name(tree: Tree) -> dict[str, int]:
    found: dict[str, int] = {}
    for node, cost in zip(tree.nodes, tree.costs, strict=True):
        if node.kind == "op" and cost.macs:
            name = _without_overload(node.type)
            found[name] = found.get(name, 0) + cost.macs
    return found


def _calls_by_name(tree: Tree) -> dict[str, int]:
    found: dict[str, int] = {}
    for node, cost in zip(tree.nodes, tree.costs, strict=True):
        if node.kind == "op":
            name = _without_overload(node.type)
            found[name] = found.get(name, 0) + cost.ops
    return found


def _without_overload(name: str) -> str:
    return ".".join(name.split(".")[:2])


def _bare(name: str) -> str:
    """Return ``mm`` for ``aten::mm``, ``aten.mm`` and ``aten.mm.default``."""
    if "::" in name:
        return name.partition("::")[2]
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def _where(opinion: SecondOpinion, by_name: dict[str, int]) -> str:
    """Name the operator with the largest difference, where both have the same names."""
    if opinion.counter != "flop_counter":
        return ""
    theirs = {counted.name: counted.amount for counted in opinion.operators}
    apart = {n: by_name.get(n, 0) - theirs.get(n, 0) for n in (*by_name, *theirs)}
    name = max(apart, key=lambda name: abs(apart[name]), default="")
    return (
        f", largest in {name}: {_apart(by_name.get(name, 0), theirs.get(name, 0))}" if name else ""
    )


def _apart(ours: int, theirs: int) -> str:
    return f"{ours:,} here, {theirs:,} there"


def no_opinion(counter: Counter, error: str, seconds: float = 0.0) -> SecondOpinion:
    """Return what stands for a counter that could not say anything.

    Args:
        counter: which one.
        error: why, in one line.
        seconds: how long it was given.
    """
    nothing = Unknown("it failed")
    return SecondOpinion(counter, "", seconds, error, nothing, nothing, nothing, nothing)
