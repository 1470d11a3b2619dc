"""The machine's counters at one moment, as the ``Sample`` message.

Imports neither torch nor numpy: it runs in the worker while torch is still being imported, so that
the hardware is live from the first frame.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import psutil

from tui_profiler.messages import Figure, Sample, Unknown
from tui_profiler.probe.measure.cores import CoreMeter, frequency_hertz
from tui_profiler.probe.measure.gpus import GpuWatch
from tui_profiler.probe.measure.machine import allowed_cores, memory, memory_group
from tui_profiler.probe.measure.rapl import Rapl

# Over less than this, reading the two clocks one after the other would be in the quotient.
_LEAST_SECONDS = 0.01


class Sampler:
    """What was read last from every counter that only means something as a difference.

    Not for several threads at once. Figures over an interval reach back to the last sample, those
    of the first one to the making of the sampler.

    Args:
        started_at: ``time.time()`` when the command was started.
        device_indices: NVML's numbers of the GPUs to sample; None for all.
    """

    def __init__(self, started_at: float, device_indices: Sequence[int] | None = None) -> None:
        self._started_at = started_at
        self._cores = allowed_cores()
        self._meter = CoreMeter(self._cores)
        self._group = memory_group()
        self._process = psutil.Process()
        self._gpus = GpuWatch(device_indices)
        self._rapl = Rapl()
        self._rapl.watts(time.monotonic())
        self._cpu: Figure = Unknown("needs a second sample")
        self._cpu_before = (time.monotonic(), time.process_time())

    def sample(self) -> Sample:
        """Read every counter; at most 50 ms, nearly all of it waiting for a GPU driver."""
        now = time.monotonic()
        used_bytes, total_bytes = memory(self._group)
        resident_bytes, threads = self._process_figures()
        return Sample(
            at=time.time() - self._started_at,
            cores=self._meter.utilisation(),
            frequency_hertz=frequency_hertz(self._cores),
            memory_bytes=used_bytes,
            memory_total_bytes=total_bytes,
            process_bytes=resident_bytes,
            process_cpu=self._process_cpu(),
            process_threads=threads,
            gpus=self._gpus.gpus(now),
            package_watts=self._rapl.watts(now),
        )

    def close(self) -> None:
        """End the NVML session; the sampler is not used after it."""
        self._gpus.close()

    def _process_cpu(self) -> Figure:
        now, cpu = time.monotonic(), time.process_time()
        before, cpu_before = self._cpu_before
        if now - before >= _LEAST_SECONDS:
            self._cpu = (cpu - cpu_before) / (now - before)
            self._cpu_before = (now, cpu)
        return self._cpu

    def _process_figures(self) -> tuple[Figure, Figure]:
        """Give resident bytes and threads of this process."""
        try:
            return float(self._process.memory_info().rss), float(self._process.num_threads())
        except (psutil.Error, OSError):
            why = Unknown("no process counters on this system")
            return why, why
