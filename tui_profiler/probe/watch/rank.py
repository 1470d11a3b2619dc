"""Which rank of a run this process is: by ``torchrun``, or by torch's process group."""

import os
from typing import NamedTuple

from torch import distributed

from tui_profiler.probe.process.wire_names import writable


class RankOfRun(NamedTuple):
    """A process of several that run as one."""

    rank: int | None
    """None where it is alone."""
    ranks: int | None
    run: str
    """What the ranks of one run have in common."""


_ALONE = RankOfRun(None, None, "")


def rank_of_run() -> RankOfRun:
    """Return who this process is at present: the process group may be made after the import.

    Where no address is in the environment, ranks have their parent process in common.
    """
    rank, ranks = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    if rank.isdecimal() and ranks.isdecimal():
        return RankOfRun(int(rank), int(ranks), _run())
    if distributed.is_available() and distributed.is_initialized():
        return _of_group()
    return _ALONE


def _of_group() -> RankOfRun:
    """Return the rank in torch's process group, which the program may destroy meanwhile."""
    try:
        return RankOfRun(distributed.get_rank(), distributed.get_world_size(), _run())
    except (ValueError, RuntimeError):  # torch's own: it is not initialised any more.
        return _ALONE


def _run() -> str:
    host, port = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "")
    run = os.environ.get("TORCHELASTIC_RUN_ID", "")
    if not (host or port or run):
        return f"parent {os.getppid()}"
    return writable(f"{run}@{host}:{port}")
