"""What programs do with autograd's graph: in place, again, twice, by hand."""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import cross_entropy, dropout, relu_
from torch.utils.checkpoint import checkpoint

from tests.probe.measure.step.programs import Program, Watch, state_of

WIDTH = 8


class Residual(nn.Module):
    """A block as of a ResNet, with operators in place."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(4, 4, 3, padding=1, bias=False) for _ in range(2))
        self.norm, self.again = nn.BatchNorm2d(4), nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        out = self.again(self.second(self.relu(self.norm(self.first(x)))))
        out += x
        return self.relu(out)


class Mlp(nn.Module):
    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(width, 2 * width), nn.LayerNorm(2 * width)
        self.second = nn.Linear(2 * width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.second(self.drop(torch.tanh(self.norm(self.first(x)))))
        return found


def trained(
    model: nn.Module,
    steps: int,
    watch: Watch,
    loss_of: Callable[[], Tensor],
    *,
    backward: Callable[[Tensor], object] = Tensor.backward,
) -> list[object]:
    """Train a model in the plain way."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    watch(model)
    losses: list[object] = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of()
        backward(loss)
        optimizer.step()
        losses.append(loss.detach())
    return [*losses, *state_of(model, optimizer)]


def batch(items: int = 4, width: int = WIDTH) -> Tensor:
    return torch.randn(items, width)


def in_place(steps: int, watch: Watch) -> Iterable[object]:
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), Residual(), Residual(), nn.Flatten(), nn.Linear(144, 5)
    )

    def loss() -> Tensor:
        out = model(torch.randn(2, 3, 8, 8))
        out[:, 0] *= 0.5
        return cross_entropy(out.add_(1.0), torch.randint(5, (2,)))

    return trained(model, steps, watch, loss)


class Checkpoints(nn.Module):
    def __init__(self, *, use_reentrant: bool) -> None:
        super().__init__()
        self.before, self.blocks = nn.Linear(WIDTH, WIDTH), nn.ModuleList(Mlp() for _ in range(3))
        self.use_reentrant = use_reentrant

    def forward(self, x: Tensor) -> Tensor:
        x = self.before(x)
        for block in self.blocks:
            x = x + checkpoint(block, x, use_reentrant=self.use_reentrant)
        return x


def checkpoints(use_reentrant: bool) -> Program:
    def program(steps: int, watch: Watch) -> Iterable[object]:
        model = Checkpoints(use_reentrant=use_reentrant)
        return trained(model, steps, watch, lambda: model(batch()).square().mean())

    return program


def checkpointed_model(use_reentrant: bool) -> Program:
    def program(steps: int, watch: Watch) -> Iterable[object]:
        model = Mlp()

        def loss() -> Tensor:
            x = batch().requires_grad_()
            out: Tensor = checkpoint(model, x, use_reentrant=use_reentrant)
            return out.square().mean()

        return trained(model, steps, watch, loss)

    return program


def gradient_penalty(steps: int, watch: Watch) -> Iterable[object]:
    model = Mlp()

    def loss() -> Tensor:
        x = batch().requires_grad_()
        out = model(x)
        (gradient,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        penalty = (gradient.norm(2, dim=1) - 1).square().mean()
        return out.square().mean() + penalty

    return trained(model, steps, watch, loss)


def inner_steps(steps: int, watch: Watch) -> Iterable[object]:
    """MAML: an inner step whose own backward is differentiated."""
    model = Mlp()

    def loss() -> Tensor:
        weights = dict(model.named_parameters())
        x = batch()
        first = torch.func.functional_call(model, weights, (x,)).square().mean()
        gradients = torch.autograd.grad(first, tuple(weights.values()), create_graph=True)
        changed = {
            name: weight - 0.1 * gradient
            for (name, weight), gradient in zip(weights.items(), gradients, strict=True)
        }
        return torch.func.functional_call(model, changed, (x,)).square().mean()

    return trained(model, steps, watch, loss)


def created_graph(steps: int, watch: Watch) -> Iterable[object]:
    model = Mlp()
    watch(model)
    noted: list[object] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # Of torch: it makes a cycle of references.
        for _ in range(steps):
            loss = model(batch()).square().mean()
            loss.backward(create_graph=True)
            gradients = [one.grad for one in model.parameters() if one.grad is not None]
            second = torch.stack([one.square().sum() for one in gradients]).sum()
            noted += torch.autograd.grad(second, list(model.parameters()), allow_unused=True)
            model.zero_grad()
    return [*noted, *state_of(model)]


def retained_graph(steps: int, watch: Watch) -> Iterable[object]:
    model = Mlp()

    def backward(loss: Tensor) -> None:
        loss.backward(retain_graph=True)
        (loss * 0.5).backward(retain_graph=True)
        loss.backward()

    return trained(model, steps, watch, lambda: model(batch()).square().mean(), backward=backward)


def users_hooks(steps: int, watch: Watch) -> Iterable[object]:
    model = nn.Sequential(Mlp(), Mlp())
    noted: list[object] = []

    def note(*values: object) -> None:
        noted.append(values[1:])

    for one in model.modules():
        one.register_full_backward_pre_hook(note)
        one.register_full_backward_hook(note)
        one.register_forward_hook(lambda module, given, out: out * 1.5)
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(_double)

    def loss() -> Tensor:
        out = model(batch())
        out.register_hook(lambda gradient: gradient.clamp(-1e-2, 1e-2))
        out.retain_grad()
        out.grad_fn.register_prehook(lambda gradients: (gradients[0] * 2, *gradients[1:]))
        out.grad_fn.register_hook(lambda inputs, outputs: noted.append(outputs))
        noted.append(out)
        return out.square().mean()

    return [*trained(model, steps, watch, loss), *noted]


def _double(parameter: Tensor) -> None:
    assert parameter.grad is not None
    parameter.grad.mul_(2.0)


class Halved(torch.autograd.Function):
    """Returns views of its input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        return x[:, : WIDTH // 2], x[:, WIDTH // 2 :]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return torch.cat(gradients, 1)


class Doubled(torch.autograd.Function):
    """Writes into its input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * 2


class Partly(torch.autograd.Function):
    """Has an output that no gradient comes to, one that has none, and an input that gets none."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        indices = x.argmax(1)
        ctx.mark_non_differentiable(indices)
        return x * y, x + y, indices

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        (x,) = ctx.saved_tensors
        _, second, _ = gradients
        return (None, None) if second is None else (second * x.sign(), None)


class Customs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.halves = Mlp(), _Halves()
        self.last = _Partly()

    def forward(self, x: Tensor) -> Tensor:
        left, right = self.halves(self.body(x))
        _, found, _ = self.last(torch.cat([left, right], 1), x)
        return Doubled.apply(found * 1)


class _Halves(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        found: tuple[Tensor, Tensor] = Halved.apply(x)
        return found


class _Partly(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        found: tuple[Tensor, Tensor, Tensor] = Partly.apply(x, y)
        return found


def custom_functions(steps: int, watch: Watch) -> Iterable[object]:
    model = Customs()
    return trained(model, steps, watch, lambda: model(batch()).square().mean())


class Pieces(nn.Module):
    """Modules that return views; some are written through their base, and not used any more."""

    def __init__(self) -> None:
        super().__init__()
        self.widen, self.split = nn.Linear(WIDTH, 4 * WIDTH), _Split()
        self.parts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.column, self.look = _Column(), _Looks()

    def forward(self, x: Tensor) -> Tensor:
        whole = self.widen(x)
        column = self.column(whole)
        whole.mul_(2)  # The column has a new node when it is asked for it, in the order of asking.
        self.look(column)
        aside = whole.sin().sum(1) + whole.cos().sum(1) * whole.exp().sum(1)
        kept = self.split(whole)
        parts = [part(piece) for part, piece in zip(self.parts, kept, strict=True)]
        summed = torch.stack(parts).unbind(0)
        buffer = torch.zeros(4, len(x), WIDTH)
        for number, one in enumerate(summed):
            buffer[number] = one
            self.column(buffer[number])
        return buffer.sum(0) + (aside * column).unsqueeze(1)


class _Split(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return x.split(WIDTH, 1)


class _Looks(nn.Module):
    def forward(self, x: Tensor) -> None:
        assert len(x)


class _Column(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, 0]


def views(steps: int, watch: Watch) -> Iterable[object]:
    model = Pieces()
    return trained(model, steps, watch, lambda: model(batch()).square().mean())


class Stale(nn.Module):
    """Hands views on that may not be asked for their node: their base was written."""

    def __init__(self) -> None:
        super().__init__()
        self.widen, self.chunks, self.use = nn.Linear(WIDTH, 2 * WIDTH), _Chunks(), _Ignores()

    def forward(self, x: Tensor) -> Tensor:
        whole = self.widen(x)
        pieces = self.chunks(whole)
        whole += 1.0
        return self.use(whole, pieces)


class _Chunks(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return x.chunk(2, 1)


class _Ignores(nn.Module):
    def forward(self, x: Tensor, pieces: tuple[Tensor, ...]) -> Tensor:
        return x * 2


def stale_views(steps: int, watch: Watch) -> Iterable[object]:
    model = Stale()
    return trained(model, steps, watch, lambda: model(batch()).square().mean())


def saved_elsewhere(steps: int, watch: Watch) -> Iterable[object]:
    """Saved tensors rounded when they are packed, and a model in ``save_on_cpu``."""
    model = Mlp()
    noted: list[object] = []

    def pack(tensor: Tensor) -> object:
        noted.append(tuple(tensor.shape))
        return tensor.to(torch.bfloat16) if tensor.is_floating_point() else tensor

    def unpack(packed: object) -> Tensor:
        assert isinstance(packed, Tensor)
        return packed.float() if packed.is_floating_point() else packed

    def loss() -> Tensor:
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            out = model(batch())
        with torch.autograd.graph.save_on_cpu():
            return out.square().mean() + model(batch()).mean()

    return [*trained(model, steps, watch, loss), noted]


def anomalies(steps: int, watch: Watch) -> Iterable[object]:
    model = Mlp()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with torch.autograd.detect_anomaly():
            return trained(model, steps, watch, lambda: model(batch()).square().mean())


def walked_graph(steps: int, watch: Watch) -> Iterable[object]:
    """A program that looks at its own graph, and writes into its nodes' metadata."""
    model = Mlp()
    noted: list[object] = []

    def loss() -> Tensor:
        found: Tensor = model(batch()).square().mean()
        pending, seen = [found.grad_fn], []
        while pending:
            node = pending.pop()
            if node is None or node in seen:
                continue
            seen.append(node)
            noted.append((node.name(), dict(node.metadata), len(node.next_functions)))
            node.metadata["mine"] = len(noted)
            pending += [before for before, _ in node.next_functions]
        seen[len(seen) // 2].register_hook(lambda inputs, outputs: noted.append(len(inputs)))
        return found

    return [*trained(model, steps, watch, loss), noted]


def failing_backwards(steps: int, watch: Watch) -> Iterable[object]:
    """Every second backward raises; the program goes on."""
    model = Mlp()
    noted: list[object] = []

    class Raises(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            raise ValueError("of the program")

    def backward(loss: Tensor) -> None:
        try:
            (Raises.apply(loss) if len(noted) % 2 else loss).backward()
            noted.append("ran")
        except ValueError as error:
            noted.append(str(error))

    found = trained(model, steps, watch, lambda: model(batch()).square().mean(), backward=backward)
    return [*found, noted]


def failing_forwards(steps: int, watch: Watch) -> Iterable[object]:
    """Every third forward raises inside of a module."""
    model = nn.Sequential(Mlp(), _Fails(), Mlp())
    noted: list[object] = []

    def loss() -> Tensor:
        try:
            return model(batch()).square().mean()
        except ValueError as error:
            noted.append(str(error))
            return model[0](batch()).square().mean()

    return [*trained(model, steps, watch, loss), noted]


class _Fails(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        if self.calls % 3 == 0:
            raise ValueError("of the program")
        return relu_(x * 1)


def copied_and_saved(steps: int, watch: Watch) -> Iterable[object]:
    """An average of the weights by ``deepcopy``, and the model saved in the middle of a step."""
    model = Mlp()
    noted: list[object] = []

    def loss() -> Tensor:
        found: Tensor = model(batch()).square().mean()
        averaged = copy.deepcopy(model)
        written = io.BytesIO()
        torch.save(model, written)
        again = torch.load(io.BytesIO(written.getvalue()), weights_only=False)
        noted.extend(
            [list(averaged.parameters()), list(again.parameters()), len(written.getvalue())]
        )
        return found

    return [*trained(model, steps, watch, loss), noted]


def frozen_parts(steps: int, watch: Watch) -> Iterable[object]:
    """A frozen trunk, a part without gradients, and one whose output is cut off."""
    model = nn.ModuleList([Mlp() for _ in range(4)])
    model[0].requires_grad_(False)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = model

        def forward(self, x: Tensor) -> Tensor:
            x = self.parts[0](x)
            with torch.no_grad():
                x = x + self.parts[1](x)
            aside = self.parts[2](x).detach()
            return self.parts[3](x) * aside.sigmoid()

    net = Net()
    return trained(net, steps, watch, lambda: net(batch()).square().mean())


def gradients_of_inputs(steps: int, watch: Watch) -> Iterable[object]:
    """Adversarial examples: the gradient of the input, then a step on what it makes."""
    model = Mlp()

    def loss() -> Tensor:
        x = batch().requires_grad_()
        (gradient,) = torch.autograd.grad(model(x).square().mean(), x)
        changed = (x + 0.1 * gradient.sign()).detach()
        return dropout(model(changed), 0.1).square().mean()

    return trained(model, steps, watch, loss)


PROGRAMS: dict[str, Program] = {
    "in place": in_place,
    "checkpoints": checkpoints(use_reentrant=False),
    "checkpoints, reentrant": checkpoints(use_reentrant=True),
    "checkpointed model": checkpointed_model(use_reentrant=False),
    "checkpointed model, reentrant": checkpointed_model(use_reentrant=True),
    "double backward": gradient_penalty,
    "inner steps (MAML)": inner_steps,
    "create_graph": created_graph,
    "retain_graph": retained_graph,
    "hooks of the user's": users_hooks,
    "custom functions": custom_functions,
    "split, unbind, views": views,
    "views of a written base": stale_views,
    "saved_tensors_hooks": saved_elsewhere,
    "anomaly mode": anomalies,
    "graph walked": walked_graph,
    "backward raises": failing_backwards,
    "forward raises": failing_forwards,
    "deepcopy and save": copied_and_saved,
    "frozen parts": frozen_parts,
    "adversarial examples": gradients_of_inputs,
}
