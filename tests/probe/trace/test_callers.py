"""The lines that led to the call of a module: the user's own, and a library's in between."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from msgspec import json
from torch import nn

from tests.probe.trace.traced import at, traced
from tui_profiler.messages import Caller, LoadSpec, Node
from tui_profiler.probe.load.load import load
from tui_profiler.probe.trace.trace import trace

X = torch.ones(2, 4)
LIBRARY = """
from torch import nn

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4))

    def forward(self, x):
        return self.apply_inner(x)

    def apply_inner(self, x):
        return self.inner(x)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """Return a module that is installed: it lies in a folder of packages."""
    folder = tmp_path_factory.mktemp("lib") / "site-packages" / "nets"
    folder.mkdir(parents=True)
    file = folder / "layers.py"
    file.write_text(LIBRARY)
    found = importlib.util.spec_from_file_location("nets_layers_of_test", file)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    found.loader.exec_module(module)
    return module


class Own(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer
        self.head = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classify(self.layer(x))

    def classify(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.head(x)
        return found


def line_of(function: object, text: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(at for at, line in enumerate(lines) if text in line)


def test_the_users_own_innermost_line_is_first_then_the_librarys(library: ModuleType) -> None:
    made = traced(Own(library.Layer()), X)
    in_forward = Caller(__file__, line_of(Own.forward, "self.layer("), "forward")
    assert at(made, "layer").callers == (in_forward,)
    head = Caller(__file__, line_of(Own.classify, "self.head("), "classify")
    assert at(made, "head").callers == (head,)
    file = Path(library.__file__ or "")
    number = 1 + next(i for i, t in enumerate(LIBRARY.splitlines()) if "self.inner(x)" in t)
    between = Caller(str(file), number, "apply_inner", "nets")
    for path in ("layer.inner", "layer.inner.0"):
        assert at(made, path).callers == (in_forward, between)
    operators = [node for node in made.nodes if node.kind == "op"]
    assert operators
    assert all(node.callers == () for node in operators)


def test_a_model_of_torchvision_is_called_from_the_forward_of_its_parent() -> None:
    pytest.importorskip("torchvision")
    from torchvision.models.resnet import BasicBlock, ResNet

    loaded = load(LoadSpec("resnet18"))
    found: list[Node] = []

    def run() -> None:
        # As in a worker: without a line of the user's above it.
        made = trace(loaded.model, tuple(loaded.candidates), name="resnet18")
        found.extend(made.nodes)

    run()
    nodes = {node.path: node for node in found if node.kind == "module"}
    expected = {
        "layer1": (ResNet._forward_impl, "self.layer1(x)"),
        "layer1.0.conv2": (BasicBlock.forward, "self.conv2(out)"),
    }
    for path, (function, text) in expected.items():
        library = nodes[path].callers[-1]
        assert Path(library.file).parts[-3:] == ("torchvision", "models", "resnet.py")
        assert library.line == line_of(function, text)
        assert (library.function, library.library) == (function.__name__, "torchvision")


def test_what_only_torch_calls_has_the_line_of_torch() -> None:
    from concurrent.futures import ThreadPoolExecutor

    model = nn.Sequential(nn.Linear(4, 4))
    # In a thread that this file has no frame in: the user's code only made the model.
    with ThreadPoolExecutor(1) as pool:
        from tests.probe.trace.traced import inputs_of

        made = pool.submit(trace, model, (inputs_of(X),)).result()
    [caller] = at(made, "0").callers
    assert caller.library == "torch"
    assert caller.line == line_of(nn.Sequential.forward, "module(input)")
    assert (Path(caller.file).name, caller.function) == ("container.py", "forward")
    assert made.nodes[0].callers == ()


@pytest.mark.parametrize("tracer", ["dispatch", "fx", "export"])
def test_every_tracer_finds_the_same_lines(tracer: str, library: ModuleType) -> None:
    model = Own(library.Layer()).eval()
    from tests.probe.trace.traced import inputs_of

    made = trace(model, (inputs_of(X),), tracer=tracer)  # type: ignore[arg-type]
    told = at(made, "layer.inner.0").callers
    # Stacks that torch.export writes down lack functions between the forwards of two modules.
    function = "forward" if tracer == "export" else "apply_inner"
    assert [(Path(one.file).name, one.function, one.library) for one in told] == [
        (Path(__file__).name, "forward", ""),
        ("layers.py", function, "nets"),
    ]


def test_nodes_of_earlier_recordings_have_no_callers() -> None:
    old = b'[-1,"module","m","","M",1,[],[],[],"","","","",false]'
    assert json.decode(old, type=Node).callers == ()
