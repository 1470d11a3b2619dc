"""The GPU of a Jetson, from a file tree like the kernel's, beside what NVML tells of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.gpus.test_gpus import Vendors
from tui_profiler.gpus.driver import EnergyReading
from tui_profiler.gpus.gpus import Gpus, unknown_gpu
from tui_profiler.gpus.jetson import Jetson
from tui_profiler.messages import Gpu, Unknown

NOT_TOLD = Unknown("this GPU does not report it")
ABSENT = Unknown("none of this vendor")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def jetson(root: Path, *rails: tuple[str, int, int]) -> Path:
    """Write the files of a Jetson; rails have a label, millivolts and milliamperes."""
    tree = root / "proc" / "device-tree"
    write(tree / "compatible", "nvidia,p3701-0000\0nvidia,tegra234\0")
    write(tree / "model", "NVIDIA Jetson AGX Orin\0")
    classes = root / "sys" / "class"
    write(classes / "devfreq" / "15340000.vic" / "device" / "of_node" / "name", "vic\0")
    gpu = classes / "devfreq" / "17000000.gpu"
    write(gpu / "device" / "of_node" / "name", "gpu\0")
    write(gpu / "device" / "load", "437\n")
    write(gpu / "cur_freq", "1300500000\n")
    write(classes / "thermal" / "thermal_zone0" / "type", "cpu-thermal\n")
    write(classes / "thermal" / "thermal_zone0" / "temp", "40000\n")
    write(classes / "thermal" / "thermal_zone1" / "type", "gpu-thermal\n")
    write(classes / "thermal" / "thermal_zone1" / "temp", "51250\n")
    write(classes / "hwmon" / "hwmon0" / "name", "pwmfan\n")
    sensor = classes / "hwmon" / "hwmon1"
    write(sensor / "name", "ina3221\n")
    for number, (label, millivolts, milliamperes) in enumerate(rails, 1):
        write(sensor / f"in{number}_label", f"{label}\n")
        write(sensor / f"in{number}_input", f"{millivolts}\n")
        write(sensor / f"curr{number}_input", f"{milliamperes}\n")
    write(sensor / "in7_label", "sum of shunt voltages\n")
    return root


def only(driver: Jetson) -> Gpu:
    found = driver.gpus(0.0)
    assert not isinstance(found, Unknown)
    [gpu] = found
    return gpu


def test_a_jetson_without_nvml_is_read_from_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    rails = (("GPU", 19_000, 800), ("CPU", 19_000, 100), ("VDD_IN", 5_000, 4_000))
    driver = Jetson(Vendors("NVIDIA", ABSENT), jetson(tmp_path, *rails))
    gpu = only(driver)
    assert (gpu.name, gpu.index, gpu.cuda_index) == ("NVIDIA Jetson AGX Orin", 0, 0)
    assert (gpu.utilisation, gpu.clock_hertz, gpu.temperature_celsius) == (0.437, 1.3005e9, 51.25)
    assert (gpu.power_watts, gpu.module_watts) == (15.2, 20.0)
    assert gpu.memory_bytes == Unknown("this GPU has no memory of its own")
    assert driver.energy(0.0) == (
        EnergyReading("gpu", gpu.name, 0, Unknown("a Jetson has no energy counter"), 15.2),
    )
    assert driver.processes(0.0) == ((0, NOT_TOLD, ""),)
    found = Gpus(drivers=[driver]).gpus(0.0)
    assert not isinstance(found, Unknown)
    assert found[0].name == "0: NVIDIA Jetson AGX Orin"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert only(driver).cuda_index is None


def test_a_rail_that_the_gpu_shares_is_not_its_power(tmp_path: Path) -> None:
    root = jetson(tmp_path, ("VDD_GPU_SOC", 20_000, 500), ("VIN_SYS_5V0", 5_000, 900))
    gpu = only(Jetson(Vendors("NVIDIA", ABSENT), root))
    assert gpu.power_watts == Unknown(
        "not measured alone (rail VDD_GPU_SOC also supplies other parts)"
    )
    assert gpu.module_watts == 4.5
    bare = only(Jetson(Vendors("NVIDIA", ABSENT), jetson(tmp_path / "bare")))
    assert bare.power_watts == bare.module_watts == NOT_TOLD


def test_what_nvml_knows_is_kept_and_the_rest_filled(tmp_path: Path) -> None:
    class Partial(Vendors):
        def gpus(self, now: float) -> tuple[Gpu, ...]:
            nothing = unknown_gpu("NVIDIA", NOT_TOLD)
            named = replace(nothing, name="0: Orin (nvgpu)", temperature_celsius=49.0, uuid="GPU-1")
            return (replace(named, index=0),)

    gpu = only(Jetson(Partial("NVIDIA", 1), jetson(tmp_path, ("GPU", 10_000, 500))))
    assert (gpu.name, gpu.uuid) == ("0: Orin (nvgpu)", "GPU-1")
    assert (gpu.temperature_celsius, gpu.utilisation, gpu.power_watts) == (49.0, 0.437, 5.0)


def test_files_that_fail_are_reasons(tmp_path: Path) -> None:
    root = jetson(tmp_path, ("GPU", 10_000, 500))
    driver = Jetson(Vendors("NVIDIA", ABSENT), root)
    gpu = root / "sys" / "class" / "devfreq" / "17000000.gpu"
    (gpu / "device" / "load").unlink()
    (gpu / "cur_freq").write_text("none\n")
    found = only(driver)
    assert found.utilisation == NOT_TOLD
    assert found.clock_hertz == Unknown("the kernel's file cannot be read")


@pytest.mark.parametrize("compatible", ["raspberrypi,5-model-b\0", None])
def test_another_machine_is_what_nvml_tells(tmp_path: Path, compatible: str | None) -> None:
    root = jetson(tmp_path)
    tree = root / "proc" / "device-tree" / "compatible"
    tree.unlink() if compatible is None else tree.write_text(compatible)
    nvml = Vendors("NVIDIA", 2)
    driver = Jetson(nvml, root)
    assert driver.gpus(1.0) == nvml.gpus(1.0)
    assert driver.energy(1.0) == nvml.energy(1.0)
    assert driver.processes(1.0) == nvml.processes(1.0)
    driver.close()
    assert not nvml.is_open
