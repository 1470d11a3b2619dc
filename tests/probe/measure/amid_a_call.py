"""What happens on another thread amid a call, at an instruction that a test chooses."""

import sys
from collections.abc import Callable
from types import FrameType


class AmidACall:
    """Does something at one instruction of a module of ours, as another thread may.

    Args:
        module: its file.
        instruction: of those that a call runs in it, from 1.
        do: what is done before it.
    """

    def __init__(self, module: str, instruction: int, do: Callable[[], object]) -> None:
        self._module, self._instruction, self._do = f"/{module}", instruction, do
        self.passed = 0
        """Instructions so far."""

    def run(self, call: Callable[[], object]) -> None:
        """Make the call."""
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            call()
        finally:
            sys.settrace(before)

    def _trace(self, frame: FrameType, event: str, _: object) -> Callable[..., object] | None:
        if not frame.f_code.co_filename.endswith(self._module):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.passed += 1
            if self.passed == self._instruction:
                self._do()
        return self._trace
