"""The last minutes as they are folded: one value a second, bounded in number and in bytes."""

from __future__ import annotations

import sys

from msgspec.structs import replace

from tests.screens.panel_session import H200, NO_DRIVER, folded, sample, tick
from tui_profiler.messages import Message, Unknown
from tui_profiler.session import Session
from tui_profiler.session.history import (
    MAX_SECONDS,
    NO_GPU,
    LatencySecond,
    LoadSecond,
    gpu_of,
    watts_of,
)

BOUND_BYTES = 512 * 1024


def an_hour() -> Session:
    """A quarter more than is kept, four ticks and one sample a second."""
    said: list[Message] = []
    for quarter in range(MAX_SECONDS * 5):
        at = quarter / 4
        said.append(replace(tick(at, calls=quarter + 1), latency_p50=at, latency_p95=at + 1))
        if quarter % 4 == 0:
            said.append(sample(at, package_watts=at, gpus=(replace(H200, utilisation=at),)))
    return folded(said)


def test_they_are_bounded_in_number_and_in_bytes():
    history = an_hour().history
    first = MAX_SECONDS * 5 // 4 - MAX_SECONDS
    assert [one.second for one in history.latencies] == list(range(first, first + MAX_SECONDS))
    assert [one.second for one in history.loads] == list(range(first, first + MAX_SECONDS))
    assert history.latencies[-1] == LatencySecond(first + MAX_SECONDS - 1, 1124.75, 1125.75)
    assert sum(map(bytes_of, (history.latencies, history.loads))) < BOUND_BYTES


def bytes_of(seconds: tuple[LatencySecond, ...] | tuple[LoadSecond, ...]) -> int:
    fields = [getattr(one, name) for one in seconds for name in one.__struct_fields__]
    return sys.getsizeof(seconds) + sum(map(sys.getsizeof, (*seconds, *fields)))


def test_the_last_tick_of_a_second_is_kept():
    session = folded(
        [replace(tick(at, calls=n), latency_p50=at) for n, at in enumerate((7.0, 7.9))]
    )
    assert session.history.latencies == (LatencySecond(7, 7.9, 40e-3),)


def test_a_tick_without_a_new_forward_takes_nothing_from_its_second():
    session = folded([tick(7.0, calls=5), tick(7.9, calls=5), tick(8.5, calls=5)])
    assert session.history.latencies == (
        LatencySecond(7, 36.5e-3, 40e-3),
        LatencySecond(8, None, None),
    )


def test_what_is_unknown_is_none():
    (load,) = folded([sample(3.2, cores=())]).history.loads
    assert load == LoadSecond(3, None, None, None)


def test_the_gpu_is_the_one_of_the_model_else_the_first():
    first, second = replace(H200, cuda_index=0), replace(H200, cuda_index=1, power_watts=9.0)
    both = sample(1.0, gpus=(first, second))
    assert gpu_of(both, "cuda:1") is second
    assert gpu_of(both, "cuda") is gpu_of(both, "cpu") is first
    assert gpu_of(sample(1.0, gpus=()), "cpu") == NO_GPU
    assert gpu_of(sample(1.0), "cuda:0") == NO_DRIVER


def test_power_is_never_that_of_another_device():
    hidden = sample(1.0, gpus=(H200,), package_watts=31.0)
    assert watts_of(hidden, "cpu") == 31.0
    assert watts_of(hidden, "cuda:2") == Unknown("which of the GPUs is cuda:2 is not known")
    assert watts_of(sample(1.0), "cuda:0") == NO_DRIVER
