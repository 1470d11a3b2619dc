"""The machine in the JSON report: its ceilings, its caches, and the last sample of its counters."""

from __future__ import annotations

from typing import Annotated

from tui_profiler import messages
from tui_profiler.messages.hardware import NOT_RECORDED
from tui_profiler.queries.cost.machine import (
    fragmentation,
    instructions_per_cycle,
    last_level_miss_share,
    miss_share,
    parallel_efficiency,
)
from tui_profiler.reports.ceilings import Roofs, ceilings_section
from tui_profiler.reports.json_values import EACH, Count, Known, Number, Part, taken
from tui_profiler.session import Session


class ProcessorCache(Part, frozen=True):
    """Caches of one level."""

    level: Count
    """1 is the nearest to a core."""
    bytes: Count
    """Of one."""
    cores: Count
    """Logical cores that share it."""
    count: Count
    """How many of them."""


class TrafficSample(Part, frozen=True):
    """Since the sample before; switches are those of the process."""

    disk_read_bytes_per_s: Known[float]
    disk_written_bytes_per_s: Known[float]
    network_received_bytes_per_s: Known[float]
    network_sent_bytes_per_s: Known[float]
    process_read_bytes_per_s: Known[float]
    process_written_bytes_per_s: Known[float]
    voluntary_switches_per_s: Known[float]
    involuntary_switches_per_s: Known[float]


class CounterSample(Part, frozen=True):
    """Performance counters of the process, user space."""

    seconds: Number
    """How long was counted."""
    instructions: Known[float]
    cycles: Known[float]
    cache_references: Known[float]
    cache_misses: Known[float]
    last_level_loads: Known[float]
    last_level_misses: Known[float]
    instructions_per_cycle: Known[float]
    cache_miss_share: Known[float]
    """Misses over references."""
    last_level_miss_share: Known[float]
    """Of loads."""
    counted_share: Number
    """Below 1 the counters took turns and the figures are scaled up."""


class AllocatorSample(Part, frozen=True):
    """torch's allocator of one device."""

    device: str
    allocated_bytes: Known[float]
    reserved_bytes: Known[float]
    inactive_split_bytes: Known[float]
    peak_allocated_bytes: Known[float]
    peak_reserved_bytes: Known[float]
    retries: Known[float]
    out_of_memory: Known[float]
    fragmentation: Known[float]
    """inactive_split_bytes over reserved_bytes."""


class ProcessOnGpu(Part, frozen=True):
    """A process that uses the GPU."""

    pid: Count
    """As the driver tells it, of the host."""
    memory_bytes: Known[float]
    utilisation: Known[float]


class GpuSlice(Part, frozen=True):
    """A MIG device."""

    name: str
    uuid: str | None
    cuda_index: Count | None
    memory_bytes: Known[float]
    memory_total_bytes: Known[float]


class GpuSample(Part, frozen=True):
    """One GPU."""

    name: str
    index: Count | None
    """NVML's number."""
    uuid: str | None
    cuda_index: Count | None
    """N of cuda:N in the process; null where it does not see it or it is not sure."""
    utilisation: Known[float]
    memory_bytes: Known[float]
    memory_total_bytes: Known[float]
    temperature_celsius: Known[float]
    power_w: Known[float]
    power_limit_w: Known[float]
    clock_hz: Known[float]
    power_instant_w: Known[float]
    """Of the GPU now."""
    power_average_w: Known[float]
    """Of the GPU, mean of a second."""
    module_w: Known[float]
    """Of GPU and processor where they share a module."""
    memory_w: Known[float]
    """Of the GPU's memory."""
    energy_j: Known[float]
    """Since the driver was loaded."""
    memory_clock_hz: Known[float]
    pcie_sent_bytes_per_s: Known[float]
    """From the GPU."""
    pcie_received_bytes_per_s: Known[float]
    """To the GPU."""
    pcie_generation: Known[float]
    """Of the link now."""
    pcie_width: Known[float]
    """Lanes."""
    throttled_by: str
    processes: Known[Annotated[list[ProcessOnGpu], EACH]]
    mig: list[GpuSlice]
    """Slices of a GPU that is divided."""


class MachineSample(Part, frozen=True):
    """The last sample of the counters."""

    core_utilisation: list[Known[float]]
    frequency_hz: Known[float]
    memory_bytes: Count
    memory_total_bytes: Count
    process_bytes: Known[float]
    process_peak_bytes: Known[float]
    """The most that was ever resident."""
    process_cores: Known[float]
    """Cores kept busy."""
    process_threads: Known[float]
    parallel_efficiency: Known[float]
    """CPU time over wall time and torch's threads, of the last seconds in which forwards ran."""
    package_w: Known[float]
    traffic: Known[TrafficSample]
    counters: Known[CounterSample]
    allocators: Known[list[AllocatorSample]]
    """torch's, one for each device in use."""
    gpus: Known[list[GpuSample]]


class Hardware(Part, frozen=True):
    """The machine; only with --measure."""

    ceilings: Known[Roofs]
    caches: Known[list[ProcessorCache]]
    """Of the processor, those that hold data."""
    sample: Known[MachineSample]


def hardware(session: Session) -> Hardware:
    """Return what is known of the machine."""
    ceilings, sample = session.ceilings, session.sample
    return Hardware(
        ceilings=ceilings_section(ceilings)
        if ceilings is not None
        else messages.Unknown("this machine's ceilings were not measured"),
        caches=_caches(session.environment),
        sample=_sample(session, sample)
        if sample is not None
        else messages.Unknown("no sample of the counters has come"),
    )


def _caches(environment: messages.Environment | None) -> list[ProcessorCache] | messages.Unknown:
    if environment is None or not environment.caches:
        return messages.Unknown("the kernel does not describe them")
    return [
        ProcessorCache(level=one.level, bytes=one.bytes, cores=one.cores, count=one.count)
        for one in environment.caches
    ]


def _sample(session: Session, sample: messages.Sample) -> MachineSample:
    return MachineSample(
        core_utilisation=[core.utilisation for core in sample.cores],
        frequency_hz=sample.frequency_hertz,
        memory_bytes=sample.memory_bytes,
        memory_total_bytes=sample.memory_total_bytes,
        process_bytes=sample.process_bytes,
        process_peak_bytes=sample.process_peak_bytes,
        process_cores=sample.process_cpu,
        process_threads=sample.process_threads,
        parallel_efficiency=parallel_efficiency(session),
        package_w=sample.package_watts,
        traffic=NOT_RECORDED if sample.traffic is None else _traffic(sample.traffic),
        counters=NOT_RECORDED if sample.counters is None else _counters(sample.counters),
        allocators=sample.allocators
        if isinstance(sample.allocators, messages.Unknown)
        else [_allocator(one) for one in sample.allocators],
        gpus=sample.gpus
        if isinstance(sample.gpus, messages.Unknown)
        else [_gpu(one) for one in sample.gpus],
    )


def _traffic(found: messages.Traffic) -> TrafficSample:
    return TrafficSample(
        disk_read_bytes_per_s=found.disk_read_bytes,
        disk_written_bytes_per_s=found.disk_written_bytes,
        network_received_bytes_per_s=found.network_received_bytes,
        network_sent_bytes_per_s=found.network_sent_bytes,
        process_read_bytes_per_s=found.process_read_bytes,
        process_written_bytes_per_s=found.process_written_bytes,
        voluntary_switches_per_s=found.voluntary_switches,
        involuntary_switches_per_s=found.involuntary_switches,
    )


def _counters(counters: messages.PerfCounters) -> CounterSample:
    return CounterSample(
        seconds=counters.seconds,
        instructions=counters.instructions,
        cycles=counters.cycles,
        cache_references=counters.cache_references,
        cache_misses=counters.cache_misses,
        last_level_loads=counters.last_level_loads,
        last_level_misses=counters.last_level_misses,
        instructions_per_cycle=instructions_per_cycle(counters),
        cache_miss_share=miss_share(counters),
        last_level_miss_share=last_level_miss_share(counters),
        counted_share=counters.counted_share,
    )


def _allocator(found: messages.Allocator) -> AllocatorSample:
    return taken(AllocatorSample, found, fragmentation=fragmentation(found))


def _gpu(gpu: messages.Gpu) -> GpuSample:
    processes = gpu.processes
    return GpuSample(
        name=gpu.name,
        index=gpu.index if gpu.index >= 0 else None,
        uuid=gpu.uuid or None,
        cuda_index=gpu.cuda_index,
        utilisation=gpu.utilisation,
        memory_bytes=gpu.memory_bytes,
        memory_total_bytes=gpu.memory_total_bytes,
        temperature_celsius=gpu.temperature_celsius,
        power_w=gpu.power_watts,
        power_limit_w=gpu.power_limit_watts,
        clock_hz=gpu.clock_hertz,
        power_instant_w=gpu.power_instant_watts,
        power_average_w=gpu.power_average_watts,
        module_w=gpu.module_watts,
        memory_w=gpu.memory_watts,
        energy_j=gpu.energy_joules,
        memory_clock_hz=gpu.memory_clock_hertz,
        pcie_sent_bytes_per_s=gpu.pcie_sent_bytes,
        pcie_received_bytes_per_s=gpu.pcie_received_bytes,
        pcie_generation=gpu.pcie_generation,
        pcie_width=gpu.pcie_width,
        throttled_by=gpu.throttled_by,
        processes=processes
        if isinstance(processes, messages.Unknown)
        else [taken(ProcessOnGpu, one) for one in processes],
        mig=[_slice(part) for part in gpu.mig],
    )


def _slice(part: messages.MigDevice) -> GpuSlice:
    return taken(GpuSlice, part, uuid=part.uuid or None)
