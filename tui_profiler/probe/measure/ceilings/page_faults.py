"""CPU time of a page fault: of memory that is written for the first time.

1. Tensors larger than malloc's threshold get memory from the kernel anew, and give it back: each
   page costs a fault and is set to zero by the kernel, in every forward.
2. The cost is that of writing fresh memory less that of writing it again, over the faults that the
   kernel counted, by the thread's CPU time: other programs' use of the cores is not in it.
3. Where the kernel gives huge pages, one fault may be of 4 KiB or of 2 MiB: it has no single cost.
"""

import mmap
from resource import RUSAGE_THREAD, getrusage
from statistics import median

import numpy as np

from tui_profiler.messages import Figure, Unknown
from tui_profiler.system.real_time import thread_time

FAULT_BYTES = 32 << 20
"""Memory that is written: more than the caches that are near to a core hold."""
REPEATS = 5
LEAST_FAULTS = 0.5
"""Share of the pages: with fewer faults some pages are huge."""
HUGE_PAGES = Unknown("huge pages: the cost of a fault depends on the size of its page")


def fault_seconds() -> Figure:
    """Return the CPU seconds of a minor page fault, the median of ``REPEATS``."""
    found = [_fault_seconds() for _ in range(REPEATS)]
    known = [each for each in found if each is not None]
    return median(known) if len(known) == len(found) else HUGE_PAGES


def _fault_seconds() -> float | None:
    with mmap.mmap(-1, FAULT_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as fresh:
        values = np.frombuffer(fresh, np.float32)
        faults, began = getrusage(RUSAGE_THREAD).ru_minflt, thread_time()
        values[:] = 1.0
        first = thread_time() - began
        faults = getrusage(RUSAGE_THREAD).ru_minflt - faults
        began = thread_time()
        values[:] = 2.0
        again = thread_time() - began
        del values
    if faults < LEAST_FAULTS * FAULT_BYTES / mmap.PAGESIZE:
        return None
    return max(first - again, 0.0) / faults
