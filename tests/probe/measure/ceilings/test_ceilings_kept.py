"""Which roofs are kept, for whom, and which are measured again: without measuring more than one."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter, time

import msgspec
import pytest
import torch
from msgspec.structs import replace

from tests.probe.measure.ceilings.test_ceilings import BAD, GOOD, made
from tui_profiler.messages import Cache, Ceiling, Ceilings, Unknown
from tui_profiler.probe.measure.ceilings import ceilings
from tui_profiler.probe.measure.devices.machine import allowed_cores, caches

THREADS = torch.get_num_threads()
SCALED = replace(GOOD, scaled="one thread's rate times 2")


def keep(folder: Path, found: Ceilings, *, tries: int = 1, tried_at: float | None = None) -> Path:
    """Write what an earlier start kept; give the file."""
    file, key = ceilings._file("cpu", THREADS, folder)
    kept = ceilings._Kept(key, found, tries, time() if tried_at is None else tried_at)
    file.write_bytes(msgspec.json.encode(kept))
    return file


def tries_in(file: Path) -> int:
    return int(msgspec.json.decode(file.read_bytes())["tries"])


def test_what_is_kept_is_for_the_same_threads_device_torch_and_precision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(tmp_path, made())
    assert ceilings.kept_ceilings("cpu", THREADS, tmp_path) is not None
    assert ceilings.kept_ceilings("cpu", THREADS + 1, tmp_path) is None
    assert ceilings.kept_ceilings("cpu:0", THREADS, tmp_path) is None
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium" if before != "medium" else "high")
    try:
        assert ceilings.kept_ceilings("cpu", THREADS, tmp_path) is None
    finally:
        torch.set_float32_matmul_precision(before)
    monkeypatch.setattr(torch, "__version__", "9.9.9")
    assert ceilings.kept_ceilings("cpu", THREADS, tmp_path) is None


def test_a_file_under_our_name_with_another_key_is_not_ours(tmp_path: Path) -> None:
    file = keep(tmp_path, made())
    kept = msgspec.json.decode(file.read_bytes())
    for place in range(len(kept["key"])):
        other = {**kept, "key": [*kept["key"]]}
        other["key"][place] = "another"
        file.write_bytes(msgspec.json.encode(other))
        assert ceilings.kept_ceilings("cpu", THREADS, tmp_path) is None


@pytest.mark.parametrize(
    "content",
    [b'{"key":["\xff"],"ceilings":{}}', b'{"another":' + b"[" * 100_000],
    ids=["no UTF-8", "deep"],
)
def test_a_file_that_no_reader_takes_keeps_nothing(tmp_path: Path, content: bytes) -> None:
    keep(tmp_path, made()).write_bytes(content)
    assert ceilings.kept_ceilings("cpu", THREADS, tmp_path) is None


def test_what_is_kept_took_no_time_now(tmp_path: Path) -> None:
    keep(tmp_path, made())
    assert made().seconds > 0
    assert ceilings.ceilings("cpu", THREADS, tmp_path).seconds == 0.0


def test_a_roof_is_measured_again_where_a_calmer_machine_would_give_a_better_one() -> None:
    def with_quality(quality: object) -> Ceilings:
        wide = Ceiling("float32", 100e9, quality)  # type: ignore[arg-type]  # or None
        return replace(made(), compute=(wide, *made().compute[1:]))

    assert ceilings.to_measure_again(made()) == set()
    assert ceilings.to_measure_again(with_quality(BAD)) == {"float32"}
    assert ceilings.to_measure_again(with_quality(None)) == {"float32"}
    # One thread's rate on a busy machine follows from less than it could; on a calm one, where the
    # cache is too small for all threads, it stays so.
    assert ceilings.to_measure_again(with_quality(replace(SCALED, busy=0.5))) == {"float32"}
    assert ceilings.to_measure_again(with_quality(SCALED)) == set()
    # What has no figure has none on a calm machine either.
    assert (
        ceilings.to_measure_again(
            replace(made(), memory_quality=None, bytes_per_second=Unknown(""))
        )
        == set()
    )


def test_tries_count_the_starts_in_a_row_after_which_a_roof_was_not_good(tmp_path: Path) -> None:
    file, key = ceilings._file("cpu", THREADS, tmp_path)
    for before, measured, tries in (
        (None, made(quality=BAD), 1),
        (ceilings._Kept(key, made(quality=BAD), 1), made(quality=BAD), 2),
        (ceilings._Kept(key, made(quality=BAD), 2), made(quality=BAD), 3),
        (ceilings._Kept(key, made(quality=BAD), 3), made(), 1),
    ):
        ceilings._keep("cpu", THREADS, tmp_path, measured, before, str)
        assert tries_in(file) == tries


def test_a_roof_that_cannot_be_measured_here_is_tried_three_times_and_then_rests(
    tmp_path: Path,
) -> None:
    """A dtype that this release measures no more: what was kept of it stays, and stays bad."""
    old = made()
    kept = replace(old, compute=(*old.compute, Ceiling("complex64", 50e9, BAD)))
    file = keep(tmp_path, kept)
    for tries in range(2, ceilings.MOST_TRIES + 1):
        found = ceilings.ceilings("cpu", THREADS, tmp_path)
        assert found.compute[: len(kept.compute)] == kept.compute
        assert tries_in(file) == tries
    stamp = file.stat().st_mtime_ns
    found = ceilings.ceilings("cpu", THREADS, tmp_path)
    assert found.compute[: len(kept.compute)] == kept.compute
    assert file.stat().st_mtime_ns == stamp


def test_what_has_no_figure_is_not_due(tmp_path: Path) -> None:
    """A calmer machine would give none either."""
    keep(tmp_path, replace(made(), op_seconds=Unknown("none"), op_quality=None))
    assert isinstance(ceilings.ceilings("cpu", THREADS, tmp_path).op_seconds, Unknown)


def test_what_cannot_be_so_is_mended_before_it_is_kept(tmp_path: Path) -> None:
    keep(tmp_path, replace(made(caches=(90e9, 100e9)), op_quality=BAD))
    found = ceilings.ceilings("cpu", THREADS, tmp_path)
    assert found.caches[0].bytes_per_second == 100e9
    kept = ceilings.kept_ceilings("cpu", THREADS, tmp_path)
    assert kept is not None
    assert kept.caches[0].bytes_per_second == 100e9


def test_each_cache_is_held_against_the_next_farther_one_that_has_a_figure() -> None:
    # L3 is the farther one, though memory would be no reason to doubt L2.
    found = ceilings.plausible(made(memory=10e9, caches=(95e9, 100e9)))
    assert found.caches[0].quality is not None
    assert found.caches[0].quality.raised_by == "L3 achieved 5 % more"
    without = made(memory=110e9, caches=(105e9, 0.0))
    without = replace(
        without,
        caches=(without.caches[0], replace(without.caches[1], bytes_per_second=Unknown(""))),
    )
    (near, _) = ceilings.plausible(without).caches
    assert near.bytes_per_second == 105e9, "less than 5 % above it is noise"
    (near, _) = ceilings.plausible(replace(without, bytes_per_second=120e9)).caches
    assert near.bytes_per_second == 120e9
    assert "L2" not in {
        name for name, why in ceilings.reasons(ceilings.plausible(without)).items() if why
    }


def test_measuring_nothing_takes_the_time_that_it_takes() -> None:
    began = perf_counter()
    found = ceilings.measure_ceilings("cpu", ("float32",), only=())
    assert 0 < found.seconds <= perf_counter() - began
    assert found.compute == (Ceiling("float32", Unknown("not measured now"), None),)
    levels = {cache.level for cache in caches(allowed_cores())} - {1}
    assert {one.level for one in found.caches} == levels


def test_a_copy_in_a_cache_is_larger_than_the_level_before_it() -> None:
    levels = (Cache(2, 2**21, 1, 64), Cache(3, 2**21, 1, 64))
    roofs = ceilings._cache_roofs(levels, 64)
    assert list(roofs) == ["L2", "L3"]
    farther = roofs["L3"]().measured.figure
    assert isinstance(farther, Unknown)
    assert "not much larger than the level before it" in farther.reason
