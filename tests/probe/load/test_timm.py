"""timm's architectures, by name."""

from collections import OrderedDict

import pytest
import torch

from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.architectures.timm_models import timm_names
from tui_profiler.probe.load.common.errors import LoadError
from tui_profiler.probe.load.load import list_models, load
from tui_profiler.probe.trace.trace import trace

timm = pytest.importorskip("timm")

TINY = "timm:test_resnet.r160_in1k"


@pytest.mark.parametrize(
    ("name", "side", "gmacs", "parameters"),
    [
        # As their papers and model cards print them.
        ("vit_tiny_patch16_224", 224, 1.3, 5_717_416),
        ("resnet50.a1_in1k", 224, 4.1, 25_557_032),
        ("efficientnet_b0", 224, 0.4, 5_288_548),
    ],
)
def test_the_size_is_that_of_its_config_and_the_figures_are_known_ones(
    name, side, gmacs, parameters
) -> None:
    loaded = load(LoadSpec(model=f"timm:{name}"))
    (inputs,) = loaded.candidates
    (spec,) = inputs.specs
    assert (spec.name, spec.shape, spec.why) == ("x", (1, 3, side, side), "its pretrained_cfg")

    made = trace(loaded.model, tuple(loaded.candidates))

    assert made.method == "dispatch:fake"
    assert round(made.costs[0].macs / 1e9, 1) == gmacs
    assert made.costs[0].parameters == parameters
    assert (loaded.facts_source, loaded.weights) == ("timm", "random")


def test_values_are_those_of_timm_and_the_same_each_time() -> None:
    loaded = load(LoadSpec(model=TINY))
    first, again = loaded.initialise(), loaded.initialise()
    for name, value in first.state_dict().items():
        assert torch.equal(again.state_dict()[name], value)
    assert not first.training
    assert torch.isfinite(first(*loaded.candidates[0].args)).all()


def test_arguments_change_the_architecture_and_its_input() -> None:
    arguments = '{"num_classes": 7, "in_chans": 1}'
    loaded = load(LoadSpec(model=TINY, arguments=arguments, batch=2))
    inputs = loaded.candidates[0]
    assert inputs.specs[0].shape == (2, 1, 160, 160)
    assert inputs.specs[0].why == "its pretrained_cfg, with --args"
    assert loaded.model(*inputs.args).shape == (2, 7)

    sized = load(LoadSpec(model="timm:vit_tiny_patch16_224", arguments='{"img_size": 96}'))
    assert sized.candidates[0].specs[0].shape == (1, 3, 96, 96)
    (again,) = load(LoadSpec(model=TINY)).remake(loaded.model, 3)
    assert again.batch == 3


def test_weights_of_the_users_own(tmp_path) -> None:
    model = load(LoadSpec(model=TINY)).initialise()
    torch.save(OrderedDict(model.state_dict()), tmp_path / "mine.pt")
    loaded = load(LoadSpec(model=TINY, weights="mine.pt", folder=str(tmp_path)))
    assert (loaded.weights, loaded.initialise) == ("mine.pt", None)
    for name, value in model.state_dict().items():
        assert torch.equal(loaded.model.state_dict()[name], value)


def test_a_model_that_fits_nowhere_is_only_traced(monkeypatch) -> None:
    from types import SimpleNamespace

    import psutil

    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1 << 20))
    loaded = load(LoadSpec(model="timm:vit_tiny_patch16_224"))
    assert "0.0 GiB of memory are free" in loaded.cannot_run
    made = trace(loaded.model, tuple(loaded.candidates))
    assert (made.method, made.costs[0].parameters) == ("dispatch:meta", 5_717_416)


@pytest.mark.parametrize(
    ("fields", "said", "remedy"),
    [
        ({"model": "timm:resnet5"}, 'no architecture "resnet5"', "tui-profiler timm:resnet51q"),
        ({"model": "timm:hf-hub:timm/resnet18.a1_in1k"}, "no architecture", "timm:*"),
        ({"model": "timm:local-dir:/tmp"}, "no architecture", "timm:*"),
        ({"model": "timm:resnet18.nonsense"}, "nonsense", "tui-profiler timm:resnet18"),
        ({"model": TINY, "arguments": "[1]"}, "keywords only", "num_classes"),
        ({"model": TINY, "arguments": '{"pretrained": true}'}, "through --weights", "num"),
        ({"model": TINY, "arguments": '{"widht": 1}'}, "with these --args", "without --args"),
        ({"model": TINY, "weights": "absent.pt"}, "there is no file absent.pt", ""),
    ],
)
def test_what_cannot_be_had_is_told(fields, said, remedy) -> None:
    with pytest.raises(LoadError) as caught:
        load(LoadSpec(**fields))
    failed = caught.value.failed
    assert said in failed.what
    assert failed.bad_argument
    told = "".join(offered.command + offered.result for offered in failed.remedies)
    assert remedy in told


def test_names_are_those_that_timm_gives() -> None:
    assert set(timm_names()) == set(timm.list_models())
    assert list_models("timm:vit_tiny_patch16_2*").names == (("timm", "timm:vit_tiny_patch16_224"),)
