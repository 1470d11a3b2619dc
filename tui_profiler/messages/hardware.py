"""The machine while a model runs: processor, memory, disk, network, GPUs, allocator, energy.

A figure that an older recording does not hold is ``NOT_RECORDED``.
"""

from typing import Literal, TypeAlias

from tui_profiler.messages.base import Figure, Moment, OnWire, Part, Unknown

EnergySource: TypeAlias = Literal["counter", "power"]
"""``counter`` counts energy; ``power`` is the integral of power that was looked at again and again,
which a sensor that looks away most of the time makes worse."""
Activity: TypeAlias = Literal["", "other", "idle", "running", "replay"]
EnergyOf: TypeAlias = Literal["package", "dram", "gpu"]

LEAST_STEPS = 10
"""Of a counter: over fewer, the edges of the time decide the figure."""
LEAST_SECONDS = 5.0
"""Of running, likewise."""


class Account(Part, frozen=True):
    """Energy over time of one kind, from one step of the counter to another.

    All of it lies between steps, so that energy, time and work speak of the same time. Time in
    which the kind changed is in no account.
    """

    seconds: float = 0.0
    joules: float = 0.0
    steps: int = 0
    """Times that the counter moved: below ten the edges of the time decide the figure."""
    work: float = 0.0
    """Forwards meanwhile (calls, in a replay); one under way counts for its part."""


class EnergyTotals(Part, frozen=True):
    """One counter since the model's loop began."""

    of: EnergyOf
    name: str
    """``processor packages``, ``GPU 0: NVIDIA H100``."""
    gpu: int
    """Number of the GPU, as ``Gpu.index``; -1 for what is none."""
    source: EnergySource
    running: Account
    """While forwards ran one after another, on these inputs."""
    idle: Account
    """While this process did nothing: before the first forward, and while it was paused."""
    limit_watts: float | None = None
    """Sustained power limit; None where it is not known."""
    why: str = ""
    """Why it is not counted any more; empty while it is."""


class Replay(Part, frozen=True):
    """One replay of a node."""

    seconds: float
    """That it took, without the pauses between its parts."""
    calls: int
    joules_per_call: float


class Replayed(OnWire, frozen=True):
    """Replays of one node alone, on the inputs of one forward."""

    node: int
    """Index in the shown tree."""
    of: str
    """Which counter: ``processor packages``."""
    source: EnergySource
    replays: tuple[Replay, ...]
    """At least three; empty where there are none."""
    idle_watts: float | None
    """What the counter said while nothing ran; None where that was not measured."""
    seconds_per_call: float
    """In the replay; the module clock has that of the live run."""
    why_none: str = ""
    """Why there is none; empty where there is one."""


NOT_RECORDED = Unknown("this recording is older than the figure")


class Core(Part, frozen=True):
    """One logical processor."""

    utilisation: float
    """Share of the last interval that it was busy, 0 to 1."""


class Cache(Part, frozen=True):
    """One level of the processor's caches that hold data."""

    level: int
    """1 is nearest to a core."""
    bytes: int
    """Of one such cache."""
    cores: int
    """Logical cores that share one."""
    count: int
    """How many of them serve the cores that this process may use."""


class GpuProcess(Part, frozen=True):
    """One process that computes on a GPU."""

    pid: int
    """From the driver: the id on the host, if the process is in a container."""
    memory_bytes: Figure
    utilisation: Figure
    """Share of the last second or so with one of its kernels running, 0 to 1."""


class MigDevice(Part, frozen=True):
    """One slice of a GPU that is divided (multi-instance GPU)."""

    name: str
    uuid: str
    """``MIG-…``, as in ``CUDA_VISIBLE_DEVICES``; empty if not known."""
    memory_bytes: Figure
    memory_total_bytes: Figure
    cuda_index: int | None = None
    """As for ``Gpu``."""


class EccErrors(Part, frozen=True):
    """Memory errors that ECC found on a GPU."""

    volatile_corrected: Figure = NOT_RECORDED
    """Since the driver was loaded, or the GPU reset."""
    volatile_uncorrected: Figure = NOT_RECORDED
    aggregate_corrected: Figure = NOT_RECORDED
    """Over the life of the GPU."""
    aggregate_uncorrected: Figure = NOT_RECORDED


class GpuLinks(Part, frozen=True):
    """Links from one GPU to others (NVLink)."""

    count: Figure = NOT_RECORDED
    """Links that the GPU has."""
    active: Figure = NOT_RECORDED
    """Of them, those in use."""
    link_bytes: Figure = NOT_RECORDED
    """Bytes per second that one active link carries in each direction."""
    sent_bytes: Figure = NOT_RECORDED
    """Bytes per second that all links sent since the last sample, without protocol overhead."""
    received_bytes: Figure = NOT_RECORDED
    errors: Figure = NOT_RECORDED
    """CRC errors, replays and recoveries of all links since the driver was loaded."""


class Gpu(Part, frozen=True):
    """One GPU; each figure may be unknown."""

    name: str
    utilisation: Figure
    """Share of the last interval with a kernel running, 0 to 1."""
    memory_bytes: Figure
    memory_total_bytes: Figure
    temperature_celsius: Figure
    power_watts: Figure
    """As ``nvmlDeviceGetPowerUsage`` has it: from Ampere on the mean of a second, save on GA100;
    before, of the moment. Of other vendors, of the moment where they tell it."""
    power_limit_watts: Figure
    clock_hertz: Figure
    """Of the multiprocessors, or what the vendor calls so."""
    throttled_by: str | Unknown
    """Why the clock is throttled; empty if it is not, in older recordings also if not known."""
    index: int = -1
    """Number on this machine: NVIDIA's as NVML has them, then those of other vendors; -1 in
    recordings without it, and where a vendor's driver fails."""
    uuid: str = ""
    """``GPU-…``; empty if not known."""
    cuda_index: int | None = None
    """N of ``cuda:N`` in this process; None where the process does not see it or it is not sure."""
    power_instant_watts: Figure = NOT_RECORDED
    """Of the GPU at this moment."""
    power_average_watts: Figure = NOT_RECORDED
    """Of the GPU, mean of the last second."""
    module_watts: Figure = NOT_RECORDED
    """Of the module at this moment: the GPU with the processor beside it, as on Grace Hopper."""
    memory_watts: Figure = NOT_RECORDED
    """Of the GPU's memory at this moment."""
    energy_joules: Figure = NOT_RECORDED
    """Since the driver was loaded."""
    memory_clock_hertz: Figure = NOT_RECORDED
    pcie_sent_bytes: Figure = NOT_RECORDED
    """Bytes per second from the GPU."""
    pcie_received_bytes: Figure = NOT_RECORDED
    """Bytes per second to the GPU."""
    pcie_generation: Figure = NOT_RECORDED
    """Of the link now: an idle GPU lowers it."""
    pcie_width: Figure = NOT_RECORDED
    """Lanes of the link now."""
    fan_share: Figure = NOT_RECORDED
    """Speed of the fastest fan as a share of its maximum."""
    fan_rpm: Figure = NOT_RECORDED
    """Revolutions per minute of the first fan."""
    ecc: EccErrors = EccErrors()
    links: GpuLinks = GpuLinks()
    processes: tuple[GpuProcess, ...] | Unknown = NOT_RECORDED
    """Those that compute on it, most memory first; at most 16."""
    mig: tuple[MigDevice, ...] = ()
    """Its slices; empty where it is whole."""


class Traffic(Part, frozen=True):
    """What passed since the last sample, in units a second."""

    disk_read_bytes: Figure
    """Of all disks of the machine."""
    disk_written_bytes: Figure
    network_received_bytes: Figure
    """Of all interfaces but the loopback, as this network namespace has them."""
    network_sent_bytes: Figure
    process_read_bytes: Figure
    """What this process made the storage read: what came from the page cache is not in it."""
    process_written_bytes: Figure
    voluntary_switches: Figure
    """Context switches of this process because it waited."""
    involuntary_switches: Figure
    """Because another one was given the core."""


class PerfCounters(Part, frozen=True):
    """The processor's own counters over the last interval, user space of this process.

    Threads that began after the counters are counted with the thread that began them.
    """

    seconds: float
    """How long the interval is."""
    instructions: Figure
    cycles: Figure
    cache_references: Figure
    """What the processor's vendor calls so: accesses of the last cache, mostly."""
    cache_misses: Figure
    last_level_loads: Figure
    last_level_misses: Figure
    """Of the loads."""
    counted_share: float
    """Share of the interval in which the least of them was counted: below 1 they took turns, and
    the figures are scaled up."""


class Allocator(Part, frozen=True):
    """Memory in torch's allocator of one device."""

    device: str
    """``cpu``, ``cuda:0``."""
    allocated_bytes: Figure
    """In tensors that live."""
    reserved_bytes: Figure
    """Taken from the device; the rest of it is kept for the next tensors."""
    inactive_split_bytes: Figure
    """Free parts of blocks of which other parts are in use: they cannot be given back."""
    peak_allocated_bytes: Figure
    peak_reserved_bytes: Figure
    retries: Figure
    """How often all kept memory was given back because an allocation failed."""
    out_of_memory: Figure
    """How often an allocation failed even so."""


class ProgramUse(Part, frozen=True):
    """What one process took of the machine in the last interval."""

    pid: int
    name: str
    """As the kernel has it: at most 15 bytes, chosen by the program."""
    cores: float
    """CPU seconds per second: 1.0 is one whole core."""
    memory_bytes: int
    """Resident."""
    elsewhere: bool = False
    """On cores that the process of the model may not run on. False where that is not known."""


class Pressure(Part, frozen=True):
    """Shares of the last 10 s in which some task waited, 0 to 1 (``/proc/pressure``, psi.rst)."""

    cpu: Figure
    """For a core."""
    memory: Figure
    """For memory to be had back."""
    io: Figure
    """For a disk."""


class GpuProgramUse(Part, frozen=True):
    """Use of a GPU by one process."""

    gpu: int
    """Number of the GPU in the viewer's process: usually ``Gpu.index``."""
    pid: int
    """From the driver: the id on the host, if the viewer is in a container."""
    name: str
    """As the kernel has it; empty where that is not sure, as in a container."""
    memory_bytes: Figure
    utilisation: Figure
    """Share of the last second or so with one of its kernels running, 0 to 1."""
    uuid: str = ""
    """Of the GPU, as ``Gpu.uuid``; empty in older recordings."""


class GpuProgramsUnknown(Part, frozen=True):
    """One GPU of several whose processes cannot be read."""

    gpu: int
    """As for ``GpuProgramUse``."""
    why: Unknown
    uuid: str = ""
    """As for ``GpuProgramUse``."""


class ProgramsSeen(OnWire, frozen=True):
    """Who else uses this machine; made by the source every 2 s, not by the probe."""

    seconds: float
    """How long the interval is."""
    programs: tuple[ProgramUse, ...]
    """Those that took most, the most first; the process of the model may be among them."""
    cores: float
    """CPU seconds per second of all processes that are seen from here."""
    count: int
    """How many are seen."""
    pressure: Pressure
    at: Moment | None = None
    """Seconds since the command was started, at the end of the interval; None where no message of
    the probe has told them yet, and in older recordings."""
    gpu_programs: tuple[GpuProgramUse, ...] | Unknown = NOT_RECORDED
    """On each GPU those with most memory, at most eight."""
    gpu_programs_unknown: tuple[GpuProgramsUnknown, ...] = ()
    """The GPUs whose processes cannot be read, beside others whose can."""


class Throttle(Part, frozen=True):
    """Throttling of this process and of its cores, counted since the start."""

    quota_seconds: Figure
    """In which tasks of its control groups had used up their CPU quota: of all cores together."""
    quota_periods: Figure
    """Periods of the quota in which that happened."""
    heat_seconds: Figure
    """Seconds of thermal throttling (x86), of at most four cores together."""
    heat_events: Figure
    """Number of times that thermal throttling of cores or their package began."""
    stolen_seconds: Figure = NOT_RECORDED
    """In which the hypervisor ran something else on this process's cores (steal), all together."""


class Temperature(Part, frozen=True):
    """One temperature sensor of the processor."""

    name: str
    """As its driver labels it: ``Package id 0``, ``Tctl``; ``Tctl (1)`` of the second of two."""
    celsius: Figure
    critical_celsius: Figure
    """Above it the processor throttles or turns itself off."""


class Sample(OnWire, frozen=True):
    """Hardware counters, once per second, also before torch is imported."""

    at: Moment
    cores: tuple[Core, ...]
    frequency_hertz: Figure
    memory_bytes: int
    """Used on the machine."""
    memory_total_bytes: int
    process_bytes: Figure
    """RSS of the model's process."""
    process_cpu: Figure
    """Cores that this process keeps busy: 1.0 is one whole core."""
    process_threads: Figure
    gpus: tuple[Gpu, ...] | Unknown
    package_watts: Figure
    """CPU package power."""
    process_peak_bytes: Figure = NOT_RECORDED
    """The most resident memory that the process ever had."""
    traffic: Traffic | None = None
    """None in a recording that is older, as the next one."""
    counters: PerfCounters | None = None
    allocators: tuple[Allocator, ...] | Unknown = NOT_RECORDED
    energy: tuple[EnergyTotals, ...] | Unknown = NOT_RECORDED
    """One for each counter of energy that can be read."""
    activity: Activity = ""
    """The activity of the process at that moment; empty if not known."""
    throttle: Throttle | None = None
    """None in a recording that is older."""
    temperatures: tuple[Temperature, ...] | Unknown = NOT_RECORDED
    """One for each package of the processor."""
