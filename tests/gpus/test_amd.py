"""AMD GPUs through the real amdsmi, over a library of ours in place of ROCm's.

Each test is a program in a fresh process, because amdsmi looks for its library when it is imported.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import msgspec
import pytest

from tests.gpus.fresh_program import build, run
from tui_profiler.messages import EccErrors, EnergyTotals, Gpu, GpuLinks, GpuProcess, Unknown

SOURCE = Path(__file__).with_name("fake_amd_smi.c")
PRELUDE = """
import ctypes, msgspec
from tui_profiler.gpus.amd import Amd

def show(reading):
    print(msgspec.json.encode(reading).decode(), flush=True)

fake = ctypes.CDLL("libamd_smi.so")
fake.fake_clock.argtypes = [ctypes.c_double]
amd = Amd()
"""
NOT_SUPPORTED, UNKNOWN_CODE, LOST, NOT_LOADED = 2, 99, 32, 34
NOT_TOLD = Unknown("this GPU does not report it")


def _stubs(written: str) -> str:
    """Return the functions that amdsmi binds when it is imported and the fake does not have."""
    package = importlib.util.find_spec("amdsmi")
    assert package is not None
    assert package.origin is not None
    bound = Path(package.origin).with_name("amdsmi_wrapper.py").read_text(encoding="utf-8")
    names = {*re.findall(r"_libraries\['libamd_smi\.so'\]\.(\w+)", bound)}
    own = {*re.findall(r"^(?:int|void) (amdsmi_\w+)\(", written, re.MULTILINE)}
    return "\n".join(f"int {name}(void) {{ return 2; }}" for name in sorted(names - own))


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("amdsmi") is None:
        pytest.skip("amdsmi is not installed")
    folder = tmp_path_factory.mktemp("rocm")
    written = SOURCE.read_text(encoding="utf-8")
    whole = folder / "whole.c"
    whole.write_text(f"{written}\n{_stubs(written)}\n")
    build(whole, folder / "libamd_smi.so")
    return folder


def readings(folder: Path, program: str) -> list[tuple[Gpu, ...] | Unknown]:
    told = run(folder, PRELUDE + program)
    return [msgspec.json.decode(line, type=tuple[Gpu, ...] | Unknown) for line in told]


def test_every_figure_is_in_the_unit_of_its_name(driver: Path) -> None:
    [(first, second)] = readings(driver, "fake.fake_clock(2.5); show(amd.gpus(0.0)); amd.close()")
    alone = Unknown("an AMD GPU reports its own power only")
    traffic = Unknown("not read: amdsmi blocks for 1 s per call")
    ever = Unknown("the AMD driver has no aggregate count")
    links = GpuLinks(*[Unknown("AMD's XGMI is not read")] * 6)
    no_share = Unknown("amdsmi does not report it per process")
    assert isinstance(first.energy_joules, float)
    assert first.energy_joules == pytest.approx(2.5 * 306)
    common = {
        "module_watts": alone,
        "memory_watts": alone,
        "energy_joules": first.energy_joules,
        "memory_clock_hertz": 1.3e9,
        "pcie_sent_bytes": traffic,
        "pcie_received_bytes": traffic,
        "pcie_width": 16,
        "ecc": EccErrors(9, 2, ever, ever),
        "links": links,
    }
    throttled = "power limit, HBM temperature"
    assert first == Gpu(
        *("AMD Instinct Fake 1", 0.64, 7 << 30, 192 << 30, 71, 430, 750, 2.1e9, throttled),
        index=0,
        uuid="aaff7400-0000-1000-80f3-2fe4a3d1b0c8",
        power_instant_watts=430,
        power_average_watts=NOT_TOLD,
        pcie_generation=5,
        processes=(GpuProcess(1234, 3 << 30, no_share), GpuProcess(4321, 1 << 30, no_share)),
        fan_share=NOT_TOLD,
        fan_rpm=NOT_TOLD,
        **common,
    )
    assert second == Gpu(
        *("AMD Instinct Fake 2", 0.65, 7 << 30, 192 << 30, 55, 205, 750, 2.1e9, NOT_TOLD),
        index=1,
        uuid="aaff7401-0000-1000-80f3-2fe4a3d1b0c8",
        power_instant_watts=NOT_TOLD,
        power_average_watts=205,
        pcie_generation=NOT_TOLD,
        processes=(),
        fan_share=0.4,
        fan_rpm=1320,
        **common,
    )


def test_a_figure_that_fails_is_unknown_on_that_gpu_only(driver: Path) -> None:
    program = f"""
fake.fake_fail(b"amdsmi_get_gpu_activity", 1, {NOT_SUPPORTED})
fake.fake_fail(b"amdsmi_get_power_info", 1, 10)
fake.fake_fail(b"amdsmi_get_pcie_info", 1, {UNKNOWN_CODE})
fake.fake_fail(b"amdsmi_get_gpu_asic_info", 1, {NOT_SUPPORTED})
show(amd.gpus(0.0))
"""
    [(first, second)] = readings(driver, program)
    assert (first.utilisation, first.power_watts, first.pcie_width) == (0.64, 430, 16)
    assert second.name == "AMD GPU"
    assert second.utilisation == NOT_TOLD
    assert second.power_watts == Unknown("permission denied (needs groups render and video)")
    assert isinstance(second.pcie_width, Unknown)
    assert second.pcie_width.reason.startswith("amdsmi error 99: AMDSMI_STATUS_UNKNOWN_ERROR")


def test_a_driver_that_is_lost_is_a_reason_and_is_opened_again_later(driver: Path) -> None:
    program = f"""
from pathlib import Path
import os
card = Path(os.environ["FAKE_FOLDER"]) / "drm" / "card0" / "device"
card.mkdir(parents=True, exist_ok=True)
(card / "vendor").write_text("0x1002\\n")
amd = Amd(cards=card.parents[1])
amd.gpus(0.0)
fake.fake_fail(b"amdsmi_get_gpu_activity", 0, {LOST})
show(amd.gpus(1.0))
fake.fake_mend()
fake.fake_fail(b"amdsmi_init", -1, {NOT_LOADED})
show(amd.gpus(30.9))
show(amd.gpus(31.0))
fake.fake_mend()
show(amd.gpus(61.0))
"""
    lost, early, absent, again = readings(driver, program)
    assert lost == early == Unknown("the AMD driver was lost")
    assert absent == Unknown("the AMD driver is not loaded")
    assert not isinstance(again, Unknown)
    assert [gpu.utilisation for gpu in again] == [0.64, 0.65]


def test_a_session_that_is_closed_ends_no_other(driver: Path) -> None:
    # As one GPU is looked up for a replay, while the samples go on and torch asks as well.
    program = """
import amdsmi
other = Amd()
other.gpus(0.0)
amdsmi.amdsmi_init()
amd.gpus(0.0)
amd.close()
show(other.gpus(1.0))
amdsmi.amdsmi_get_processor_handles()
show(amd.gpus(2.0))
"""
    for gpus in readings(driver, program):
        assert not isinstance(gpus, Unknown)
        assert [gpu.utilisation for gpu in gpus] == [0.64, 0.65]


def test_no_library_is_imported_or_looked_for_after_the_warm_up(driver: Path) -> None:
    # AMD's library is there, Intel's is not.
    (driver / "libze_loader.so.1").write_text("not a library")
    program = """
import sys
from tui_profiler.gpus.intel import Intel
from tui_profiler.probe.watch.preload import visit
visit()
heard = []
class Finder:
    def find_spec(self, name, *_):
        heard.append(name)
sys.meta_path.insert(0, Finder())
def hear(event, arguments):
    if event in ("import", "ctypes.dlopen"):
        heard.append(str(arguments[0]))
sys.addaudithook(hear)
show(amd.gpus(0.0))
drivers = [amd, Amd(), Intel()]
for now in (0.0, 31.0):
    for one in drivers:
        one.energy(now)
print(msgspec.json.encode(heard).decode())
"""
    shown, heard = run(driver, PRELUDE + program)
    assert len(msgspec.json.decode(shown)) == 2
    assert msgspec.json.decode(heard) == []


def test_what_throttles_many_gpus_is_asked_in_turns(driver: Path) -> None:
    program = """
fake.fake_gpus(8)
for second in range(4):
    asked = fake.fake_throttling_asked()
    gpus = amd.gpus(second)
    if not second:
        show(gpus)
    assert fake.fake_throttling_asked() - asked == 2
show(gpus)
"""
    first, gpus = readings(driver, program)
    throttled = "power limit, HBM temperature"
    assert not isinstance(first, Unknown)
    assert not isinstance(gpus, Unknown)
    assert [gpu.throttled_by for gpu in gpus] == [throttled, NOT_TOLD] * 4
    not_yet = Unknown("not asked yet: two GPUs per sample, in turns")
    assert [gpu.throttled_by for gpu in first].count(not_yet) == 6


def test_a_gpu_is_the_device_that_hip_counts(driver: Path) -> None:
    # torch tells the bytes of a UUID, which of HIP are the characters of the serial number.
    seen = [b"12ab34cd56ef7891".hex(), "00000000-0000-0000-0000-000000000000"]
    program = f"amd = Amd(cuda_uuids=lambda: {seen!r}); show(amd.gpus(0.0))"
    [(first, second)] = readings(driver, program)
    assert (first.cuda_index, second.cuda_index) == (None, 0)


def test_energy_is_counted_in_steps_of_each_counter(driver: Path) -> None:
    program = """
from tui_profiler.probe.measure.energy.meter import EnergyWatch
from tui_profiler.gpus.gpus import Gpus
seconds = 100.0
watch = EnergyWatch([Gpus(drivers=[amd])], lambda: seconds)
watch.become("running", lambda: seconds * 8)
for _ in range(200):
    seconds += 0.05
    fake.fake_clock(seconds)
    watch.look()
show(watch.totals())
watch.close()
"""
    [line] = run(driver, PRELUDE + program)
    first, second = msgspec.json.decode(line, type=tuple[EnergyTotals, ...])
    assert (first.name, second.name) == ("GPU 0: AMD Instinct Fake 1", "GPU 1: AMD Instinct Fake 2")
    assert (first.gpu, second.gpu, first.limit_watts) == (0, 1, 750)
    assert first.running.joules / first.running.seconds == pytest.approx(306, rel=0.01)


def test_samples_energy_and_the_viewer_have_the_numbers_of_the_process(driver: Path) -> None:
    program = """
from tui_profiler.gpus.gpus import NUMBERS, Gpus
NUMBERS.number("NVIDIA", 0)  # Numbered earlier, and no longer present.
for gpus in (Gpus(), Gpus()):
    show([one.index for one in gpus.gpus(0.0)])
    show([one.number for one in gpus.processes(0.0)])
    gpus.close()
show([one.gpu for one in Gpus().energy(0.0)])
"""
    lines = run(driver, PRELUDE + program)
    assert [msgspec.json.decode(line) for line in lines] == [[1, 2]] * 5


@pytest.mark.parametrize(
    ("vendor", "reason"),
    [
        ("0x1002", "libamd_smi.so of ROCm is not installed"),
        ("0x8086", "no AMD GPU on this machine"),
    ],
)
def test_no_library_is_a_reason_where_there_is_a_gpu(
    tmp_path: Path, vendor: str, reason: str
) -> None:
    (tmp_path / "libamd_smi.so").write_text("not a library")  # also hides a real one
    card = tmp_path / "card1" / "device"
    card.mkdir(parents=True)
    (card / "vendor").write_text(f"{vendor}\n")
    program = """
import os, sys, msgspec
from pathlib import Path
from tui_profiler.gpus.amd import Amd
print(msgspec.json.encode(Amd(cards=Path(os.environ["FAKE_FOLDER"])).gpus(0.0)).decode())
print("amdsmi" in sys.modules)
"""
    told, has_imported = run(tmp_path, program)
    assert msgspec.json.decode(told, type=Unknown).reason == reason
    assert has_imported == b"False"


def test_a_uuid_that_identifies_no_gpu_is_none(driver: Path) -> None:
    told = ("N/A", "00000000-0000-0000-0000-000000000000")
    program = "".join(
        f"fake.fake_uuid({uuid.encode()!r}); amd = Amd(); show(amd.gpus(0.0))\n" for uuid in told
    )
    for gpus in readings(driver, program):
        assert not isinstance(gpus, Unknown)
        assert [gpu.uuid for gpu in gpus] == ["", ""]
