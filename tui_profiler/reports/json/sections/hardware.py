"""The machine in the JSON report: its ceilings, its caches, and the last sample of its counters."""

from typing import Annotated

from msgspec import field

from tui_profiler import messages
from tui_profiler.messages import NOT_RECORDED
from tui_profiler.queries.cost.machine import (
    fragmentation,
    instructions_per_cycle,
    last_level_miss_share,
    miss_share,
    parallel_efficiency,
)
from tui_profiler.reports.ceilings import Roofs, ceilings_section
from tui_profiler.reports.json_values import EACH, Count, Known, Number, Part, fill
from tui_profiler.session import Session


class ProcessorCache(Part, frozen=True):
    """Caches of one level."""

    level: Count
    """1 is nearest to a core."""
    bytes: Count
    """Of one cache."""
    cores: Count
    """Logical cores that share one."""
    count: Count
    """Number of such caches."""


class TrafficSample(Part, frozen=True, rename=lambda name: f"{name}_per_s"):
    """Since the previous sample; context switches of the process."""

    disk_read_bytes: Known[float]
    disk_written_bytes: Known[float]
    network_received_bytes: Known[float]
    network_sent_bytes: Known[float]
    process_read_bytes: Known[float]
    process_written_bytes: Known[float]
    voluntary_switches: Known[float]
    involuntary_switches: Known[float]


class CounterSample(Part, frozen=True):
    """Performance counters of the process, user space."""

    seconds: Number
    """Seconds that were counted."""
    instructions: Known[float]
    cycles: Known[float]
    cache_references: Known[float]
    cache_misses: Known[float]
    last_level_loads: Known[float]
    last_level_misses: Known[float]
    instructions_per_cycle: Known[float]
    cache_miss_share: Known[float]
    """Cache misses / cache references."""
    last_level_miss_share: Known[float]
    """Misses / loads."""
    counted_share: Number
    """Below 1 the counters were multiplexed, and the figures are scaled up."""


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
    """inactive_split_bytes / reserved_bytes."""


class ProcessOnGpu(Part, frozen=True):
    """A process that uses the GPU."""

    pid: Count
    """Process id on the host, from the driver."""
    memory_bytes: Known[float]
    utilisation: Known[float]


class GpuSlice(Part, frozen=True):
    """A MIG device."""

    name: str
    uuid: str | None
    cuda_index: Count | None
    memory_bytes: Known[float]
    memory_total_bytes: Known[float]


class EccSample(Part, frozen=True):
    """Memory errors of a GPU that ECC found."""

    volatile_corrected: Known[float]
    """Since the driver was loaded, or the GPU reset."""
    volatile_uncorrected: Known[float]
    aggregate_corrected: Known[float]
    """Over the life of the GPU."""
    aggregate_uncorrected: Known[float]


class LinkSample(Part, frozen=True):
    """Links from a GPU to others (NVLink)."""

    count: Known[float]
    active: Known[float]
    link_bytes: Known[float] = field(name="link_bytes_per_s")
    """Of one active link, in each direction."""
    sent_bytes: Known[float] = field(name="sent_bytes_per_s")
    """Of all links, since the previous sample."""
    received_bytes: Known[float] = field(name="received_bytes_per_s")
    errors: Known[float]
    """CRC errors, replays and recoveries since the driver was loaded."""


class GpuSample(Part, frozen=True):
    """One GPU."""

    name: str
    index: Count | None
    """Number on this machine: NVIDIA's as NVML has them, then those of other vendors."""
    uuid: str | None
    cuda_index: Count | None
    """N of cuda:N in the process; null if the process does not see it, or it is ambiguous."""
    utilisation: Known[float]
    memory_bytes: Known[float]
    memory_total_bytes: Known[float]
    temperature_celsius: Known[float]
    power_watts: Known[float] = field(name="power_w")
    power_limit_watts: Known[float] = field(name="power_limit_w")
    clock_hertz: Known[float] = field(name="clock_hz")
    power_instant_watts: Known[float] = field(name="power_instant_w")
    """Of the GPU, at this moment."""
    power_average_watts: Known[float] = field(name="power_average_w")
    """Of the GPU, mean over one second."""
    module_watts: Known[float] = field(name="module_w")
    """Of GPU and processor, if they share a module."""
    memory_watts: Known[float] = field(name="memory_w")
    """Of the GPU's memory."""
    energy_joules: Known[float] = field(name="energy_j")
    """Since the driver was loaded."""
    memory_clock_hertz: Known[float] = field(name="memory_clock_hz")
    pcie_sent_bytes: Known[float] = field(name="pcie_sent_bytes_per_s")
    """From the GPU."""
    pcie_received_bytes: Known[float] = field(name="pcie_received_bytes_per_s")
    """To the GPU."""
    pcie_generation: Known[float]
    """Current generation of the link."""
    pcie_width: Known[float]
    """Current number of lanes."""
    fan_share: Known[float]
    """Speed of the fastest fan / its maximum."""
    fan_rpm: Known[float]
    """Revolutions per minute of the first fan."""
    ecc: EccSample
    links: LinkSample
    throttled_by: Known[str]
    """Empty if it is not throttled."""
    processes: Known[Annotated[list[ProcessOnGpu], EACH]]
    mig: list[GpuSlice]
    """MIG slices of the GPU."""


class TemperatureSample(Part, frozen=True):
    """Temperature sensor of the processor."""

    name: str
    """Label of the kernel's driver."""
    celsius: Known[float]
    critical_celsius: Known[float]


class ThrottleSample(Part, frozen=True):
    """Throttling, since the start of the machine or of the control group."""

    quota_seconds: Known[float] = field(name="quota_s")
    """In which tasks of the control groups had used up their CPU quota."""
    quota_periods: Known[float]
    heat_seconds: Known[float] = field(name="heat_s")
    """Thermal throttling of at most four cores."""
    heat_events: Known[float]
    """Number of times that thermal throttling began."""
    stolen_seconds: Known[float] = field(name="stolen_s")
    """In which the hypervisor ran something else on the cores of the process."""


class MachineSample(Part, frozen=True):
    """The last sample of the counters."""

    core_utilisation: list[Known[float]]
    frequency_hertz: Known[float] = field(name="frequency_hz")
    memory_bytes: Count
    memory_total_bytes: Count
    process_bytes: Known[float]
    process_peak_bytes: Known[float]
    """Peak RSS."""
    process_cpu: Known[float] = field(name="process_cores")
    """Busy cores."""
    process_threads: Known[float]
    parallel_efficiency: Known[float]
    """CPU time / (wall time x torch's threads), over the last seconds in which forwards ran."""
    package_watts: Known[float] = field(name="package_w")
    temperatures: Known[list[TemperatureSample]]
    """One per package of the processor."""
    throttle: Known[ThrottleSample]
    traffic: Known[TrafficSample]
    counters: Known[CounterSample]
    allocators: Known[list[AllocatorSample]]
    """torch's allocators, one per device in use."""
    gpus: Known[list[GpuSample]]


class Hardware(Part, frozen=True):
    """The machine; only with --measure."""

    ceilings: Known[Roofs]
    caches: Known[list[ProcessorCache]]
    """Caches of the processor that hold data."""
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
    return [fill(ProcessorCache, one) for one in environment.caches]


def _sample(session: Session, sample: messages.Sample) -> MachineSample:
    allocators, gpus = sample.allocators, sample.gpus
    return fill(
        MachineSample,
        sample,
        core_utilisation=[core.utilisation for core in sample.cores],
        parallel_efficiency=parallel_efficiency(session),
        traffic=sample.traffic or NOT_RECORDED,
        throttle=NOT_RECORDED if sample.throttle is None else fill(ThrottleSample, sample.throttle),
        counters=NOT_RECORDED if sample.counters is None else _counters(sample.counters),
        allocators=allocators
        if isinstance(allocators, messages.Unknown)
        else [fill(AllocatorSample, one, fragmentation=fragmentation(one)) for one in allocators],
        gpus=gpus if isinstance(gpus, messages.Unknown) else [_gpu(one) for one in gpus],
    )


def _counters(counters: messages.PerfCounters) -> CounterSample:
    return fill(
        CounterSample,
        counters,
        instructions_per_cycle=instructions_per_cycle(counters),
        cache_miss_share=miss_share(counters),
        last_level_miss_share=last_level_miss_share(counters),
    )


def _gpu(gpu: messages.Gpu) -> GpuSample:
    return fill(GpuSample, gpu, index=gpu.index if gpu.index >= 0 else None)
