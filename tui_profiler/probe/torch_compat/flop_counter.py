"""``FlopCounterMode`` of all the releases of torch that are supported, as of 2.15.

Its import is triton's too, so this is imported only to count with it: what is needed in a program's
own process is in ``flop_formulas``.
"""

from __future__ import annotations

import inspect
from collections import Counter
from typing import Any

from torch._ops import HigherOrderOperator
from torch.utils.flop_counter import FlopCounterMode

_SKIPS = "skip_unsupported" in inspect.signature(FlopCounterMode).parameters
"""Whether the counter runs what it has no formula for; torch 2.15 and later."""


class FlopCounter(FlopCounterMode):
    """``FlopCounterMode`` that runs every operator, and notes how often each came by."""

    def __init__(self) -> None:
        options: dict[str, Any] = {"skip_unsupported": True} if _SKIPS else {}
        super().__init__(display=False, **options)
        self.calls: Counter[object] = Counter()
        self._skipped: Counter[str] = Counter()

    def __enter__(self) -> FlopCounter:
        super().__enter__()  # type: ignore[no-untyped-call] # torch has no types here
        if not _SKIPS:
            self._run_higher_order_operators()
        return self

    def skipped(self) -> dict[str, int]:
        """Return the calls of each operator that has no formula, by name."""
        found = {str(op): n for op, n in self.calls.items() if op not in self.flop_registry}
        unsupported = getattr(self, "get_unsupported_ops", lambda: self._skipped)
        return found | dict(unsupported())

    # Private, but what it sees is what is left after the counter's own decompositions. Where the
    # name is gone the counts stay right, and the skipped operators are not named.
    def _count_flops(self, func_packet: object, out: Any, args: Any, kwargs: Any) -> Any:
        self.calls[func_packet] += 1
        return super()._count_flops(func_packet, out, args, kwargs)  # type: ignore[no-untyped-call] # torch has no types here

    def _run_higher_order_operators(self) -> None:
        """Do as torch 2.15 does: count those with a formula, run the others."""
        handled = getattr(self.mode, "_handle_higher_order_ops", None)
        if handled is None:
            return

        def handle(
            func: HigherOrderOperator, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
        ) -> Any:
            made = handled(func, types, args, kwargs)
            if made is not NotImplemented:
                return made
            out = func(*args, **kwargs)
            if func in self.flop_registry:
                return self._count_flops(func, out, args, kwargs)
            self._skipped[str(func)] += 1
            return out

        vars(self.mode)["_handle_higher_order_ops"] = handle
