"""What a watched model's forwards may go through, and come out of as without us."""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.probe.watch.watched_model import (
    Net,
    has_times,
    has_tree,
    is_put_back,
    ran,
    sockets,  # noqa: F401
    waits,
)
from tests.viewer import Viewer, place_of, wait_until
from tui_profiler import watch
from tui_profiler.messages import TraceAgain
from tui_profiler.probe.trace.tree.module_stack import LATER
from tui_profiler.probe.watch.listener import LOOP_PARTS, LOOP_TIMES, Listener, Methods
from tui_profiler.probe.watch.model_choice import SETTLED_SECONDS
from tui_profiler.session import Session


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, RecursionError])
def test_what_a_forward_raises_is_the_programs(kind: type[BaseException]) -> None:
    class Raises(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(2, 2)
            self.fails = True

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.inner(x)
            if self.fails:
                raise kind("of the program")
            return x

    model, x = Raises(), torch.randn(1, 2)
    with watch(model, "net", grace_seconds=0.0), Viewer(place_of("net")) as viewer:
        viewer.until(lambda s: s.hello is not None)
        wait_until(lambda: not is_put_back())
        with pytest.raises(kind, match="of the program"):
            model(x)
        assert torch._C._len_torch_dispatch_stack() == 0
        model.fails = False
        session = viewer.until(has_times, ran(model, x))
        model.fails = True
        with pytest.raises(kind, match="of the program"):
            model(x)
    assert has_tree(session)


def test_a_model_that_always_fails_is_given_up_with_the_reason() -> None:
    class Raises(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("never")

    model = Raises()

    def attempt() -> None:
        with pytest.raises(ValueError, match="never"):
            model(torch.zeros(1))

    with watch(model, "net", grace_seconds=0.0), Viewer(place_of("net")) as viewer:
        session = viewer.until(lambda s: s.failure is not None, attempt)
    assert session.failure is not None
    assert "raised ValueError" in session.failure.why


class Recursive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, depth: int = 3) -> torch.Tensor:
        return self.inner(self(x, depth - 1) if depth else x)


def test_a_model_that_calls_itself_is_one_tree() -> None:
    model, x = Recursive().eval(), torch.randn(2, 4)
    expected = model(x)
    with watch(model, "net", grace_seconds=0.0), Viewer(place_of("net")) as viewer:
        session = viewer.until(has_times, ran(model, x))
        assert torch.equal(model(x), expected)
    assert session.tree is not None
    assert session.tree.costs[0].macs == 4 * 2 * 4 * 4


def test_a_forward_that_gives_a_generator_says_that_its_work_comes_later() -> None:
    class Lazy(Net):
        def forward(self, x: torch.Tensor) -> Iterator[torch.Tensor]:
            yield super().forward(x)

    model, x = nn.Sequential(Lazy()).eval(), torch.randn(3, 8)
    with watch(model, "net", grace_seconds=0.0), Viewer(place_of("net")) as viewer:
        session = viewer.until(has_times, lambda: [*model(x)])
    assert session.tree is not None
    assert session.tree.nodes[0].note == session.tree.nodes[1].note == LATER
    assert session.tree.done is not None
    assert session.tree.done.uncosted == (LATER,)


def test_a_deep_model_that_fits_under_the_recursion_limit_still_does() -> None:
    model: nn.Module = nn.Linear(1, 1)
    for _ in range(100):
        model = nn.Sequential(model)
    x = torch.zeros(1, 1)
    depth = len(_frames())
    before = sys.getrecursionlimit()
    try:
        # Room for the calls, one more of each while a forward is waited for, and what runs below
        # the innermost module; but not for what recording adds to each.
        sys.setrecursionlimit(depth + 100 * 5 + 130)
        limit = sys.getrecursionlimit()
        model(x)
        with watch(model, "net", grace_seconds=0.0), Viewer(place_of("net")) as viewer:
            session = viewer.until(lambda s: has_tree(s) or s.failure, ran(model, x))
        assert sys.getrecursionlimit() == limit
    finally:
        sys.setrecursionlimit(before)
    assert session.failure is None


def _frames() -> list[object]:
    frame, found = sys._getframe(), []
    while frame is not None:
        found.append(frame)
        frame = frame.f_back  # type: ignore[assignment]
    return found


def test_eight_threads_may_run_it_while_viewers_come_and_go() -> None:
    model, x = Net().eval(), torch.randn(3, 8)
    with torch.no_grad():
        expected = model(x)
    wrong: list[object] = []
    stop = threading.Event()

    def serve() -> None:
        with torch.no_grad():
            while not stop.is_set():
                try:
                    if not torch.equal(model(x), expected):
                        wrong.append("another output")
                except BaseException as error:
                    wrong.append(error)

    threads = [threading.Thread(target=serve) for _ in range(8)]
    with watch(model, "net", grace_seconds=0.0):
        for thread in threads:
            thread.start()
        for _ in range(5):
            with Viewer(place_of("net")) as viewer:
                session = viewer.until(has_times)
            wait_until(is_put_back)
        stop.set()
        for thread in threads:
            thread.join()
    assert not wrong
    assert session.tree is not None
    assert session.tree.costs[0].macs == 3 * (8 * 16 + 16 * 4)


def test_two_models_on_two_threads_are_recorded_at_the_same_time() -> None:
    models = [Net().eval() for _ in range(2)]
    x, limit = torch.randn(3, 8), sys.getrecursionlimit()
    stop = threading.Event()

    def serve(model: nn.Module) -> None:
        while not stop.is_set():
            ran(model, x)()

    handles = [watch(model, f"net{i}", grace_seconds=0.0) for i, model in enumerate(models)]
    viewers = [Viewer(place_of(f"net{i}")) for i in range(2)]
    threads = [threading.Thread(target=serve, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    for viewer in viewers:
        viewer.until(has_times)
    for _ in range(3):
        for viewer in viewers:
            viewer.ask(TraceAgain())
    stop.set()
    for viewer, handle, thread in zip(viewers, handles, threads, strict=True):
        thread.join()
        handle.close()
        viewer.close()
    wait_until(is_put_back)
    assert sys.getrecursionlimit() == limit
    assert not torch.utils._python_dispatch.is_in_torch_dispatch_mode()


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.inner(x))


def under_vmap(model: nn.Module, x: torch.Tensor) -> None:
    torch.func.vmap(model)(x)


def under_fake(model: nn.Module, x: torch.Tensor) -> None:
    with FakeTensorMode(allow_non_fake_inputs=True):
        model(torch.empty(3, 8))


def under_jit_trace(model: nn.Module, x: torch.Tensor) -> None:
    torch.jit.trace(model, x, check_trace=False)


def under_profiler(model: nn.Module, x: torch.Tensor) -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as found:
        model(x)
    assert {"aten::linear"} <= {event.key for event in found.key_averages()}


@pytest.mark.parametrize(
    ("under", "because"),
    [
        (under_vmap, "transform of torch.func"),
        (under_fake, "another dispatch mode"),
        (under_jit_trace, "torch.jit.trace"),
        (under_profiler, "torch.profiler"),
    ],
)
def test_a_forward_that_something_else_looks_into_is_let_alone(
    under: Callable[[nn.Module, torch.Tensor], None], because: str
) -> None:
    model, x = Small().eval(), torch.randn(3, 8)
    with watch(model, "net", grace_seconds=0.0), Viewer(place_of("net")) as viewer:
        wait_until(lambda: not is_put_back())
        under(model, x)
        viewer.until(lambda _: any(because in why for why in waits(viewer)))
        assert not has_tree(viewer.session)
        session = viewer.until(has_times, ran(model, x))
        under(model, x)
    assert has_tree(session)


class NonLeaf(torch.fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return False


def test_a_model_is_traced_by_fx_as_without_us() -> None:
    model, x = Small().eval(), torch.randn(3, 8)
    before = [str(node) for node in NonLeaf().trace(nn.Sequential(model)).nodes]
    with watch(model, "net", grace_seconds=0.0), Viewer(place_of("net")) as viewer:
        wait_until(lambda: not is_put_back())
        assert [str(node) for node in NonLeaf().trace(nn.Sequential(model)).nodes] == before
        viewer.until(has_times, ran(model, x))
        assert [str(node) for node in NonLeaf().trace(nn.Sequential(model)).nodes] == before


def test_no_forward_comes_and_it_says_that_itwaits() -> None:
    model = Net().eval()
    with watch(model, "net", grace_seconds=0.0), Viewer(place_of("net")) as viewer:
        viewer.until(lambda _: waits(viewer) == ["waiting for the program's next forward"])
        viewer.until(lambda s: s.heard_at > 0)
        assert not has_tree(viewer.session)


def test_one_compiled_model_is_not_compiled_again() -> None:
    counted: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., object]:
        counted.append(graph)
        return graph.forward

    torch._dynamo.reset()
    model, x = Net().eval(), torch.randn(3, 8)
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    with watch(model, "before", grace_seconds=0.0), Viewer(place_of("before")) as viewer:
        wait_until(lambda: not is_put_back())
        expected = compiled(x).detach()  # Compiled for the first time while someone looks.
        graphs = len(counted)
        viewer.until(has_times, lambda: [compiled(x) for _ in range(20)])
    wait_until(is_put_back)
    for name in ("second", "third"):  # A socket is closed a moment after its watching.
        assert torch.equal(compiled(x), expected)
        with watch(model, name, grace_seconds=0.0), Viewer(place_of(name)) as viewer:
            session = viewer.until(has_times, lambda: [compiled(x) for _ in range(20)])
            assert torch.equal(compiled(x), expected)
        wait_until(is_put_back)
    assert torch.equal(compiled(x), expected)
    assert len(counted) == graphs == 1
    assert session.tree is not None
    assert any("torch.compile" in node.note for node in session.tree.nodes)


def test_a_function_compiled_inside_of_a_model_is_not_compiled_again() -> None:
    counted: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., object]:
        counted.append(graph)
        return graph.forward

    torch._dynamo.reset()
    gelu = torch.compile(lambda x: torch.tanh(x) * 2 + 1, backend=backend, fullgraph=True)

    class Inside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return gelu(self.inner(x))

    model, x = Inside().eval(), torch.randn(3, 8)
    with torch.no_grad():
        expected = model(x)
        assert len(counted) == 1
        with watch(model, "net", grace_seconds=0.0), Viewer(place_of("net")) as viewer:
            session = viewer.until(has_times, ran(model, x))
            assert torch.equal(model(x), expected)
        assert torch.equal(model(x), expected)
    assert len(counted) == 1
    assert has_tree(session)


def test_copies_and_files_of_a_watched_model_are_as_without_us(tmp_path: Path) -> None:
    import copy

    model, x = Net().eval(), torch.randn(3, 8)
    before = set(vars(model))
    with watch(model, "net", grace_seconds=0.0), Viewer(place_of("net")) as viewer:
        viewer.until(has_times, ran(model, x))
        torch.save(model, tmp_path / "model.pt")
        copied = copy.deepcopy(model)
        assert set(vars(model)) == before
    loaded = torch.load(tmp_path / "model.pt", weights_only=False)
    with torch.no_grad():
        assert torch.equal(copied(x), model(x))
        assert torch.equal(loaded(x), model(x))


class Stepped(nn.Module):
    """Has the shape of a LightningModule: a trainer calls its method, and nothing calls it."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Linear(3, 4)
        self.head = nn.Linear(4, 1)

    def training_step(self, batch: torch.Tensor) -> torch.Tensor:
        return self.head(self.backbone(batch)).sum()


class Around(nn.Module):
    """Has a method too, above that of the watched model."""

    def __init__(self, inner: Stepped) -> None:
        super().__init__()
        self.inner = inner

    def training_step(self, batch: torch.Tensor) -> torch.Tensor:
        return 2 * self.inner.training_step(batch)


def paths_of(session: Session) -> list[str]:
    assert session.tree is not None
    return [node.path for node in session.tree.nodes if node.kind == "module"]


def test_a_model_that_is_run_by_a_method_is_shown_with_that_as_its_forward() -> None:
    model, x = Stepped(), torch.ones(2, 3)
    own, around = vars(Stepped)["training_step"], Around(model)
    plain = around.training_step(x)
    with watch(model, "net", grace_seconds=0.0), Viewer(place_of("net")) as viewer:
        viewer.until(lambda s: s.hello is not None)
        session = viewer.until(has_times, lambda: around.training_step(x))
        assert torch.equal(around.training_step(x), plain)
    assert paths_of(session) == ["", "backbone", "head"]
    assert session.model is not None
    assert session.model.type == "Stepped"
    wait_until(is_put_back)
    wait_until(lambda: vars(Stepped)["training_step"] is own)


def test_parts_that_a_function_calls_are_not_the_model() -> None:
    model, x = Stepped(), torch.ones(2, 3)
    with watch(model, "net", grace_seconds=0.0), Viewer(place_of("net")) as viewer:
        viewer.until(lambda s: s.hello is not None)
        wait_until(lambda: not is_put_back())
        for _ in range(100):
            model.head(model.backbone(x))
        viewer.listen(0.1)
        assert not has_tree(viewer.session)
        session = viewer.until(has_tree, lambda: model.training_step(x))
    assert paths_of(session) == ["", "backbone", "head"]


class Validated(Stepped):
    """Is validated before it is trained, as Lightning's sanity check does."""

    def validation_step(self, batch: torch.Tensor) -> torch.Tensor:
        return self.head(self.backbone(batch)).mean()


def test_a_model_that_was_validated_first_is_shown_as_it_is_trained() -> None:
    model, x = Validated(), torch.ones(2, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        model.train()
        model.training_step(x).backward()
        optimizer.step()

    def validate() -> None:
        model.eval()
        with torch.no_grad():
            model.validation_step(x)

    with watch(model, "net", grace_seconds=0.0), Viewer(place_of("net")) as viewer:
        session = viewer.until(has_tree, validate)
        assert session.model is not None
        assert not session.model.training
        session = viewer.until(is_trained, train)
        assert session.model is not None
        assert session.model.training
        deadline = time.monotonic() + 2 * SETTLED_SECONDS
        viewer.until(lambda s: time.monotonic() > deadline, validate)
        assert is_trained(viewer.session), "a validation between two epochs takes nothing away"
    wait_until(is_put_back)
    wait_until(lambda: not hasattr(vars(Validated)["validation_step"], "__wrapped__"))
    assert not hasattr(vars(Stepped)["training_step"], "__wrapped__")


def is_trained(session: Session) -> bool:
    """Tell whether forward and backward of the model were recorded in steps."""
    root = session.training.of(0) if session.training is not None else None
    return root is not None and root.forward > 0 and root.backward > 0


class Deep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(3, 3) for _ in range(2 * LOOP_PARTS))

    def training_step(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def fit(self, x: torch.Tensor) -> None:
        for _ in range(2 * LOOP_TIMES):
            self.training_step(x)


@pytest.mark.parametrize("method", ["training_step", "fit"])
def test_a_step_that_calls_many_parts_for_long_is_no_loop(method: str) -> None:
    model, x = Deep(), torch.ones(2, 3)
    listener = Listener(
        lambda module: module is model,
        "",
        lambda: None,
        methods=Methods(watched=weakref.ref(model), seconds=0.0),
    )
    listener.install()
    try:
        for _ in range(3):
            getattr(model, method)(x)
        assert listener.entry_ran == (method == "training_step")
        assert (listener.hearing is not None) == (method == "training_step")
    finally:
        listener.uninstall()


def test_the_module_of_a_lightning_trainer_is_shown() -> None:
    lightning = pytest.importorskip("lightning", reason="lightning is not installed")

    class Module(lightning.LightningModule):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.backbone = nn.Linear(3, 4)
            self.head = nn.Linear(4, 1)

        def training_step(self, batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
            listen()
            return self.head(self.backbone(batch[0])).square().mean()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    model, deadline = Module(), time.monotonic() + 240
    with watch(model, "net", grace_seconds=0.0), Viewer(place_of("net")) as viewer:

        def listen() -> None:
            viewer.listen(0.002)
            assert time.monotonic() < deadline
            model.trainer.should_stop = has_times(viewer.session)

        viewer.until(lambda s: s.hello is not None)
        data = torch.utils.data.TensorDataset(torch.ones(64, 3))
        trainer = lightning.Trainer(
            **{"max_epochs": -1, "accelerator": "cpu", "logger": False},
            **{"enable_progress_bar": False, "enable_checkpointing": False},
            **{"enable_model_summary": False, "min_epochs": 0},
        )
        trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=8))
        session = viewer.session
    assert has_times(session)
    assert paths_of(session) == ["", "backbone", "head"]
