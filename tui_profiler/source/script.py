"""A script of the user's in a child process, looked at from its first forward on.

1. Its output comes as ``Printed``; when it is let go, the rest goes to our own standard output.
2. Closing ends it, politely first, unless it was let go.
3. How it ended is its own affair: no exit code is a failure of ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence

from msgspec.structs import replace

from tui_profiler.messages import Ended, Observe
from tui_profiler.source.spawned import GRACE_SECONDS, READ_BYTES, Spawned

_STOPPED = 128
_BEGIN = """import sys
if not sys.flags.safe_path: del sys.path[0]
from tui_profiler.probe.script import main
main(*sys.argv[1:])"""
"""Instead of ``-P``, which the script and its children would have too. What is imported before the
first folder is gone, which is the user's, is a part of Python's core."""


class Script(Spawned):
    """A script under way. It starts at once, before any event loop runs.

    Args:
        arguments: the file, or ``-m`` and the module, then the script's own.
        started_at: Unix time at which the command was started.
        budget: what watching may cost, as a share of the model's time.
        owns_terminal: standard input, output and error are the script's own.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        started_at: float,
        budget: float,
        owns_terminal: bool = False,
    ) -> None:
        self.is_let_go = False
        """It runs on when this is closed."""
        unbuffered = [] if owns_terminal else ["-u"]  # Else the log would be behind.
        super().__init__(
            [sys.executable, *unbuffered, "-c", _BEGIN],
            [Observe()],
            arguments=[repr(started_at), repr(budget), *arguments],
            environment={},
            owns_terminal=owns_terminal,
        )
        # A copy, because the event loop closes its own when it ends.
        printed = self._child.stdout
        self._output = os.dup(printed.fileno()) if printed is not None else -1

    @property
    def is_running(self) -> bool:
        """Whether it has not ended; where it has said that it does, it is given time for that."""
        return self._child.poll() is None and not self._has_hung_up

    @property
    def exit_code(self) -> int:
        """What a shell would give for it; once it has ended."""
        assert isinstance(self._child, subprocess.Popen)  # It was started, not forked.
        code = self._child.wait()
        return code if code >= 0 else _STOPPED - code

    def let_go(self) -> None:
        """Let it run on when this is closed."""
        self.is_let_go = True

    def follow(self) -> int:
        """Pass on what it prints until it ends; gives its exit code. An interrupt is passed on."""
        os.set_blocking(self._output, True)
        while True:
            try:
                while data := os.read(self._output, READ_BYTES):
                    sys.stdout.buffer.write(data)
                    sys.stdout.buffer.flush()
                return self.exit_code
            except KeyboardInterrupt:
                self._signal(signal.SIGINT)

    async def close(self) -> None:
        """End the script, unless it was let go: then only hang up."""
        if not self.is_let_go:
            if self._has_hung_up:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wait(), GRACE_SECONDS)
            await super().close()
        elif self._writer is not None and not self._writer.is_closing():
            self._asked_to_stop = True
            self._writer.close()

    def _ended(self, code: int) -> Ended:
        # Its own code, whatever it is, ends it as expected; a signal that we did not send does not.
        return replace(super()._ended(code), expected=code >= 0 or self._asked_to_stop)
