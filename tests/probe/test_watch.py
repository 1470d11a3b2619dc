"""A model in a program that is not ours, watched from the same process over a real socket."""

from __future__ import annotations

import gc
import os
import stat
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from tests.probe.watched_program import sockets_folder
from tests.viewer import Viewer, place_of, wait_until
from tui_profiler import watch
from tui_profiler.messages import Failed, Hello, StageStarted, Tick, TraceAgain
from tui_profiler.rendezvous import places
from tui_profiler.session import Session

TORCHS_OWN = nn.Module.__call__
"""As it was before anything of these tests ran."""


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.norm = nn.BatchNorm1d(16)
        self.drop = nn.Dropout(0.5)
        self.second = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.drop(torch.relu(self.norm(self.first(x)))))


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with sockets_folder() as made:
        monkeypatch.setenv("TUI_PROFILER_DIR", str(made))
        yield made
    wait_until(lambda: nn.Module.__call__ is TORCHS_OWN)


def has_tree(session: Session) -> bool:
    return session.tree is not None


def has_times(session: Session) -> bool:
    return session.timings is not None and session.timings.tick.forwards > 5


def ran(model: nn.Module, *args: torch.Tensor) -> Callable[[], object]:
    def run() -> None:
        with torch.no_grad():
            for _ in range(20):
                model(*args)

    return run


def is_put_back() -> bool:
    return nn.Module.__call__ is TORCHS_OWN


def test_a_viewer_sees_the_tree_its_macs_and_times() -> None:
    model, x = Net().eval(), torch.randn(3, 8)
    with watch(model, "net", grace_seconds=0.0), Viewer(place_of("net")) as viewer:
        session = viewer.until(has_times, ran(model, x))
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(x)
    assert session.tree is not None
    assert [node.path for node in session.tree.nodes if node.kind == "module"] == [
        *("", "first", "norm", "drop", "second")
    ]
    assert 2 * session.tree.costs[0].macs == counter.get_total_flops()
    assert session.timings is not None
    assert session.timings.tick.latency_p50 > 0


def test_nothing_is_replaced_before_a_viewer_comes_and_after_the_last_has_left() -> None:
    model, x = Net().eval(), torch.randn(3, 8)
    with watch(model, "net", grace_seconds=0.05):
        assert is_put_back()
        with Viewer(place_of("net")) as viewer:
            viewer.until(has_times, ran(model, x))
            assert not is_put_back()
        wait_until(is_put_back)
        wait_until(lambda: not _threads_beside_the_server())
        with Viewer(place_of("net")) as viewer:  # The tree is kept; the figures are new ones.
            session = viewer.until(has_times, ran(model, x))
            assert has_tree(session)
    wait_until(lambda: not list(places()))


def _threads_beside_the_server() -> list[str]:
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name in ("tui-profiler-read", "tui-profiler-write")]


def trained(steps: int, each: Callable[[int], None] = lambda step: None) -> list[torch.Tensor]:
    """Train from a fixed beginning; gives outputs, gradients, parameters and buffers."""
    torch.manual_seed(7)
    model = Net().train()
    each_of_model(model, each)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    kept: list[torch.Tensor] = []
    for step in range(steps):
        each(step)
        output = model(torch.randn(6, 8))
        optimiser.zero_grad()
        output.square().sum().backward()
        kept += [
            output.detach(),
            *(p.grad.clone() for p in model.parameters() if p.grad is not None),
        ]
        optimiser.step()
    return [*kept, *(tensor.clone() for tensor in model.state_dict().values()), torch.rand(3)]


_watching: list[nn.Module] = []


def each_of_model(model: nn.Module, each: Callable[[int], None]) -> None:
    _watching[:] = [model]
    each(-1)


def test_training_is_bit_identical_with_viewers_that_come_and_go() -> None:
    steps = 60
    bare = trained(steps)
    viewers: list[Viewer] = []
    watched = []

    def each(step: int) -> None:
        if step < 0:
            watched.append(watch(_watching[0], "training", grace_seconds=0.0))
        elif step in (10, 30):
            viewers.append(Viewer(place_of("training")))
            wait_until(lambda: not is_put_back())
        elif step in (20, 50):
            viewers[-1].until(has_tree)
            viewers[-1].close()
            wait_until(is_put_back)

    seen = trained(steps, each)
    watched[0].close()
    assert len(viewers) == 2
    assert all(torch.equal(one, other) for one, other in zip(bare, seen, strict=True))


def test_two_viewers_see_the_same_and_one_that_comes_later_is_told_all() -> None:
    model, x = Net().eval(), torch.randn(3, 8)
    with watch(model, "net", grace_seconds=0.0):
        first = Viewer(place_of("net"))
        first.until(has_times, ran(model, x))
        second = Viewer(place_of("net"))
        session = second.until(has_times, ran(model, x))
        assert session.tree is not None
        assert first.session.tree is not None
        assert session.tree.nodes == first.session.tree.nodes
        assert session.model == first.session.model
        first.close()
        before = session.timings.tick.forwards if session.timings else 0
        second.until(
            lambda s: s.timings is not None and s.timings.tick.forwards > before, ran(model, x)
        )
        second.close()


def test_who_only_asks_who_it_is_changes_nothing() -> None:
    model = Net().eval()
    with watch(model, "net"), Viewer(place_of("net"), looks=False) as viewer:
        viewer.until(lambda s: s.hello is not None)
        assert isinstance(viewer.heard[0], Hello)
        assert viewer.heard[0].program is not None
        assert viewer.heard[0].program.pid == os.getpid()
        assert is_put_back()


def test_a_model_is_not_kept_alive_by_who_looks_at_it() -> None:
    model, x = Net().eval(), torch.randn(3, 8)
    watch(model, "net", grace_seconds=0.0)
    viewer = Viewer(place_of("net"))
    viewer.until(has_times, ran(model, x))
    gc.collect()
    known = weakref.ref(model)
    del model
    wait_until(lambda: known() is None)
    viewer.until(lambda _: viewer.is_hung_up_on)
    assert viewer.session.loop is not None
    assert viewer.session.loop.detail == "the model was deleted"
    assert not list(places())


def test_a_block_that_ends_ends_the_watching_and_says_so() -> None:
    model, x = Net().eval(), torch.randn(3, 8)
    with watch(model, "net"):
        viewer = Viewer(place_of("net"))
        viewer.until(has_times, ran(model, x))
    viewer.until(lambda _: viewer.is_hung_up_on)
    assert viewer.session.loop is not None
    assert (viewer.session.loop.state, viewer.session.loop.detail) == (
        *("finished", "the program watches it no more"),
    )
    wait_until(is_put_back)


def test_watching_again_and_again_keeps_nothing() -> None:
    model = Net().eval()
    for _ in range(3):
        with watch(model, "net"):
            pass
    wait_until(lambda: not list(places()))
    kept = [one for one in weakref.finalize._registry if one.peek() and one.peek()[0] is model]  # type: ignore[attr-defined]
    assert not kept


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
        viewer.until(lambda _: any(because in why for why in _waits(viewer)))
        assert not has_tree(viewer.session)
        session = viewer.until(has_times, ran(model, x))
        under(model, x)
    assert has_tree(session)


def _waits(viewer: Viewer) -> list[str]:
    return [message.detail for message in viewer.heard if isinstance(message, StageStarted)]


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


def test_no_forward_comes_and_it_says_that_it_waits() -> None:
    model = Net().eval()
    with watch(model, "net", grace_seconds=0.0), Viewer(place_of("net")) as viewer:
        viewer.until(lambda _: _waits(viewer) == ["waits for the program's next forward"])
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


def test_the_budget_bounds_what_is_recorded() -> None:
    model = nn.Sequential(*(nn.Identity() for _ in range(300)))
    x = torch.zeros(1)
    with watch(model, "net", 0.005, grace_seconds=0.0), Viewer(place_of("net")) as viewer:
        viewer.until(lambda s: s.overhead is not None and s.overhead.ratio < 0.05, ran(model, x))


def test_names_with_escape_sequences_make_harmless_sockets(folder: Path) -> None:
    model = Net().eval()
    with watch(model, "a/../\x1b[31m\nb" + "x" * 300), Viewer(place_of(), looks=False) as viewer:
        (path,) = folder.iterdir()
        assert path.name.isprintable()
        assert len(os.fsencode(path)) <= 107
        viewer.until(lambda s: s.hello is not None)


@pytest.mark.parametrize("how", ["open to others", "a link", "no directory", "too long"])
def test_a_place_that_cannot_be_trusted_is_a_warning_and_no_more(
    how: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = folder / ("x" * 120 if how == "too long" else "place")
    if how == "a link":
        (folder / "real").mkdir(mode=0o700)
        place.symlink_to(folder / "real")
    elif how == "no directory":
        place.write_text("")
    else:
        place.mkdir(mode=0o700)
    if how == "open to others":
        place.chmod(0o777)
    monkeypatch.setenv("TUI_PROFILER_DIR", str(place))
    model, x = Net().eval(), torch.randn(3, 8)
    with pytest.warns(UserWarning, match="nobody can attach: .*" + str(place)):
        handle = watch(model, "net")
    ran(model, x)()
    handle.close()
    assert is_put_back()
    if place.is_dir():
        assert not list(place.iterdir())


def test_sockets_are_the_users_alone(folder: Path) -> None:
    model = Net()
    before = os.umask(0)
    try:
        with watch(model, "net"):
            (path,) = folder.iterdir()
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert os.umask(0) == 0
    finally:
        os.umask(before)


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(TypeError, match=r"torch\.nn\.Module, not str"):
        watch("resnet50")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="above 0"):
        watch(Net(), budget=0.0)


def test_a_viewer_that_sends_rubbish_is_hung_up_on_alone() -> None:
    model, x = Net().eval(), torch.randn(3, 8)
    with watch(model, "net", grace_seconds=0.0), Viewer(place_of("net")) as good:
        bad = Viewer(place_of("net"), looks=False)
        bad.socket.sendall(b"\x00\x00\x00\x03abc")
        good.until(has_times, ran(model, x))
        bad.until(lambda _: bad.is_hung_up_on)
        assert not good.is_hung_up_on


def test_trees_asked_for_again_and_again_are_few() -> None:
    model, x = Net().eval(), torch.randn(3, 8)
    with watch(model, "net", grace_seconds=0.0), Viewer(place_of("net")) as viewer:
        viewer.until(has_times, ran(model, x))
        for _ in range(500):
            viewer.ask(TraceAgain())
        before = sum(isinstance(message, Tick) for message in viewer.heard)
        viewer.until(
            lambda _: sum(isinstance(m, Tick) for m in viewer.heard) > before + 2, ran(model, x)
        )
        assert len(_waits(viewer)) <= 2
        assert not any(isinstance(message, Failed) for message in viewer.heard)


def test_no_warning_comes_where_all_is_well() -> None:
    model = Net()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        watch(model, "net").close()


def test_a_viewer_that_does_not_read_is_counted_and_holds_up_nobody() -> None:
    model = nn.Sequential(*(nn.Identity() for _ in range(1_500))).eval()
    x = torch.zeros(1)
    with watch(model, "net", 1.0, grace_seconds=0.0), Viewer(place_of("net")) as good:
        stuck = Viewer(place_of("net"))
        session = good.until(
            lambda s: s.timings is not None and s.timings.tick.dropped > 2,
            lambda: model(x),
            seconds=40,
        )
        assert session.timings is not None
        assert session.timings.tick.forwards > 5
        good.ask(TraceAgain())  # What is said once piles up, so who is behind is hung up on.
        good.until(lambda _: len(_waits(good)) == 2, lambda: model(x))
        good.until(has_times, lambda: model(x))
        stuck.close()
    assert not good.is_hung_up_on
