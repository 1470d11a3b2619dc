"""``scaled_dot_product_attention`` instead of attention as separate matmuls and softmax.

Modules with attention are recorded as graphs. Both sides run these graphs, one of them with the
attention replaced by one operator: so nothing else differs, such as the calls of modules.

It matches ``softmax(q @ k^T * scale + mask) @ v``, with the scale anywhere before the mask or in
``q``, where nothing else consumes the tensors in between.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import nn
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode

from tui_profiler.probe.measure.energy.replay import Captured
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.internals import tree_flatten, tree_leaves, tree_unflatten
from tui_profiler.probe.trace.snapshot import Snapshot
from tui_profiler.probe.trials.kinds import change

_aten = torch.ops.aten
_SOFTMAX_NAMES = (_aten.softmax.int, _aten._softmax.default)
_MATMULS = (_aten.matmul.default, _aten.bmm.default)
_SCALES = (_aten.mul.Tensor, _aten.mul.Scalar, _aten.div.Tensor, _aten.div.Scalar)
_MASKS = (_aten.masked_fill.Scalar, _aten.masked_fill.Tensor)
_PASSING = (
    *(_aten.to.dtype, _aten._to_copy.default, _aten.contiguous.default, _aten.clone.default),
    *(_aten.dropout.default, _aten.detach.default, _aten.alias.default),
)
_LEAST_MASKED = -1e4
"""Fill value of a mask: minus infinity, or at most this."""


class _Attention(NamedTuple):
    """One match in a graph."""

    queries: Node
    keys_transposed: Node
    values: Node
    scale: float
    mask: Node | None
    is_masked_out: bool
    """The mask selects what is hidden; otherwise it is added."""
    end: Node
    """Its last operator."""


def attentions(graph: Graph) -> list[_Attention]:
    """Return all matches in a graph."""
    found = (_around(node) for node in graph.nodes if node.target in _SOFTMAX_NAMES)
    return [one for one in found if one is not None]


def _fuse(graph_module: GraphModule) -> int:
    """Replace each attention by one operator, in place; return how many."""
    graph = graph_module.graph
    found = attentions(graph)
    for one in found:
        with graph.inserting_before(one.end):
            keys = graph.call_function(_aten.transpose.int, (one.keys_transposed, -2, -1))
            mask = one.mask
            if mask is not None and one.is_masked_out:
                mask = graph.call_function(_aten.logical_not.default, (mask,))
            fused = graph.call_function(
                torch.nn.functional.scaled_dot_product_attention,
                (one.queries, keys, one.values),
                {"attn_mask": mask, "scale": one.scale},
            )
        one.end.replace_all_uses_with(fused)
        graph.erase_node(one.end)
    graph.eliminate_dead_code()
    graph.lint()
    graph_module.recompile()
    return len(found)


def _around(softmax: Node) -> _Attention | None:
    if not _is_over_last_axis(softmax):
        return None
    end = _matmul_below(softmax)
    values = end.args[1] if end is not None else None
    if end is None or not isinstance(values, Node):
        return None
    above = _above(softmax)
    if above is None:
        return None
    product, scale, mask, is_masked_out = above
    queries, keys = product.args[0], product.args[1]
    if not isinstance(queries, Node) or not isinstance(keys, Node):
        return None
    return _Attention(queries, keys, values, scale, mask, is_masked_out, end)


def _is_over_last_axis(softmax: Node) -> bool:
    axis = softmax.args[1]
    shape = _shape(softmax)
    return bool(axis == -1 or (shape is not None and axis == len(shape) - 1))


def _matmul_below(softmax: Node) -> Node | None:
    """Return the matmul with the values, if it alone consumes the attention weights."""
    node = softmax
    while len(node.users) == 1:
        reader = next(iter(node.users))
        if reader.target in _MATMULS:
            return reader if reader.args[0] is node and reader.args[1] is not node else None
        if reader.target not in _PASSING or _drops(reader):
            return None
        node = reader
    return None


def _drops(node: Node) -> bool:
    """Return whether it is a dropout in training mode."""
    return node.target is _aten.dropout.default and bool(node.args[2])


def _above(softmax: Node) -> tuple[Node, float, Node | None, bool] | None:
    """Return the matmul of queries and keys, the scale, the mask and whether it hides."""
    node, scale = softmax.args[0], 1.0
    mask: Node | None = None
    is_masked_out = False
    while isinstance(node, Node) and len(node.users) == 1:
        if node.target in _MATMULS:
            return node, scale, mask, is_masked_out
        if node.target in _PASSING and not _drops(node):
            node = node.args[0]
        elif node.target in _SCALES and isinstance(node.args[1], int | float):
            by = float(node.args[1])
            scale = scale * by if "mul" in str(node.target) else scale / by
            node = node.args[0]
        elif node.target in _MASKS and mask is None and scale == 1.0 and _hides(node.args[2]):
            mask, is_masked_out = _node(node.args[1]), True
            node = node.args[0]
        elif node.target is _aten.add.Tensor and mask is None and scale == 1.0:
            node, mask = _scores_and_mask(node)
        else:
            return None
    return None


def _hides(value: object) -> bool:
    return isinstance(value, int | float) and value <= _LEAST_MASKED


def _node(value: object) -> Node | None:
    return value if isinstance(value, Node) else None


def _scores_and_mask(addition: Node) -> tuple[Node | None, Node | None]:
    """Return the scores and the mask of an addition: the scores have its whole shape."""
    one, other = _node(addition.args[0]), _node(addition.args[1])
    if one is None or other is None or addition.kwargs:
        return None, None
    whole = _shape(addition)
    if _shape(one) == whole and _leads_to_matmul(one):
        return one, other
    return (other, one) if _shape(other) == whole and _leads_to_matmul(other) else (None, None)


def _leads_to_matmul(node: object) -> bool:
    while isinstance(node, Node):
        if node.target in _MATMULS:
            return True
        if node.target not in (*_PASSING, *_SCALES):
            return False
        node = node.args[0]
    return False


def _shape(node: Node) -> tuple[int, ...] | None:
    value = node.meta.get("val", node.meta.get("tensor_meta"))
    return tuple(value.shape) if value is not None and hasattr(value, "shape") else None


_Forward: TypeAlias = Callable[..., object]
_SOFTMAX: frozenset[_Forward] = frozenset(
    {torch.softmax, torch.nn.functional.softmax, torch.Tensor.softmax, torch.special.softmax}
)
_LEVELS = 3
"""Modules around a softmax in which the matmuls are searched: softmax may be a module itself."""


class _Recorded(NamedTuple):
    plain: _Forward
    fused: _Forward
    attentions: int


@dataclass
class _Watch:
    """Records the modules that run a softmax, innermost first."""

    stack: list[Captured] = field(default_factory=list)
    """Calls that have begun and not ended."""
    chains: dict[int, list[Captured]] = field(default_factory=dict)
    calls: dict[int, int] = field(default_factory=dict)

    def forward(self, model: nn.Module, run: Callable[[], object]) -> None:
        """Run one forward, and restore the model."""
        snapshot, watch, replaced = Snapshot(model), self, nn.Module.__call__

        def call(module: nn.Module, *arguments: object, **keywords: object) -> object:
            watch.stack.append(Captured(module, arguments, keywords))
            watch.calls[id(module)] = watch.calls.get(id(module), 0) + 1
            try:
                return replaced(module, *arguments, **keywords)
            finally:
                watch.stack.pop()

        nn.Module.__call__ = call  # type: ignore[method-assign] # the same to every caller
        try:
            with _Softmaxes(self):
                run()
        finally:
            nn.Module.__call__ = replaced  # type: ignore[method-assign]
            snapshot.restore()

    def seen(self) -> None:
        """Record that a softmax runs now."""
        if self.stack:
            chain = self.stack[-1 : -_LEVELS - 1 : -1]
            self.chains.setdefault(id(chain[0].module), list(chain))


class _Softmaxes(TorchFunctionMode):
    def __init__(self, watch: _Watch) -> None:
        super().__init__()
        self._watch = watch

    def __torch_function__(
        self,
        func: _Forward,
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        if func in _SOFTMAX:
            self._watch.seen()
        return func(*args, **(kwargs or {}))


def _change(subject: change.Subject) -> change.Change:
    if _has_a_setting(subject.module):
        return _by_setting(subject)
    baseline, watch = subject.baseline(), _Watch()
    watch.forward(subject.module, baseline.run)
    if not watch.chains:
        raise change.ImpossibleError(
            "no softmax runs in it: attention, if any, is already one operator"
        )
    recorded: dict[nn.Module, _Recorded] = {}
    for chain in watch.chains.values():
        for called in chain:
            if called.module in recorded:
                break
            if watch.calls[id(called.module)] == 1 and (found := _recorded(called)) is not None:
                recorded[called.module] = found
                break
    if not recorded:
        softmaxes = change.counted(len(watch.chains), "module")
        raise change.ImpossibleError(
            f"softmax runs in {softmaxes}, none of it in attention of the form"
            " softmax(q @ k^T * scale + mask) @ v"
        )
    as_recorded = {module: one.plain for module, one in recorded.items()}
    fused = {module: one.fused for module, one in recorded.items()}
    count = sum(one.attentions for one in recorded.values())
    what = change.counted(count, "attention")
    detail = f"{what} replaced by one operator; both sides run recorded graphs"
    before, after = (replace(baseline, around=_running(one)) for one in (as_recorded, fused))
    return change.Change(before, after, detail)


def _has_a_setting(module: nn.Module) -> bool:
    """Return whether a model of transformers runs eager attention, which a setting changes."""
    settable = callable(getattr(module, "set_attn_implementation", None))
    chosen = getattr(getattr(module, "config", None), "_attn_implementation", None)
    return settable and chosen == "eager"


def _by_setting(subject: change.Subject) -> change.Change:
    changed: Any = subject.copied()
    changed.set_attn_implementation("sdpa")
    detail = "transformers' attention set to sdpa instead of eager"
    return change.Change(subject.baseline(), change.plain(changed, subject.inputs), detail)


def _running(forwards: Mapping[nn.Module, _Forward]) -> Callable[[], AbstractContextManager[None]]:
    """Return a context manager in which modules run other forwards."""

    @contextmanager
    def around() -> Iterator[None]:
        for module, forward in forwards.items():
            vars(module)["forward"] = forward
        try:
            yield
        finally:
            for module in forwards:
                vars(module).pop("forward", None)

    return around


def _recorded(called: Captured) -> _Recorded | None:
    """Record one call of a module; None where nothing matches, or it keeps state."""
    module = called.module
    leaves, layout = tree_flatten((called.arguments, called.keywords))
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def forward(*tensors: torch.Tensor) -> object:
        filled = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            filled[place] = tensor
        arguments, keywords = tree_unflatten(filled, layout)
        return module.forward(*arguments, **keywords)

    before, snapshot = dict(vars(module)), Snapshot(module)
    try:
        with torch.no_grad():
            made = make_fx(forward, pre_dispatch=True)(*(leaves[place] for place in places))
            plain = make_fx(forward, pre_dispatch=True)(*(leaves[place] for place in places))
        keeps_state = any(before.get(name) is not now for name, now in vars(module).items())
    except Exception:  # It stays as it is; the module around it may be recordable.
        return None
    finally:
        snapshot.restore()
    count = _fuse(made)
    if keeps_state or not count:
        return None
    return _Recorded(_as_forward(plain), _as_forward(made), count)


def _as_forward(graph: torch.fx.GraphModule) -> _Forward:
    run = graph.forward

    def forward(*arguments: object, **keywords: object) -> object:
        leaves = tree_leaves((arguments, keywords))
        return run(*(leaf for leaf in leaves if isinstance(leaf, torch.Tensor)))

    return forward


def _why_not(module: nn.Module, inputs: Inputs) -> str:
    if isinstance(module, torch.jit.ScriptModule):
        return "TorchScript modules cannot be recorded"
    return ""


KIND = change.Kind(_change, _why_not)
