from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import msgspec
import pytest
import torch

from tui_profiler.messages import Ceiling, Ceilings, Unknown
from tui_profiler.probe.measure.ceilings import (
    BUSY_CORES,
    MOST_TRIES,
    best,
    ceilings,
    kept_ceilings,
    measure_again,
    measure_ceilings,
)
from tui_profiler.probe.measure.roofs import copy_rate, last_level_cache_bytes, product_rate

CPU = torch.device("cpu")
NONE = Unknown("none")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def kept_for_good(threads: int, folder: Path) -> Ceilings:
    """Give what is kept once it is: a machine that is busy is measured up to three times."""
    for _ in range(MOST_TRIES):
        measured = ceilings("cpu", threads, folder)
        if measured.busy <= BUSY_CORES:
            break
    return measured


@pytest.fixture(scope="module")
def measured(folder: Path) -> Ceilings:
    return kept_for_good(torch.get_num_threads(), folder / "new")


def kept_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*"))


def test_every_dtype_has_a_rate_or_a_reason(measured: Ceilings) -> None:
    assert [one.dtype for one in measured.compute] == ["float32", "bfloat16", "float16"]
    for one in measured.compute:
        rate = one.flops_per_second
        assert rate.reason if isinstance(rate, Unknown) else rate > 1e7


def test_it_takes_seconds(measured: Ceilings) -> None:
    # The budgets add up to 1.5 s; a machine that is slow and busy with other things takes longer.
    assert 0 < measured.seconds < 60


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
        rate = product_rate("float32", CPU)
        assert isinstance(rate, float)
        return 2 * 512**3 / median_seconds(lambda: torch.mm(a, b)) < 2 * rate

    # A machine that is busy during one of the two measurements, and not during the other, says
    # nothing of either.
    assert any(holds() for _ in range(4))


def test_no_copy_of_our_own_is_much_faster_than_the_ceiling() -> None:
    source = torch.ones(64 * 2**20 // 4)
    target = torch.empty_like(source)

    def holds() -> bool:
        rate = copy_rate(CPU)
        assert isinstance(rate, float)
        return 2 * 64 * 2**20 / median_seconds(lambda: target.copy_(source)) < 3 * rate

    assert any(holds() for _ in range(4))


def test_one_operator_takes_less_than_one_that_works(measured: Ceilings) -> None:
    x = torch.ones(1_000_000)
    began = perf_counter()
    torch.relu(x)
    assert isinstance(measured.op_seconds, float)
    assert 1e-8 < measured.op_seconds < perf_counter() - began


def test_what_was_measured_is_kept(folder: Path, measured: Ceilings) -> None:
    again = ceilings("cpu", measured.threads, folder / "new")
    assert again == msgspec.structs.replace(measured, seconds=0.0)
    assert len(kept_files(folder / "new")) == 1


def test_measuring_again_replaces_what_is_kept(folder: Path, measured: Ceilings) -> None:
    new = measure_again("cpu", measured.threads, folder / "new")
    assert new.measured_at > measured.measured_at
    assert kept_for_good(measured.threads, folder / "new").measured_at >= new.measured_at
    assert len(kept_files(folder / "new")) == 1


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


def test_what_cannot_be_read_is_measured_again(
    folder: Path, measured: Ceilings, tmp_path: Path
) -> None:
    (name,) = kept_files(folder / "new")
    (tmp_path / name.name).write_bytes(b"{")
    assert kept_for_good(measured.threads, tmp_path).seconds > 0
    assert ceilings("cpu", measured.threads, tmp_path).seconds == 0


def test_what_another_host_kept_is_not_ours(
    folder: Path, measured: Ceilings, tmp_path: Path
) -> None:
    (file,) = kept_files(folder / "new")
    kept = msgspec.json.decode(file.read_bytes())
    kept["key"][0] = "another-host"
    (tmp_path / file.name).write_bytes(msgspec.json.encode(kept))
    assert ceilings("cpu", measured.threads, tmp_path).seconds > 0


def test_a_folder_that_cannot_be_written_keeps_nothing_and_fails_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert ceilings("cpu", 1, tmp_path / "file").seconds > 0
    assert kept_files(tmp_path) == [tmp_path / "file"]


def test_threads_and_random_numbers_are_left_as_found(tmp_path: Path) -> None:
    torch.manual_seed(3)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    found = measure_again("cpu", threads + 1, tmp_path)
    assert found.threads == threads + 1
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.is_grad_enabled()


def test_a_dtype_without_products_says_why() -> None:
    found = measure_ceilings("cpu", ("bool", "nonsense"))
    reasons = [one.flops_per_second for one in found.compute]
    assert all(isinstance(reason, Unknown) for reason in reasons)
    assert "bool" in str(reasons[0])
    assert reasons[1] == Unknown("torch has no dtype nonsense")


def test_a_slow_dtype_does_not_take_minutes() -> None:
    began = perf_counter()
    product_rate("float16", CPU)
    assert perf_counter() - began < 60


def test_the_last_level_cache_is_the_largest(tmp_path: Path) -> None:
    for place, size in enumerate(["32K", "32K", "1024K", "36M", "nonsense"]):
        (tmp_path / f"index{place}").mkdir()
        (tmp_path / f"index{place}" / "size").write_text(f"{size}\n")
    assert last_level_cache_bytes(CPU, tmp_path) == 36 * 2**20
    assert last_level_cache_bytes(CPU, tmp_path / "missing") == 0


def test_the_higher_roof_of_two_measurements_counts() -> None:
    low = Ceilings(
        "cpu", 2, (Ceiling("float32", 1e9), Ceiling("int8", NONE)), 5e9, 2e-6, 1.0, 2.0, 1.5
    )
    high = Ceilings(
        "cpu", 2, (Ceiling("float32", 2e9), Ceiling("int8", NONE)), 3e9, 1e-6, 9.0, 2.0, 0.0
    )
    for found in (best(low, high), best(high, low)):
        assert found.compute == high.compute
        assert found.bytes_per_second == 5e9
        assert found.op_seconds == 1e-6
        assert found.busy == 0.0
    assert best(low, high).measured_at == 9.0


def test_what_a_busy_machine_gave_is_measured_again_at_most_three_times(
    folder: Path, measured: Ceilings, tmp_path: Path
) -> None:
    (file,) = kept_files(folder / "new")
    kept = msgspec.json.decode(file.read_bytes())
    kept["ceilings"][-1], kept["tries"] = 1.0, MOST_TRIES
    (tmp_path / file.name).write_bytes(msgspec.json.encode(kept))
    assert ceilings("cpu", measured.threads, tmp_path).seconds == 0
    kept["tries"] = MOST_TRIES - 1
    (tmp_path / file.name).write_bytes(msgspec.json.encode(kept))
    assert ceilings("cpu", measured.threads, tmp_path).seconds > 0
    assert ceilings("cpu", measured.threads, tmp_path).seconds == 0
