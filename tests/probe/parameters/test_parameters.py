"""What the values of parameters are like, against numpy in float64."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

import numpy as np
import pytest
import torch

from tui_profiler.figures.moments import joined
from tui_profiler.messages import TensorStatistics, Unknown, known
from tui_profiler.messages.parameters import ALL_PARTS, ParameterPart, Quantised
from tui_profiler.probe.parameters.analysis import statistics
from tui_profiler.probe.parameters.spectral import MOST_EXACT_VALUES
from tui_profiler.probe.parameters.statistics import sums_of
from tui_profiler.probe.parameters.storage import width
from tui_profiler.probe.parameters.subjects import subjects_of_model

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)
WHOLE = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
SHAPES = ((7,), (33, 65), (16, 3, 3, 3), (200, 700))


def looked_at(tensor: torch.Tensor, parts: tuple[ParameterPart, ...] = ()) -> TensorStatistics:
    model = torch.nn.Module()
    model.register_buffer("w", tensor)
    (subject,) = subjects_of_model(model)
    assert subject.values is not None, subject.why_none
    return statistics(subject, parts, lambda _: None)


def values_of(tensor: torch.Tensor) -> np.ndarray:
    """The same values in float64, by torch's own conversion of each."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    wide = tensor.float() if tensor.dtype in FLOAT8 else tensor
    return wide.double().flatten().numpy()


def random_tensors() -> Iterable[torch.Tensor]:
    """Fifty, of every type, around 0 and far from it, with and without zeros."""
    made = torch.Generator().manual_seed(5)
    for dtype, shape in itertools.product((*FLOATS, *FLOAT8), SHAPES):
        yield (torch.randn(shape, generator=made) * 0.05).to(dtype)
    for dtype, shape in itertools.product(FLOATS, SHAPES[:3]):
        yield (torch.randn(shape, generator=made) + 3).relu().mul(0.5).to(dtype)
    for dtype, shape in itertools.product(WHOLE, SHAPES[1:3]):
        yield torch.randint(0, 100, shape, generator=made).to(dtype)
    yield torch.randn(99, 99, generator=made) * 1e-3 + 100.0
    yield torch.randn(30, 30, dtype=torch.complex64, generator=made)
    yield torch.rand(50, 50, generator=made) > 0.3
    yield torch.randn(200, 300, generator=made).exp()


TENSORS = list(random_tensors())


def test_there_are_fifty_tensors_of_thirteen_types() -> None:
    assert len(TENSORS) == 50
    assert len({tensor.dtype for tensor in TENSORS}) == 13


@pytest.mark.parametrize("tensor", TENSORS, ids=lambda one: f"{one.dtype}{list(one.shape)}")
def test_moments_are_those_of_numpy(tensor: torch.Tensor) -> None:
    found, values = looked_at(tensor).moments, values_of(tensor)
    assert found is not None
    std = values.std()
    away = (values - values.mean()) / (std or 1.0)
    assert abs(found.mean - values.mean()) <= 1e-6 * std
    assert abs(found.std - std) <= 1e-6 * std
    assert (found.minimum, found.maximum) == (values.min(), values.max())
    assert known(found.skewness) == pytest.approx((away**3).mean(), abs=1e-6)
    assert known(found.kurtosis) == pytest.approx((away**4).mean() - 3, abs=1e-6)
    assert found.l1 == pytest.approx(np.abs(values).sum(), rel=1e-9)
    assert found.l2 == pytest.approx(np.linalg.norm(values), rel=1e-9)
    assert (found.count, found.zeros) == (values.size, (values == 0).sum())
    assert found.near_zeros == (np.abs(values) < found.near_zero_below).sum() or not found.zeros


@pytest.mark.parametrize("tensor", TENSORS[::3], ids=lambda one: f"{one.dtype}{list(one.shape)}")
def test_a_histogram_counts_every_value_between_its_edges(tensor: torch.Tensor) -> None:
    found, values = looked_at(tensor).histogram, values_of(tensor)
    assert found is not None
    edges = np.frombuffer(found.edges, "<f8")
    counts = np.frombuffer(found.counts, "<u8").astype(int)
    assert counts.size <= 64
    # On an edge below 0 a value is in the bin below it, else in the one above.
    below = [(values < e).sum() if e >= 0 else (values <= e).sum() for e in edges[1:-1]]
    assert np.array_equal(counts, np.diff([0, *below, values.size]))
    shares = counts[counts > 0] / values.size
    assert found.entropy_bits == pytest.approx(-(shares * np.log2(shares)).sum())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float8_e4m3fn])
def test_edges_of_a_narrow_type_are_values_that_it_has(dtype: torch.dtype) -> None:
    tensor = torch.randn(300, 300, generator=torch.Generator().manual_seed(1)).to(dtype)
    found = looked_at(tensor).histogram
    assert found is not None
    edges = torch.frombuffer(bytearray(found.edges), dtype=torch.float64)
    assert torch.equal(edges.float().to(dtype).double(), edges)
    counts = np.frombuffer(found.counts, "<u8").astype(int)
    # Many values lie on an edge: below 0 they are in the bin below it, else in the one above.
    values = tensor.float().numpy().ravel()
    at_edge = np.isin(values, edges[1:-1].numpy()).sum()
    assert at_edge > 0
    bins = [
        ((low < values) & (values <= high) if high < 0 else (low < values) & (values < high))
        if low < 0
        else (low <= values) & (values < high)
        for low, high in zip(edges.tolist(), edges.tolist()[1:], strict=False)
    ]
    bins[0] |= values == float(edges[0])
    bins[-1] |= values == float(edges[-1])
    assert counts.tolist() == [int(inside.sum()) for inside in bins]


@pytest.mark.parametrize("tensor", TENSORS[::3], ids=lambda one: f"{one.dtype}{list(one.shape)}")
def test_pruning_keeps_to_its_loss(tensor: torch.Tensor) -> None:
    magnitudes = np.sort(np.abs(values_of(tensor)))
    lost = np.cumsum(magnitudes**2)
    for part in looked_at(tensor).pruned:
        allowed = part.loss**2 * lost[-1] * (1 + 1e-9)
        exact = np.searchsorted(lost, allowed, "right") / magnitudes.size
        assert part.sparsity == pytest.approx(exact, abs=1e-3)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [100, 70_000])
def test_what_is_no_number_is_counted_and_nowhere_else(dtype: torch.dtype, size: int) -> None:
    values = torch.randn(size, generator=torch.Generator().manual_seed(1)).to(dtype)
    clean = values_of(values[5:])
    values[:3], values[3], values[4] = math.nan, math.inf, -math.inf
    found = looked_at(values)
    assert found.moments is not None
    assert found.histogram is not None
    assert (found.moments.nans, found.moments.infinities) == (3, 2)
    assert found.moments.count == size - 5
    assert found.moments.std == pytest.approx(clean.std(), rel=1e-9)
    assert np.frombuffer(found.histogram.counts, "<u8").sum() == size - 5


def test_a_tensor_without_numbers_says_so() -> None:
    found = looked_at(torch.full((3, 3), math.nan), ALL_PARTS)
    assert found.moments is not None
    assert (found.moments.count, found.moments.nans, found.histogram) == (0, 9, None)
    assert isinstance(found.moments.kurtosis, Unknown)


def test_a_mean_far_from_0_costs_no_digits() -> None:
    values = torch.randn(300_000, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found = looked_at(values + 1e8).moments
    exact = (values + 1e8).numpy()
    assert found is not None
    assert found.std == pytest.approx(exact.std(), rel=1e-7)
    assert abs(found.mean - exact.mean()) <= 1e-6


def test_an_expanded_tensor_is_as_large_as_what_it_lies_in() -> None:
    found = looked_at(torch.arange(3.0)[:, None].expand(3, 2**40), ALL_PARTS)
    assert found.moments is not None
    assert (found.bytes, found.moments.count, found.moments.mean) == (12, 3, 1.0)


def test_overlapping_windows_count_each_value_once() -> None:
    windows = torch.arange(1000.0).as_strided((991, 10), (1, 1))
    found = looked_at(windows).moments
    assert found is not None
    assert (found.count, found.mean) == (1000, 499.5)


def test_gaps_between_values_are_not_looked_at() -> None:
    values = torch.randn(400, 300, generator=torch.Generator().manual_seed(1))
    found = looked_at(values[:, ::3].T).moments
    assert found is not None
    assert found.count == 40_000
    assert found.std == pytest.approx(values[:, ::3].double().std(correction=0).item(), rel=1e-9)


@pytest.mark.parametrize("shape", [(60, 40), (300, 500), (700, 120)])
def test_the_spectral_norm_is_the_largest_singular_value(shape: tuple[int, int]) -> None:
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(1)) * 0.1
    found = looked_at(matrix, ("spectral",)).spectral
    assert found is not None
    is_small = matrix.numel() <= MOST_EXACT_VALUES
    assert found.method == ("svd" if is_small else "lanczos")
    exact = np.linalg.svd(matrix.double().numpy(), compute_uv=False)[0]
    norm = known(found.norm)
    assert norm is not None
    assert norm == pytest.approx(exact, rel=1e-4)
    assert norm <= exact * (1 + 1e-6)


def test_signal_over_noise_is_that_of_rounding() -> None:
    weights = torch.randn(64, 300, generator=torch.Generator().manual_seed(1)).double().numpy()
    found = looked_at(torch.from_numpy(weights).float(), ("quantisation",))
    by_way = {(one.format, one.granularity): known(one.sqnr_db) for one in found.quantised}
    assert len(by_way) == 12
    for form, most in (("int8", 127), ("int4", 7)):
        for granularity, largest in (
            ("tensor", np.abs(weights).max()),
            ("channel", np.abs(weights).max(1, keepdims=True)),
        ):
            scale = largest / most
            back = np.rint(weights / scale).clip(-most, most) * scale
            noise = ((back - weights) ** 2).sum()
            exact = 10 * math.log10((weights**2).sum() / noise)
            assert by_way[form, granularity] == pytest.approx(exact, abs=0.01)
    assert found.quantised_on is not None
    assert found.quantised_on.values == weights.size


@pytest.mark.parametrize(
    ("shape", "ways"),
    [
        ((64, 64), {"tensor", "channel"}),
        ((64, 128), {"tensor", "channel"}),
        ((64, 129), {"tensor", "channel", "group"}),
        ((1, 64), {"tensor"}),
        ((1, 300), {"tensor", "group"}),
    ],
)
def test_a_row_of_one_group_is_per_channel(shape: tuple[int, int], ways: set[str]) -> None:
    found = looked_at(torch.randn(shape), ("quantisation",)).quantised
    assert {one.granularity for one in found} == ways
    assert {one.group for one in found} == ({0, 128} if "group" in ways else {0})


def test_the_recommended_width_is_the_narrowest_that_is_good_enough() -> None:
    model = torch.nn.Linear(256, 64)
    subject = next(one for one in subjects_of_model(model) if one.told.name == "weight")
    found = statistics(subject, ("quantisation",), lambda _: None)
    assert found.width is not None
    good = [one for one in found.quantised if (known(one.sqnr_db) or 0) >= 30]
    assert found.width.bits == min(one.bits for one in good)
    assert found.width.error == pytest.approx(
        10 ** (-max(known(one.sqnr_db) or 0 for one in good if one.bits == found.width.bits) / 20)
    )
    assert 0 < found.width.saved_bytes < found.bytes


def test_scales_of_groups_are_stored_for_each_row() -> None:
    """A float32 scale for each of 128 values: 32 / 128 bits per value, however many rows."""
    found = looked_at(torch.randn(6, 512), ("quantisation",))
    bits = {(one.format, one.granularity): one.bits for one in found.quantised}
    assert bits["int8", "group"] == 8 + 32 / 128
    assert bits["int8", "channel"] == 8 + 32 / 512
    assert bits["int8", "tensor"] == 8 + 32 / (6 * 512)


def test_what_is_stored_in_few_bits_is_not_advised_to_take_more() -> None:
    ways = tuple(
        Quantised(form, "channel", sqnr_db=db, bits=bits, group=0)
        for form, bits, db in (("int8", 8.1, 40.0), ("int4", 4.1, 20.0))
    )
    assert width(ways, "float16", 2000, 1000).bits == 8.1
    stays = width(ways, "int8", 1000, 1000)
    assert (stays.bits, stays.saved_bytes) == (8.0, 0)
    assert stays.why == "the best has 20.0 dB: no change"


@pytest.mark.parametrize("cut", [1, 37, 500])
def test_moments_of_unequal_pieces_are_those_of_the_whole(cut: int) -> None:
    values = np.random.default_rng(3).gamma(2.0, 1.0, 1000) - 7.0
    found = joined(sums_of(values[:cut]), sums_of(values[cut:]))
    away = values - values.mean()
    assert found.mean == pytest.approx(values.mean())
    for name, power in (("second", 2), ("third", 3), ("fourth", 4)):
        assert getattr(found, name) == pytest.approx((away**power).sum()), name


def test_channels_that_are_dead_doubled_or_far_out_are_found() -> None:
    weights = torch.randn(40, 60, generator=torch.Generator().manual_seed(1))
    weights[3] = 0
    weights[5] = weights[4] * -2
    weights[9, 7] = 100
    found = looked_at(weights, ("channels",)).channels
    assert found is not None
    assert (found.count, found.size, found.dead) == (40, 60, 1)
    assert (found.near_duplicates, found.compared) == (1.0, 39)
    assert (found.outliers, found.first_outliers) == (1, (9,))
    squares = np.sort((weights.double() ** 2).sum(1).numpy())
    for part in found.pruned:
        assert part.channels == (np.cumsum(squares) <= part.loss**2 * squares.sum()).sum()


@pytest.mark.parametrize("by_channel", [False, True])
def test_a_quantised_tensor_is_what_its_values_stand_for(by_channel: bool) -> None:
    values = torch.randn(20, 30, generator=torch.Generator().manual_seed(1))
    if by_channel:
        scales = torch.linspace(0.01, 0.05, 20)
        stored = torch.quantize_per_channel(values, scales, torch.zeros(20), 0, torch.qint8)
    else:
        stored = torch.quantize_per_tensor(values, 0.03, 3, torch.qint8)
    found = looked_at(stored, ALL_PARTS)
    assert (found.dtype, found.bytes) == ("qint8", 600)
    assert found.moments is not None
    exact = stored.dequantize().double()
    assert found.moments.mean == pytest.approx(exact.mean().item(), abs=1e-9)
    assert found.moments.std == pytest.approx(exact.std(correction=0).item(), rel=1e-9)
    assert "quantised" in dict(found.whys)["quantisation"]


def test_heads_of_an_attention_have_norms_of_their_own() -> None:
    model = torch.nn.MultiheadAttention(32, 4)
    found = {one.told.name: one for one in subjects_of_model(model)}["in_proj_weight"]
    rows = statistics(found, ("channels",), lambda _: None).channels
    assert rows is not None
    assert rows.heads == 12
    exact = model.in_proj_weight.detach().double().reshape(12, -1).norm(dim=1)
    assert rows.head_norms == pytest.approx(exact.tolist(), rel=1e-6)


def test_noise_cannot_be_compressed_and_repetition_can() -> None:
    made = torch.Generator().manual_seed(1)
    noise = looked_at(
        torch.randint(0, 256, (300, 300), generator=made).to(torch.uint8), ("compression",)
    ).compression
    same = looked_at(torch.ones(300, 300), ("compression",)).compression
    assert noise is not None
    assert same is not None
    assert noise.bound > 0.99
    assert noise.ratio > 0.99
    assert (same.entropy_bits, same.bound) == (0, 0)
    assert same.ratio < 0.01
