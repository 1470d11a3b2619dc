"""Families of operators against counts by hand: quantised, custom, indexed, spectral, images."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.probe.cost.test_macs import Function
from tests.probe.trace.traced import total, traced
from tui_profiler.probe.cost.cost import op_cost

X = torch.zeros(2, 4, 6, 6)
ELEMENTS = X.numel()
STEPS, BATCH, WIDTH, HIDDEN = 5, 2, 16, 32


def dynamic(module: nn.Module) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = {nn.Linear, nn.LSTM, nn.GRU, nn.LSTMCell, nn.GRUCell, nn.RNNCell}
        return torch.ao.quantization.quantize_dynamic(nn.Sequential(module), wanted)


@pytest.mark.parametrize(
    "layer",
    [
        nn.Linear(WIDTH, HIDDEN),
        nn.Linear(WIDTH, HIDDEN, bias=False),
        nn.LSTM(WIDTH, HIDDEN),
        nn.LSTM(WIDTH, HIDDEN, num_layers=2, bidirectional=True),
        nn.GRU(WIDTH, HIDDEN),
    ],
    ids=["linear", "no bias", "lstm", "deep lstm", "gru"],
)
def test_a_dynamically_quantised_layer_costs_what_the_real_one_does(layer: nn.Module) -> None:
    sequence = torch.zeros(STEPS, BATCH, WIDTH)

    real, quantised = total(layer, sequence), total(dynamic(layer), sequence)

    assert quantised.macs == real.macs > 0
    assert quantised.flops == real.flops


@pytest.mark.parametrize("cell", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_a_quantised_cell_costs_what_the_real_one_does(cell) -> None:
    layer, sample = cell(WIDTH, HIDDEN), torch.zeros(BATCH, WIDTH)

    real, quantised = total(layer, sample), total(dynamic(layer), sample)

    assert (quantised.macs, quantised.flops) == (real.macs, real.flops)


class Static(nn.Module):
    """Convolution with folded norm and ReLU, a sum, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.out = torch.ao.quantization.QuantStub(), torch.ao.quantization.DeQuantStub()
        self.first, self.norm, self.relu = (
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
        )
        self.second = nn.Conv2d(8, 8, 1, groups=4)
        self.sum = torch.ao.nn.quantized.FloatFunctional()
        self.last = nn.Linear(8, 4)

    def forward(self, x):
        x = self.relu(self.norm(self.first(self.into(x))))
        x = self.sum.add(x, self.second(x))
        return self.out(self.last(x.mean((2, 3))))


def static() -> nn.Module:
    model, image = Static().eval(), torch.rand(1, 3, 8, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine = torch.backends.quantized.engine
        torch.backends.quantized.engine = "fbgemm"
        model.qconfig = torch.ao.quantization.get_default_qconfig("fbgemm")
        torch.ao.quantization.fuse_modules(model, [["first", "norm", "relu"]], inplace=True)
        torch.ao.quantization.prepare(model, inplace=True)
        model(image)
        torch.ao.quantization.convert(model, inplace=True)
        torch.backends.quantized.engine = engine
    return model


def test_a_statically_quantised_model_is_counted_by_its_packed_weights() -> None:
    made = traced(static(), torch.rand(1, 3, 8, 8))

    cost, places = made.costs[0], 64
    products = places * 8 * 3 * 9 + places * 8 * 2 + 8 * 4
    into, out = 5 * 3 * places, 2 * 4
    convolutions = 2 * 8 * places + 8 * places  # bias and ReLU; bias
    assert made.done.uncosted == ()
    assert cost.macs == products
    assert cost.flops == 2 * products + into + convolutions + 8 * places + 8 * places + 4 + out


@pytest.fixture
def library() -> Iterator[torch.library.Library]:
    made = torch.library.Library("tui_profiler_tests", "FRAGMENT")
    yield made
    made._destroy()


def test_a_custom_operator_is_counted_by_what_it_is_made_of(library) -> None:
    library.define("gram(Tensor x) -> Tensor")
    library.impl("gram", lambda x: (x @ x.t()).relu(), "CompositeExplicitAutograd")
    gram = torch.ops.tui_profiler_tests.gram.default

    made = traced(Function(gram), torch.zeros(3, 4))

    assert [n.name for n in made.nodes if n.kind == "op"] == ["tui_profiler_tests::gram"]
    assert (made.costs[0].macs, made.costs[0].flops) == (3 * 3 * 4, 2 * 3 * 3 * 4 + 9)
    assert made.done.uncosted == ()


def test_a_custom_operator_with_a_kernel_of_its_own_is_uncosted(library) -> None:
    library.define("opaque(Tensor x) -> Tensor")
    library.impl("opaque", lambda x: torch.from_numpy(x.numpy() * 2), "CPU")
    library.impl("opaque", torch.empty_like, "Meta")

    made = traced(Function(torch.ops.tui_profiler_tests.opaque.default), torch.zeros(3, 4))

    assert made.done.uncosted == ("tui_profiler_tests::opaque",)
    assert made.costs[0].uncosted == 1


def test_a_kernel_that_asks_for_memory_is_not_run_on_tensors_without(library) -> None:
    """Given the address of nothing, code in C would bring the whole worker down."""
    addresses = []

    def kernel(x):
        addresses.append((x + 1.0).data_ptr())
        return x.clone()

    library.define("reads(Tensor x) -> Tensor")
    library.impl("reads", kernel, "CompositeExplicitAutograd")
    operator = torch.ops.tui_profiler_tests.reads.default

    cost = op_cost(operator, (torch.ones(3, 4),), {}, (torch.ones(3, 4),), weights=())

    assert (cost.uncosted, addresses) == (1, [])


PLACES = torch.zeros(2, 3, dtype=torch.int64)
ROWS = torch.ones(3, 6)


@pytest.mark.parametrize(
    ("function", "flops"),
    [
        (lambda x: x.scatter(1, PLACES, x[:, :3]), 0),
        (lambda x: x.scatter(1, PLACES, 1.0), 0),
        (lambda x: x.scatter(1, PLACES, x[:, :3], reduce="add"), 6),
        (lambda x: x.scatter_add(1, PLACES, x), 6),
        (lambda x: x.scatter_reduce(1, PLACES, x, "amax"), 6),
        (lambda x: x.index_add(0, PLACES[0], ROWS), 18),
        (lambda x: x.index_reduce(0, PLACES[0], ROWS, "amax"), 18),
        (lambda x: x.index_put((PLACES[0],), ROWS), 0),
        (lambda x: x.index_put((PLACES[0],), ROWS, accumulate=True), 18),
        (lambda x: x.index_copy(0, PLACES[0, :1], ROWS[:1]), 0),
        (lambda x: x.gather(1, PLACES), 0),
        (lambda x: x.index_select(0, PLACES[0]), 0),
        (lambda x: torch.segment_reduce(x, "sum", lengths=torch.tensor([1, 1])), 12),
        (lambda x: x.masked_fill(x == 0, 1.0), 12),
        (lambda x: x.topk(2).values, 2 * 6 * 3),
    ],
)
def test_only_what_is_put_together_is_arithmetic(function, flops: int) -> None:
    assert total(Function(function), torch.zeros(2, 6)).flops == flops


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_a_bag_puts_its_rows_together(mode: str) -> None:
    bag = nn.EmbeddingBag(100, 8, mode=mode)
    offsets = torch.tensor([0, 4, 7])

    cost = total(Function(lambda rows: bag(rows, offsets)), torch.zeros(10, dtype=torch.int64))

    assert (cost.macs, cost.flops) == (0, 10 * 8)


SIGNAL = torch.zeros(3, 8, 16)


@pytest.mark.parametrize(
    ("transform", "flops"),
    [
        (torch.fft.rfft, 5 * 3 * 8 * 16 * 4 // 2),
        (torch.fft.rfft2, 5 * 3 * 8 * 16 * 7 // 2),
        (lambda x: torch.fft.irfft(x.to(torch.complex64)), 5 * 3 * 8 * 30 * 4.906890595608519 / 2),
        (lambda x: torch.fft.fft(x.to(torch.complex64)), 5 * 3 * 8 * 16 * 4),
        (lambda x: torch.fft.ifft2(x.to(torch.complex64)), 5 * 3 * 8 * 16 * 7),
    ],
    ids=["real", "real 2-D", "to real", "complex", "complex 2-D"],
)
def test_a_fourier_transform_is_five_n_log_n(transform, flops: float) -> None:
    assert total(Function(transform), SIGNAL).flops == int(flops)


@pytest.mark.parametrize(
    ("module", "flops"),
    [
        (nn.InstanceNorm2d(4), 5 * ELEMENTS),
        (nn.GroupNorm(2, 4, affine=False), 5 * ELEMENTS),
        (nn.BatchNorm2d(4, track_running_stats=False), 7 * ELEMENTS),
        (nn.RMSNorm(6), 4 * ELEMENTS + 2 * 2 * 4 * 6 + 0),
        (nn.RReLU(), 2 * ELEMENTS),
        (nn.AdaptiveMaxPool2d(3), ELEMENTS),
        (nn.FractionalMaxPool2d(2, output_size=3), 4 * 2 * 4 * 9),
        (nn.AvgPool2d(3, padding=1, stride=2, ceil_mode=True), 9 * 2 * 4 * 16),
        (nn.MaxPool2d(3, 2, 1, dilation=2), 9 * 2 * 4 * 4),
        (nn.Upsample(scale_factor=2, mode="bicubic"), 31 * 4 * ELEMENTS),
        (nn.Upsample(scale_factor=2, mode="nearest-exact"), 0),
        (nn.Upsample(scale_factor=0.5, mode="area"), ELEMENTS),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else None,
)
def test_norms_pooling_and_interpolation(module: nn.Module, flops: int) -> None:
    cost = total(module, X)

    assert (cost.macs, cost.flops) == (0, flops)


@pytest.mark.parametrize(
    ("module", "shape", "flops"),
    [
        (nn.AvgPool1d(2), (2, 3, 8), 2 * 2 * 3 * 4),
        (nn.MaxPool3d(2), (2, 3, 8, 8, 8), 8 * 2 * 3 * 64),
        (nn.Upsample(scale_factor=2, mode="linear"), (2, 3, 8), 3 * 2 * 3 * 16),
        (nn.Upsample(scale_factor=2, mode="trilinear"), (2, 3, 4, 4, 4), 15 * 2 * 3 * 512),
    ],
)
def test_pooling_and_interpolation_of_other_ranks(module: nn.Module, shape, flops: int) -> None:
    assert total(module, torch.zeros(shape)).flops == flops


def test_drawing_together_without_aliases_goes_along_one_axis_at_a_time() -> None:
    def halved(x):
        return functional.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True)

    along_width, along_height = 2 * 4 * 6 * 3, 2 * 4 * 3 * 3
    assert total(Function(halved), X).flops == (2 * 4 - 1) * (along_width + along_height)


@pytest.mark.parametrize(
    ("function", "flops"),
    [
        (torch.linalg.cholesky, 6**3 // 3),
        (torch.linalg.det, 2 * 6**3 // 3),
        (torch.linalg.inv, 2 * 6**3),
        (lambda a: torch.linalg.solve(a, a[:, :2]), 2 * 6**3 // 3 + 2 * 36 * 2),
        (lambda a: torch.linalg.solve_triangular(a, a[:, :2], upper=True), 36 * 2),
        (lambda a: torch.linalg.qr(a)[0], 2 * (2 * 6**3 - 2 * 6**3 // 3)),
    ],
    ids=["cholesky", "determinant", "inverse", "solve", "triangular", "qr"],
)
def test_factorisations_have_their_leading_terms(function, flops: int) -> None:
    assert total(Function(function), torch.eye(6)).flops == flops


def test_a_marked_region_costs_nothing_and_is_no_operator_without_a_formula() -> None:
    class Marked(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.profiler.record_function("mine"):
                return x + 1

    made = traced(Marked(), X)
    assert made.done.uncosted == ()
    assert made.costs[0].flops == ELEMENTS
