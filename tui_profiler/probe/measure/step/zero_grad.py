"""Whether gradients are kept and set to zero between two steps, or let go of.

1. Told by a few parameters of the model, in recorded steps: a gradient that is the same tensor when
   the first backward pass begins as it was when the optimizer had stepped, and was written to since
   (``Tensor._version``), was set to zero in place. One that was not written to is added up.
2. Of the smallest of them the values are read, where that is a small tensor on the CPU: a program
   may write something else than zeros. On a GPU nothing is read, which would wait for it.
3. On the program's thread, where its parts are told anyway. Nothing here raises, nothing is kept
   alive.
"""

import weakref
from itertools import islice
from threading import get_ident

import torch

from tui_profiler.messages import KeptGradients
from tui_profiler.probe.measure.clock.backward import gradients_now
from tui_profiler.probe.torch_compat.modules import each_parameter
from tui_profiler.probe.torch_compat.threads import why_not_record, without_torch_function

MOST_PARAMETERS = 4
MOST_LOOKED_AT = 2_000
MOST_READ = 4_096
"""Elements of the gradient whose values are read."""


class GradientWatch:
    """The gradients of one model, between its steps.

    Args:
        model: it is not kept alive.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        with without_torch_function():
            trained = (one for one in each_parameter(model) if one.requires_grad and one.is_leaf)
            chosen = list(islice(trained, MOST_LOOKED_AT))
            self._bytes = sum(one.numel() * one.element_size() for one in chosen)
            smallest = sorted(chosen, key=lambda one: one.numel())[:1]
            spread = chosen[:: max(len(chosen) // MOST_PARAMETERS, 1)][:MOST_PARAMETERS]
        self._parameters = [weakref.ref(one) for one in (*smallest, *spread)]
        self._before: tuple[int, list[tuple[int, int] | None]] = (0, [])
        """Thread, and what gradients were when the optimizer had stepped; thread 0: not known."""
        self._steps = self._zeroed = self._read = 0
        self._is_broken = False

    def after_update(self) -> None:
        """Take note of the gradients with which the optimizer has stepped."""
        self._before = (0, []) if self._is_broken else (get_ident(), self._told())

    def before_pass(self) -> None:
        """Compare them with those that the first backward pass since finds."""
        (thread, before), self._before = self._before, (0, [])
        if thread != get_ident() or not any(before):
            return
        now = self._told()
        if not now:
            return
        self._steps += 1
        pairs = [(then, found) for then, found in zip(before, now, strict=True) if then]
        if not all(found and found[0] == then[0] and found[1] > then[1] for then, found in pairs):
            return
        is_zero = self._is_zero()
        self._zeroed += is_zero is not False
        self._read += is_zero is True

    def kept(self) -> KeptGradients | None:
        """Return what was seen; None before any step was."""
        if not self._steps:
            return None
        return KeptGradients(self._steps, self._zeroed, self._read, self._bytes)

    def _told(self) -> list[tuple[int, int] | None]:
        """Return what tells each gradient of now from another, and from itself written to."""
        try:
            return gradients_now(self._parameters)
        except Exception:  # In the midst of the program: what its classes raise stays here.
            self._is_broken = True
            return []

    def _is_zero(self) -> bool | None:
        """Return whether the smallest gradient is zero; None where that is not read."""
        try:
            with without_torch_function(), torch.no_grad():
                parameter = self._parameters[0]()
                gradient = None if parameter is None else parameter.grad
                if gradient is None or not _is_readable(gradient) or why_not_record():
                    return None
                return not bool(torch.count_nonzero(gradient))
        except Exception:  # As above.
            self._is_broken = True
            return None


def _is_readable(gradient: torch.Tensor) -> bool:
    return (
        type(gradient) is torch.Tensor
        and gradient.device.type == "cpu"
        and gradient.layout is torch.strided
        and gradient.numel() <= MOST_READ
    )
