"""A session whose energy and hardware were worked out by hand.

One forward takes 1 ms: 10 s of running are 10,000 forwards. The processor draws 100 W while they
run and 40 W while nothing does, so that a forward takes 100 mJ, 60 mJ of them above idle.
"""

from __future__ import annotations

from msgspec.structs import replace

from tests.small_model import MEASURED, SAMPLE, folded
from tui_profiler import messages
from tui_profiler.session import Session, apply

RUNNING = messages.Account(seconds=10.0, joules=1000.0, steps=100, work=10_000.0)
IDLE = messages.Account(seconds=2.0, joules=80.0, steps=20)
LIMIT_WATTS = 205.0


def totals(
    running: messages.Account = RUNNING,
    idle: messages.Account = IDLE,
    *,
    of: messages.EnergyOf = "package",
    gpu: int = -1,
    limit_watts: float | None = LIMIT_WATTS,
) -> messages.EnergyTotals:
    name = "processor packages" if of == "package" else f"GPU {gpu}: NVIDIA Fake"
    return messages.EnergyTotals(of, name, gpu, "counter", running, idle, limit_watts)


COUNTERS = messages.PerfCounters(
    seconds=1.0,
    instructions=6e9,
    cycles=2e9,
    cache_references=4e7,
    cache_misses=1e7,
    last_level_loads=2e7,
    last_level_misses=messages.Unknown(
        "this processor, or virtual machine, offers no such counter"
    ),
    counted_share=0.5,
)
TRAFFIC = messages.Traffic(1e6, 2e6, 3e6, 4e6, 5e5, 0.0, 250.0, 30.0)
ALLOCATOR = messages.Allocator("cuda:0", 600.0, 1000.0, 250.0, 900.0, 1200.0, 3.0, 0.0)
GPU = messages.Gpu(
    *("0: NVIDIA Fake", 0.37, 5 * 2.0**30, 80 * 2.0**30, 61.0, 312.5, 700.0, 1.755e9, ""),
    index=0,
    uuid="GPU-1",
    cuda_index=0,
    power_instant_watts=310.0,
    power_average_watts=300.0,
    module_watts=messages.Unknown("this GPU does not report it"),
    memory_watts=messages.Unknown("this GPU does not report it"),
    energy_joules=1800.0,
    memory_clock_hertz=1.593e9,
    pcie_sent_bytes=3e6,
    pcie_received_bytes=7e6,
    pcie_generation=5.0,
    pcie_width=16.0,
    fan_share=0.42,
    fan_rpm=1450.0,
    ecc=messages.EccErrors(3.0, 13.0, 103.0, 113.0),
    links=messages.GpuLinks(4.0, 3.0, 26.562e9, 2e9, 4e9, 12.0),
    processes=(
        messages.GpuProcess(42, 2.0**30, messages.Unknown("no recent kernel of this process")),
    ),
)
ENVIRONMENT = messages.Environment(
    *("3.11.7", "2.15.0+cpu", "", "", "Some CPU", 2, 2, 2**33),
    caches=(messages.Cache(1, 1 << 10, 1, 2), messages.Cache(2, 1 << 14, 2, 1)),
)
FULL = replace(
    SAMPLE,
    process_peak_bytes=3 * 2.0**28,
    traffic=TRAFFIC,
    counters=COUNTERS,
    allocators=(ALLOCATOR,),
    energy=(totals(),),
    activity="running",
    temperatures=(
        messages.Temperature("Package id 0", 71.5, 100.0),
        messages.Temperature(
            "Package id 1", 66.0, messages.Unknown("this sensor does not report it")
        ),
    ),
    throttle=messages.Throttle(0.0, 0.0, 2.5, 12.0, 0.0),
)


def measured(
    *samples: messages.Sample,
    device: str = "cpu",
    grid_grams_per_kwh: float | None = None,
    grid_named: str = "",
) -> Session:
    """Return a measured session after these samples, of a model on some device."""
    session = folded(MEASURED)
    assert session.model is not None
    session = replace(session, model=replace(session.model, device=device))
    session = apply(
        session, replace(ENVIRONMENT, grid_grams_per_kwh=grid_grams_per_kwh, grid_named=grid_named)
    )
    for sample in samples or (FULL,):
        session = apply(session, sample)
    return session
