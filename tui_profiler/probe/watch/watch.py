"""``watch``: the one line that lets viewers look into a running program."""

from __future__ import annotations

import os
import sys
import time
import weakref
from functools import cache
from pathlib import Path
from types import TracebackType

import torch

from tui_profiler.messages import Program
from tui_profiler.probe.process.wire_names import writable
from tui_profiler.probe.trace.tree.growing_tree import class_name
from tui_profiler.probe.watch.observer import GRACE_SECONDS, Observer
from tui_profiler.probe.watch.preload import warm_up
from tui_profiler.probe.watch.server import Server


@cache
def _server() -> Server:
    warm_up()
    return Server()


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
        self.close()


def watch(
    model: torch.nn.Module,
    name: str | None = None,
    budget: float = 0.02,
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
    server, root = _server(), weakref.ref(model)
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


def is_call_of(module: torch.nn.Module, model: torch.nn.Module | None) -> bool:
    """Tell whether a call of ``module`` runs ``model``: itself, or as what was compiled of it."""
    if model is None:
        return False
    return module is model or module.__dict__.get("_modules", {}).get("_orig_mod") is model


def program(name: str) -> Program:
    """Say who this process is."""
    rank, ranks = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    is_rank = rank.isdecimal() and ranks.isdecimal()
    host, port = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "")
    run = os.environ.get("TORCHELASTIC_RUN_ID", "")
    return Program(
        name=name,
        pid=os.getpid(),
        command=writable(Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"),
        started_at=time.time(),
        at=0.0,
        rank=int(rank) if is_rank else None,
        ranks=int(ranks) if is_rank else None,
        run=f"{run}@{host}:{port}" if is_rank else "",
    )
