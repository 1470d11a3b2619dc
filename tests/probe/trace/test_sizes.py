"""Models of hostile size: 3,000 deep, 20,000 modules; traced, or refused in a sentence."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import nn

from tests.cost import cpu_seconds
from tests.probe.trace.traced import inputs_of
from tui_profiler.probe.trace.trace import TraceError, messages, trace

X = torch.ones(2, 4)


def nested(depth: int) -> nn.Module:
    model: nn.Module = nn.ReLU()
    model.training = False
    for _ in range(depth):
        model = nn.Sequential(model)
        model.training = False  # eval() recurses
    return model


def grown_megabytes(before_kib: int) -> float:
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib) / 1024


@contextmanager
def recursion_limit(limit: int) -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(limit)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def can_be_called(model: nn.Module) -> bool:
    """Return whether Python can: from 3.12 on it counts calls through C apart, 3.12.1 to 800."""
    try:
        model(X)
    except RecursionError:
        return False
    return True


def test_what_python_itself_cannot_call_is_told_with_a_remedy() -> None:
    with pytest.raises(TraceError) as caught:
        trace(nested(sys.getrecursionlimit()), (inputs_of(X),))

    assert "RecursionError" in caught.value.failed.what
    assert "setrecursionlimit" in caught.value.failed.remedies[0].command


def test_what_python_can_call_thousands_deep_is_traced() -> None:
    with recursion_limit(20_000):
        # Where so few calls through C are allowed, recording takes some of them.
        depths = ((3_000, 3_000), (450, 900), (100, 200))
        depth = next(deep for deep, called in depths if can_be_called(nested(called)))
        made = trace(nested(depth), (inputs_of(X),))

        assert sys.getrecursionlimit() == 20_000
    assert made.method == "dispatch:fake"
    assert len(made.nodes) == depth + 2
    assert made.costs[0].flops == 8


def test_time_and_memory_grow_with_the_modules_and_no_faster() -> None:
    def model(parts: int) -> nn.Module:
        row = [nn.Sequential(*[nn.Identity() for _ in range(99)]) for _ in range(parts)]
        return nn.Sequential(*row).eval()

    def traced_and_told(subject: nn.Module) -> int:
        made = trace(subject, (inputs_of(X),))
        assert sum(1 for _ in messages(made)) > 5
        return len(made.nodes)

    small, large = model(25), model(200)
    small_seconds = cpu_seconds(lambda: traced_and_told(small), rounds=3)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    nodes: list[int] = []
    seconds = cpu_seconds(lambda: nodes.append(traced_and_told(large)))

    assert nodes == [20_001]
    assert grown_megabytes(before) < 128
    assert seconds < 24 * small_seconds  # Of eight times the modules; 64 times, were it quadratic.
