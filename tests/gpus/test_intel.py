"""Intel GPUs through the real pyzes, over a library of ours in place of the Level Zero loader.

Each test is a program in a fresh process. pyzes 0.1 looks for the loader in Debian's folder only:
the programs open the fake under that path.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import msgspec
import pytest

from tests.gpus.fresh_program import build, run
from tui_profiler.messages import EccErrors, EnergyTotals, Gpu, GpuLinks, GpuProcess, Unknown

SOURCE = Path(__file__).with_name("fake_ze_loader.c")
PRELUDE = """
import ctypes, msgspec

class Opened(ctypes.CDLL):
    def __init__(self, name, *more, **others):
        is_loader = str(name).endswith("/libze_loader.so.1")
        super().__init__("libze_loader.so.1" if is_loader else name, *more, **others)

ctypes.CDLL = Opened
from tui_profiler.gpus.intel import Intel

def show(reading):
    print(msgspec.json.encode(reading).decode(), flush=True)

fake = ctypes.CDLL("libze_loader.so.1")
intel = Intel()
"""
NO_PERMISSION, LOST, UNNAMED, UNINITIALISED = 0x70010000, 0x70000001, 0x70000099, 0x78000001
NOT_TOLD = Unknown("this GPU does not report it")
AGAIN = Unknown("needs a second sample")


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("pyzes") is None:
        pytest.skip("pyzes is not installed")
    return build(SOURCE, tmp_path_factory.mktemp("level_zero") / "libze_loader.so.1")


def readings(folder: Path, program: str) -> list[tuple[Gpu, ...] | Unknown]:
    told = run(folder, PRELUDE + program)
    return [msgspec.json.decode(line, type=tuple[Gpu, ...] | Unknown) for line in told]


def test_every_figure_is_in_the_unit_of_its_name(driver: Path) -> None:
    program = "show(intel.gpus(0.0)); fake.fake_pass(500); show(intel.gpus(1.0))"
    (before, _), (first, second) = readings(driver, program)
    not_bound = Unknown("pyzes has no function for it")
    one_power = Unknown("only the power of the whole card is read")
    shared = Unknown("this GPU has no memory of its own")
    no_share = Unknown("Level Zero does not report it per process")
    rest = {
        "power_instant_watts": one_power,
        "module_watts": one_power,
        "memory_watts": one_power,
        "fan_share": not_bound,
        "fan_rpm": not_bound,
        "ecc": EccErrors(*[not_bound] * 4),
        "links": GpuLinks(*[not_bound] * 6),
    }
    throttled = "power limit, temperature, reason 0x4000"
    assert first == Gpu(
        *("Intel Fake GPU 1", 0.25, 6 << 30, 16 << 30, 66.5, 140, 190, 2.05e9, throttled),
        index=0,
        uuid="86" + 15 * "00",
        power_average_watts=140,
        energy_joules=1.5 * 140,
        memory_clock_hertz=1.2e9,
        pcie_sent_bytes=2e6,
        pcie_received_bytes=3e6,
        pcie_generation=4,
        pcie_width=16,
        processes=(GpuProcess(1234, 3 << 30, no_share), GpuProcess(4321, 1 << 30, no_share)),
        **rest,
    )
    assert second == Gpu(
        *("Intel Fake GPU 2", 0.2, shared, shared, NOT_TOLD, NOT_TOLD, NOT_TOLD, NOT_TOLD, ""),
        index=1,
        uuid="86" + 14 * "00" + "01",
        power_average_watts=NOT_TOLD,
        energy_joules=NOT_TOLD,
        memory_clock_hertz=NOT_TOLD,
        pcie_sent_bytes=NOT_TOLD,
        pcie_received_bytes=NOT_TOLD,
        pcie_generation=NOT_TOLD,
        pcie_width=NOT_TOLD,
        processes=(),
        **rest,
    )
    assert before.utilisation == before.power_watts == before.pcie_sent_bytes == AGAIN
    assert before.energy_joules == 140


def test_what_fails_is_unknown_on_that_gpu_only(driver: Path) -> None:
    program = f"""
intel.gpus(0.0)
fake.fake_pass(500)
fake.fake_fail(b"zesMemoryGetState", 0, {NO_PERMISSION})
fake.fake_fail(b"zesFrequencyGetState", 0, {LOST})
fake.fake_fail(b"zesDeviceProcessesGetState", 0, {UNNAMED})
show(intel.gpus(1.0))
"""
    [(first, second)] = readings(driver, program)
    assert first.memory_bytes == Unknown("permission denied (needs group render)")
    assert (first.clock_hertz, first.throttled_by) == (Unknown("the GPU was lost"),) * 2
    assert first.processes == Unknown("Level Zero error 0x70000099")
    assert (first.utilisation, second.utilisation, second.processes) == (0.25, 0.2, ())


def test_a_gpu_that_was_lost_is_looked_for_again(driver: Path) -> None:
    # Its frequency domain cannot be listed while it is lost: the handles of before are of no use.
    program = f"""
fake.fake_fail(b"zesDeviceEnumFrequencyDomains", 0, {LOST})
fake.fake_fail(b"zesDevicePciGetState", 0, {LOST})
show(intel.gpus(0.0))
fake.fake_mend()
show(intel.gpus(29.0))
show(intel.gpus(30.0))
fake.fake_pass(500)
show(intel.gpus(61.0))
"""
    lost, early, again, later = readings(driver, program)
    assert not any(isinstance(one, Unknown) for one in (lost, early, again, later))
    assert lost[0].pcie_width == Unknown("the GPU was lost")
    assert early[0].clock_hertz == NOT_TOLD
    assert [gpu.clock_hertz for gpu in again] == [2.05e9, NOT_TOLD]
    assert again[0].power_watts == AGAIN
    assert later[0].power_watts == 140  # The same handles: they were listed once.


def test_a_driver_that_does_not_start_is_a_reason_and_is_tried_again(driver: Path) -> None:
    program = f"""
import os
from pathlib import Path
card = Path(os.environ["FAKE_FOLDER"]) / "drm" / "card0" / "device"
card.mkdir(parents=True, exist_ok=True)
(card / "vendor").write_text("0x8086\\n")
intel = Intel(cards=card.parents[1])
fake.fake_fail(b"zesInit", -1, {UNINITIALISED})
show(intel.gpus(0.0))
fake.fake_mend()
show(intel.gpus(29.0))
show(intel.gpus(30.0))
"""
    failed, early, again = readings(driver, program)
    assert failed == early == Unknown("the Intel driver is not loaded")
    assert not isinstance(again, Unknown)
    assert len(again) == 2  # The processor, which Sysman lists too, is not a GPU.


def test_energy_is_counted(driver: Path) -> None:
    program = """
from tui_profiler.probe.measure.energy.meter import EnergyWatch
from tui_profiler.gpus.gpus import Gpus
seconds = 100.0
watch = EnergyWatch([Gpus(drivers=[intel])], lambda: seconds)
watch.become("running", lambda: seconds * 8)
for _ in range(200):
    seconds += 0.05
    fake.fake_pass(50)
    watch.look()
show(watch.totals())
watch.close()
"""
    [line] = run(driver, PRELUDE + program)
    [first] = msgspec.json.decode(line, type=tuple[EnergyTotals, ...])
    assert (first.name, first.gpu, first.limit_watts) == ("GPU 0: Intel Fake GPU 1", 0, 190)
    assert first.running.joules / first.running.seconds == pytest.approx(140, rel=0.01)


@pytest.mark.parametrize(
    ("vendor", "reason"),
    [
        ("0x8086", "libze_loader.so.1 of Level Zero is not installed"),
        ("0x1002", "no Intel GPU on this machine"),
    ],
)
def test_no_loader_is_a_reason_where_there_is_a_gpu(
    tmp_path: Path, vendor: str, reason: str
) -> None:
    (tmp_path / "libze_loader.so.1").write_text("not a library")  # also hides a real one
    card = tmp_path / "card1" / "device"
    card.mkdir(parents=True)
    (card / "vendor").write_text(f"{vendor}\n")
    program = """
import os, sys, msgspec
from pathlib import Path
from tui_profiler.gpus.intel import Intel
print(msgspec.json.encode(Intel(cards=Path(os.environ["FAKE_FOLDER"])).gpus(0.0)).decode())
print("pyzes" in sys.modules)
"""
    told, has_imported = run(tmp_path, program)
    assert msgspec.json.decode(told, type=Unknown).reason == reason
    assert has_imported == b"False"


def test_a_uuid_of_zeros_identifies_no_gpu(driver: Path) -> None:
    (gpus,) = readings(driver, "fake.fake_no_uuid(); show(intel.gpus(0.0))")
    assert not isinstance(gpus, Unknown)
    assert [gpu.uuid for gpu in gpus] == ["", ""]
