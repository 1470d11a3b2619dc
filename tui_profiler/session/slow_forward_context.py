"""What was told of the machine around slow forwards: kept while they are, for their causes.

Samples come once per second and programs every two seconds, from another thread or process than the
forward: they are put beside it by time, so that nothing is read for them in the forward.
"""

from statistics import median

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.messages import Gpu, ProgramsSeen, Sample, SlowForward, known
from tui_profiler.session.history import gpu_of

USUAL_SAMPLES = 60
"""The last ones before a forward, that say what is usual."""


class Surroundings(Struct, frozen=True, eq=False):
    """What was told around one slow forward; None where nothing was, or not yet."""

    began: float
    ended: float
    forward: int
    before: Sample | None = None
    """The last that was told before it began."""
    after: Sample | None = None
    """The first that was told after it ended."""
    programs: ProgramsSeen | None = None
    """Who used the machine in the interval in which it ended."""
    usual_hertz: float | None = None
    """Median clock of the cores before it."""
    usual_gpu_hertz: float | None = None
    """Likewise of the GPU that the model is on."""


def begun(
    slow: SlowForward,
    samples: tuple[Sample, ...],
    seen: ProgramsSeen | None,
    device: str,
) -> Surroundings | None:
    """Return what is known around a forward when it is told; None where its time is not known.

    Args:
        slow: the forward.
        samples: the last ones, oldest first.
        seen: the last programs.
        device: that the model is on, as torch names it.
    """
    if slow.began is None:
        return None
    found = Surroundings(slow.began, slow.began + slow.seconds, slow.forward)
    earlier = [one for one in samples if one.at <= found.began][-USUAL_SAMPLES:]
    gpus = [gpu_of(one, device) for one in earlier] if device.startswith("cuda") else []
    found = replace(
        found,
        before=earlier[-1] if earlier else None,
        usual_hertz=_median([known(one.frequency_hertz) for one in earlier]),
        usual_gpu_hertz=_median([known(one.clock_hertz) for one in gpus if isinstance(one, Gpu)]),
    )
    for sample in samples:
        found = with_sample(found, sample)
    return found if seen is None else with_programs(found, seen)


def with_sample(around: Surroundings, sample: Sample) -> Surroundings:
    """Return the same with a sample, if it is the first after the forward."""
    is_first = around.after is None and sample.at >= around.ended
    return replace(around, after=sample) if is_first else around


def with_programs(around: Surroundings, seen: ProgramsSeen) -> Surroundings:
    """Return the same with the programs of an interval, if the forward ended in it."""
    if seen.at is None or not seen.at - seen.seconds <= around.ended <= seen.at:
        return around
    return replace(around, programs=seen)


def _median(values: list[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return median(found) if found else None
