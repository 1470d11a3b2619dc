"""Models whose backward busy-waits at known places, to compare with what is found of it.

Each wait is read off its own clock when it happens, so a machine that interrupts it is in both
figures. A place is the path of the node whose own backward it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from threading import Thread
from time import perf_counter
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, silu
from torch.utils.checkpoint import checkpoint

WIDTH = 16


class Waits:
    """What backward passes have waited since ``clear``."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        """By place."""
        self.factor = 1.0
        """Of what is asked for; 0: nothing waits."""

    def clear(self) -> None:
        """Begin anew."""
        self.seconds.clear()


WAITS = Waits()


class Spin(torch.autograd.Function):
    """Returns what it is given; its backward waits."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, place: str, seconds: float) -> Tensor:
        ctx.place, ctx.seconds = place, seconds
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        began = perf_counter()
        while perf_counter() - began < ctx.seconds * WAITS.factor:
            pass
        WAITS.seconds[ctx.place] += perf_counter() - began
        return gradients[0], None, None


def operator_of(place: str) -> type[Spin]:
    """Return the function that waits in a place: ``torch.profiler`` knows it by its name."""
    if place not in _OPERATORS:
        _OPERATORS[place] = type(f"Spin_{place.replace('.', '_').replace(' ', '_')}", (Spin,), {})
    return _OPERATORS[place]


_OPERATORS: dict[str, type[Spin]] = {}


def spin(x: Tensor, place: str, ms: float = 4.0) -> Tensor:
    """Return ``x``; its backward waits for so many milliseconds."""
    found: Tensor = operator_of(place).apply(x, place, ms / 1e3)
    return found


class Leaf(nn.Module):
    """A linear layer whose backward waits in a place that its caller names."""

    def __init__(self, ms: float = 4.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH) / WIDTH**0.5)
        self.ms = ms

    def forward(self, x: Tensor, place: str) -> Tensor:
        return spin(x @ self.weight, place, self.ms)


class Block(nn.Module):
    """A leaf between operators of its own; the wait of the block's own lies where it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.leaf = Leaf(6.0)

    def forward(self, x: Tensor, place: str = "") -> Tensor:
        path = f"{place}." if place else ""
        return x + spin(gelu(self.leaf(self.norm(x), f"{path}leaf")), place, 8.0)


class Stack(nn.Module):
    """Blocks inside of blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.outer = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        for number, block in enumerate(self.outer):
            x = block(x, f"outer.{number}")
        return self.head(x)


class Gated(nn.Module):
    """``down(silu(gate(x)) * up(x))``: the wait lies between two modules and leads to neither."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.down = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        gate = spin(silu(self.gate(x)), "")
        return self.down(gate * self.up(x))


class GatedInside(nn.Module):
    """The same one level below, beside a residual that waits as well."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.mlp = nn.LayerNorm(WIDTH), Gated()
        self.after = Leaf()

    def forward(self, x: Tensor) -> Tensor:
        kept = spin(x * 2, "", 3.0)
        inside = self.norm(x)
        gate = spin(silu(self.mlp.gate(inside)), "", 3.0)
        return self.after(kept + self.mlp.down(gate * self.mlp.up(inside)), "after")


class Rotated(nn.Module):
    """Projections, each followed by operators of the caller before the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.o = Leaf(3.0)

    def forward(self, x: Tensor) -> Tensor:
        q = spin(self.q(x).flip(-1), "")
        k = spin(self.k(x).flip(-1), "")
        v = self.v(x)
        return self.o((q @ k.transpose(-1, -2)).softmax(-1) @ v, "o")


class Branches(nn.Module):
    """Two parts on the same input, joined; one of them is a function."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = Leaf(6.0), Leaf(3.0)

    def forward(self, x: Tensor) -> Tensor:
        x = x * 1.5
        aside = spin(x.sigmoid(), "")
        return self.left(x, "left") + self.right(x, "right") * aside


class Shares(nn.Module):
    """One module under two parents."""

    def __init__(self) -> None:
        super().__init__()
        shared = Leaf()
        self.a, self.b = _Owner(shared), _Owner(shared)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.a(x, "a.shared"), "b.shared")


class _Owner(nn.Module):
    def __init__(self, shared: Leaf) -> None:
        super().__init__()
        self.shared = shared
        self.own = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, place: str) -> Tensor:
        return self.own(self.shared(x, place))


class Twice(nn.Module):
    """One module called twice by its parent, with an operator between."""

    def __init__(self) -> None:
        super().__init__()
        self.leaf = Leaf()

    def forward(self, x: Tensor) -> Tensor:
        return self.leaf(spin(self.leaf(x, "leaf").tanh(), ""), "leaf")


class Crossed(nn.Module):
    """A decoder that is given two inputs, of which one was made long before the other."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder, self.cross = Leaf(3.0), Leaf(3.0), _Cross()

    def forward(self, x: Tensor) -> Tensor:
        memory = self.encoder(x, "encoder")
        target = spin(self.decoder(x * 0.5, "decoder").relu(), "")
        return self.cross(target, memory=memory)


class _Cross(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.kv = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH)

    def forward(self, x: Tensor, *, memory: Tensor) -> Tensor:
        k, v = self.kv(memory).chunk(2, -1)
        return spin((self.q(x) @ k.transpose(-1, -2)).softmax(-1) @ v, "cross", 3.0)


class Named(NamedTuple):
    hidden: Tensor
    aside: Tensor


@dataclass
class Output:
    loss: Tensor
    hidden: Tensor
    aside: tuple[Tensor, ...] = ()


class Structured(nn.Module):
    """Modules that return dictionaries, lists, named tuples and dataclasses, and take them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = _Dictionary(), _NamedTuple(), _Dataclass()

    def forward(self, x: Tensor) -> Output:
        named: Output = self.third(self.second(self.first({"x": x})))
        return named


class _Dictionary(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(WIDTH))

    def forward(self, given: dict[str, Tensor]) -> dict[str, object]:
        x = spin(given["x"] @ self.weight, "first")
        return {"name": "first", "hidden": [x, x * 2]}


class _NamedTuple(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(WIDTH))

    def forward(self, given: dict[str, list[Tensor]]) -> Named:
        x, y = given["hidden"]
        return Named(spin(x @ self.weight, "second", 3.0), y)


class _Dataclass(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(WIDTH))

    def forward(self, given: Named) -> Output:
        hidden = spin(given.hidden @ self.weight, "third", 3.0)
        return Output(hidden.square().mean(), hidden, (given.aside,))


class Checkpointed(nn.Module):
    """Blocks that are run again in the backward.

    Args:
        use_reentrant: of ``torch.utils.checkpoint``.
    """

    def __init__(self, *, use_reentrant: bool) -> None:
        super().__init__()
        self.before, self.blocks = Leaf(3.0), nn.ModuleList([Block(), Block()])
        self.use_reentrant = use_reentrant

    def forward(self, x: Tensor) -> Tensor:
        x = self.before(x, "before")
        for number, block in enumerate(self.blocks):
            x = checkpoint(block, x, f"blocks.{number}", use_reentrant=self.use_reentrant)
            x = spin(x.tanh(), "", 8.0)
        return x


class InPlace(nn.Module):
    """In-place operators on outputs of modules, as of ResNets."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.relu = Leaf(), Leaf(), nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.first(x, "first"))
        x = spin(x, "").add_(1.0)
        return self.relu(self.second(x, "second"))


class Pieces(nn.Module):
    """Outputs that are views: halves of one tensor, and a view written through its base."""

    def __init__(self) -> None:
        super().__init__()
        self.split, self.left, self.right = _Halves(), Leaf(), Leaf(3.0)

    def forward(self, x: Tensor) -> Tensor:
        left, right = self.split(x)
        left, right = self.left(left, "left"), self.right(right, "right")
        joined = torch.cat([left, right], -1)
        joined[:, 0] = joined[:, 1] * 2
        return spin(joined, "")


class _Halves(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.widen = nn.Linear(WIDTH, 2 * WIDTH)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return spin(self.widen(x), "split").chunk(2, -1)


class Recurrent(nn.Module):
    """A cell in a loop, and an LSTM of torch's."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.lstm = Leaf(1.0), nn.LSTM(WIDTH, WIDTH, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        steps = [x]
        for _ in range(4):
            steps.append(self.cell(steps[-1], "cell").tanh())
        out, _ = self.lstm(torch.stack(steps, 1))
        return spin(out, "")


class Case(NamedTuple):
    """A model and one of its training steps."""

    build: Callable[[], nn.Module]
    run: Callable[[nn.Module, Tensor], None]
    """Runs forward and backward once."""


def _backward(model: nn.Module, x: Tensor) -> None:
    _mean(model(x)).backward()


def _mean(output: Tensor | Output) -> Tensor:
    return (output if isinstance(output, Tensor) else output.hidden).square().mean()


def _whole(use_reentrant: bool) -> Callable[[nn.Module, Tensor], None]:
    def run(model: nn.Module, x: Tensor) -> None:
        x.requires_grad_()  # Without, a reentrant checkpoint has no backward.
        _mean(checkpoint(model, x, use_reentrant=use_reentrant)).backward()

    return run


def _two_losses(model: nn.Module, x: Tensor) -> None:
    first = spin(_mean(model(x)), "first loss")
    second = _mean(model(x * 2))
    (first + second).backward()


def _retained(model: nn.Module, x: Tensor) -> None:
    output = model(x)
    _mean(output).backward(retain_graph=True)
    output.sum().backward()


def _accumulated(model: nn.Module, x: Tensor) -> None:
    for part in x.chunk(2):
        _mean(model(part)).backward()


def _elsewhere(model: nn.Module, x: Tensor) -> None:
    outputs: list[Tensor] = []
    thread = Thread(target=lambda: outputs.append(model(x)))
    thread.start()
    thread.join()
    _mean(outputs[0]).backward()


def _of_input(model: nn.Module, x: Tensor) -> None:
    x.requires_grad_()
    torch.autograd.grad(_mean(model(x)), x)


CASES: dict[str, Case] = {
    "leaf, block, nested": Case(Stack, _backward),
    "branches": Case(Branches, _backward),
    "gate between modules": Case(Gated, _backward),
    "gate and residual, nested": Case(GatedInside, _backward),
    "operators after projections": Case(Rotated, _backward),
    "shared module": Case(Shares, _backward),
    "called twice": Case(Twice, _backward),
    "several inputs": Case(Crossed, _backward),
    "dict, tuple, dataclass": Case(Structured, _backward),
    "in place": Case(InPlace, _backward),
    "views": Case(Pieces, _backward),
    "cell in a loop, LSTM": Case(Recurrent, _backward),
    "checkpointed blocks": Case(lambda: Checkpointed(use_reentrant=False), _backward),
    "checkpointed blocks, reentrant": Case(lambda: Checkpointed(use_reentrant=True), _backward),
    "checkpointed model": Case(Block, _whole(use_reentrant=False)),
    "checkpointed model, reentrant": Case(Block, _whole(use_reentrant=True)),
    "two losses": Case(Stack, _two_losses),
    "graph retained": Case(Stack, _retained),
    "accumulation": Case(Stack, _accumulated),
    "forward on another thread": Case(Stack, _elsewhere),
    "gradient of the input": Case(Branches, _of_input),
}


def inputs() -> Tensor:
    """Return what every model is given: (items, width)."""
    return torch.randn(8, WIDTH)
