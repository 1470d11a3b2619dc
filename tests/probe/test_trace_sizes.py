"""Models of hostile size: 3,000 deep, 100,000 modules; traced, or refused in a sentence."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import nn

from tests.probe.traced import inputs_of
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


def test_what_python_itself_cannot_call_is_told_with_a_remedy() -> None:
    with pytest.raises(TraceError) as caught:
        trace(nested(3_000), (inputs_of(X),))

    assert "RecursionError" in caught.value.failed.what
    assert "setrecursionlimit" in caught.value.failed.remedies[0].command


def test_what_python_can_call_three_thousand_deep_is_traced() -> None:
    with recursion_limit(20_000):
        made = trace(nested(3_000), (inputs_of(X),))

        assert sys.getrecursionlimit() == 20_000
    assert made.method == "dispatch:fake"
    assert len(made.nodes) == 3_002
    assert made.costs[0].flops == 8


def test_a_hundred_thousand_modules_take_seconds_and_little_memory() -> None:
    row = [nn.Sequential(*[nn.Identity() for _ in range(99)]) for _ in range(1_000)]
    model = nn.Sequential(*row).eval()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()

    made = trace(model, (inputs_of(X),))
    parts = sum(1 for _ in messages(made))

    assert len(made.nodes) == 100_001
    assert parts > 50
    assert grown_megabytes(before) < 512
    assert time.process_time() - began < 10  # 4.4 to 6.3 s where others are busy
