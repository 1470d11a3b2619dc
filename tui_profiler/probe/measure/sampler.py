"""The machine's counters at one moment, as the ``Sample`` message.

Imports neither torch nor numpy: it runs in the worker while torch is still being imported, so that
the hardware is live from the first frame.
"""

from collections.abc import Sequence
from pathlib import Path

import psutil
from msgspec.structs import replace

from tui_profiler.gpus.gpus import Gpus
from tui_profiler.gpus.watch import GpuWatch
from tui_profiler.messages import Figure, Sample, Unknown
from tui_profiler.probe.measure.devices.allocator import allocators, cuda_uuids
from tui_profiler.probe.measure.devices.cores import CoreMeter, frequency_hertz
from tui_profiler.probe.measure.devices.disk_network import TrafficMeter
from tui_profiler.probe.measure.devices.machine import allowed_cores, memory, memory_group
from tui_profiler.probe.measure.devices.perf_counters import PerfMeter
from tui_profiler.probe.measure.devices.temperature import Thermometer
from tui_profiler.probe.measure.devices.throttling import ThrottleCounters
from tui_profiler.probe.measure.energy.meter import EnergyWatch
from tui_profiler.probe.measure.energy.rapl import Rapl
from tui_profiler.system import real_time as time

# Over less than this, reading the two clocks one after the other would be in the quotient.
_LEAST_SECONDS = 0.01
_STATUS = Path("/proc/self/status")


class Sampler:
    """What was read last from every counter that only means something as a difference.

    Not for several threads at once. Figures over an interval reach back to the last sample, those
    of the first one to the making of the sampler.

    Args:
        started_at: ``time.time()`` when the command was started.
        device_indices: NVML's numbers of the GPUs to sample; None for all.
        energy: The energy counters, which are told what this process does; started and closed by
            whoever made them. None leaves them alone.
    """

    def __init__(
        self,
        started_at: float,
        device_indices: Sequence[int] | None = None,
        energy: EnergyWatch | None = None,
    ) -> None:
        self._began = time.monotonic() - (time.time() - started_at)
        self._energy = energy
        self._cores = allowed_cores()
        self._meter = CoreMeter(self._cores)
        self._group = memory_group()
        self._process = psutil.Process()
        self._gpus = GpuWatch(Gpus.gpus, device_indices, cuda_uuids=cuda_uuids)
        self._rapl = Rapl()
        now = time.monotonic()
        self._rapl.watts(now)
        self._traffic = TrafficMeter(self._process, now)
        self._counters = PerfMeter(now)
        self._throttle = ThrottleCounters(self._cores)
        self._thermometer = Thermometer()
        self._cpu: Figure = Unknown("needs a second sample")
        self._cpu_before = (time.monotonic(), time.process_time())

    def sample(self) -> Sample:
        """Read every counter; at most 50 ms, nearly all of it waiting for a GPU driver."""
        now = time.monotonic()
        used_bytes, total_bytes = memory(self._group)
        resident_bytes, threads = self._process_figures()
        return Sample(
            at=time.monotonic() - self._began,
            cores=self._meter.utilisation(),
            frequency_hertz=frequency_hertz(self._cores),
            memory_bytes=used_bytes,
            memory_total_bytes=total_bytes,
            process_bytes=resident_bytes,
            process_cpu=self._process_cpu(),
            process_threads=threads,
            gpus=self._gpus.answer(now),
            package_watts=self._rapl.watts(now),
            process_peak_bytes=peak_bytes(),
            traffic=self._traffic.traffic(now),
            counters=self._counters.counters(now),
            allocators=allocators(),
            energy=self._energy.totals() if self._energy is not None else _NO_ENERGY,
            activity=self._energy.activity if self._energy is not None else "",
            throttle=replace(self._throttle.read(), stolen_seconds=self._meter.stolen_seconds),
            temperatures=self._thermometer.temperatures(),
        )

    def close(self) -> None:
        """End the sessions of GPU drivers; the sampler is not used after it."""
        self._gpus.close()
        self._counters.close()

    def _process_cpu(self) -> Figure:
        now, cpu = time.monotonic(), time.process_time()
        before, cpu_before = self._cpu_before
        if now - before >= _LEAST_SECONDS:
            self._cpu = (cpu - cpu_before) / (now - before)
            self._cpu_before = (now, cpu)
        return self._cpu

    def _process_figures(self) -> tuple[Figure, Figure]:
        """Return resident bytes and threads of this process."""
        try:
            return float(self._process.memory_info().rss), float(self._process.num_threads())
        except (psutil.Error, OSError):
            why = Unknown("no process counters on this system")
            return why, why


_NO_ENERGY = Unknown("energy is not watched in this process")


def peak_bytes(status: Path = _STATUS) -> Figure:
    """Return most resident memory that this process ever had (``VmHWM``, proc_pid_status(5))."""
    try:
        for line in status.read_text(encoding="ascii", errors="replace").splitlines():
            field, _, value = line.partition(":")
            if field == "VmHWM":
                return float(value.removesuffix(" kB")) * 1024
    except (OSError, ValueError):
        pass  # not Linux, or a sandbox that writes it its own way
    return Unknown("the kernel does not report the peak of this process")
