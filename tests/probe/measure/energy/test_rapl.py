"""CPU package power over a tree of files like the kernel's."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tui_profiler.messages import Figure, Unknown
from tui_profiler.probe.measure.energy.rapl import Rapl, RaplEnergy

NOBODY = 65534
NEEDS_SECOND = Unknown("needs a second sample")


def domain(root: Path, number: str, name: str, *, energy: int, most: int = 262_143_328_850) -> Path:
    folder = root / f"intel-rapl:{number}"
    folder.mkdir()
    (folder / "name").write_text(f"{name}\n")
    (folder / "energy_uj").write_text(f"{energy}\n")
    (folder / "max_energy_range_uj").write_text(f"{most}\n")
    return folder


def count(folder: Path, energy: int) -> None:
    (folder / "energy_uj").write_text(f"{energy}\n")


@contextmanager
def ordinary_user() -> Iterator[None]:
    """Return up root, which no permission bit stops, for a moment."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_the_first_reading_needs_a_second(tmp_path: Path) -> None:
    domain(tmp_path, "0", "package-0", energy=5_000_000)

    assert Rapl(tmp_path).watts(100.0) == NEEDS_SECOND


def test_power_is_energy_over_time(tmp_path: Path) -> None:
    package = domain(tmp_path, "0", "package-0", energy=5_000_000)
    rapl = Rapl(tmp_path)
    rapl.watts(100.0)
    count(package, 95_000_000)

    assert rapl.watts(102.0) == 45.0  # 90 J in 2 s


def test_each_interval_begins_where_the_last_ended(tmp_path: Path) -> None:
    package = domain(tmp_path, "0", "package-0", energy=0)
    rapl = Rapl(tmp_path)
    rapl.watts(0.0)
    count(package, 10_000_000)
    rapl.watts(1.0)
    count(package, 40_000_000)

    assert rapl.watts(3.0) == 15.0


def test_packages_are_added_and_what_lies_in_or_around_them_is_not(tmp_path: Path) -> None:
    packages = [
        domain(tmp_path, "0", "package-0", energy=0),
        domain(tmp_path, "1", "package-1", energy=0),
    ]
    others = [
        domain(tmp_path, "0:0", "core", energy=0),
        domain(tmp_path, "0:1", "dram", energy=0),
        domain(tmp_path, "2", "psys", energy=0),
    ]
    (tmp_path / "intel-rapl").mkdir()
    rapl = Rapl(tmp_path)
    rapl.watts(0.0)
    for folder in packages:
        count(folder, 30_000_000)
    for folder in others:
        count(folder, 500_000_000)

    assert rapl.watts(1.0) == 60.0


def test_a_counter_that_began_again_is_carried_over(tmp_path: Path) -> None:
    package = domain(tmp_path, "0", "package-0", energy=990_000_000, most=1_000_000_000)
    rapl = Rapl(tmp_path)
    rapl.watts(0.0)
    count(package, 40_000_000)

    assert rapl.watts(1.0) == 50.0  # 10 J to the end of the range, 40 J after it


def test_two_calls_at_one_moment_give_the_last_figure(tmp_path: Path) -> None:
    package = domain(tmp_path, "0", "package-0", energy=0)
    rapl = Rapl(tmp_path)
    rapl.watts(0.0)
    count(package, 20_000_000)

    assert [rapl.watts(1.0), rapl.watts(1.0), rapl.watts(1.001)] == [20.0, 20.0, 20.0]


def test_after_a_long_gap_the_counter_may_have_wrapped_unseen(tmp_path: Path) -> None:
    package = domain(tmp_path, "0", "package-0", energy=0)
    rapl = Rapl(tmp_path)
    rapl.watts(0.0)
    count(package, 20_000_000)

    assert rapl.watts(61.0) == NEEDS_SECOND
    count(package, 50_000_000)
    assert rapl.watts(62.0) == 30.0


def test_after_a_long_gap_the_energy_is_unknown_once(tmp_path: Path) -> None:
    package = domain(tmp_path, "0", "package-0", energy=0)
    energy = RaplEnergy(tmp_path)

    def joules(now: float) -> Figure:
        found = energy.energy(now)
        assert not isinstance(found, Unknown)
        return found[0].joules

    joules(0.0)
    count(package, 20_000_000)
    found = joules(61.0)
    assert isinstance(found, Unknown)
    assert found.reason.startswith("RAPL counters were not read for over a minute")
    assert joules(62.0) == 20.0


def test_no_counters_is_a_reason(tmp_path: Path) -> None:
    absent = Unknown("no RAPL counters on this machine")

    assert Rapl(tmp_path).watts(0.0) == absent
    assert Rapl(tmp_path / "missing").watts(0.0) == absent


def test_counters_masked_by_a_container_are_a_reason(tmp_path: Path) -> None:
    (tmp_path / "intel-rapl:0").symlink_to(tmp_path / "masked")

    assert Rapl(tmp_path).watts(0.0) == Unknown("RAPL counters are hidden from this container")


def test_a_board_counter_is_not_a_package(tmp_path: Path) -> None:
    domain(tmp_path, "0", "psys", energy=0)

    assert Rapl(tmp_path).watts(0.0) == Unknown("no RAPL counter of a CPU package")


def test_counters_for_root_only_are_a_reason() -> None:
    # Not in tmp_path: pytest's own folder is closed to other users, which would be denied there.
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o755)
        (domain(root, "0", "package-0", energy=0) / "energy_uj").chmod(0o000)
        rapl = Rapl(root)
        with ordinary_user():
            watts = rapl.watts(0.0)

    assert watts == Unknown("RAPL counters need root")


def test_one_package_that_cannot_be_read_leaves_no_partial_sum(tmp_path: Path) -> None:
    package = domain(tmp_path, "0", "package-0", energy=0)
    broken = domain(tmp_path, "1", "package-1", energy=0) / "energy_uj"
    rapl = Rapl(tmp_path)
    rapl.watts(0.0)
    broken.unlink()
    broken.mkdir()
    count(package, 20_000_000)

    assert rapl.watts(1.0) == Unknown("RAPL counters cannot be read: Is a directory")


def test_a_counter_that_comes_back_starts_anew(tmp_path: Path) -> None:
    package = domain(tmp_path, "0", "package-0", energy=0)
    rapl = Rapl(tmp_path)
    rapl.watts(0.0)
    count(package, -1)
    assert rapl.watts(1.0) == Unknown("RAPL counters cannot be read: Invalid argument")
    count(package, 20_000_000)
    assert rapl.watts(2.0) == NEEDS_SECOND
    count(package, 30_000_000)

    assert rapl.watts(3.0) == 10.0


@pytest.mark.skipif(
    not Path("/sys/class/powercap/intel-rapl:0/energy_uj").exists(), reason="no RAPL here"
)
def test_this_machine_draws_a_believable_power() -> None:
    rapl = Rapl()
    began = time.monotonic()
    rapl.watts(began)
    while time.monotonic() < began + 0.1:
        pass
    watts = rapl.watts(time.monotonic())

    if isinstance(watts, Unknown):
        assert watts.reason in {"RAPL counters need root", "no RAPL counter of a CPU package"}
    else:
        assert 0 < watts < 2000
