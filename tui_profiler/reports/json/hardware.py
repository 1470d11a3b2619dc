"""The machine in the JSON report: its ceilings, its caches, and the last sample of its counters."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import asdict

from tui_profiler.messages import (
    Allocator,
    Environment,
    Figure,
    Gpu,
    MigDevice,
    PerfCounters,
    Sample,
    Unknown,
)
from tui_profiler.messages.hardware import NOT_RECORDED
from tui_profiler.queries.cost.machine import (
    fragmentation,
    instructions_per_cycle,
    last_level_miss_share,
    miss_share,
    parallel_efficiency,
)
from tui_profiler.reports.ceilings import OF_HARDWARE, ceilings_json
from tui_profiler.reports.json_values import Json, Unavailable
from tui_profiler.session import Session

_OF_GPU = {
    "utilisation": "utilisation",
    "memory_bytes": "memory_bytes",
    "memory_total_bytes": "memory_total_bytes",
    "temperature_celsius": "temperature_celsius",
    "power_watts": "power_w",
    "power_limit_watts": "power_limit_w",
    "clock_hertz": "clock_hz",
    "power_instant_watts": "power_instant_w",
    "power_average_watts": "power_average_w",
    "module_watts": "module_w",
    "memory_watts": "memory_w",
    "energy_joules": "energy_j",
    "memory_clock_hertz": "memory_clock_hz",
    "pcie_sent_bytes": "pcie_sent_bytes_per_s",
    "pcie_received_bytes": "pcie_received_bytes_per_s",
    "pcie_generation": "pcie_generation",
    "pcie_width": "pcie_width",
}
"""Field of ``Gpu``: name in the report."""
_OF_TRAFFIC = {
    "disk_read_bytes": "disk_read_bytes_per_s",
    "disk_written_bytes": "disk_written_bytes_per_s",
    "network_received_bytes": "network_received_bytes_per_s",
    "network_sent_bytes": "network_sent_bytes_per_s",
    "process_read_bytes": "process_read_bytes_per_s",
    "process_written_bytes": "process_written_bytes_per_s",
    "voluntary_switches": "voluntary_switches_per_s",
    "involuntary_switches": "involuntary_switches_per_s",
}
_COUNTED = (
    "instructions",
    "cycles",
    "cache_references",
    "cache_misses",
    "last_level_loads",
    "last_level_misses",
)


def hardware(session: Session, unavailable: Unavailable) -> Json:
    """Give what is known of the machine."""
    return {
        "ceilings": ceilings_json(session.ceilings, unavailable, OF_HARDWARE),
        "caches": _caches(session.environment, unavailable),
        "sample": _sample(session, session.sample, unavailable),
    }


def _caches(environment: Environment | None, unavailable: Unavailable) -> Json:
    if environment is None or not environment.caches:
        return unavailable.missing("hardware.caches", "the kernel does not describe them")
    return [
        {
            "level": cache.level,
            "bytes": cache.bytes,
            "cores": cache.cores,
            "count": cache.count,
        }
        for cache in environment.caches
    ]


def _sample(session: Session, sample: Sample | None, unavailable: Unavailable) -> Json:
    path = "hardware.sample"
    if sample is None:
        return unavailable.missing(path, "no sample of the counters has come")
    figure = unavailable.figure
    return {
        "core_utilisation": [
            figure(f"{path}.core_utilisation[{index}]", core.utilisation)
            for index, core in enumerate(sample.cores)
        ],
        "frequency_hz": figure(f"{path}.frequency_hz", sample.frequency_hertz),
        "memory_bytes": sample.memory_bytes,
        "memory_total_bytes": sample.memory_total_bytes,
        "process_bytes": figure(f"{path}.process_bytes", sample.process_bytes),
        "process_peak_bytes": figure(f"{path}.process_peak_bytes", sample.process_peak_bytes),
        "process_cores": figure(f"{path}.process_cores", sample.process_cpu),
        "process_threads": figure(f"{path}.process_threads", sample.process_threads),
        "parallel_efficiency": figure(f"{path}.parallel_efficiency", parallel_efficiency(session)),
        "package_w": figure(f"{path}.package_w", sample.package_watts),
        "traffic": _named(f"{path}.traffic", sample.traffic, _OF_TRAFFIC, unavailable),
        "counters": _counters(f"{path}.counters", sample.counters, unavailable),
        "allocators": _allocators(f"{path}.allocators", sample, unavailable),
        "gpus": _gpus(sample.gpus, unavailable),
    }


def _counters(path: str, counters: PerfCounters | None, unavailable: Unavailable) -> Json:
    if counters is None:
        return unavailable.missing(path, NOT_RECORDED.reason)
    figure = unavailable.figure
    return {
        "seconds": counters.seconds,
        **{name: figure(f"{path}.{name}", getattr(counters, name)) for name in _COUNTED},
        "instructions_per_cycle": figure(
            f"{path}.instructions_per_cycle", instructions_per_cycle(counters)
        ),
        "cache_miss_share": figure(f"{path}.cache_miss_share", miss_share(counters)),
        "last_level_miss_share": figure(
            f"{path}.last_level_miss_share", last_level_miss_share(counters)
        ),
        "counted_share": counters.counted_share,
    }


def _allocators(path: str, sample: Sample, unavailable: Unavailable) -> Json:
    if isinstance(sample.allocators, Unknown):
        return unavailable.missing(path, sample.allocators.reason)
    return [
        _allocator(f"{path}[{index}]", allocator, unavailable)
        for index, allocator in enumerate(sample.allocators)
    ]


def _allocator(path: str, allocator: Allocator, unavailable: Unavailable) -> Json:
    figures: dict[str, Figure] = asdict(allocator)
    del figures["device"]
    figures["fragmentation"] = fragmentation(allocator)
    return {
        "device": allocator.device,
        **{name: unavailable.figure(f"{path}.{name}", one) for name, one in figures.items()},
    }


def _gpus(gpus: tuple[Gpu, ...] | Unknown, unavailable: Unavailable) -> Json:
    path = "hardware.sample.gpus"
    if isinstance(gpus, Unknown):
        return unavailable.missing(path, gpus.reason)
    return [_gpu(gpu, f"{path}[{index}]", unavailable) for index, gpu in enumerate(gpus)]


def _gpu(gpu: Gpu, path: str, unavailable: Unavailable) -> Json:
    figures = {
        name: unavailable.figure(f"{path}.{name}", getattr(gpu, field))
        for field, name in _OF_GPU.items()
    }
    return {
        "name": gpu.name,
        "index": gpu.index if gpu.index >= 0 else None,
        "uuid": gpu.uuid or None,
        "cuda_index": gpu.cuda_index,
        **figures,
        "throttled_by": gpu.throttled_by,
        "processes": _processes(gpu, f"{path}.processes", unavailable),
        "mig": [
            _slice(part, f"{path}.mig[{index}]", unavailable) for index, part in enumerate(gpu.mig)
        ],
    }


def _processes(gpu: Gpu, path: str, unavailable: Unavailable) -> Json:
    if isinstance(gpu.processes, Unknown):
        return unavailable.missing(path, gpu.processes.reason)
    return [
        {
            "pid": one.pid,
            "memory_bytes": unavailable.figure(f"{path}[].memory_bytes", one.memory_bytes),
            "utilisation": unavailable.figure(f"{path}[].utilisation", one.utilisation),
        }
        for one in gpu.processes
    ]


def _slice(part: MigDevice, path: str, unavailable: Unavailable) -> Json:
    figure = unavailable.figure
    return {
        "name": part.name,
        "uuid": part.uuid or None,
        "cuda_index": part.cuda_index,
        "memory_bytes": figure(f"{path}.memory_bytes", part.memory_bytes),
        "memory_total_bytes": figure(f"{path}.memory_total_bytes", part.memory_total_bytes),
    }


def _named(
    path: str, values: object | None, names: Mapping[str, str], unavailable: Unavailable
) -> Json:
    """Give some fields of a struct under the names of the report."""
    if values is None:
        return unavailable.missing(path, NOT_RECORDED.reason)
    return {
        name: unavailable.figure(f"{path}.{name}", getattr(values, field))
        for field, name in names.items()
    }
