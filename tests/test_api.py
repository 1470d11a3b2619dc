"""The verbs for Python: a model profiled in this process, and left bit for bit as it was."""

from __future__ import annotations

import json
import pickle
import random
import re
import subprocess
import sys
from pathlib import Path
from time import perf_counter, sleep

import jsonschema
import numpy as np
import pytest
import torch
from torch import nn

import tui_profiler
from tests.recording.files import fixture, write
from tui_profiler import Profile, ProfileError
from tui_profiler.probe.torch_compat.module_call import present_call

ROOT = Path(__file__).resolve().parents[1]
HOSTILE = "<script>alert('x')</script>\x1b[31m"


_CALLED: list[str] = []


def _note(module: nn.Module, *_: object) -> None:
    _CALLED.append(type(module).__name__)


class Changing(nn.Module):
    """Writes into all that a forward can write into."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(8, 4)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("large", torch.zeros(1 << 19))
        self.cache: list[torch.Tensor] = []
        self.plain = torch.zeros(3)
        self.seen = 0

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        self.calls += 1
        self.large[0] += 1
        self.plain.add_(1)
        self.head.weight.data.add_(0.001)
        self.seen += 1
        self.cache = [*self.cache[-1:], x]
        x.add_(random.random() + float(np.random.rand()))
        x = self.drop(torch.relu(self.norm(self.conv(x))))
        return self.head(x.mean((2, 3)) * scale)


def state_of(model: nn.Module) -> bytes:
    """Return everything that pickling keeps of a model, and its tensors' bytes."""
    with torch.no_grad():
        tensors = [t.detach().numpy().tobytes() for t in model.state_dict().values()]
    dictionaries = [sorted(vars(module)) for module in model.modules()]
    hooks = [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()]
    flags = [module.training for module in model.modules()]
    grads = [parameter.requires_grad for parameter in model.parameters()]
    return pickle.dumps((tensors, dictionaries, hooks, flags, grads, model))


def random_states() -> tuple[object, ...]:
    numpys = np.random.get_state()
    return torch.get_rng_state().tolist(), random.getstate(), numpys[1].tolist(), numpys[2]


@pytest.fixture(scope="module")
def small() -> Profile:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    return tui_profiler.profile(model, torch.randn(8, 16), forwards=40, name="small")


@pytest.fixture
def changing() -> Changing:
    torch.manual_seed(0)
    return Changing()


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_a_model_is_left_bit_for_bit_as_it_was(changing: Changing, mode: str) -> None:
    changing.train(mode == "train")
    _CALLED.clear()
    changing.conv.register_forward_hook(_note)
    given = torch.randn(2, 3, 12, 12)
    before, generators = state_of(changing), random_states()
    attributes = {name: id(value) for name, value in vars(changing).items()}
    input_before, plain, call = given.clone(), changing.plain, present_call()

    found = tui_profiler.profile(changing, given, kwargs={"scale": 2.0}, forwards=12)

    assert _CALLED  # It did run, with the hook that is its owner's.
    assert found.to_dict()["latency"]["forwards"] > 0
    assert state_of(changing) == before
    assert {name: id(value) for name, value in vars(changing).items()} == attributes
    assert random_states() == generators
    assert torch.equal(given, input_before)
    assert changing.plain is plain
    assert plain.tolist() == [0, 0, 0]
    assert nn.Module.__call__ is call
    assert torch.is_grad_enabled()
    assert changing.training is (mode == "train")
    assert pickle.loads(pickle.dumps(changing.head)).weight.equal(changing.head.weight)


def test_a_model_runs_as_often_as_asked_for_however_slow_it_is() -> None:
    ran: list[int] = []

    class Slow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if type(x) is torch.Tensor:  # In the trace it is a fake one.
                ran.append(1)
                sleep(0.12)  # A model that waits for something: no core is taken from other tests.
            return self.fc(x)

    first_run = 1
    found = tui_profiler.profile(Slow(), torch.ones(1, 4), forwards=21)
    # They take 2.5 s: longer than it runs where neither seconds nor forwards are given.
    assert len(ran) == 21 + first_run
    tick = found.session.tick
    assert tick is not None
    assert 0 < tick.forwards + tick.warmup_forwards < 21  # The others were bare, or in a window.

    ran.clear()
    tui_profiler.profile(Slow(), torch.ones(1, 4), forwards=21, seconds=0.3)
    assert len(ran) < 21 + first_run


def test_a_model_that_raises_is_left_as_it_was_and_says_where(changing: Changing) -> None:
    before, call = state_of(changing), nn.Module.__call__

    with pytest.raises(ProfileError, match="conv") as caught:
        tui_profiler.profile(changing, torch.randn(2, 5, 12, 12), forwards=3)

    assert caught.value.__cause__ is not None
    assert state_of(changing) == before
    assert nn.Module.__call__ is call


def test_what_raises_only_when_it_is_run_says_so_and_is_left_as_it_was() -> None:
    class Moody(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            if self.calls > 3:
                raise ValueError("enough")
            return x + 1

    model = Moody()
    with pytest.raises(ProfileError, match="run: ValueError: enough"):
        tui_profiler.profile(model, torch.ones(2), forwards=50)

    assert model.calls == 0


def test_a_model_with_lazy_layers_keeps_them_lazy() -> None:
    model = nn.Sequential(nn.LazyLinear(8), nn.ReLU())

    found = tui_profiler.profile(model, torch.randn(2, 5), seconds=0)

    assert found.to_dict()["total_parameters"] == 5 * 8 + 8
    assert nn.parameter.is_lazy(model[0].weight)


def test_costs_are_those_of_the_inputs_and_an_inference_mode_stays() -> None:
    model = nn.Linear(10, 20, bias=False)
    with torch.inference_mode():
        found = tui_profiler.profile(model, torch.randn(3, 10), seconds=0).to_dict()
        assert torch.is_inference_mode_enabled()

    assert found["total_macs"] == 3 * 10 * 20
    assert found["batch"] == 3
    assert found["latency"] is None
    assert found["inputs"] == [
        {"name": "input", "shape": [3, 10], "dtype": "float32", "why": "given"}
    ]


def test_inputs_that_are_not_given_are_guessed() -> None:
    found = tui_profiler.profile(nn.Linear(10, 20), seconds=0).to_dict()

    assert found["inputs"][0]["shape"][-1] == 10


def test_times_agree_with_a_stopwatch_of_the_models_own() -> None:
    class Timed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(256, 256)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            began = perf_counter()
            for _ in range(20):
                x = self.inner(x)
            took.append(perf_counter() - began)
            return x

    took: list[float] = []
    found = tui_profiler.profile(Timed(), torch.randn(64, 256), forwards=60).to_dict()
    latency = found["latency"]

    own = float(np.median(took[-latency["forwards"] :]))
    assert own == pytest.approx(latency["p50_s"], rel=0.25)
    inner = next(layer for layer in found["layers"] if layer["path"] == "inner")
    forwards, rest = divmod(inner["timing"]["calls"], 20)
    assert rest == 0
    # Forwards in which calls read their CPU time, one now and then, have no other times of calls.
    assert latency["forwards"] - 2 <= forwards <= latency["forwards"]


def test_the_report_follows_its_schema_and_every_format_is_text(small: Profile) -> None:
    schema = json.loads((ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8"))
    found = small.to_dict()
    jsonschema.validate(found, schema)

    assert json.loads(small.report("json")) == found
    assert small.report().startswith("small")
    assert small.report("csv").count("\n") == len(found["layers"]) + 1
    with pytest.raises(ValueError, match="no format 'xml'; there are table"):
        small.report("xml")


def test_two_profiles_are_compared(small: Profile) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    other = tui_profiler.profile(model, torch.randn(16, 16), seconds=0, name="more")
    compared = small.compare(other)

    totals = {row["name"]: row for row in compared.to_dict()["totals"]}
    assert totals["total_macs"]["ratio"] == 2.0
    assert totals["total_parameters"]["difference"] == 0
    assert "batch             8 → 16" in compared.report()
    assert repr(compared) == "<Compared 'small' and 'more'>"


def test_a_notebook_shows_names_as_text(small: Profile) -> None:
    model = nn.Sequential()
    model.add_module("<script>alert(1)</script>", nn.Linear(2, 2))
    found = tui_profiler.profile(model, torch.ones(1, 2), forwards=5, name=HOSTILE)
    for shown in (found, found.compare(small)):
        bundle = shown._repr_mimebundle_()
        assert set(bundle) == {"text/plain", "text/html"}
        assert bundle["text/html"] == shown._repr_html_()
        assert not re.search(r"<script|\x1b|<img", bundle["text/html"])
        assert "&lt;script&gt;" in bundle["text/html"]
        assert "\x1b" not in bundle["text/plain"]


@pytest.mark.parametrize(
    ("wrong", "arguments", "said"),
    [
        (lambda: 3, {}, "profile takes a torch.nn.Module, not function"),
        (nn.ReLU(), {"seconds": -1}, "seconds and forwards are 0 or more"),
        (nn.ReLU(), {"tracer": "none"}, "there is no tracer called 'none'"),
    ],
)
def test_wrong_arguments_are_refused(
    wrong: object, arguments: dict[str, object], said: str
) -> None:
    with pytest.raises((TypeError, ValueError, ProfileError), match=said):
        tui_profiler.profile(wrong, torch.ones(2), **arguments)  # type: ignore[arg-type]  # wrong


def test_a_recording_is_opened_without_torch(tmp_path: Path) -> None:
    file = write(tmp_path / "a.rec", fixture())
    code = (
        "import sys, tui_profiler;"
        f"found = tui_profiler.open_recording({str(file)!r});"
        "print(found.to_dict()['total_macs'], 'torch' in sys.modules, 'textual' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.split() == ["4089184256", "False", "False"]


@pytest.mark.parametrize("content", [b"", b"no recording", b"\x89TUIPRO\n" + b"\xff" * 100])
def test_what_is_no_recording_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "b.rec"
    file.write_bytes(content)
    with pytest.raises(ProfileError):
        tui_profiler.open_recording(file)


def _blocks() -> list[str]:
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


def test_the_examples_of_the_documentation_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "night.rec", fixture())
    names: dict[str, object] = {}
    blocks = _blocks()
    assert len(blocks) >= 4
    for block in blocks:
        exec(compile(block, "docs/api.md", "exec"), names)
