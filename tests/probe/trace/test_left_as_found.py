"""Models with every other part in training, traced in each way: left exactly as they were found."""

from __future__ import annotations

import copy
import importlib
import random
from collections.abc import Callable

import pytest
import torch
import torchvision
from torch import nn

from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.trace import TraceError, trace

Made = tuple[nn.Module, Inputs]
IMAGE = torch.rand(2, 3, 64, 64)


def demo(name: str) -> Made:
    module = importlib.import_module(f"demo_models.{name}")
    return module.build(), Inputs(module.example_inputs(2))


def classifier(name: str) -> Made:
    model = torchvision.models.get_model(name, weights=None, num_classes=3)
    return model, Inputs((IMAGE,))


def transformer() -> Made:
    model = nn.Transformer(16, 2, 1, 1, 32, batch_first=True)
    return model, Inputs((torch.rand(2, 5, 16), torch.rand(2, 4, 16)))


def recurrent() -> Made:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(8, 8, 2, dropout=0.5, batch_first=True)
            self.norm = nn.BatchNorm1d(5, momentum=None)

        def forward(self, x):
            return self.norm(self.lstm(x)[0])

    return Recurrent(), Inputs((torch.rand(2, 5, 8),))


def with_hooks() -> Made:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(), nn.ReLU())
    model[0].register_forward_hook(lambda *_: None)
    model.register_forward_pre_hook(lambda *_: None)
    nn.utils.parametrizations.weight_norm(model[0])
    return model, Inputs((IMAGE,))


MODELS: dict[str, Callable[[], Made]] = {
    **{name: lambda name=name: demo(name) for name in ("cnn", "decoder", "detector", "dynamic")},
    **{name: lambda name=name: demo(name) for name in ("lstm", "moe", "shared", "vit")},
    "resnet18": lambda: classifier("resnet18"),
    "nn.Transformer": transformer,
    "recurrent": recurrent,
    "with hooks": with_hooks,
}


def mixed(model: nn.Module) -> None:
    for index, module in enumerate(model.modules()):
        module.training = bool(index % 2)
    for index, parameter in enumerate(model.parameters()):
        parameter.requires_grad = bool(index % 3)


def state(model: nn.Module) -> dict[str, object]:
    modules = dict(model.named_modules())
    held = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {
        "training": {path: module.training for path, module in modules.items()},
        "gradients": {name: (t.requires_grad, t.grad) for name, t in held.items()},
        "attributes": {path: list(vars(module)) for path, module in modules.items()},
        "types": {path: type(module) for path, module in modules.items()},
        "tensors": {name: (id(tensor), type(tensor)) for name, tensor in held.items()},
        "hooks": {
            path: [len(v) for k, v in vars(module).items() if k.endswith("_hooks")]
            for path, module in modules.items()
        },
        "random": (torch.get_rng_state().tolist(), random.getstate()),
        "call": (nn.Module.__call__, nn.Module.__getattr__, torch.nn.functional.dropout),
        "modes": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
    }


@pytest.mark.parametrize("tracer", ["dispatch", "fx", "export"])
@pytest.mark.parametrize("name", MODELS)
def test_a_mixed_model_is_left_as_found(name: str, tracer: str) -> None:
    model, inputs = MODELS[name]()
    mixed(model)
    before = state(model)
    values = copy.deepcopy(model.state_dict())
    given = copy.deepcopy(inputs.args)

    try:
        trace(model, (inputs,), tracer)
    except TraceError:
        assert tracer != "dispatch"

    after = state(model)
    for part, found in before.items():
        assert after[part] == found, part
    torch.testing.assert_close(model.state_dict(), values, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(inputs.args, given, rtol=0, atol=0)
