"""Loops of training: several models, optimizers with closures, precisions, modes, threads."""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Any, ClassVar

import torch
import torch._dynamo.compiled_autograd
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.nn.utils import clip_grad_norm_, parametrizations
from torch.overrides import TorchFunctionMode
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.flop_counter import FlopCounterMode

from tests.probe.measure.step.programs import Program, Watch, state_of
from tests.probe.measure.step.programs.graph import WIDTH, Mlp, batch, trained


def accumulation(steps: int, watch: Watch) -> Iterable[object]:
    model = Mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    watch(model)
    losses: list[object] = []
    for _ in range(steps):
        for _ in range(4):
            loss = model(batch()).square().mean() / 4
            loss.backward()
            losses.append(loss.item())
        losses.append(clip_grad_norm_(model.parameters(), 0.5))
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=False)
    return [*losses, *state_of(model, optimizer)]


def epochs(steps: int, watch: Watch) -> Iterable[object]:
    """Epochs with evaluation between them."""
    data = TensorDataset(torch.randn(32, WIDTH), torch.randint(WIDTH, (32,)))
    model = Mlp()
    optimizer = torch.optim.Adam(model.parameters())
    watch(model)
    noted: list[object] = []
    for epoch in range(max(steps // 8, 2)):
        model.train()
        for x, y in DataLoader(data, 4, shuffle=True):
            optimizer.zero_grad()
            loss = cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            noted.append(loss.detach())
        model.eval()
        with torch.inference_mode() if epoch % 2 else torch.no_grad():
            noted += [model(x).argmax(1).float() for x, _ in DataLoader(data, 16)]
    return [*noted, *state_of(model, optimizer)]


def autocast(steps: int, watch: Watch) -> Iterable[object]:
    model = Mlp()

    def loss() -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(batch()).float().square().mean()

    return trained(model, steps, watch, loss)


def scaled(steps: int, watch: Watch) -> Iterable[object]:
    model = Mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20, growth_interval=3)
    watch(model)
    noted: list[object] = []
    for step in range(steps):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = model(batch()).float().square().mean() * (1e30 if step % 5 == 4 else 1.0)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        noted += [loss.detach(), scaler.get_scale()]
    return [*noted, *state_of(model)]


def adversaries(steps: int, watch: Watch) -> Iterable[object]:
    """A GAN, of which the generator is watched."""
    generator, critic = Mlp(), nn.Sequential(Mlp(), nn.LeakyReLU(0.2, inplace=True))
    first = torch.optim.Adam(generator.parameters(), lr=1e-3)
    second = torch.optim.Adam(critic.parameters(), lr=1e-3)
    watch(generator)
    noted: list[object] = []
    for _ in range(steps):
        made = generator(batch())
        second.zero_grad()
        loss = critic(made.detach()).mean() - critic(batch()).mean()
        loss.backward()
        second.step()
        first.zero_grad()
        against = -critic(made).mean()
        against.backward()
        first.step()
        noted += [loss.detach(), against.detach()]
    return [*noted, *state_of(generator, first), *state_of(critic, second)]


def policy_gradient(steps: int, watch: Watch) -> Iterable[object]:
    """Reinforcement learning: forwards without gradients first, then losses of what was played."""
    policy = nn.Sequential(Mlp(), nn.Linear(WIDTH, 3))
    optimizer = torch.optim.RMSprop(policy.parameters())
    watch(policy)
    noted: list[object] = []
    for _ in range(steps):
        state, played = torch.zeros(1, WIDTH), []
        for _ in range(5):
            with torch.no_grad():
                policy(state)
            chances = torch.distributions.Categorical(logits=policy(state))
            action = chances.sample()
            played.append(chances.log_prob(action) * float(action == 1))
            state = state + torch.randn_like(state) * 0.1
        loss = -torch.stack(played).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        noted.append(loss.detach())
    return [*noted, *state_of(policy, optimizer)]


class Sentences(nn.Module):
    def __init__(self, *, sparse: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, WIDTH, sparse=sparse)
        self.lstm, self.head = nn.LSTM(WIDTH, WIDTH, 2, dropout=0.1), nn.Linear(WIDTH, 20)

    def forward(self, tokens: Tensor) -> Tensor:
        out, _ = self.lstm(self.embedding(tokens))
        found: Tensor = self.head(out)
        return found


def lstm(steps: int, watch: Watch) -> Iterable[object]:
    model = Sentences()

    def loss() -> Tensor:
        tokens = torch.randint(20, (6, 2))
        return cross_entropy(model(tokens[:-1]).flatten(0, 1), tokens[1:].flatten())

    return trained(model, steps, watch, loss)


def sparse_gradients(steps: int, watch: Watch) -> Iterable[object]:
    model = Sentences(sparse=True)
    sparse = torch.optim.SparseAdam(model.embedding.parameters())
    rest = torch.optim.SGD([*model.lstm.parameters(), *model.head.parameters()], lr=0.1)
    watch(model)
    losses: list[object] = []
    for _ in range(steps):
        sparse.zero_grad()
        rest.zero_grad()
        tokens = torch.randint(20, (6, 2))
        loss = cross_entropy(model(tokens[:-1]).flatten(0, 1), tokens[1:].flatten())
        loss.backward()
        sparse.step()
        rest.step()
        losses.append(loss.detach())
    return [*losses, *state_of(model, sparse, rest)]


def closures(steps: int, watch: Watch) -> Iterable[object]:
    model = Mlp()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3, line_search_fn="strong_wolfe")
    watch(model)
    x, losses = batch(), []

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = model(x).square().mean()
        loss.backward()
        losses.append(loss.detach())
        return loss

    for _ in range(steps):
        optimizer.step(closure)
    return [*losses, *state_of(model)]


def transformed(steps: int, watch: Watch) -> Iterable[object]:
    """Gradients per sample by ``vmap`` of ``grad``, and a forward in the plain way."""
    model = Mlp().eval()
    weights = {name: one.detach() for name, one in model.named_parameters()}
    watch(model)
    noted: list[object] = []

    def loss_of(given: dict[str, Tensor], x: Tensor) -> Tensor:
        found: Tensor = torch.func.functional_call(model, given, (x.unsqueeze(0),)).square().mean()
        return found

    for _ in range(steps):
        x = batch()
        each = torch.func.vmap(torch.func.grad(loss_of), in_dims=(None, 0))(weights, x)
        jacobian = torch.func.jacrev(partial(loss_of, weights))(x[0])
        weights = {name: one - 0.1 * each[name].mean(0) for name, one in weights.items()}
        torch.func.functional_call(model, weights, (x,))
        model(x).square().mean().backward()
        noted += [each["first.weight"], jacobian]
    return [*noted, *weights.values(), *state_of(model)]


def compiled(steps: int, watch: Watch) -> Iterable[object]:
    torch._dynamo.reset()
    model = torch.compile(Mlp())
    return trained(model, steps, watch, lambda: model(batch()).square().mean())


def compiled_parts(steps: int, watch: Watch) -> Iterable[object]:
    """Blocks compiled in place, in a model that is not, with a break in the graph."""
    torch._dynamo.reset()
    counters = torch._dynamo.utils.counters
    counters.clear()

    class Broken(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.outer = Mlp(), Mlp()

        def forward(self, x: Tensor) -> Tensor:
            x = self.inner(x)
            torch._dynamo.graph_break()
            return self.outer(x)

    model = nn.Sequential(Mlp(), Broken(), Mlp())
    model[0].compile(backend="aot_eager")
    model[1] = torch.compile(model[1], backend="aot_eager")
    counted: list[object] = []

    def loss() -> Tensor:
        found: Tensor = model(batch()).square().mean()
        counted.append((counters["frames"]["total"], counters["stats"]["unique_graphs"]))
        return found

    return [*trained(model, steps, watch, loss), counted]


def compiled_autograd(steps: int, watch: Watch) -> Iterable[object]:
    """Backward passes compiled as a whole; how many graphs there were belongs to the result."""
    torch._dynamo.reset()
    model = Mlp()
    graphs: list[object] = []

    def compiler(graph: torch.fx.GraphModule) -> Any:
        graphs.append([(node.op, str(node.target)) for node in graph.graph.nodes])
        return graph

    def backward(loss: Tensor) -> None:
        with torch._dynamo.compiled_autograd._enable(compiler):
            loss.backward()

    found = trained(model, steps, watch, lambda: model(batch()).square().mean(), backward=backward)
    return [*found, graphs]


class Counting(TorchFunctionMode):
    """Counts what is asked of tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.calls[getattr(function, "__name__", str(function))] += 1
        return function(*args, **(kwargs or {}))


def modes(steps: int, watch: Watch) -> Iterable[object]:
    """A default device, a mode that counts functions, and one that counts operators."""
    model, counting = Mlp(), Counting()
    flops: list[object] = []

    def loss() -> Tensor:
        with counting:
            first = model(batch())
        with FlopCounterMode(display=False) as counter:
            second = model(batch())
        flops.append(counter.get_total_flops())
        with torch.device("cpu"):
            return (first + second + model(batch())).square().mean()

    return [*trained(model, steps, watch, loss), flops, dict(counting.calls)]


class Tracked(Tensor):
    """A tensor that counts what is asked of it."""

    calls: ClassVar[Counter[str]] = Counter()

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        cls.calls[getattr(function, "__name__", str(function))] += 1
        return super().__torch_function__(function, types, args, kwargs or {})


def subclasses(steps: int, watch: Watch) -> Iterable[object]:
    Tracked.calls.clear()
    model = nn.Sequential(Mlp(), nn.ReLU(), Mlp())

    def loss() -> Tensor:
        return model(batch().as_subclass(Tracked)).square().mean().as_subclass(Tensor)

    return [*trained(model, steps, watch, loss), dict(Tracked.calls)]


def nested_tensors(steps: int, watch: Watch) -> Iterable[object]:
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))

    def loss() -> Tensor:
        pieces = [torch.randn(length, WIDTH) for length in (2, 5, 3)]
        given = torch.nested.nested_tensor(pieces, layout=torch.jagged)
        found: Tensor = model(given).values().square().mean()
        return found

    return trained(model, steps, watch, loss)


def parametrized(steps: int, watch: Watch) -> Iterable[object]:
    model = nn.Sequential(
        parametrizations.spectral_norm(nn.Linear(WIDTH, WIDTH)),
        parametrizations.weight_norm(nn.Linear(WIDTH, WIDTH)),
        torch.jit.script(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())),
        nn.LazyLinear(WIDTH),
    )
    model(batch())
    return trained(model, steps, watch, lambda: model(batch()).square().mean())


def threads(steps: int, watch: Watch) -> Iterable[object]:
    """Two threads that train a model each, in turn; one of them is watched."""
    models = [Mlp(), Mlp()]
    watch(models[0])
    losses: list[object] = []
    turns = [threading.Semaphore(1), threading.Semaphore(0)]

    def train(number: int) -> None:
        model = models[number]
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(steps):
            turns[number].acquire()
            optimizer.zero_grad()
            loss = mse_loss(model(batch()), batch())
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
            turns[1 - number].release()

    running = [threading.Thread(target=train, args=(number,)) for number in range(2)]
    for one in running:
        one.start()
    for one in running:
        one.join()
    return [*losses, *state_of(models[0]), *state_of(models[1])]


def forward_elsewhere(steps: int, watch: Watch) -> Iterable[object]:
    """Forwards on a thread of their own; the backward is on the main one."""
    model = Mlp()

    def loss() -> Tensor:
        found: list[Tensor] = []
        thread = threading.Thread(target=lambda: found.append(model(batch())))
        thread.start()
        thread.join()
        return found[0].square().mean()

    return trained(model, steps, watch, loss)


def quantised_training(steps: int, watch: Watch) -> Iterable[object]:
    """Fake quantisation with a straight-through gradient, weights replaced in the forward."""

    class Quantised(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            scale = self.weight.detach().abs().amax() / 127
            weight = torch.fake_quantize_per_tensor_affine(self.weight, scale, 0, -128, 127)
            return nn.functional.linear(x, weight, self.bias)

    model = nn.Sequential(Quantised(WIDTH, WIDTH), nn.ReLU(inplace=True), Quantised(WIDTH, WIDTH))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return trained(model, steps, watch, lambda: model(batch()).square().mean())


PROGRAMS: dict[str, Program] = {
    "accumulation, clipping, schedule": accumulation,
    "epochs with evaluation": epochs,
    "bf16 autocast": autocast,
    "GradScaler": scaled,
    "GAN": adversaries,
    "policy gradient": policy_gradient,
    "LSTM": lstm,
    "sparse gradients": sparse_gradients,
    "LBFGS with closure": closures,
    "torch.func, vmap": transformed,
    "torch.compile": compiled,
    "torch.compile of parts": compiled_parts,
    "compiled autograd": compiled_autograd,
    "modes": modes,
    "subclass of tensors": subclasses,
    "nested tensors": nested_tensors,
    "parametrized, scripted, lazy": parametrized,
    "two threads": threads,
    "forwards on another thread": forward_elsewhere,
    "fake quantisation": quantised_training,
}
