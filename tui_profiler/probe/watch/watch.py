"""``watch``: the one line that lets viewers look into a running program."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import TracebackType

import torch

from tui_profiler.messages import Program
from tui_profiler.probe.process.wire_names import writable
from tui_profiler.probe.trace.tree.growing_tree import class_name
from tui_profiler.probe.watch.model_choice import ModelChoice
from tui_profiler.probe.watch.observer import GRACE_SECONDS, Observer
from tui_profiler.probe.watch.out_of_memory import ERRORS
from tui_profiler.probe.watch.preload import rehearse, warm_up
from tui_profiler.probe.watch.rank import rank_of_run
from tui_profiler.probe.watch.server import Server
from tui_profiler.system import real_time as time

BUDGET = 0.02
"""What being looked at may cost, as a share of the model's time, where nothing else is said."""


_PROCESS: list[Observer] = []
"""What looks at whichever model this process runs, once it is wanted."""


@cache
def _server() -> Server:
    return Server()


def _server_after(prepare: Callable[[], None]) -> Server:
    """Return the server of this process, started where it is not there.

    Args:
        prepare: what a viewer needs for the first time.
    """
    if not _server.cache_info().currsize:
        prepare()
    return _server()


class Watched:
    """A model that viewers may look at, until ``close`` or until the model is gone.

    Used as a context manager it ends with the block.
    """

    def __init__(self, observer: Observer, server: Server, model: torch.nn.Module) -> None:
        self._observer = observer
        self._server = server
        self._at_deletion = weakref.finalize(
            model, server.remove, observer, "the model was deleted"
        )
        self._at_deletion.atexit = False

    @property
    def is_looked_at(self) -> bool:
        """Whether a viewer is attached."""
        return self._observer.is_looked_at

    def close(self, why: str = "the program no longer watches it") -> None:
        """Let nobody look any more; what was replaced is put back."""
        if self._at_deletion.detach() is not None:
            self._server.remove(self._observer, why)

    def __enter__(self) -> Watched:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            ERRORS.raised(error)
        self.close()


def watch(
    model: torch.nn.Module,
    name: str | None = None,
    budget: float = BUDGET,
    *,
    grace_seconds: float = GRACE_SECONDS,
) -> Watched:
    """Let ``tui-profiler attach`` look into this process while ``model`` runs.

    While nobody is attached it costs nothing but a thread that sleeps. The model is never called by
    the profiler, and nothing waits for a viewer.

    Args:
        model: its calls are what is shown; where its program calls only a method of it, such as
            Lightning's ``training_step``, the calls of that. It is not kept alive.
        name: to choose it by; None for the name of its class.
        budget: what being looked at may cost, as a share of the model's time.
        grace_seconds: how long after the last viewer the program stays as it is looked at, so that
            one who comes back finds its figures.

    Returns:
        A handle that ends it; it need not be kept.

    Raises:
        TypeError: ``model`` is not a ``torch.nn.Module``.
        ValueError: ``budget`` is not above 0.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"watch takes a torch.nn.Module, not {type(model).__name__}")
    if not budget > 0:
        raise ValueError(f"budget is a share above 0 (0.02 is 2 %), not {budget!r}")
    server, root = _server_after(warm_up), weakref.ref(model)
    called = writable(name or class_name(model))
    observer = Observer(
        program(called),
        called,
        lambda module: is_call_of(module, root()),
        budget,
        server.wake,
        grace_seconds,
        watched=root,
    )
    server.add(observer)
    return Watched(observer, server, model)


def watch_process(prepare: Callable[[], None] = rehearse) -> str:
    """Let ``tui-profiler attach`` look into this process, whichever model it runs.

    No model is looked for before a viewer attaches: it is the outermost module with parameters that
    is called then, as under ``tui-profiler run``. A second call changes nothing.

    Args:
        prepare: what a viewer needs for the first time, done on this thread.

    Returns:
        The path of the socket; why there is none, where nobody can attach.
    """
    server = _server_after(prepare)
    if not _PROCESS:
        where, name = ModelChoice(), _program_name()
        _PROCESS.append(
            Observer(program(name), "", where.is_model, BUDGET, server.wake, elsewhere=where)
        )
        server.add(_PROCESS[0])
    return server.path_of(_PROCESS[0])


def is_call_of(module: torch.nn.Module, model: torch.nn.Module | None) -> bool:
    """Tell whether a call of ``module`` runs ``model``: itself, or as what was compiled of it."""
    if model is None:
        return False
    return module is model or module.__dict__.get("_modules", {}).get("_orig_mod") is model


def program(name: str) -> Program:
    """Say who this process is."""
    rank, ranks, run = rank_of_run()
    return Program(
        name=name,
        pid=os.getpid(),
        command=writable(Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"),
        started_at=time.time(),
        at=0.0,
        rank=rank,
        ranks=ranks,
        run=run,
    )


def _program_name() -> str:
    """Return what a process is called by whose model has no name: its script or module."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is not None and spec.name != "__main__":
        return writable(spec.name.removesuffix(".__main__"))
    path = Path(sys.argv[0] if sys.argv else "")
    # What ``python -m uvicorn`` spawns has the path of that package's file, and no specification.
    typed = path.parent.name if path.name == "__main__.py" else path.name
    return writable(typed if typed not in ("", "-c", "-m") else "python")
