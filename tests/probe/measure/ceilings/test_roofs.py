"""What a roof is made of: rates of pieces, of one thread and of all, and which of them count."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from time import thread_time

import pytest
import torch
from msgspec.structs import replace
from torch.utils.flop_counter import FlopCounterMode

from tests.probe.measure.ceilings.test_ceilings import BAD, CPU, GOOD, has_products_of
from tui_profiler.messages import Figure, RoofQuality, Unknown
from tui_profiler.probe.measure.ceilings import roofs
from tui_profiler.probe.measure.ceilings.ceilings import measure_ceilings, of_arithmetic
from tui_profiler.probe.measure.ceilings.core_timing import Pieces
from tui_profiler.probe.measure.ceilings.rounds import Measured, in_rounds, of_rounds
from tui_profiler.probe.measure.devices.machine import allowed_cores

MIB = 2**20
BUSY = replace(GOOD, busy=0.5)
CALM = Pieces(1e-4, 1.1, 1.0, 100, 100, 0.0)
DISTURBED = CALM._replace(undisturbed=0, busy=0.9)


def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def two_threads() -> Iterator[None]:
    yield from threads(2)


@pytest.fixture
def one_thread() -> Iterator[None]:
    yield from threads(1)


def least_cpu_seconds(action: Callable[[], object]) -> float:
    """Of some tries, on this thread: however busy the machine is, waiting is in none of them."""
    seconds = []
    for _ in range(15):
        began = thread_time()
        action()
        seconds.append(thread_time() - began)
    return min(seconds)


@pytest.mark.usefixtures("one_thread")
def test_a_product_of_one_thread_is_not_much_faster_than_its_roof() -> None:
    left, right = torch.rand(2, 512, 512)
    out = torch.empty(512, 512)

    def is_below() -> bool:
        roof = of_rounds(in_rounds({"": roofs.product_rounds("float32", CPU)})[""]).figure
        assert isinstance(roof, float)
        fast = 2 * 512**3 / least_cpu_seconds(lambda: torch.mm(left, right, out=out))
        return fast < 1.5 * roof

    # Other tests copy as well, and both are measured at another moment.
    assert any(is_below() for _ in range(12))


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_no_convolution_of_one_thread_is_much_faster_than_the_roof(dtype: str) -> None:
    """On a processor whose products are slower than that, as MKL's are on AMD's."""
    kind = getattr(torch, dtype)
    images, weights = torch.rand(2, 96, 26, 26).to(kind), torch.rand(96, 96, 3, 3).to(kind)

    def run() -> None:
        with torch.no_grad():
            torch.conv2d(images, weights)

    def is_below() -> bool:
        roof = measure_ceilings("cpu", (dtype,), {dtype}).compute[0].flops_per_second
        assert isinstance(roof, float)
        # Of each of 24 by 24 points 96 sums of 3 by 3 by 96 products.
        fast = 2 * 2 * 24 * 24 * 96 * 3 * 3 * 96 / least_cpu_seconds(run)
        return fast < 1.3 * roof

    assert any(is_below() for _ in range(3))


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("channels", [16, 48, 128])
def test_a_convolution_has_the_flops_that_torch_counts(channels: int) -> None:
    run = roofs.convolution(torch.float32, channels)
    with FlopCounterMode(display=False) as counter:
        run()
    assert roofs.convolution_flops(channels) == counter.get_total_flops()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_onednn_does_the_arithmetic_that_is_counted(
    dtype: torch.dtype, capfd: pytest.CaptureFixture[str]
) -> None:
    """Winograd's algorithm would need fewer products: it must not be what a roof is made of."""
    with torch.backends.mkldnn.verbose(torch.backends.mkldnn.VERBOSE_ON):  # type: ignore[no-untyped-call]  # torch
        roofs.convolution(dtype, 64)()
    done = [line for line in capfd.readouterr().out.splitlines() if ",convolution," in line]
    is_there: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]  # torch
    is_there = is_there and (dtype == torch.float32 or has_products_of("bfloat16"))
    assert bool(done) == is_there
    assert all("alg:convolution_direct" in line and "wino" not in line for line in done)


def test_without_onednn_products_alone_are_the_roof() -> None:
    before = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = False
    try:
        convolutions = roofs.convolution_rounds("float32")().measured.figure
        found = measure_ceilings("cpu", ("float32",), {"float32"}).compute[0]
    finally:
        torch.backends.mkldnn.enabled = before
    assert convolutions == Unknown("torch does not use oneDNN")
    assert isinstance(found.flops_per_second, float)
    assert found.quality is not None
    assert not found.quality.raised_by


@pytest.mark.parametrize(
    ("products", "convolutions", "figure", "raised_by", "why"),
    [
        ((100e9, GOOD), (80e9, GOOD), 100e9, "", ""),
        ((100e9, GOOD), (103e9, GOOD), 100e9, "", ""),
        (
            (100e9, GOOD),
            (210e9, GOOD),
            210e9,
            "convolutions reach 110 % more than products",
            "",
        ),
        # How fast they are on a calm machine is not known.
        ((100e9, GOOD), (80e9, BAD), 100e9, "", "convolutions: 0 of 100 pieces"),
        (
            (100e9, BAD),
            (210e9, GOOD),
            210e9,
            "convolutions reach 110 % more than products",
            "products: 0 of 100 pieces",
        ),
        ((100e9, GOOD), (Unknown("none"), None), 100e9, "", ""),
    ],
)
def test_the_faster_of_products_and_convolutions_is_the_roof(
    products: tuple[float, RoofQuality],
    convolutions: tuple[Figure, RoofQuality | None],
    figure: float,
    raised_by: str,
    why: str,
) -> None:
    found = of_arithmetic(Measured(*products), Measured(*convolutions))
    assert found.figure == figure
    assert found.quality is not None
    assert found.quality.raised_by == raised_by
    assert found.quality.why_not_good.startswith(why)
    assert bool(found.quality.why_not_good) == bool(why)


def test_a_dtype_without_products_has_no_roof_of_convolutions() -> None:
    none = Measured(Unknown("none"), None)
    assert of_arithmetic(none, Measured(1e9, GOOD)) == none


@pytest.mark.usefixtures("one_thread")
def test_a_copy_of_one_thread_is_not_much_faster_than_memory_s_roof() -> None:
    size = min(max(64 * MIB, 2 * roofs.last_level_cache_bytes(torch.device("cpu"))), 1024 * MIB)
    source = torch.ones(size // 4)
    target = torch.zeros_like(source)

    def is_below() -> bool:
        roof = measure_ceilings("cpu", (), {"memory"}).bytes_per_second
        assert isinstance(roof, float)
        # Read and written.
        fast = 2 * size / least_cpu_seconds(lambda: target.copy_(source))
        return fast < 1.5 * roof

    assert any(is_below() for _ in range(3))


def test_the_least_time_of_an_operator_is_that_of_one() -> None:
    one = torch.ones(1)

    def hundred() -> None:
        for _ in range(100):
            torch.relu(one)

    found = measure_ceilings("cpu", (), {"operator"}).op_seconds
    assert isinstance(found, float)
    assert found < 20 * least_cpu_seconds(hundred) / 100


@pytest.mark.parametrize(
    ("cache", "free", "size"),
    [
        (8 * MIB, 2**34, 64 * MIB),
        (32 * MIB, 2**34, 128 * MIB),
        (100 * MIB, 2**34, 400 * MIB),
        (32 * MIB, 16 * 40 * MIB, 40 * MIB),
        (32 * MIB, 16 * 32 * MIB, 32 * MIB),
        (32 * MIB, 16 * 32 * MIB - 16, 0),
    ],
)
def test_a_copy_past_the_caches_is_as_large_as_they_are_or_is_not_made(
    cache: int, free: int, size: int
) -> None:
    assert roofs.copy_bytes(cache, free) == size


def test_what_a_call_costs_is_in_no_cache_s_rate() -> None:
    """Of 1 MB more, read and written, 2 us; what both calls cost beside is in both."""
    found = roofs.difference_rate(
        1_000_000, CALM._replace(seconds=3e-6), CALM._replace(seconds=5e-6)
    )
    assert found.figure == pytest.approx(2e6 / 2e-6)
    same = roofs.difference_rate(1_000_000, CALM, CALM)
    assert same.figure == Unknown("larger copies do not take longer")
    assert same.quality is None


@pytest.mark.parametrize("is_short", [True, False])
def test_a_cache_s_roof_is_as_good_as_the_worse_of_its_copies(is_short: bool) -> None:
    slow = CALM._replace(seconds=2e-4)
    short, long = (DISTURBED, slow) if is_short else (CALM, DISTURBED._replace(seconds=2e-4))
    quality = roofs.difference_rate(MIB, short, long).quality
    assert quality is not None
    assert quality.why_not_good.startswith("0 of 100 pieces")


Rates = list[tuple[float, Pieces]]


@pytest.mark.parametrize(
    ("rates", "best", "why"),
    [
        ([(1e9, CALM), (2e9, CALM)], 1, ""),
        # The best, though a larger one is a little slower.
        ([(1e9, CALM), (2e9, CALM), (1.9e9, CALM)], 1, ""),
        # What was disturbed sets no roof, however fast it seems.
        ([(2e9, CALM), (2.1e9, CALM), (9e9, DISTURBED)], 1, ""),
        # It grew by half up to the last size that is good: the next would be faster still.
        ([(1e9, CALM), (1.5e9, CALM), (1e9, DISTURBED)], 1, "larger products may be faster"),
        ([(1e9, CALM), (9e9, DISTURBED)], 0, "larger products may be faster"),
        ([(1e9, DISTURBED), (3e9, DISTURBED)], 1, "0 of 100 pieces"),
    ],
)
def test_the_best_size_that_is_good_is_the_roof(rates: Rates, best: int, why: str) -> None:
    tried = [roofs.Tried(128 * 2**at, rate, pieces) for at, (rate, pieces) in enumerate(rates)]
    size, found = roofs.fastest_size(tried, "products")
    assert size == tried[best].size
    assert found.figure == tried[best].rate
    assert found.quality is not None
    assert found.quality.why_not_good.startswith(why)
    assert bool(found.quality.why_not_good) == bool(why)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(
    ("by_all", "by_one", "figure"),
    [
        ((30e9, GOOD), (20e9, GOOD), 30e9),
        # Where threads wait, one thread's rate times two.
        ((30e9, BUSY), (20e9, GOOD), 40e9),
        ((30e9, BAD), (20e9, GOOD), 40e9),
        # Neither is good.
        ((30e9, BAD), (20e9, BAD), 30e9),
        # All are as fast as one: torch does not share this work out, and two are no faster.
        ((21e9, BUSY), (20e9, GOOD), 21e9),
        ((17e9, BUSY), (20e9, GOOD), 17e9),
        # So much slower than one thread they were disturbed.
        ((16e9, BUSY), (20e9, GOOD), 40e9),
        ((25e9, BUSY), (20e9, GOOD), 40e9),
        # Seemingly not shared out, but what was disturbed proves nothing.
        ((19e9, BAD), (20e9, GOOD), 40e9),
    ],
)
def test_beside_busy_programs_one_thread_stands_for_all(
    by_all: tuple[float, RoofQuality], by_one: tuple[float, RoofQuality], figure: float
) -> None:
    def measure() -> Measured:
        return Measured(*(by_one if torch.get_num_threads() == 1 else by_all))

    found = roofs.by_all_or_one(measure)
    has_cores = roofs.has_core_for_each(2)
    assert found.figure == (figure if has_cores else by_all[0])
    assert found.quality is not None
    is_scaled = has_cores and figure == 40e9
    assert found.quality.scaled == ("one thread's rate times 2" if is_scaled else "")
    assert torch.get_num_threads() == 2


def test_where_threads_share_cores_one_does_not_stand_for_all() -> None:
    before, more = torch.get_num_threads(), len(allowed_cores()) + 1
    torch.set_num_threads(more)
    try:
        found = roofs.by_all_or_one(
            lambda: Measured(20e9 if torch.get_num_threads() == 1 else 30e9, BUSY)
        )
    finally:
        torch.set_num_threads(before)
    assert found == Measured(30e9, BUSY)


def test_two_threads_of_one_core_are_not_two_cores(tmp_path: Path) -> None:
    cores = sorted(allowed_cores())
    for core in cores:
        file = tmp_path / f"cpu{core}" / "topology" / "thread_siblings_list"
        file.parent.mkdir(parents=True)
        file.write_text("0-63\n")
    assert roofs.has_core_for_each(1, tmp_path)
    assert not roofs.has_core_for_each(2, tmp_path)
    for core in cores:
        (tmp_path / f"cpu{core}" / "topology" / "thread_siblings_list").write_text(f"{core}\n")
    assert roofs.has_core_for_each(len(cores), tmp_path)
    assert not roofs.has_core_for_each(len(cores) + 1, tmp_path)
    assert roofs.has_core_for_each(len(cores), tmp_path / "missing")
    assert not roofs.has_core_for_each(len(cores) + 1, tmp_path / "missing")
