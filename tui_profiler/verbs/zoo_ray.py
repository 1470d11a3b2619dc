"""The jobs of a zoo on Ray: each a task somewhere in a cluster, its file written here.

1. A task calls ``make``, as a run without Ray does: it starts a process of its own for its model,
   on the machine that Ray chose. There, too, tui-profiler must be installed.
2. A task comes back as the text of its file, so that the machines need no folder in common.
3. No more tasks are under way than Ray has room for twice over: what waits is bounded.
"""

import asyncio
import importlib
import os
import socket
from collections.abc import Callable, Sequence

from tui_profiler.messages import Request
from tui_profiler.source.spawned import Spawned, worker_command
from tui_profiler.verbs.outcome import MODEL_FAILED
from tui_profiler.verbs.zoo import Job, Made, lost, make

LOCAL = "local"
CONNECT_SECONDS = 10.0


class RayError(Exception):
    """Ray cannot be used; the text has the reason."""


def zoo_on_ray(
    jobs: Sequence[Job],
    address: str,
    *,
    at_once: int | None,
    kept: Callable[[Made], None],
) -> None:
    """Make every file on a cluster.

    Args:
        jobs: which models.
        address: of the cluster, as ``ray.init`` takes it; ``local`` starts one on this machine.
        at_once: how many tasks may run on this machine; None leaves it to Ray. Of a cluster that
            runs already it is how many are asked for at a time.
        kept: is given each file as it comes.

    Raises:
        RayError: There is no cluster at that address.
    """
    ray = importlib.import_module("ray")
    is_local = address == LOCAL
    _require_listener(address)
    # A cluster started here sends no usage statistics unless the user enables them.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        ray.init(
            address=LOCAL if is_local else address,
            **({"num_cpus": at_once, "include_dashboard": False} if is_local else {}),
            logging_level="ERROR",
            log_to_driver=False,
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise RayError(f"there is no cluster at {address}: {error}") from error
    try:
        # A worker that died is a failure of its model: retrying is up to the user.
        task = ray.remote(num_cpus=1, max_retries=0)(_in_task)
        most = at_once or 2 * max(int(ray.cluster_resources().get("CPU", 1)), 1)
        waiting = list(reversed(jobs))
        running: dict[object, Job] = {}
        while waiting or running:
            while waiting and len(running) < most:
                job = waiting.pop()
                running[task.remote(job)] = job
            done, _ = ray.wait(list(running), num_returns=1)
            for reference in done:
                job = running.pop(reference)
                try:
                    made = ray.get(reference)
                except ray.exceptions.RayError as error:
                    made = lost(job, f"Ray: {error}", MODEL_FAILED)
                kept(made)
    finally:
        ray.shutdown()


def _require_listener(address: str) -> None:
    """Refuse an address where nothing listens: Ray itself goes on asking for minutes.

    Raises:
        RayError: no connection to its host and port can be had.
    """
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return  # ``local``, ``auto``: Ray knows where.
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise RayError(f"there is no cluster at {address}: {error}") from error


def _in_task(job: Job) -> Made:
    """Run as the task: write one file, in a separate process."""
    return asyncio.run(make(job, _begin))


def _begin(request: Request) -> Spawned:
    return Spawned(worker_command(), first=[request])
