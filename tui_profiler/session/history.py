"""The last minutes, one value a second: what ticks and samples said that is still small when old.

1. A second holds the last that was told in it, so that passing over all but the last message of
   each second gives the same.
2. Seconds in which nothing was told are not there; at most ``MAX_SECONDS`` are kept of each kind.
"""

import math

from msgspec import Struct

from tui_profiler.messages import Figure, Gpu, Sample, Tick, Unknown, known

MAX_SECONDS = 900
NO_GPU = Unknown("no GPU on this machine")


class LatencySecond(Struct, frozen=True):
    """What the last tick of one second said of whole forwards."""

    second: int
    """Seconds since the command was started, whole."""
    p50: float | None
    """Seconds; None where no forward finished since the previous tick: the model was paused."""
    p95: float | None


class LoadSecond(Struct, frozen=True):
    """What the last sample of one second said; None where it was not known."""

    second: int
    """Seconds since the command was started, whole."""
    cpu: float | None
    """Mean share that the cores were busy, 0 to 1."""
    gpu: float | None
    """Share of time that the model's GPU, else the first, ran a kernel, 0 to 1."""
    watts: float | None
    """Power of the device that the model is on."""


def with_tick(
    seconds: tuple[LatencySecond, ...], tick: Tick, before: Tick | None
) -> tuple[LatencySecond, ...]:
    """Add a tick; ``before`` is the one before of the same tree, None where there is none."""
    ran = before is None or tick.forwards != before.forwards
    second = math.floor(tick.at)
    if seconds and seconds[-1].second == second:
        if not ran:
            return seconds
        seconds = seconds[:-1]
    latest = LatencySecond(
        second, tick.latency_p50 if ran else None, tick.latency_p95 if ran else None
    )
    return (*seconds, latest)[-MAX_SECONDS:]


def with_sample(
    seconds: tuple[LoadSecond, ...], sample: Sample, device: str
) -> tuple[LoadSecond, ...]:
    """Add a sample; ``device`` is the one that the model is on, as torch names it."""
    second = math.floor(sample.at)
    cores = sample.cores
    gpu = gpu_of(sample, device)
    latest = LoadSecond(
        second,
        sum(core.utilisation for core in cores) / len(cores) if cores else None,
        None if isinstance(gpu, Unknown) else known(gpu.utilisation),
        known(watts_of(sample, device)),
    )
    kept = seconds[:-1] if seconds and seconds[-1].second == second else seconds
    return (*kept, latest)[-MAX_SECONDS:]


def gpu_of(sample: Sample, device: str) -> Gpu | Unknown:
    """Return the GPU that the model is on; where it is on none, the first."""
    if isinstance(sample.gpus, Unknown):
        return sample.gpus
    if not sample.gpus:
        return NO_GPU
    return seen_as(sample.gpus, device) or sample.gpus[0]


def watts_of(sample: Sample, device: str) -> Figure:
    """Return the power of the device that the model is on: its GPU, else the processor package."""
    if not device.startswith("cuda"):
        return sample.package_watts
    if isinstance(sample.gpus, Unknown):
        return sample.gpus
    gpu = seen_as(sample.gpus, device)
    return (
        Unknown(f"which of the GPUs is {device} is not known") if gpu is None else gpu.power_watts
    )


def seen_as(gpus: tuple[Gpu, ...] | Unknown, device: str) -> Gpu | None:
    """Return the GPU that is a device of torch's; None for other devices, and where none is."""
    kind, _, number = device.partition(":")
    if kind != "cuda" or isinstance(gpus, Unknown):
        return None
    index = int(number) if number.isdecimal() else 0
    return next((gpu for gpu in gpus if gpu.cuda_index == index), None)
