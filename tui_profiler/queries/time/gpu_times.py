"""What times of a GPU are of, and whether it waits for the host."""

from tui_profiler.figures.units import duration, share, thousands
from tui_profiler.formatting.text import safe
from tui_profiler.session import Session


def is_on_gpu(session: Session) -> bool:
    """Return whether the model runs on a GPU of CUDA's."""
    return session.model is not None and session.model.device.startswith("cuda")


def why_not_timed_on_gpu(session: Session) -> str:
    """Return why times of a model on a GPU are those of the host; empty where they are not."""
    if not is_on_gpu(session) or session.timings is None or session.is_timed_on_gpu:
        return ""
    if session.device is None:
        return "no forward was timed on the GPU"
    times = session.device.times
    if times.why_none:
        return safe(times.why_none)
    if times.captured:
        return "its kernels are in a captured CUDA graph"
    if times.dropped and not times.forwards:
        return "no events were free: the GPU is too far behind the host"
    return "no forward like the one recorded was timed on the GPU"


def host_seconds(session: Session) -> float | None:
    """Return in how long the host enqueues a forward of a model timed on a GPU, in the mean."""
    if not session.is_timed_on_gpu or session.host is None:
        return None
    return session.host.per_forward(0)


def waiting_words(session: Session) -> str:
    """Say whether the GPU waits for the host; empty where it does not time the model."""
    device = session.gpu_forwards
    if device is None:
        return ""
    if device.waits_for_host is None:
        return f"whether it waits for the host is not known: {thousands(device.forwards)} forwards"
    forwards, waiting = thousands(device.forwards), device.waiting_share
    if device.waits_for_host:
        return (
            f"waits for the host: caught up at the end of {share(waiting)} of {forwards} forwards"
        )
    queued = f"work still queued at the end of {share(1 - waiting)} of {forwards} forwards"
    return f"does not wait for the host: {queued}"


def gpu_words(session: Session) -> tuple[str, ...]:
    """Say what the times of a model on a GPU are of, by lines; none of a model elsewhere."""
    if why := why_not_timed_on_gpu(session):
        return (f"host times (enqueueing only): {why}",)
    if not session.is_timed_on_gpu:
        return ()
    enqueued = host_seconds(session)
    host = f"; the host takes {duration(enqueued)} to enqueue a forward" if enqueued else ""
    return (f"timed with CUDA events{host}", waiting_words(session))
