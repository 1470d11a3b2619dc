"""What torchvision has beside classifiers: built as published, given what each takes."""

import pytest
import torch
from torchvision import models

from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.architectures.torchvision_models import architecture_names, task_of
from tui_profiler.probe.load.load import load
from tui_profiler.probe.trace.trace import trace

# Figures as torchvision's documentation prints them.
PUBLISHED = [
    ("r3d_18", (1, 3, 16, 112, 112), 40.697, 33_371_472),
    ("lraspp_mobilenet_v3_large", (1, 3, 520, 520), 2.086, 3_221_538),
    ("deeplabv3_mobilenet_v3_large", (1, 3, 520, 520), 10.452, 11_029_328),
    ("ssd300_vgg16", (3, 300, 300), 34.858, 35_641_826),
    ("ssdlite320_mobilenet_v3_large", (3, 320, 320), 0.583, 3_440_060),
    ("retinanet_resnet50_fpn", (3, 800, 800), 151.540, 34_014_999),
    ("fcos_resnet50_fpn", (3, 800, 800), 128.207, 32_269_600),
    ("raft_small", (1, 3, 512, 512), 47.655, 990_162),
    ("quantized_shufflenet_v2_x0_5", (1, 3, 224, 224), 0.040, 1_366_792),
    ("quantized_googlenet", (1, 3, 224, 224), 1.498, 6_624_904),
]

# Parameters of detectors whose multiply-accumulates depend on how many proposals they make.
PROPOSING = [
    ("fasterrcnn_mobilenet_v3_large_320_fpn", 320, 19_386_354),
    ("fasterrcnn_mobilenet_v3_large_fpn", 800, 19_386_354),
    ("fasterrcnn_resnet50_fpn", 800, 41_755_286),
    ("fasterrcnn_resnet50_fpn_v2", 800, 43_712_278),
    ("keypointrcnn_resnet50_fpn", 800, 59_137_258),
    ("maskrcnn_resnet50_fpn", 800, 44_401_393),
    ("maskrcnn_resnet50_fpn_v2", 800, 46_359_409),
]

QUANTISED = '{"quantize": true}'


def traced(spec: LoadSpec):
    loaded = load(spec)
    return trace(loaded.model, tuple(loaded.candidates), name=spec.model)


def parameters_of(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def test_every_architecture_can_be_asked_for() -> None:
    assert set(architecture_names()) == set(models.list_models())
    assert {task_of(name) for name in architecture_names()} == {
        "classification",
        "segmentation",
        "detection",
        "video",
        "optical_flow",
        "quantization",
    }


@pytest.mark.parametrize(("name", "shape", "gmacs", "parameters"), PUBLISHED)
def test_the_form_it_needs_gives_the_published_figures(name, shape, gmacs, parameters) -> None:
    loaded = load(LoadSpec(model=name))
    assert {spec.shape for inputs in loaded.candidates for spec in inputs.specs} == {shape}
    assert (loaded.published_gmacs, loaded.published_parameters) == (gmacs, parameters)
    assert parameters_of(loaded.model) == parameters

    made = trace(loaded.model, tuple(loaded.candidates))

    assert made.method == "dispatch:fake"
    assert round(made.costs[0].macs / 1e9, 3) == gmacs


@pytest.mark.parametrize(("name", "side", "parameters"), PROPOSING)
def test_what_proposals_cost_is_not_published(name, side, parameters) -> None:
    loaded = load(LoadSpec(model=name))
    (inputs,) = loaded.candidates
    (spec,) = inputs.specs

    assert (spec.name, spec.shape) == ("images[0]", (3, side, side))
    assert spec.why == "the size that its transform makes of images"
    assert (loaded.published_gmacs, loaded.published_parameters) == (None, parameters)
    assert parameters_of(loaded.model) == parameters


def test_a_mask_for_each_of_the_most_detections_there_can_be() -> None:
    # The published 333.577 GMACs were counted on an image with the 100 detections that are the most
    # the model keeps, as ours are.
    made = traced(LoadSpec(model="maskrcnn_resnet50_fpn_v2"))
    assert round(made.costs[0].macs / 1e9, 3) == 333.577
    assert "torchvision::nms" in made.done.bounded
    assert [output.shape[0] for output in made.nodes[0].outputs] == [100] * 4


def test_several_images_are_a_list() -> None:
    (inputs,) = load(LoadSpec(model="ssd300_vgg16", batch=2)).candidates

    assert [tuple(image.shape) for image in inputs.args[0]] == [(3, 300, 300)] * 2
    assert inputs.batch == 2


def test_flow_is_found_between_two_images() -> None:
    (inputs,) = load(LoadSpec(model="raft_small")).candidates

    assert [spec.name for spec in inputs.specs] == ["image1", "image2"]
    assert not torch.equal(*inputs.args)


def test_a_model_of_whole_numbers_is_traced_by_a_real_run(recwarn) -> None:
    whole = traced(LoadSpec(model="quantized_mobilenet_v2", arguments=QUANTISED))
    floating = traced(LoadSpec(model="quantized_mobilenet_v2"))

    assert [attempt.method for attempt in whole.done.attempts] == ["dispatch:fake", "dispatch:real"]
    assert whole.costs[0].macs == floating.costs[0].macs  # 300,774,272
    # Weights and biases, the norms folded into them: torchvision's 3,504,872 less a scale for each
    # of the 17,056 channels of the norms.
    assert whole.costs[0].parameters == 3_504_872 - 17_056
    peak = whole.done.peak_memory.parameters
    assert peak == whole.costs[0].parameter_bytes
    assert 0.95 < peak / 3_504_872 < 1.05  # a byte each, the biases four
    assert {"quantized.conv2d.new", "quantized.linear.default"} <= {n.type for n in whole.nodes}
    assert [str(warning.message) for warning in recwarn] == []


def test_the_same_whole_numbers_each_time() -> None:
    models_made = [
        load(LoadSpec(model="quantized_shufflenet_v2_x0_5", arguments=QUANTISED)) for _ in range(2)
    ]
    assert [loaded.initialise for loaded in models_made] == [None, None]
    image = torch.ones(1, 3, 224, 224)
    first, again = (loaded.model(image) for loaded in models_made)
    assert torch.equal(first, again)
    assert torch.isfinite(first).all()
