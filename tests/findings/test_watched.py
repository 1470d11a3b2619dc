"""Advice about a program of the user's: what its own forwards say of autograd."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.probe.watch.watched_model import Net, has_times, sockets
from tests.viewer import Viewer, place_of
from tui_profiler import watch
from tui_profiler.findings.execution.inference_mode import inference_mode

__all__ = ["sockets"]  # The fixture that keeps sockets apart.


def forwards(net: Net, x: torch.Tensor, *, gradients: bool) -> Callable[[], object]:
    def run() -> None:
        with torch.set_grad_enabled(gradients):
            for _ in range(20):
                net(x)

    return run


@pytest.mark.parametrize("gradients", [True, False])
def test_a_program_that_infers_with_gradients_is_told_so(gradients: bool) -> None:
    net, x = Net().eval(), torch.zeros(4, 8)
    with watch(net, "net", grace_seconds=0.0), Viewer(place_of("net")) as viewer:
        session = viewer.until(has_times, forwards(net, x, gradients=gradients))
    found = inference_mode(session)
    follows = found.evidence[0].figure == 1 if found is not None else False
    assert follows == gradients
