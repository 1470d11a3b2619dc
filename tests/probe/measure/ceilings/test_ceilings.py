from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, thread_time, time

import msgspec
import pytest
import torch
from msgspec.structs import replace

from tui_profiler.messages import (
    Cache,
    CacheCeiling,
    Ceiling,
    Ceilings,
    Figure,
    RoofQuality,
    Unknown,
)
from tui_profiler.probe.measure.ceilings.ceilings import (
    MOST_TRIES,
    are_due,
    ceilings,
    keep_raised,
    kept_ceilings,
    measure_again,
    measure_ceilings,
    merged,
    plausible,
    raised,
    reasons,
)
from tui_profiler.probe.measure.ceilings.roofs import (
    all_together,
    cache_rounds,
    last_level_cache_bytes,
    level_bytes,
    product_rounds,
)
from tui_profiler.probe.measure.ceilings.rounds import Measured, in_rounds, of_rounds
from tui_profiler.probe.measure.devices.machine import allowed_cores, caches

CPU = torch.device("cpu")
NONE = Unknown("none")
GOOD = RoofQuality(measured_at=1.0, busy=0.0, pieces=100, undisturbed=100)
BAD = replace(GOOD, busy=0.9, why_not_good="0 of 100 pieces ran without waiting for a core")


def made(
    wide: Figure = 100e9,
    narrow: Figure = 200e9,
    memory: Figure = 10e9,
    caches: tuple[float, float] = (200e9, 100e9),
    quality: RoofQuality = GOOD,
) -> Ceilings:
    return Ceilings(
        "cpu",
        torch.get_num_threads(),
        (
            Ceiling("float32", wide, quality),
            Ceiling("bfloat16", narrow, quality),
            Ceiling("float16", NONE),
        ),
        memory,
        1e-6,
        measured_at=time(),
        seconds=2.0,
        memory_quality=quality,
        op_quality=quality,
        caches=tuple(
            CacheCeiling(level, 2**20 * 16**level, rate, quality)
            for level, rate in zip((2, 3), caches, strict=True)
        ),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def measured(folder: Path) -> Ceilings:
    return ceilings("cpu", torch.get_num_threads(), folder / "new")


def keep(folder: Path, file: Path, found: Ceilings, *, tries: int, tried_at: float) -> None:
    """Write what an earlier start kept, over the file of a real one."""
    kept = msgspec.json.decode(file.read_bytes())
    kept["ceilings"] = msgspec.json.decode(msgspec.json.encode(found))
    kept["tries"], kept["tried_at"] = tries, tried_at
    (folder / file.name).write_bytes(msgspec.json.encode(kept))


def kept_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*"))


def test_every_dtype_has_a_rate_or_a_reason(measured: Ceilings) -> None:
    assert [one.dtype for one in measured.compute] == [
        "float32",
        "bfloat16",
        "float16",
        "float64",
    ]
    for one in measured.compute:
        rate = one.flops_per_second
        assert rate.reason if isinstance(rate, Unknown) else rate > 1e7


def test_one_operator_takes_less_than_one_that_works(measured: Ceilings) -> None:
    x = torch.ones(1_000_000)
    began = perf_counter()
    torch.relu(x)
    assert isinstance(measured.op_seconds, float)
    assert 1e-8 < measured.op_seconds < perf_counter() - began


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b"[]", b'{"key": [], "ceilings": ["Tick"]}', b"[" * 100_000]
)
def test_a_file_that_cannot_be_read_keeps_nothing(
    folder: Path, measured: Ceilings, tmp_path: Path, content: bytes
) -> None:
    (name,) = kept_files(folder / "new")
    assert kept_ceilings("cpu", measured.threads, folder / "new") is not None
    (tmp_path / name.name).write_bytes(content)
    assert kept_ceilings("cpu", measured.threads, tmp_path) is None


def test_what_another_host_kept_is_not_ours(
    folder: Path, measured: Ceilings, tmp_path: Path
) -> None:
    (file,) = kept_files(folder / "new")
    kept = msgspec.json.decode(file.read_bytes())
    kept["key"][0] = "another-host"
    (tmp_path / file.name).write_bytes(msgspec.json.encode(kept))
    assert kept_ceilings("cpu", measured.threads, tmp_path) is None
    assert are_due("cpu", measured.threads, tmp_path)


def test_a_folder_that_cannot_be_written_keeps_nothing_and_fails_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    refused: list[str] = []
    assert ceilings("cpu", 1, tmp_path / "file", refused=refused.append).seconds > 0
    assert refused == [f"{tmp_path / 'file'}: Not a directory"]
    assert kept_files(tmp_path) == [tmp_path / "file"]


def test_a_dtype_without_products_says_why() -> None:
    found = measure_ceilings("cpu", ("bool", "nonsense"), {"bool", "nonsense"})
    reasons = [one.flops_per_second for one in found.compute]
    assert all(isinstance(reason, Unknown) for reason in reasons)
    assert "bool" in str(reasons[0])
    assert reasons[1] == Unknown("torch has no dtype nonsense")


def test_a_slow_dtype_does_not_take_minutes() -> None:
    began = perf_counter()
    product_rounds("float16", CPU)()
    assert perf_counter() - began < 60


def test_the_last_level_cache_is_the_largest() -> None:
    found = caches(allowed_cores())
    assert last_level_cache_bytes(CPU) == (found[-1].bytes if found else 0)


def median_seconds(action: Callable[[], object]) -> float:
    seconds = []
    for _ in range(5):
        began = perf_counter()
        action()
        seconds.append(perf_counter() - began)
    return sorted(seconds)[2]


def test_no_product_of_our_own_is_much_faster_than_the_ceiling() -> None:
    a, b = torch.rand(2, 512, 512)

    def holds() -> bool:
        found = measure_ceilings("cpu", ("float32",), {"float32"})
        figure = found.compute[0].flops_per_second
        assert isinstance(figure, float)
        fast = 2 * 512**3 / median_seconds(lambda: torch.mm(a, b))
        return bool(reasons(found)["float32"]) or fast < 1.5 * figure

    assert any(holds() for _ in range(2))


def has_products_of(dtype: str) -> bool:
    """Tell whether torch leaves products of 16 bits to oneDNN; its own are slow.

    oneDNN needs AVX-512 for bfloat16, AMX or AVX-512 with FP16 for float16.
    """
    supported = {
        "float16": torch.ops.mkldnn._is_mkldnn_fp16_supported,
        "bfloat16": torch.ops.mkldnn._is_mkldnn_bf16_supported,
    }
    found: bool = supported[dtype]()
    return found


@contextmanager
def busy_cores(count: int) -> Iterator[None]:
    """Keep so many other programs running."""
    command = [sys.executable, "-S", "-c", "print(flush=True)\nwhile True: pass"]
    programs = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(count)]
    try:
        for program in programs:
            assert program.stdout is not None
            program.stdout.readline()
        yield
    finally:
        for program in programs:
            program.kill()
            program.communicate()


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_beside_busy_programs_no_roof_counts_threads_that_do_not_share_the_product(
    dtype: str,
) -> None:
    """Where torch leaves a product to one thread, as 16 bits on processors without them.

    The work of the thread that asks for a product bounds what all threads can do, however busy the
    machine: its own clock counts its part of the work, and nothing that it waits for.
    """
    kind = getattr(torch, dtype)
    is_slow = dtype != "float32" and not has_products_of(dtype)
    shapes = [128, 256] if is_slow else [256, 512, 1024]

    def part_rate(size: int) -> float:
        a, b = torch.rand(2, size, size).to(kind)
        seconds: list[float] = []
        while len(seconds) < 12 or sum(seconds) < 0.1:
            began = thread_time()
            torch.mm(a, b)
            seconds.append(thread_time() - began)
        return 2 * size**3 / min(seconds)

    def holds() -> bool:
        with busy_cores(4):
            found = of_rounds(in_rounds({dtype: product_rounds(dtype, CPU)})[dtype])
        assert isinstance(found.figure, float)
        assert found.quality is not None
        most = max(map(part_rate, shapes))
        return bool(found.quality.why_not_good) or found.figure < 1.5 * most

    assert any(holds() for _ in range(2))


def test_no_copy_of_our_own_is_much_faster_than_the_ceiling() -> None:
    source = torch.ones(64 * 2**20 // 4)
    target = torch.empty_like(source)

    def holds() -> bool:
        found = measure_ceilings("cpu", (), {"memory"})
        assert isinstance(found.bytes_per_second, float)
        fast = 2 * 64 * 2**20 / median_seconds(lambda: target.copy_(source))
        return bool(reasons(found)["memory"]) or fast < 1.5 * found.bytes_per_second

    assert any(holds() for _ in range(2))


def test_what_was_measured_is_kept(folder: Path, measured: Ceilings) -> None:
    kept = kept_ceilings("cpu", measured.threads, folder / "new")
    assert kept == replace(measured, seconds=0.0)
    assert len(kept_files(folder / "new")) == 1


def test_a_roof_has_a_quality_where_it_has_a_figure(measured: Ceilings) -> None:
    roofs: list[tuple[Figure, RoofQuality | None]] = [
        *((one.flops_per_second, one.quality) for one in measured.compute),
        *((one.bytes_per_second, one.quality) for one in measured.caches),
        (measured.bytes_per_second, measured.memory_quality),
        (measured.op_seconds, measured.op_quality),
    ]
    for figure, quality in roofs:
        assert (quality is None) == isinstance(figure, Unknown)
        assert quality is None or 0 <= quality.busy <= 1
    assert measured.memory_quality is not None
    assert measured.waits_from


def test_good_roofs_are_measured_once(folder: Path, measured: Ceilings, tmp_path: Path) -> None:
    (file,) = kept_files(folder / "new")
    keep(tmp_path, file, made(), tries=1, tried_at=time())
    assert not are_due("cpu", measured.threads, tmp_path)
    kept = kept_ceilings("cpu", measured.threads, tmp_path)
    assert kept is not None
    assert ceilings("cpu", measured.threads, tmp_path) == replace(kept, seconds=0.0)


def test_only_what_is_not_good_enough_is_measured_again(
    folder: Path, measured: Ceilings, tmp_path: Path
) -> None:
    (file,) = kept_files(folder / "new")
    doubtful = replace(made(memory=2e9), op_quality=BAD, op_seconds=1.0)
    keep(tmp_path, file, doubtful, tries=1, tried_at=time())
    assert are_due("cpu", measured.threads, tmp_path)
    found = ceilings("cpu", measured.threads, tmp_path)
    assert found.seconds > 0
    assert isinstance(found.op_seconds, float)
    assert found.op_seconds < 1.0
    assert found.compute[: len(doubtful.compute)] == doubtful.compute
    assert found.bytes_per_second == 2e9


def test_a_machine_that_stays_busy_is_tried_at_most_every_ten_minutes(
    folder: Path, measured: Ceilings, tmp_path: Path
) -> None:
    (file,) = kept_files(folder / "new")
    doubtful = replace(made(), op_quality=BAD)
    for tries, tried_at, is_due in (
        (MOST_TRIES - 1, time(), True),
        (MOST_TRIES, time(), False),
        (MOST_TRIES, time() - 700, True),
        (MOST_TRIES, time() + 700, True),
    ):
        keep(tmp_path, file, doubtful, tries=tries, tried_at=tried_at)
        assert are_due("cpu", measured.threads, tmp_path) == is_due


@pytest.mark.usefixtures("two_threads")
def test_measuring_again_measures_everything_and_leaves_threads_and_random_numbers(
    folder: Path, measured: Ceilings, tmp_path: Path
) -> None:
    """What has no figure, too, which is never due: a calmer machine would give none either."""
    torch.manual_seed(3)
    state = torch.get_rng_state()
    (file,) = kept_files(folder / "new")
    low = replace(made(1.0, 1.0, 1.0, (1.0, 1.0), BAD), op_seconds=NONE, op_quality=None)
    keep(tmp_path, file, low, tries=1, tried_at=time())
    found = measure_again("cpu", measured.threads, tmp_path)
    rates = [one.flops_per_second for one in found.compute[:1]]
    rates += [found.bytes_per_second, *(one.bytes_per_second for one in found.caches)]
    assert all(isinstance(rate, Unknown) or rate > 1.0 for rate in rates)
    assert isinstance(found.op_seconds, float)
    assert kept_ceilings("cpu", measured.threads, tmp_path) == replace(found, seconds=0.0)
    assert found.threads == measured.threads != torch.get_num_threads() == 2
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.is_grad_enabled()


@pytest.mark.parametrize(
    ("before", "now", "kept"),
    [
        ((2e9, GOOD), (3e9, GOOD), 3e9),
        ((3e9, GOOD), (2e9, GOOD), 2e9),
        ((2e9, GOOD), (3e9, BAD), 2e9),
        ((3e9, BAD), (2e9, GOOD), 2e9),
        ((3e9, BAD), (2e9, BAD), 3e9),
        ((2e9, BAD), (3e9, BAD), 3e9),
        ((2e9, BAD), (NONE, None), 2e9),
    ],
)
def test_a_good_roof_is_replaced_by_a_good_one_alone(
    before: tuple[float, RoofQuality], now: tuple[Figure, RoofQuality | None], kept: float
) -> None:
    old = replace(made(memory=before[0]), memory_quality=before[1])
    new = replace(made(memory=now[0]), memory_quality=now[1])
    assert merged(old, new).bytes_per_second == kept


def test_of_two_times_of_an_operator_that_are_not_good_the_shorter_counts() -> None:
    old, new = replace(made(quality=BAD), op_seconds=2e-6), made(quality=BAD)
    assert merged(old, new).op_seconds == merged(new, old).op_seconds == 1e-6


def test_a_16_bit_rate_of_a_thousand_times_float32_is_not_believed() -> None:
    found = plausible(made(wide=1e9, narrow=1027e9))
    why = reasons(found)
    assert why["float32"] == "bfloat16 is 1027 times as fast, and no hardware does more than 40"
    assert not why["bfloat16"]
    assert not any(reasons(plausible(made(wide=1e9, narrow=32e9))).values())


def test_a_nearer_cache_moves_at_least_what_a_farther_one_does() -> None:
    mended = plausible(made(caches=(90e9, 100e9)))
    assert [one.bytes_per_second for one in mended.caches] == [100e9, 100e9]
    assert mended.caches[0].quality is not None
    assert mended.caches[0].quality.raised_by == "L3 achieved 11 % more"
    doubted = plausible(made(caches=(50e9, 100e9)))
    assert reasons(doubted)["L2"] == "L3 achieved 2.0 times of it"
    assert reasons(plausible(made(memory=150e9)))["L3"] == "memory achieved 1.5 times of it"


@pytest.mark.parametrize("name", ["float32", "memory", "L3"])
def test_a_node_that_exceeds_a_roof_raises_it_and_far_above_it_is_not_believed(name: str) -> None:
    roofs = {"float32": 100e9, "memory": 10e9, "L3": 100e9}
    found = made()
    same = raised(found, name, 1.04 * roofs[name], "conv1")
    assert same is found
    higher = raised(found, name, 1.2 * roofs[name], "conv1")
    assert not any(reasons(higher).values())
    assert "conv1 achieved 20 % more" in str(higher)
    assert (
        "conv1 achieved 3.0 times of it"
        in reasons(raised(found, name, 3 * roofs[name], "conv1"))[name]
    )
    assert raised(found, "float64", 1e15, "conv1") is found


def test_a_raised_roof_is_kept(folder: Path, measured: Ceilings, tmp_path: Path) -> None:
    (file,) = kept_files(folder / "new")
    found = made()
    keep(tmp_path, file, found, tries=1, tried_at=time())
    higher = raised(found, "memory", 11e9, "conv1")
    keep_raised(higher, tmp_path)
    kept = kept_ceilings("cpu", measured.threads, tmp_path)
    assert kept is not None
    assert kept.bytes_per_second == 11e9
    keep_raised(replace(found, measured_at=5.0), tmp_path)
    assert kept_ceilings("cpu", measured.threads, tmp_path) == kept


def test_a_cache_serves_the_threads_that_share_it() -> None:
    own, shared = Cache(2, 2**20, 1, 8), Cache(3, 2**25, 4, 2)
    assert [level_bytes(own, threads) for threads in (1, 2, 64)] == [2**20, 2**21, 2**23]
    assert [level_bytes(shared, threads) for threads in (1, 4, 5, 64)] == [
        2**25,
        2**25,
        2**26,
        2**26,
    ]


def test_a_cache_that_is_hardly_larger_than_the_one_before_it_has_no_roof() -> None:
    found = cache_rounds(Cache(3, 2**21, 2, 1), 2, 2**21)().measured
    assert found.quality is None
    assert found.figure == Unknown("L3 is not much larger than the level before it, for 2 threads")


@pytest.fixture
def two_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)


BUSY = replace(GOOD, busy=0.5)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(
    ("by_all", "figure", "why"),
    [
        ((30e9, GOOD), 30e9, ""),
        ((30e9, BUSY), 30e9, ""),
        ((1e9, BAD), 20e9, "one thread's rate; of 2 together 0 of 100 pieces ran without"),
    ],
)
def test_memory_is_measured_by_all_threads_or_is_not_good_enough(
    by_all: tuple[float, RoofQuality], figure: float, why: str
) -> None:
    def measure() -> Measured:
        # One thread alone has 20 GB/s.
        return Measured(20e9, BUSY) if torch.get_num_threads() == 1 else Measured(*by_all)

    found = all_together(measure)
    assert found.figure == figure
    assert found.quality is not None
    assert found.quality.why_not_good.startswith(why)
    assert bool(why) == bool(found.quality.why_not_good)
    assert torch.get_num_threads() == 2
