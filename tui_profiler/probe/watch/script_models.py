"""What looks at the models of a script: from when it has imported torch until it ends.

1. torch is imported by the script, when and as it likes. Before, there is nothing here but what
   listens for that, and the link to the viewer.
2. The looking begins before the import returns: the very first forward is to be seen. What it needs
   is imported on the script's thread, since other threads may wait there for locks of the import.
3. The outermost module with parameters that is called is the model that is looked at; when that is
   gone, or another one is run, the next one; what it calls, where its forward goes on and on
   (``model_choice.py``). It is never called by us.
4. When the script ends, what was measured last is sent, for a second at most.
5. Other viewers attach as to a program that is watched, also once the first one has left. A child
   that it forks has a socket of its own: at once, or once it imports torch.
"""

import atexit
import importlib
import os
import sys
from collections.abc import Callable

from tui_profiler.messages import Failed, Hello, Printed, StageDone, StageStarted
from tui_profiler.messages.live import WIRE_VERSION
from tui_profiler.probe.process.link import Link
from tui_profiler.probe.watch import child_environment, enabled
from tui_profiler.probe.watch.enabled import BROUGHT
from tui_profiler.probe.watch.first_import import FirstImport
from tui_profiler.system import real_time as time

LISTEN_SECONDS = 2.0
"""How long an import of torch waits, at most, until the first forward would be seen."""
FLUSH_SECONDS = 1.0
UNSEEN = "torch was not loaded by Python's import; a plain import torch before it is observed"
NO_MODEL_YET = "the script has called no model yet"
_SILENT = ("KINETO_LOG_LEVEL", "99")
"""Keeps torch's profiler from printing: it is read when that is set up, and never again."""


class ScriptModels:
    """Looks at what a script runs.

    Args:
        link: to the one viewer.
        name: of the script.
        started_at: Unix time at which the command was started.
        budget: what watching may cost, as a share of the model's time.
    """

    def __init__(self, link: Link, name: str, started_at: float, budget: float) -> None:
        self._link = link
        self._name = name
        self._started_at = started_at
        self._began = time.monotonic() - (time.time() - started_at)
        self._budget = budget
        self._import_began: float | None = None
        self._level_before: str | None = None
        self._is_looking = False
        self._tell_raised: Callable[[BaseException], None] | None = None

    def raised(self, error: BaseException) -> None:
        """Take note of what the script failed by; before anything else is done about it."""
        if self._tell_raised is not None:
            self._tell_raised(error)

    def listen(self) -> None:
        """Wait for the script to import torch. Its folder is not to be on the path yet."""
        enabled.dismiss()
        for name in BROUGHT:
            importlib.import_module(name)
        child_environment.follow()
        self._link.send(Hello(WIRE_VERSION, os.getpid(), (), NO_MODEL_YET))
        waits = "torch not imported yet"
        self._link.send(StageStarted("worker", 0.0, waits))
        os.register_at_fork(after_in_child=self._in_child)
        atexit.register(self._say_unseen)
        if "torch" in sys.modules:  # By what Python runs when it starts.
            self._begins()
            self._ended(is_there=True)
        else:
            FirstImport("torch", self._begins, self._ended).listen()

    def _in_child(self) -> None:
        """Leave the viewer to the parent, in a child that the script has forked."""
        self._link.abandon()
        if self._is_looking:
            from tui_profiler.probe.watch import out_of_memory  # noqa: PLC0415 # it is there

            # Nothing of ours tells of what is raised there: it is heard as in a watched program.
            out_of_memory.ERRORS.is_in_script = False
            self._tell_raised = None

    def _now(self) -> float:
        return time.monotonic() - self._began

    def _begins(self) -> None:
        if self._link.is_closed:
            return
        now = self._import_began = self._now()
        self._link.send(StageDone("worker", now, now))
        self._link.send(StageStarted("import torch", now))
        name, level = _SILENT
        self._level_before = os.environ.get(name)
        os.environ[name] = level

    def _ended(self, is_there: bool) -> None:
        began, self._import_began = self._import_began, None
        if began is None:
            enabled.imported(is_there)  # The viewer has left, or this is a child (rule 5).
            return
        now = self._now()
        self._link.send(
            StageDone("import torch", now, now - began, "" if is_there else "it raised")
        )
        try:
            if is_there and not self._link.is_closed:
                self._look_on()
        except Exception as error:  # The border: the script's import is none of our mistakes'.
            why = f"{type(error).__name__}: {error}"
            self._link.send(Failed("worker", "the probe could not start", why=why))
        finally:
            self._put_level_back()

    def _put_level_back(self) -> None:
        name, before = _SILENT[0], self._level_before
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before

    def _look_on(self) -> None:
        from msgspec.structs import replace  # noqa: PLC0415 # rule 1

        from tui_profiler.probe.watch import out_of_memory, windows  # noqa: PLC0415
        from tui_profiler.probe.watch.model_choice import ModelChoice  # noqa: PLC0415
        from tui_profiler.probe.watch.observer import Observer  # noqa: PLC0415
        from tui_profiler.probe.watch.preload import rehearse  # noqa: PLC0415
        from tui_profiler.probe.watch.server import Server  # noqa: PLC0415
        from tui_profiler.probe.watch.watch import program  # noqa: PLC0415

        rehearse()
        windows.warm_up()
        server = Server()
        name = self._name
        who = replace(program(name), command=name, started_at=self._started_at)
        where = ModelChoice()
        observer = Observer(who, "", where.is_model, self._budget, server.wake, elsewhere=where)
        why_alone = server.add_called(observer, self._link)
        if why_alone:
            self._link.send(Printed(f"tui-profiler: no other viewer can attach: {why_alone}\n"))
        self._is_looking = True
        out_of_memory.ERRORS.is_in_script = True
        self._tell_raised = out_of_memory.ERRORS.raised
        deadline = time.monotonic() + LISTEN_SECONDS
        while not observer.is_active and not self._link.is_closed and time.monotonic() < deadline:
            time.sleep(0.005)

        def end() -> None:
            server.remove(observer, "the script ended")
            self._flush()

        atexit.register(end)  # Runs when the script's own threads have ended as well.

    def _flush(self) -> None:
        deadline = time.monotonic() + FLUSH_SECONDS
        while not self._link.is_closed and time.monotonic() < deadline:
            time.sleep(0.005)

    def _say_unseen(self) -> None:
        if not self._is_looking and "torch" in sys.modules and not self._link.is_closed:
            self._link.send(Failed("import torch", "no model could be profiled", why=UNSEEN))
            self._link.flush(FLUSH_SECONDS)
