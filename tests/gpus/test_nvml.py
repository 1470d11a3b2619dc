"""NVML through the real pynvml, over a library of ours in place of the driver's.

Each test is a program in a fresh process, because the loader looks for the library once. In it,
``fake`` are the library's controls and ``show`` prints a reading.
"""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec
import pynvml
import pytest

from tests.gpus import fresh_program
from tui_profiler.gpus.watch import GpuWatch
from tui_profiler.messages import (
    EccErrors,
    EnergyTotals,
    Gpu,
    GpuLinks,
    GpuProcess,
    GpuProgramsUnknown,
    GpuProgramUse,
    MigDevice,
    Unknown,
)

SOURCE = Path(__file__).with_name("fake_nvml.c")
HAS_TEMPERATURE_V = hasattr(pynvml, "nvmlDeviceGetTemperatureV")
"""Whether nvidia-ml-py has it; 12.560, the lowest that is supported, does not."""
HAS_FAN_RPM = hasattr(pynvml, "nvmlDeviceGetFanSpeedRPM")
OLD = Unknown("this NVIDIA driver does not report it")
PRELUDE = """
import ctypes, msgspec
from tui_profiler.gpus.gpus import Gpus
from tui_profiler.gpus.nvml import Nvml
from tui_profiler.gpus.watch import GpuWatch

def show(reading):
    print(msgspec.json.encode(reading).decode(), flush=True)

fake = ctypes.CDLL("libnvidia-ml.so.1")
fake.fake_clock_reasons.argtypes = [ctypes.c_ulonglong]
fake.fake_clock.argtypes = [ctypes.c_double]
nvml = Nvml()
"""
FIGURES = [
    name
    for name in Gpu.__struct_fields__
    if name not in {"name", "throttled_by", "index", "uuid", "cuda_index", "mig", "ecc", "links"}
]
NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED, LOST, UNNAMED = 3, 4, 9, 15, 777


def build(folder: Path, *options: str) -> Path:
    return fresh_program.build(SOURCE, folder / "libnvidia-ml.so.1", *options)


def run(folder: Path, program: str, prelude: str = PRELUDE) -> list[bytes]:
    return fresh_program.run(folder, prelude + program, FAKE_NVML_LOG=str(folder / "sessions"))


def readings(folder: Path, program: str) -> list[tuple[Gpu, ...] | Unknown]:
    return [
        msgspec.json.decode(line, type=tuple[Gpu, ...] | Unknown) for line in run(folder, program)
    ]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("driver"))


def test_every_figure_is_in_the_unit_of_its_name(driver: Path) -> None:
    [(first, second)] = readings(driver, "fake.fake_clock(7.25); show(nvml.gpus(0.0))")

    temperature = 62 if HAS_TEMPERATURE_V else 61  # the fake driver says other ones by each call
    common = (5 << 30, 80 << 30, temperature, 312.5, 650, 1.755e9, "")
    link = {
        "memory_clock_hertz": 1.593e9,
        "pcie_sent_bytes": 3000 * 1024,
        "pcie_received_bytes": 7000 * 1024,
        "pcie_generation": 5,
        "pcie_width": 16,
    }
    no_sample = Unknown("no recent kernel of this process")
    fans = {"fan_share": 0.42, "fan_rpm": 1450 if HAS_FAN_RPM else OLD}
    again = Unknown("needs a second sample")
    assert first == Gpu(
        "0: NVIDIA Fake 1",
        0.37,
        *common,
        index=0,
        uuid="GPU-01111111-bbbb",
        power_instant_watts=310,
        power_average_watts=300,
        module_watts=510,
        memory_watts=210,
        energy_joules=7.2 * 250,  # 72 steps of 100 ms at 250 W
        **link,
        **fans,
        ecc=EccErrors(3, 13, 103, 113),
        links=GpuLinks(4, 3, 26.562e9, again, again, 12),
        processes=(GpuProcess(1234, 3 << 30, 0.35), GpuProcess(4321, 1 << 30, no_sample)),
    )
    assert second == Gpu(
        "1: NVIDIA Fake 2",
        0.38,
        *common,
        index=1,
        uuid="GPU-11111111-bbbb",
        power_instant_watts=310,
        power_average_watts=300,
        module_watts=Unknown("this GPU does not report it"),
        memory_watts=210,
        energy_joules=1800,
        **link,
        **fans,
        ecc=EccErrors(3, 13, *[Unknown("this GPU does not report it")] * 2),
        links=GpuLinks(*[Unknown("this GPU has no NVLink")] * 6),
        processes=(),
    )


def test_the_traffic_of_links_is_of_the_time_between_two_samples(driver: Path) -> None:
    program = """
nvml.gpus(0.0)
fake.fake_links(3000, 1500)
show(nvml.gpus(1.0))
show(nvml.gpus(2.0))
fake.fake_links(-1000, 1500)
show(nvml.gpus(3.0))
"""
    again = Unknown("needs a second sample")
    rates = [
        (gpus[0].links.sent_bytes, gpus[0].links.received_bytes)
        for gpus in readings(driver, program)
    ]
    # No time of the driver's clock passed before the second, and then the counter began again.
    assert rates == [(2000 * 1024, 4000 * 1024), (again, again), (again, again)]


def test_a_gpu_without_a_fan_says_so(driver: Path) -> None:
    [gpus] = readings(driver, "fake.fake_fans(0); show(nvml.gpus(0.0))")

    assert gpus[0].fan_share == Unknown("this GPU has no fan")


PROGRAMS = """
import os
from pathlib import Path
from tui_profiler.source.other_programs import Programs

def look(namespace):
    proc = Path(os.environ["FAKE_NVML_LOG"]).with_name("proc")
    own, named = proc / "self" / "ns", proc / "4321"
    for folder in (own, named):
        folder.mkdir(parents=True, exist_ok=True)
    (own / "pid").unlink(missing_ok=True)
    (own / "pid").symlink_to(namespace)
    (named / "stat").write_text("4321 (trainer) S " + "0 " * 30)
    programs = Programs(proc)
    programs.look()
    while isinstance((seen := programs.look()).gpu_programs, msgspec.Struct):
        pass
    programs.close()
    print(msgspec.json.encode(seen.gpu_programs).decode(), flush=True)
    print(msgspec.json.encode(seen.gpu_programs_unknown).decode(), flush=True)
"""


@pytest.mark.parametrize(
    ("namespace", "name"), [("pid:[4026531836]", "trainer"), ("pid:[4026532000]", "")]
)
def test_the_viewer_names_programs_on_gpus_where_ids_are_the_hosts(
    driver: Path, namespace: str, name: str
) -> None:
    line, unknown = run(driver, PROGRAMS + f"look({namespace!r})")
    assert unknown == b"[]"
    no_sample = Unknown("no recent kernel of this process")
    assert msgspec.json.decode(line, type=tuple[GpuProgramUse, ...]) == (
        GpuProgramUse(0, 1234, "", 3 << 30, 0.35, "GPU-01111111-bbbb"),
        GpuProgramUse(0, 4321, name, 1 << 30, no_sample, "GPU-01111111-bbbb"),
    )


def test_a_gpu_whose_programs_cannot_be_read_is_named_beside_the_others(driver: Path) -> None:
    asked = b"nvmlDeviceGetComputeRunningProcesses_v3"
    program = f"fake.fake_fail({asked!r}, 1, {NO_PERMISSION}); look('pid:[4026532000]')"
    line, unknown = run(driver, PROGRAMS + program)
    assert [one.gpu for one in msgspec.json.decode(line, type=tuple[GpuProgramUse, ...])] == [0, 0]
    assert msgspec.json.decode(unknown, type=tuple[GpuProgramsUnknown, ...]) == (
        GpuProgramsUnknown(1, Unknown("permission denied"), "GPU-11111111-bbbb"),
    )


def test_the_slices_of_a_divided_gpu_are_named(driver: Path) -> None:
    [(whole, divided)] = readings(driver, "fake.fake_mig(1); show(nvml.gpus(0.0))")

    assert whole.mig == ()
    assert divided.mig == (
        MigDevice("NVIDIA Fake 2 MIG 1g.10gb", "MIG-10000000-aaaa", 5 << 30, 80 << 30),
        MigDevice("NVIDIA Fake 2 MIG 2g.10gb", "MIG-20000000-aaaa", 5 << 30, 80 << 30),
    )


@pytest.mark.parametrize(
    ("visible", "numbers"),
    [
        ("1,0", [1, 0]),
        ("1", [None, 0]),
        ("GPU-1111", [None, 0]),
        ("", [None, None]),
        ("5,0", [None, None]),
    ],
)
def test_cuda_counts_what_its_environment_leaves(
    driver: Path, visible: str, numbers: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")

    [gpus] = readings(driver, "show(nvml.gpus(0.0))")

    assert [gpu.cuda_index for gpu in gpus] == numbers


def test_a_slice_is_the_device_that_cuda_counts(
    driver: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-20000000-aaaa")

    [(whole, divided)] = readings(driver, "fake.fake_mig(1); show(nvml.gpus(0.0))")

    assert (whole.cuda_index, divided.cuda_index) == (None, None)
    assert [part.cuda_index for part in divided.mig] == [None, 0]


def test_what_cuda_itself_sees_goes_before_its_environment(
    driver: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    seen = "n = Nvml(cuda_uuids=lambda: ('11111111-bbbb',)); show(n.gpus(0.0)); n.close()"

    [gpus] = readings(driver, seen)

    assert [gpu.cuda_index for gpu in gpus] == [None, 0]


def test_only_the_gpus_asked_for_are_listed(driver: Path) -> None:
    program = "n = Nvml([1, 7]); show(n.gpus(0.0)); n.close()"
    [(second, absent)] = readings(driver, program)

    assert second.name == "1: NVIDIA Fake 2"
    assert absent.name == "7: GPU"
    assert absent.power_watts == Unknown("no GPU with this index")


def test_cuda_visible_devices_hides_no_gpu(driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")

    [gpus] = readings(driver, "show(nvml.gpus(0.0)); nvml.close()")

    assert [gpu.name for gpu in gpus] == ["0: NVIDIA Fake 1", "1: NVIDIA Fake 2"]


def test_an_old_driver_is_asked_through_its_older_functions(tmp_path: Path) -> None:
    [gpus] = readings(build(tmp_path, "-DOLD_DRIVER"), "show(nvml.gpus(0.0)); nvml.close()")

    old = OLD
    assert gpus[0] == Gpu(
        *("0: NVIDIA Fake 1", 0.37, 6 << 30, 80 << 30, 61, 312.5, 700, 1.755e9, ""),
        index=0,
        uuid="GPU-01111111-bbbb",
        power_instant_watts=old,
        power_average_watts=old,
        module_watts=old,
        memory_watts=old,
        energy_joules=old,
        memory_clock_hertz=1.593e9,
        pcie_sent_bytes=3000 * 1024,
        pcie_received_bytes=7000 * 1024,
        pcie_generation=5,
        pcie_width=16,
        fan_share=0.35,
        fan_rpm=old,
        ecc=EccErrors(3, 13, 103, 113),
        links=GpuLinks(*[old] * 6),
        processes=old,
    )


def test_a_function_that_the_driver_lacks_leaves_the_other_figures(tmp_path: Path) -> None:
    [gpus] = readings(build(tmp_path, "-DNO_POWER"), "show(nvml.gpus(0.0)); nvml.close()")

    assert gpus[0].power_watts == Unknown("this NVIDIA driver does not report it")
    assert gpus[0].power_limit_watts == 650


@pytest.mark.parametrize(
    ("function", "field"),
    [
        ("nvmlDeviceGetUtilizationRates", "utilisation"),
        ("nvmlDeviceGetMemoryInfo_v2", "memory_bytes"),
        ("nvmlDeviceGetMemoryInfo_v2", "memory_total_bytes"),
        (
            "nvmlDeviceGetTemperatureV" if HAS_TEMPERATURE_V else "nvmlDeviceGetTemperature",
            "temperature_celsius",
        ),
        ("nvmlDeviceGetPowerUsage", "power_watts"),
        ("nvmlDeviceGetEnforcedPowerLimit", "power_limit_watts"),
        ("nvmlDeviceGetClockInfo", "clock_hertz"),
        ("nvmlDeviceGetTotalEnergyConsumption", "energy_joules"),
        ("nvmlDeviceGetFieldValues", "power_instant_watts"),
        ("nvmlDeviceGetPcieThroughput", "pcie_sent_bytes"),
        ("nvmlDeviceGetCurrPcieLinkWidth", "pcie_width"),
        ("nvmlDeviceGetComputeRunningProcesses_v3", "processes"),
        ("nvmlDeviceGetFanSpeed_v2", "fan_share"),
    ],
)
def test_an_unsupported_figure_is_unknown_on_that_gpu_only(
    driver: Path, function: str, field: str
) -> None:
    [(first, second)] = readings(
        driver, f"fake.fake_fail(b'{function}', 1, {NOT_SUPPORTED}); show(nvml.gpus(0.0))"
    )

    assert getattr(second, field) == Unknown("this GPU does not report it")
    assert all(not isinstance(figure, Unknown) for figure in msgspec.structs.astuple(first))


def test_an_error_without_a_word_of_ours_says_what_the_driver_says(driver: Path) -> None:
    [(first, _)] = readings(
        driver, f"fake.fake_fail(b'nvmlDeviceGetPowerUsage', 0, {UNNAMED}); show(nvml.gpus(0.0))"
    )

    assert first.power_watts == Unknown("NVML error 777: Coffee spilt")


def test_a_gpu_lost_midway_keeps_its_name_and_hides_no_other(driver: Path) -> None:
    before, after = readings(
        driver,
        f"show(nvml.gpus(0.0)); fake.fake_fail(b'*', 0, {LOST}); show(nvml.gpus(1.0))",
    )

    assert after[0].ecc.volatile_corrected == after[0].links.active == Unknown("the GPU was lost")
    figures = [getattr(after[0], name) for name in FIGURES]
    assert figures == [Unknown("the GPU was lost")] * len(FIGURES)
    assert after[0].name == "0: NVIDIA Fake 1"
    assert msgspec.structs.replace(after[1], energy_joules=0.0) == msgspec.structs.replace(
        before[1], energy_joules=0.0
    )


def test_a_lost_gpu_is_asked_again_after_half_a_minute(driver: Path) -> None:
    program = f"""
nvml.gpus(0.0)
fake.fake_fail(b'*', 0, {LOST})
nvml.gpus(1.0)
nvml.gpus(31.5)  # asked again, and still lost: the name is kept
fake.fake_mend()
show(nvml.gpus(60.0))
show(nvml.gpus(62.0))
"""
    early, late = readings(driver, program)

    assert early[0].power_watts == Unknown("the GPU was lost")
    assert early[0].name == late[0].name == "0: NVIDIA Fake 1"
    assert late[0].power_watts == 312.5


def test_a_gpu_lost_from_the_start_hides_no_other(driver: Path) -> None:
    [(first, second)] = readings(
        driver, f"fake.fake_fail(b'*', 0, {LOST}); show(nvml.gpus(0.0)); nvml.close()"
    )

    assert first.name == "0: GPU"
    assert first.memory_bytes == Unknown("the GPU was lost")
    assert second.power_watts == 312.5


@pytest.mark.parametrize(
    ("reasons", "words"),
    [
        (0x0, ""),
        (0x1, ""),
        (0x4, "power limit"),
        (0x8, "hardware slowdown"),
        (0x8 | 0x40, "temperature, by hardware"),
        (0x4 | 0x20, "power limit, temperature"),
        (0x1 | 0x8000000000000000, "reason 0x8000000000000000"),
    ],
)
def test_throttle_reasons_are_words(driver: Path, reasons: int, words: str) -> None:
    [gpus] = readings(driver, f"fake.fake_clock_reasons({reasons}); show(nvml.gpus(0.0))")

    assert gpus[0].throttled_by == words


def test_a_driver_that_dies_is_a_reason_and_is_opened_again_later(driver: Path) -> None:
    program = f"""
nvml.gpus(0.0)
fake.fake_fail(b'nvmlDeviceGetCount_v2', -1, {DRIVER_NOT_LOADED})
show(nvml.gpus(1.0))
fake.fake_mend()
before = fake.fake_calls()
show(nvml.gpus(30.9))
assert fake.fake_sessions() == 0, "the dead session was left open"
assert fake.fake_calls() == before, "asked before half a minute had passed"
show(nvml.gpus(31.0))
"""
    died, early, again = readings(driver, program)

    assert died == early == Unknown("the NVIDIA driver is not loaded")
    assert [gpu.power_watts for gpu in again] == [312.5, 312.5]


def test_a_driver_that_dies_between_two_figures_is_a_reason(driver: Path) -> None:
    program = "nvml.gpus(0.0); fake.fake_fail(b'nvmlDeviceGetPowerUsage', 1, 1); show(nvml.gpus(1))"

    assert readings(driver, program) == [Unknown("the NVIDIA driver was lost")]


def test_a_driver_that_is_not_loaded_is_a_reason(driver: Path) -> None:
    program = f"fake.fake_fail(b'nvmlInitWithFlags', -1, {DRIVER_NOT_LOADED}); show(nvml.gpus(0.0))"

    assert readings(driver, program) == [Unknown("the NVIDIA driver is not loaded")]


def test_a_driver_without_gpus_is_a_reason(driver: Path) -> None:
    program = "fake.fake_gpus(0); show(nvml.gpus(0.0))"

    assert readings(driver, program) == [Unknown("no NVIDIA GPU on this machine")]


def test_no_driver_is_a_reason_and_costs_no_import(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_text("not a library")  # also hides a real driver
    program = """
import sys, msgspec
from tui_profiler.gpus.nvml import Nvml
print(msgspec.json.encode(Nvml().gpus(0.0)).decode())
print("pynvml" in sys.modules)
"""
    [reading, has_imported] = run(tmp_path, program, prelude="")

    assert msgspec.json.decode(reading, type=Unknown).reason == "no NVIDIA driver on this machine"
    assert has_imported == b"False"


def test_a_slow_driver_never_holds_up_a_sample(driver: Path) -> None:
    program = """
fake.fake_hold(1)
watch = GpuWatch(Gpus.gpus, patience=0.01)
show(watch.answer(0.0))
fake.fake_hold(0)
while isinstance(reading := watch.answer(1.0), msgspec.Struct):
    pass  # the answer is on its way
show(reading)
fake.fake_hold(1)
while watch.answer(1.5) is not reading:
    pass  # at most one answer was still to be given
show(watch.answer(2.5))  # late, and the one before is young
while not isinstance(watch.answer(9.0), msgspec.Struct):
    pass  # at most one answer was still to be given
show(watch.answer(9.5))
fake.fake_hold(0)
watch.close()
print("[]" if fake.fake_sessions() == 0 else fake.fake_sessions())
"""
    starting, awake, late, held, sessions = readings(driver, program)

    assert starting == Unknown("GPU driver still starting")
    assert [gpu.power_watts for gpu in awake] == [312.5, 312.5]
    assert late == awake
    assert held == Unknown("no answer from the GPU driver")
    assert sessions == ()


def test_a_driver_that_hangs_does_not_hold_up_the_end(driver: Path) -> None:
    program = "watch = GpuWatch(Gpus.gpus); watch.answer(0.0); fake.fake_hold(1); watch.answer(1.0)"

    assert run(driver, program) == []  # within run's time limit


@pytest.mark.parametrize("ending", ["watch.close()", "", "import sys; sys.exit(0)"])
def test_no_session_is_left_open_at_exit(driver: Path, ending: str) -> None:
    log = driver / "sessions"
    log.unlink(missing_ok=True)

    run(driver, f"watch = GpuWatch(Gpus.gpus, patience=30.0)\nshow(watch.answer(0.0))\n{ending}")

    assert log.read_text().split() == ["init", "shutdown"]


def test_a_closed_watch_says_so(driver: Path) -> None:
    program = "watch = GpuWatch(Gpus.gpus); watch.close(); watch.close(); show(watch.answer(0.0))"

    assert readings(driver, program) == [Unknown("device counters are closed")]


ENERGY = """
from tui_profiler.probe.measure.energy.meter import EnergyWatch
seconds = 100.0
watch = EnergyWatch([Gpus()], lambda: seconds)
watch.become("running", lambda: seconds * 8)  # eight forwards a second

def run(for_seconds):
    global seconds
    for _ in range(round(for_seconds / 0.05)):
        seconds += 0.05
        fake.fake_clock(seconds)
        watch.look()
"""


def energy(folder: Path, program: str) -> list[tuple[EnergyTotals, ...] | Unknown]:
    said = run(folder, ENERGY + program + "\nwatch.close()")
    return [msgspec.json.decode(line, type=tuple[EnergyTotals, ...] | Unknown) for line in said]


def test_energy_is_counted_in_the_steps_of_each_gpu_s_counter(driver: Path) -> None:
    [(first, second)] = energy(driver, "run(10); show(watch.totals())")

    assert (first.name, first.gpu) == ("GPU 0: NVIDIA Fake 1", 0)
    assert (second.name, second.gpu) == ("GPU 1: NVIDIA Fake 2", 1)
    for one in (first, second):
        assert (one.source, one.limit_watts) == ("counter", 650)
        assert 97 <= one.running.steps <= 100
        # 250 W, 31.25 J for each of eight forwards a second.
        assert one.running.joules / one.running.seconds == pytest.approx(250, rel=0.01)
        assert one.running.joules / one.running.work == pytest.approx(31.25, rel=0.01)


def test_a_gpu_without_an_energy_counter_has_its_power_integrated(driver: Path) -> None:
    program = f"""
fake.fake_fail(b'nvmlDeviceGetTotalEnergyConsumption', 1, {NOT_SUPPORTED})
run(10)
show(watch.totals())
"""
    [(counted, integrated)] = energy(driver, program)

    assert (counted.source, integrated.source) == ("counter", "power")
    assert integrated.running.joules / integrated.running.seconds == pytest.approx(312.5)


def test_a_gpu_lost_while_it_is_counted_says_so_and_keeps_what_was(driver: Path) -> None:
    program = f"run(6); fake.fake_fail(b'*', 0, {LOST}); run(1); show(watch.totals())"
    [(lost, other)] = energy(driver, program)

    assert (lost.why, other.why) == ("the GPU was lost", "")
    assert lost.running.seconds == pytest.approx(6, abs=0.3)
    assert other.running.seconds == pytest.approx(7, abs=0.3)


def test_it_may_be_closed_while_its_thread_is_being_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Who leaves the explorer closes it on the event loop, and another thread asks.
    watch: GpuWatch[object] = GpuWatch(lambda _gpus, _now: Unknown("nobody is asked"))
    start, raised, done = threading.Thread.start, [], threading.Event()

    def close() -> None:
        try:
            watch.close()
        except RuntimeError as error:
            raised.append(error)
        done.set()

    closer = threading.Thread(target=close)

    def closed_meanwhile(thread: threading.Thread) -> None:
        if thread.name == "tui-profiler-gpus":
            start(closer)
            done.wait(0.2)  # Over at once where it does not wait for this thread.
        start(thread)

    before = set(threading.enumerate())
    monkeypatch.setattr(threading.Thread, "start", closed_meanwhile)
    watch.answer(0.0)
    closer.join()
    assert raised == []
    names = {thread.name for thread in threading.enumerate() if thread not in before}
    assert "tui-profiler-gpus" not in names
