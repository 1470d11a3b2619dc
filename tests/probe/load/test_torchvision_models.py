"""Architectures of torchvision's, by name."""

import sys

import pytest
import torch
from torch import nn
from torchvision import models

from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.architectures.torchvision_models import (
    architecture_names,
    reference_weights,
)
from tui_profiler.probe.load.common.errors import LoadError
from tui_profiler.probe.load.common.initialisation import seeded, without_random_values
from tui_profiler.probe.load.load import list_models, load

# Crop sizes and figures as torchvision's documentation prints them (table of all available
# classification weights).
PUBLISHED = [
    ("resnet18", 224, 1.814, 11_689_512),
    ("mobilenet_v3_small", 224, 0.057, 2_542_856),
    ("efficientnet_b4", 380, 4.394, 19_341_616),
    ("swin_v2_t", 256, 5.94, 28_351_570),
    ("googlenet", 224, 1.498, 6_624_904),
    ("inception_v3", 299, 5.713, 27_161_264),
    ("regnet_y_400mf", 224, 0.402, 4_344_144),
    ("vit_b_16", 224, 17.564, 86_567_656),
    ("maxvit_t", 224, 5.558, 30_919_624),
]


@pytest.mark.parametrize(("name", "side", "gmacs", "parameters"), PUBLISHED)
def test_the_input_and_the_published_figures_belong_together(name, side, gmacs, parameters):
    loaded = load(LoadSpec(model=name))
    (inputs,) = loaded.candidates
    (spec,) = inputs.specs
    assert (spec.shape, spec.dtype, spec.why) == ((1, 3, side, side), "float32", "its transforms")
    assert (loaded.published_gmacs, loaded.published_parameters) == (gmacs, parameters)
    assert sum(parameter.numel() for parameter in loaded.model.parameters()) == parameters
    assert (loaded.facts_source, loaded.weights) == ("torchvision", "random")
    assert not any(module.training for module in loaded.model.modules())


def test_fine_tuned_weights_do_not_set_the_size_of_an_architecture():
    assert reference_weights("vit_b_16").name == "IMAGENET1K_V1"
    assert reference_weights("vit_h_14").name == "IMAGENET1K_SWAG_LINEAR_V1"
    assert reference_weights("regnet_y_128gf").transforms().crop_size == [224]


def test_a_model_for_the_trace_is_the_model_that_runs():
    loaded = load(LoadSpec(model="regnet_y_400mf"))
    running = loaded.initialise()
    assert [(name, type(module)) for name, module in running.named_modules()] == [
        (name, type(module)) for name, module in loaded.model.named_modules()
    ]
    described = [
        [(name, value.shape, value.dtype) for name, value in model.state_dict().items()]
        for model in (loaded.model, running)
    ]
    assert described[0] == described[1]
    assert not running.training


def test_values_are_those_of_torchvision_and_the_same_each_time():
    loaded = load(LoadSpec(model="squeezenet1_1"))
    first, again = loaded.initialise(), loaded.initialise()
    with seeded():
        expected = models.squeezenet1_1(weights=None)
    for name, value in expected.state_dict().items():
        assert torch.equal(first.state_dict()[name], value)
        assert torch.equal(again.state_dict()[name], value)


def test_building_without_values_leaves_torch_as_it_was():
    before = {name: value for name, value in vars(nn.init).items() if callable(value)}
    state = torch.get_rng_state()
    loaded = load(LoadSpec(model="convnext_tiny"))
    loaded.initialise()
    assert torch.equal(torch.get_rng_state(), state)
    assert {name: value for name, value in vars(nn.init).items() if callable(value)} == before
    assert float(nn.init.normal_(torch.zeros(100)).std()) > 0.5
    assert float(nn.Linear(100, 10).weight.detach().std()) > 0.01


def test_an_error_while_building_leaves_torch_as_it_was():
    state = torch.get_rng_state()
    with pytest.raises(ZeroDivisionError), without_random_values():
        _ = float(torch.rand(3).sum()) / 0
    assert torch.equal(torch.get_rng_state(), state)
    assert float(nn.Parameter(torch.zeros(100)).data.normal_().std()) > 0.5


def test_only_parameters_are_left_without_values():
    with without_random_values():
        parameter = nn.Parameter(torch.full((50,), 3.0))
        nn.init.trunc_normal_(parameter, std=0.02)  # draws until every value is inside
        nn.init.kaiming_uniform_(parameter.view(5, 10))
        temporary = torch.zeros(50).normal_()
        counted = nn.init.constant_(nn.Parameter(torch.empty(3)), 7.0)
    assert float(temporary.std()) > 0.5
    assert counted.tolist() == [7.0] * 3


def test_batch_dtype_and_remake():
    loaded = load(LoadSpec(model="mobilenet_v3_small", batch=4, dtype="bfloat16"))
    (inputs,) = loaded.candidates
    assert (inputs.batch, inputs.specs[0].shape, inputs.specs[0].dtype) == (
        4,
        (4, 3, 224, 224),
        "bfloat16",
    )
    assert {parameter.dtype for parameter in loaded.model.parameters()} == {torch.bfloat16}
    model = loaded.initialise()
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    (again,) = loaded.remake(model, 2)
    assert (again.batch, again.args[0].shape) == (2, (2, 3, 224, 224))


def test_on_the_meta_device_nothing_is_held():
    loaded = load(LoadSpec(model="vgg11", device="meta", batch=100_000))
    assert {parameter.device.type for parameter in loaded.model.parameters()} == {"meta"}
    assert loaded.candidates[0].args[0].device.type == "meta"
    assert loaded.initialise is None


def test_arguments_change_the_architecture_and_what_is_published_no_longer_holds():
    loaded = load(LoadSpec(model="squeezenet1_1", arguments='{"num_classes": 10}'))
    assert loaded.model.classifier[1].out_channels == 10
    assert loaded.initialise().classifier[1].out_channels == 10
    assert (loaded.published_gmacs, loaded.published_parameters) == (None, None)


def test_an_image_size_given_as_an_argument_is_among_the_candidates():
    loaded = load(LoadSpec(model="vit_b_32", arguments='{"image_size": 64}', device="meta"))
    sizes = [inputs.specs[0].shape[-1] for inputs in loaded.candidates]
    assert sizes[:2] == [224, 64]


def test_a_typed_input_is_the_only_candidate_and_has_no_published_cost():
    loaded = load(LoadSpec(model="resnet18", inputs=("2,3,64,64",)))
    (inputs,) = loaded.candidates
    assert [(spec.name, spec.shape, spec.why) for spec in inputs.specs] == [
        ("x", (2, 3, 64, 64), "--input")
    ]
    assert (loaded.published_gmacs, loaded.published_parameters) == (None, 11_689_512)


def test_names_are_found_in_any_case():
    assert type(load(LoadSpec(model="SqueezeNet1_1")).model).__name__ == "SqueezeNet"


@pytest.mark.parametrize(
    ("typed", "remedy"),
    [
        ("resnet5", "tui-profiler resnet50"),
        ("efficentnet_b0", "tui-profiler efficientnet_b0"),
        ("cnn", "tui-profiler demo:cnn"),
        ("quantised_resnet18", "tui-profiler quantized_resnet18"),
        ("my.models", "tui-profiler my.models:build"),
        ("\x1b[2J", "tui-profiler models"),
    ],
)
def test_an_unknown_name_offers_the_nearest(typed, remedy):
    with pytest.raises(LoadError) as caught:
        load(LoadSpec(model=typed))
    failed = caught.value.failed
    assert failed.bad_argument
    assert failed.stage == "load model"
    assert remedy in [offered.command for offered in failed.remedies]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"arguments": '{"widht": 3}'}, "cannot be built with these --args"),
        ({"arguments": "[3]"}, "takes keywords only"),
        ({"arguments": '{"weights": "DEFAULT"}'}, "through --weights"),
        ({"arguments": "{"}, "--args is not JSON"),
        ({"weights": "IMAGENET1K_V9"}, "it has IMAGENET1K_V1"),
        ({"weights": "absent.pt"}, "there is no file absent.pt"),
        ({"device": "abacus"}, '"abacus" is not a device'),
        ({"device": "mps"}, '"mps" is not a device'),
        ({"device": "cuda:99"}, "CUDA device"),
        ({"dtype": "int8"}, 'cannot run in "int8"'),
        ({"dtype": "bfloat17"}, 'cannot run in "bfloat17"'),
        ({"batch": 0}, "a batch of 0"),
        ({"threads": 0}, "0 threads"),
        ({"inputs": ("1,3",) * 2}, "takes 1"),
    ],
)
def test_what_goes_with_a_name_is_checked(fields, said):
    with pytest.raises(LoadError, match=said) as caught:
        load(LoadSpec(model="squeezenet1_1", **fields))
    assert caught.value.failed.bad_argument


def test_threads_are_set():
    before = torch.get_num_threads()
    try:
        load(LoadSpec(model="squeezenet1_1", threads=1))
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_models_are_listed_by_part_of_a_name_or_glob():
    everything = list_models("").names
    assert {name for source, name in everything if source == "torchvision"} == set(
        architecture_names()
    )
    assert set(models.list_models(module=models)) <= set(architecture_names())
    assert ("torchvision", "wide_resnet101_2") in list_models("WIDE_RESNET101").names
    assert ("torchvision", "wide_resnet50_2") in list_models("resnet50").names
    assert list_models("vgg1?").names == tuple(
        ("torchvision", name) for name in ("vgg11", "vgg13", "vgg16", "vgg19")
    )
    assert ("demo", "demo:cnn") in list_models("demo:*").names
    assert list_models("no such model").names == ()


def test_loading_neither_warns_nor_prints(recwarn, capfd):
    for name in ("googlenet", "inception_v3", "regnet_y_400mf"):
        load(LoadSpec(model=name)).initialise()
    assert [str(warning.message) for warning in recwarn] == []
    assert capfd.readouterr() == ("", "")


def test_the_users_folder_is_not_on_the_path_for_a_named_model(tmp_path):
    load(LoadSpec(model="squeezenet1_1", folder=str(tmp_path)))
    assert str(tmp_path) not in sys.path
