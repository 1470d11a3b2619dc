"""A sample of benchmarks/hostile/hostile_files.py: no crash, no code run, every refusal told."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.archive.hostile.mutations import MUTATIONS, rezipped
from tests.archive.hostile.pickles import NEEDS_A_LOADER, malicious
from tests.archive.hostile.reader_process import Reader
from tests.archive.hostile.seeds import write_seeds
from tests.archive.hostile.structures import structures, write_places
from tests.archive.hostile.zips import torch_zip

SEED = 20
EACH = 16


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    made = Reader()
    yield made
    made.close()


def test_malicious_pickles_are_flagged_and_do_not_run(reader: Reader, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    pickles = malicious(canary)
    assert len(pickles) >= 30
    path = tmp_path / "p.pt"
    for name, data in pickles.items():
        for content in (data, torch_zip(data)):
            path.write_bytes(content)
            reading = reader.read(path)
            assert not reading.is_violation, (name, reading)
            assert not canary.exists(), name
            assert name in NEEDS_A_LOADER or reading.dangerous, name


def test_the_malicious_pickles_do_run_when_they_are_loaded(tmp_path: Path) -> None:
    # Or their canaries would prove nothing. Each in turn; those that end the process are apart.
    canary = tmp_path / "canary"
    ran = 0
    harmless_here = ("os_system", "stack_global", "inst", "obj", "build_setstate", "partial")
    for name in harmless_here:
        path = tmp_path / name
        path.write_bytes(malicious(canary)[name])
        code = f"import pickle; pickle.load(open({str(path)!r}, 'rb'))"
        subprocess.run([sys.executable, "-S", "-c", code], check=False, capture_output=True)
        ran += canary.exists()
        canary.unlink(missing_ok=True)
    assert ran == len(harmless_here)


def test_hostile_structures_are_refused_or_flagged(reader: Reader, tmp_path: Path) -> None:
    for name, data in structures(large=False).items():
        path = tmp_path / name
        path.write_bytes(data)
        reading = reader.read(path)
        assert not reading.is_violation, (name, reading)
        if reading.outcome != "found":
            assert reading.message, name


def test_places_where_a_reader_would_hang_are_refused(reader: Reader, tmp_path: Path) -> None:
    for path in write_places(tmp_path):
        reading = reader.read(path)
        assert reading.outcome in ("refused", "found with problems"), (path, reading)


def test_damaged_files_are_refused_flagged_or_sound(reader: Reader, tmp_path: Path) -> None:
    random = Random(SEED)
    seeds = write_seeds(tmp_path)
    for name, seed in seeds.items():
        data = seed.read_bytes()
        for number in range(EACH):
            mutation = MUTATIONS[number % len(MUTATIONS)]
            inside = data[:2] == b"PK" and number >= EACH // 2
            path = tmp_path / f"damaged-{name}"
            path.write_bytes(rezipped(data, random, mutation) if inside else mutation(data, random))
            reading = reader.read(path)
            assert not reading.is_violation, (name, mutation.__name__, number, reading)


def test_shapes_beyond_their_storage_are_not_listed(reader: Reader, tmp_path: Path) -> None:
    made = structures(large=False)
    for name in ("shape_2_62", "stride_overflows", "offset_beyond", "storage_claims_2_62"):
        path = tmp_path / name
        path.write_bytes(made[name])
        reading = reader.read(path)
        assert reading.tensors == 0, name
        assert reading.message.startswith("tensor 'weight': "), name


def test_reading_agrees_with_pickle_on_plain_values(tmp_path: Path) -> None:
    from tui_profiler.archive.pickles.reader import read_pickle
    from tui_profiler.archive.reading.file_region import open_file

    value = [1, -1, 2**40, 1.5, "text", ("a", (), [None, True, False]), "é", 300, -70_000]
    for protocol in range(6):
        path = tmp_path / f"p{protocol}"
        path.write_bytes(pickle.dumps(value, protocol))
        with open_file(path) as region:
            assert read_pickle(region).value == value


def test_calling_nothing_is_no_ordered_dict(tmp_path: Path) -> None:
    from tui_profiler.archive.pickles.reader import Made, read_pickle
    from tui_profiler.archive.reading.file_region import open_file

    path = tmp_path / "p"
    path.write_bytes(b"\x80\x02N)R.")
    with open_file(path) as region:
        assert isinstance(read_pickle(region).value, Made)
