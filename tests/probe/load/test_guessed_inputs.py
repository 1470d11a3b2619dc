"""Which inputs are tried where nobody said."""

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from tui_profiler.probe.load.common.loaded_model import Settings
from tui_profiler.probe.load.inputs.guesses import guesses
from tui_profiler.probe.load.inputs.input_candidates import inputs_from, typed_call
from tui_profiler.probe.load.inputs.input_tensors import Candidates

CPU = Settings(torch.device("cpu"), None, None)


def first_that_runs(model: nn.Module, settings: Settings = CPU):
    for inputs in Candidates(guesses(model), settings):
        try:
            with torch.no_grad():
                model.eval()(*inputs.args, **inputs.kwargs)
        except (RuntimeError, AssertionError, ValueError, IndexError, TypeError):
            continue
        return inputs
    return None


def flat_network(side: int) -> nn.Module:
    conv = nn.Conv2d(1, 2, 3, padding=1)
    return nn.Sequential(conv, nn.ReLU(), nn.Flatten(), nn.Linear(2 * side**2, 5))


class Recurrent(nn.Module):
    def __init__(self, batch_first: bool):
        super().__init__()
        self.reader = nn.GRU(6, 8, batch_first=batch_first)

    def forward(self, samples: Tensor):
        return self.reader(samples)[0]


class TwoTables(nn.Module):
    def __init__(self):
        super().__init__()
        self.users = nn.Embedding(500, 4)
        self.items = nn.Embedding(3, 4)

    def forward(self, user: Tensor, item: Tensor):
        return (self.users(user) * self.items(item)).sum(-1)


class ImageAndText(nn.Module):
    def __init__(self):
        super().__init__()
        self.position_table = nn.Embedding(5, 4)
        self.words = nn.Embedding(50, 4)
        self.conv = nn.Conv2d(3, 4, 4, stride=4)

    def forward(self, image: Tensor, text: Tensor, *, mask: Tensor):
        return self.conv(image).mean((2, 3)) + self.words(text).mean(1), mask


@pytest.mark.parametrize(
    ("model", "shape", "why"),
    [
        (nn.Conv2d(3, 4, 3), (1, 3, 224, 224), "first convolution Conv2d"),
        (nn.Sequential(nn.Conv2d(2, 4, 3)), (1, 2, 224, 224), "first convolution 0"),
        (flat_network(28), (1, 1, 28, 28), "first convolution 0"),
        (flat_network(64), (1, 1, 64, 64), "first convolution 0"),
        (nn.Conv2d(128, 4, 3), (1, 128, 56, 56), "first convolution Conv2d"),
        (nn.Conv1d(2, 4, 3), (1, 2, 1024), "first convolution Conv1d"),
        (nn.Conv3d(3, 4, 3), (1, 3, 16, 112, 112), "first convolution Conv3d"),
        (nn.ConvTranspose2d(100, 4, 4), (1, 100, 1, 1), "first convolution ConvTranspose2d"),
        (nn.Linear(10, 5), (1, 10), "first linear layer Linear"),
        (nn.GRUCell(6, 8), (1, 6), "first recurrent cell GRUCell"),
        (Recurrent(batch_first=True), (1, 16, 6), "first recurrent layer reader"),
        (Recurrent(batch_first=False), (16, 1, 6), "first recurrent layer reader"),
        (
            nn.TransformerEncoderLayer(32, 4, batch_first=True),
            (1, 16, 32),
            "first attention self_attn",
        ),
        (nn.Embedding(10, 5), (1, 16), "first embedding Embedding"),
    ],
)
def test_the_first_layer_says_what_goes_in(model, shape, why):
    inputs = first_that_runs(model)
    assert inputs is not None
    assert [(spec.shape, spec.why) for spec in inputs.specs] == [(shape, why)]
    assert inputs.batch == 1


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_a_transformer_gets_two_sequences():
    model = nn.Transformer(16, 2, 1, 1, 16)
    inputs = first_that_runs(model, Settings(torch.device("cpu"), None, 3))
    assert [(spec.name, spec.shape) for spec in inputs.specs] == [
        ("src", (16, 3, 16)),
        ("tgt", (16, 3, 16)),
    ]
    assert inputs.batch == 3


def test_every_argument_gets_ids_of_its_own_table():
    inputs = first_that_runs(TwoTables(), Settings(torch.device("cpu"), None, 64))
    user, item = inputs.args
    assert int(user.max()) >= 3
    assert int(item.max()) < 3
    assert [spec.why for spec in inputs.specs] == ["first embedding users", "embedding items"]


def test_names_tell_images_from_texts_and_masks():
    inputs = first_that_runs(ImageAndText())
    assert [(spec.name, spec.shape, spec.dtype) for spec in inputs.specs] == [
        ("image", (1, 3, 224, 224), "float32"),
        ("text", (1, 16), "int64"),
        ("mask", (1, 16), "bool"),
    ]
    assert "first embedding words" in inputs.specs[1].why
    assert list(inputs.kwargs) == ["mask"]


def test_a_size_that_the_model_states_comes_first():
    model = nn.Sequential(nn.Conv2d(3, 4, 3))
    model.image_size = (96, 96)
    first = Candidates(guesses(model), CPU)[0]
    assert [(spec.shape, spec.why) for spec in first.specs] == [((1, 3, 96, 96), "its image_size")]
    model = nn.Sequential(nn.Conv2d(3, 4, 3))
    model.default_cfg = {"input_size": (3, 192, 192)}
    assert Candidates(guesses(model), CPU)[0].specs[0].shape == (1, 3, 192, 192)
    model = nn.Sequential(nn.Conv2d(1, 4, 3))
    model.config = SimpleNamespace(image_size=30)
    assert Candidates(guesses(model), CPU)[0].specs[0].shape == (1, 1, 30, 30)


def test_a_model_without_layers_is_read_by_its_matrix_or_given_an_image():
    class Matrix(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(7, 3))

        def forward(self, x: Tensor):
            return x @ self.weight

    assert first_that_runs(Matrix()).specs[0].shape == (1, 7)
    assert first_that_runs(nn.ReLU()).specs[0].shape == (1, 3, 224, 224)


@pytest.mark.filterwarnings("ignore:`torch.jit")
@pytest.mark.parametrize(
    ("model", "shape", "why"),
    [
        (nn.Sequential(nn.Linear(7, 3)), (1, 7), "first matrix 0.weight"),
        (nn.Sequential(nn.Conv2d(3, 4, 3)), (1, 3, 224, 224), "first matrix 0.weight"),
    ],
)
def test_a_scripted_model_is_read_by_its_parameters(model, shape, why):
    inputs = first_that_runs(torch.jit.script(model))
    assert [(spec.shape, spec.why) for spec in inputs.specs] == [(shape, why)]


def test_a_forward_without_parameters_gets_none():
    class Constant(nn.Module):
        def forward(self):
            return torch.ones(1)

    inputs = first_that_runs(Constant())
    assert (inputs.args, inputs.kwargs, inputs.specs, inputs.batch) == ((), {}, (), None)


def test_a_model_nested_three_thousand_deep_is_read():
    model: nn.Module = nn.Linear(4, 4)
    for _ in range(3000):
        model = nn.Sequential(model)
    assert Candidates(guesses(model), CPU)[0].specs[0].shape == (1, 4)


def test_the_same_wish_gives_the_same_numbers_and_leaves_the_random_state():
    model = nn.Linear(10, 5)
    before = torch.get_rng_state()
    first, again = (Candidates(guesses(model), CPU)[0] for _ in range(2))
    assert torch.equal(first.args[0], again.args[0])
    assert torch.equal(torch.get_rng_state(), before)


def test_the_model_dtype_is_that_of_floating_inputs_only():
    half = Settings(torch.device("cpu"), torch.float16, None)
    assert Candidates(guesses(nn.Linear(4, 4)), half)[0].specs[0].dtype == "float16"
    assert Candidates(guesses(nn.Embedding(4, 4)), half)[0].specs[0].dtype == "int64"


def test_candidates_are_a_sequence():
    candidates = Candidates(guesses(nn.Conv2d(3, 4, 3)), CPU)
    assert len(candidates) == len(list(candidates)) == len(candidates[1:]) + 1
    assert candidates[-1].specs == candidates[len(candidates) - 1].specs
    with pytest.raises(IndexError):
        candidates[len(candidates)]


def test_an_example_is_passed_as_it_is_whatever_batch_is_asked_for():
    value = {"x": torch.arange(6.0).view(2, 3), "table": torch.ones(5, 3), "flag": True}

    class Net(nn.Module):
        def forward(self, x: Tensor, table: Tensor, flag: bool):
            return x @ table.T

    inputs = inputs_from(value, Net(), Settings(torch.device("cpu"), torch.float64, 5))
    assert inputs.batch is None
    assert torch.equal(inputs.kwargs["x"], value["x"].double())
    assert inputs.kwargs["table"].shape == (5, 3)
    assert inputs.kwargs["flag"] is True
    assert [(spec.name, spec.dtype) for spec in inputs.specs] == [
        ("x", "float64"),
        ("table", "float64"),
    ]


def test_an_example_may_hold_lists_and_dictionaries():
    class Net(nn.Module):
        def forward(self, images: list[Tensor], extra: dict[str, Tensor]):
            return images

    example = ([torch.ones(2, 3), torch.ones(2, 4)], {"mask": torch.ones(2)})
    inputs = inputs_from(example, Net(), Settings(torch.device("cpu"), None, 1))
    assert [(spec.name, spec.shape) for spec in inputs.specs] == [
        ("images[0]", (2, 3)),
        ("images[1]", (2, 4)),
        ("extra.mask", (2,)),
    ]


class OfImages(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, images: list[Tensor], targets=None):
        return [self.conv(image) for image in images]


def test_images_go_in_as_a_list_where_forward_says_so():
    two = Settings(torch.device("cpu"), None, 2)
    inputs = first_that_runs(OfImages(), two)
    assert [spec.name for spec in inputs.specs] == ["images[0]", "images[1]"]
    assert [tuple(image.shape) for image in inputs.args[0]] == [(3, 224, 224)] * 2

    typed = typed_call(("2,3,96,64",), OfImages(), two).inputs(two)
    assert [tuple(image.shape) for image in typed.args[0]] == [(3, 96, 64)] * 2


def test_a_detector_of_the_users_own_is_read_like_a_named_one():
    from torchvision.models.detection import ssdlite320_mobilenet_v3_large

    model = ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None)
    inputs = next(iter(Candidates(guesses(model), CPU)))
    (spec,) = inputs.specs
    assert (spec.name, spec.shape) == ("images[0]", (3, 320, 320))
    assert spec.why == "the size that its transform makes of images"
