"""YOLO models from YAML, and from checkpoints."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from msgspec.structs import replace

from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.architectures.ultralytics_models import ultralytics_tasks, yaml_names
from tui_profiler.probe.load.common.errors import LoadError
from tui_profiler.probe.load.load import list_models, load
from tui_profiler.probe.trace.trace import trace

# In a slim container it is installed, and OpenCV lacks system libraries: an ImportError too.
pytest.importorskip("ultralytics", exc_type=ImportError)

HEAD = """
nc: 3
backbone:
  - [-1, 1, Conv, [8, 3, 2]]
  - [-1, 1, Conv, [16, 3, 2]]
  - [-1, 1, Conv, [16, 3, 2]]
head:
  - [[1, 2], 1, Detect, [nc]]
"""


def written(folder: Path, text: str = HEAD) -> LoadSpec:
    (folder / "small.yaml").write_text(text)
    return LoadSpec(model="small.yaml", folder=str(folder))


@pytest.mark.parametrize(
    ("name", "parameters", "gflops"),
    [
        # As the comments of the YAML files themselves say.
        ("yolov8n", 3_157_200, 8.9),
        ("yolo11n", 2_624_080, 6.6),
        ("yolov5n", 2_654_816, 7.8),
    ],
)
def test_the_figures_are_the_published_ones(name, parameters, gflops) -> None:
    loaded = load(LoadSpec(model=f"{name}.yaml"))
    (inputs,) = loaded.candidates
    (spec,) = inputs.specs
    assert (spec.name, spec.shape) == ("x", (1, 3, 640, 640))
    assert spec.why == "Ultralytics' default imgsz"
    assert (loaded.facts_source, loaded.weights) == ("ultralytics", "random")

    made = trace(loaded.model, tuple(loaded.candidates))

    assert made.method == "dispatch:fake"
    assert made.costs[0].parameters == parameters
    # Theirs are twice the multiply-accumulates and some of the rest, at this size.
    cost = made.costs[0]
    assert round(2 * cost.macs / 1e9, 1) <= gflops <= round(cost.flops / 1e9, 1)


def test_values_are_the_same_each_time() -> None:
    loaded = load(LoadSpec(model="yolov8n-cls.yaml", arguments='{"nc": 7}'))
    first, again = loaded.initialise(), loaded.initialise()
    for name, value in first.state_dict().items():
        assert torch.equal(again.state_dict()[name], value)
    (inputs,) = loaded.candidates
    assert inputs.specs[0].shape == (1, 3, 224, 224)
    assert first(*inputs.args)[0].shape == (1, 7)
    assert not first.training


@pytest.mark.parametrize("name", ["yolov8n-seg", "yolo11n-pose", "yolo11n-obb", "yolov8-worldv2"])
def test_other_tasks_have_their_class(name) -> None:
    loaded = load(LoadSpec(model=f"{name}.yaml"))
    made = trace(loaded.model, tuple(loaded.candidates))
    assert made.method == "dispatch:fake"
    assert made.costs[0].uncosted == 0


def test_a_file_of_the_users_own(tmp_path) -> None:
    spec = written(tmp_path, HEAD + "activation: torch.nn.LeakyReLU(0.1)\n")
    loaded = load(spec)
    activations = {type(m) for m in loaded.model.modules() if "LU" in type(m).__name__}
    assert activations == {torch.nn.LeakyReLU}
    assert load(LoadSpec(model="yolov8n.yaml")).model.model[0].act.__class__ is torch.nn.SiLU
    made = trace(loaded.model, tuple(loaded.candidates))
    assert made.nodes[0].outputs[0].shape == (1, 7, 160**2 + 80**2)


def test_a_checkpoint_is_read_with_trust_only(tmp_path) -> None:
    spec = written(tmp_path)
    model = load(spec).initialise()
    model.args = {"imgsz": 320}
    torch.save({"model": model.half(), "ema": None}, tmp_path / "small.pt")

    with pytest.raises(LoadError, match="runs code"):
        load(LoadSpec(model="small.pt", folder=str(tmp_path)))
    whole = load(LoadSpec(model="small.pt", folder=str(tmp_path), trust=True))
    assert type(whole.model).__name__ == "DetectionModel"
    inputs = whole.candidates[0]
    assert inputs.specs[0].shape == (1, 3, 320, 320)
    assert inputs.specs[0].why == "the imgsz of its training"

    fields = {"model": "small.yaml", "folder": str(tmp_path), "weights": "small.pt"}
    with pytest.raises(LoadError, match=r"imports .*ultralytics\.nn\.") as caught:
        load(LoadSpec(**fields))
    assert "--weights small.pt --trust" in caught.value.failed.remedies[0].command
    bound = load(LoadSpec(**fields, trust=True))
    assert (bound.weights, bound.initialise) == ("small.pt", None)
    assert torch.equal(bound.model.model[0].conv.weight.half(), model.model[0].conv.weight)


class Canary:
    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self._path),)


def test_what_trusted_weights_import_is_told_before_they_run(tmp_path) -> None:
    spec = written(tmp_path)
    canary = tmp_path / "canary"
    torch.save({"model": load(spec).model, "more": Canary(canary)}, tmp_path / "w.pt")
    told = []

    def tell(found) -> None:
        told.append((found.dangerous_globals, canary.exists()))

    load(replace(spec, weights="w.pt", trust=True), tell)
    assert told == [(("posix.mkdir",), False)]
    assert canary.exists()


def test_weights_that_run_nothing_need_no_trust_and_are_not_told_of(tmp_path) -> None:
    spec = written(tmp_path)
    torch.save(load(spec).model.state_dict(), tmp_path / "w.pt")
    told = []
    load(replace(spec, weights="w.pt", trust=True), told.append)
    assert told == []


HOSTILE = [
    (HEAD + "activation: __import__('os').system('touch canary')\n", "activation"),
    (HEAD + "activation: nn.ReLU(__import__('os').system('touch canary'))\n", "activation"),
    (HEAD + "activation: nn.init.zeros_(1)\n", "activation"),
    (HEAD.replace("Conv,", "load_checkpoint,"), "not a layer"),
    (HEAD.replace("Conv,", "torch.hub.load,"), "not a layer"),
    (HEAD.replace("Conv,", "'\x1b[2J',"), "cannot be read"),
    (HEAD.replace("Detect, [nc]", "Conv, [8]"), "ends in Conv"),
    (HEAD.replace("[8, 3, 2]", "[eight, 3, 2]"), "cannot be built"),
    ("[1, 2]", "not the YAML of a YOLO model"),
    ("a: &a [*a]", "not the YAML of a YOLO model"),
    ("a: [" * 5_000, "cannot be read"),
    ("!!python/object/apply:os.system [touch canary]", "cannot be read"),
    ("nc: 3\nbackbone: [1]\nhead: [[1, 2]]", "not the YAML of a YOLO model"),
]


@pytest.mark.parametrize(("text", "said"), HOSTILE)
def test_a_file_runs_nothing_but_layers(tmp_path, monkeypatch, text, said) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LoadError, match=said):
        load(written(tmp_path, text))
    assert [path.name for path in tmp_path.iterdir()] == ["small.yaml"]


@pytest.mark.parametrize(
    ("fields", "said", "remedy"),
    [
        ({"model": "yolov88n.yaml"}, "there is no file", "tui-profiler yolov8n.yaml"),
        ({"model": "yolov8n.yaml", "weights": "DEFAULT"}, "loading it runs code", "--trust"),
        ({"model": "yolov8n.yaml", "weights": "absent.pt"}, "no file absent.pt", ""),
        ({"model": "yolov8n.yaml", "arguments": '{"cfg": "x"}'}, "takes nc", "nc"),
    ],
)
def test_what_cannot_be_had_is_told(fields, said, remedy) -> None:
    with pytest.raises(LoadError) as caught:
        load(LoadSpec(**fields))
    assert said in caught.value.failed.what
    assert caught.value.failed.bad_argument
    assert remedy in "".join(offered.command for offered in caught.value.failed.remedies)


def test_names_with_their_scales_are_listed() -> None:
    names = yaml_names()
    assert {"yolov8n.yaml", "yolo11x-seg.yaml", "yolov5m.yaml", "yolov10n.yaml"} <= set(names)
    assert len(names) == len(set(names))
    assert not any(re.search(r"\d[nslmx]{2}", name) for name in names)
    assert ("ultralytics", "yolov8n.yaml") in list_models("yolov8n.y*").names


def test_torch_numpy_and_the_environment_stay_as_they_were() -> None:
    save, environment = torch.save, dict(os.environ)
    shown, printing = repr(torch.tensor(1 / 3)), np.get_printoptions()
    ultralytics_tasks()
    assert torch.save is save
    assert dict(os.environ) == environment
    assert (repr(torch.tensor(1 / 3)), np.get_printoptions()) == (shown, printing)


WATCHED = """
import sys, tempfile, torch, torchvision
tempfile.gettempdir()
touched = []
def watch(event, arguments):
    if event.startswith("socket.") and event != "socket.__new__":
        touched.append((event, arguments))
    if event == "open" and isinstance(arguments[0], str) and arguments[2] & 3:
        touched.append((event, arguments[0]))
    if event in ("os.mkdir", "subprocess.Popen", "os.system"):
        touched.append((event, arguments[0]))
sys.addaudithook(watch)
from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.load import load
load(LoadSpec(model="yolov8n-cls.yaml"))
own = (tempfile.gettempdir() + "/tui-profiler-", "/dev/")
print([item for item in touched if not str(item[1]).startswith(own)])
"""


def test_importing_writes_nothing_and_asks_no_network(tmp_path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "YOLO_CONFIG_DIR"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-c", WATCHED], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []
