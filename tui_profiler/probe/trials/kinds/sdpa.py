"""``scaled_dot_product_attention`` in the place of attention that is written by hand.

The modules with attention in them are recorded as graphs. Both sides run those graphs, one of them
with the attention put as one operator: so that only this differs, not how many modules are called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode

from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.internals import tree_flatten, tree_leaves, tree_unflatten
from tui_profiler.probe.trace.snapshot import Snapshot
from tui_profiler.probe.trials.kinds.attention import fuse
from tui_profiler.probe.trials.kinds.subject import (
    Change,
    ImpossibleError,
    Kind,
    Subject,
    as_it_is,
    copied,
    counted,
    plain,
)

_Forward: TypeAlias = Callable[..., object]
_SOFTMAX: frozenset[_Forward] = frozenset(
    {torch.softmax, torch.nn.functional.softmax, torch.Tensor.softmax, torch.special.softmax}
)
_LEVELS = 3
"""How far around a softmax the products are looked for: it may be a module of its own."""


class _Recorded(NamedTuple):
    plain: _Forward
    fused: _Forward
    attentions: int


@dataclass
class _Called:
    """A module that a softmax ran in."""

    module: nn.Module
    arguments: tuple[object, ...]
    keywords: dict[str, object]
    calls: int = 1


@dataclass
class _Watch:
    """Sees which modules run a softmax, innermost first."""

    stack: list[_Called] = field(default_factory=list)
    chains: dict[int, list[_Called]] = field(default_factory=dict)
    calls: dict[int, int] = field(default_factory=dict)

    def forward(self, model: nn.Module, run: Callable[[], object]) -> None:
        """Run one forward; the model is left as it was."""
        snapshot, watch, replaced = Snapshot(model), self, nn.Module.__call__

        def call(module: nn.Module, *arguments: object, **keywords: object) -> object:
            watch.stack.append(_Called(module, arguments, keywords))
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
        """Take in that a softmax runs now."""
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


def _change(subject: Subject) -> Change:
    if _has_a_setting(subject.module):
        return _by_setting(subject)
    baseline, watch = as_it_is(subject), _Watch()
    watch.forward(
        subject.module, lambda: baseline.call(baseline.prepare() if baseline.prepare else None)
    )
    if not watch.chains:
        raise ImpossibleError("no softmax runs in it: attention, if any, is one operator already")
    recorded: dict[nn.Module, _Recorded] = {}
    for chain in watch.chains.values():
        for called in chain:
            if called.module in recorded:
                break
            if watch.calls[id(called.module)] == 1 and (found := _recorded(called)) is not None:
                recorded[called.module] = found
                break
    if not recorded:
        softmaxes = counted(len(watch.chains), "module")
        raise ImpossibleError(
            f"a softmax runs in {softmaxes}, none of which is plain attention: "
            "queries by keys, a scale, a mask, and values, that nothing else reads"
        )
    as_recorded = {module: one.plain for module, one in recorded.items()}
    fused = {module: one.fused for module, one in recorded.items()}
    count = sum(one.attentions for one in recorded.values())
    detail = f"{counted(count, 'attention')} put as one operator; both as recorded graphs"
    before, after = (replace(baseline, around=_running(one)) for one in (as_recorded, fused))
    return Change(before, after, detail)


def _has_a_setting(module: nn.Module) -> bool:
    """Say whether a model of transformers runs attention by hand, which a setting changes."""
    settable = callable(getattr(module, "set_attn_implementation", None))
    chosen = getattr(getattr(module, "config", None), "_attn_implementation", None)
    return settable and chosen == "eager"


def _by_setting(subject: Subject) -> Change:
    changed: Any = copied(subject.module)
    changed.set_attn_implementation("sdpa")
    detail = "transformers' attention set to sdpa instead of eager"
    return Change(as_it_is(subject), plain(changed, subject.inputs), detail)


def _running(forwards: Mapping[nn.Module, _Forward]) -> Callable[[], AbstractContextManager[None]]:
    """Give what has modules run other forwards inside."""

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


def _recorded(called: _Called) -> _Recorded | None:
    """Record one call of a module; None where it holds no plain attention, or keeps state."""
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
    except Exception:  # What cannot be recorded stays as it is; the next one out may be.
        return None
    finally:
        snapshot.restore()
    count = fuse(made)
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
        return "TorchScript is not recorded"
    return ""


KIND = Kind(_change, _why_not)
