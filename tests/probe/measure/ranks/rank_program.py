"""One rank of a training run.

``torchrun --nproc-per-node 4 -m tests.probe.measure.ranks.rank_program`` starts them.
Trains a small model under DDP until a file appears; one rank is slow inside of one module. With
``--forks`` it makes the ranks itself, as torchrun does but for importing torch once for each.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import socket
import time
from collections import deque
from pathlib import Path
from statistics import median

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

import tui_profiler

WIDTH = 64


class Slow(nn.Linear):
    """A layer that keeps the processor for some seconds more."""

    seconds = 0.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (batch, WIDTH)."""
        end = time.perf_counter() + self.seconds
        if self.seconds:
            time.sleep(self.seconds)
            assert time.perf_counter() >= end - 1e-3
        return super().forward(x)


class Net(nn.Module):
    """Three layers, of which one may be slow."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.block = nn.Sequential(Slow(WIDTH, WIDTH), nn.ReLU())
        self.norm = nn.BatchNorm1d(WIDTH)
        self.last = nn.Linear(WIDTH, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (batch, WIDTH)."""
        return self.last(self.norm(self.block(self.first(x))))


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--slow-rank", type=int, default=-1)
    parser.add_argument("--slow-seconds", type=float, default=0.02)
    parser.add_argument("--until", type=Path, required=True)
    parser.add_argument("--slow-where", choices=("module", "host"), default="module")
    parser.add_argument("--by-hand", action="store_true", help="all_reduce gradients without DDP")
    parser.add_argument("--own-figures", type=Path, help="folder to write each rank's own into")
    parser.add_argument("--forks", type=int, default=0)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    if chosen.forks and become_rank(chosen.forks):
        return
    train(chosen)


def become_rank(ranks: int) -> bool:
    """Fork so many ranks and return true in the parent, when they have ended."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    usual = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(ranks)}
    os.environ.update(usual, TORCHELASTIC_RUN_ID="none")
    # What each would import for itself: the probe, and what an optimizer's first step needs.
    assert callable(tui_profiler.watch)
    importlib.import_module("torch._dynamo")
    children = []
    for rank in range(ranks):
        child = os.fork()
        if not child:
            os.environ["RANK"] = os.environ["LOCAL_RANK"] = str(rank)
            return False
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    return True


def train(chosen: argparse.Namespace) -> None:
    """Be a rank until the file appears."""
    torch.manual_seed(0)
    distributed.init_process_group("gloo")
    rank, net = distributed.get_rank(), Net()
    is_slow = rank == chosen.slow_rank
    if is_slow and chosen.slow_where == "module":
        slow = next(layer for layer in net.modules() if isinstance(layer, Slow))
        slow.seconds = chosen.slow_seconds
    model = net if chosen.by_hand else DistributedDataParallel(net)
    if isinstance(model, DistributedDataParallel) and chosen.own_figures:
        model._set_ddp_runtime_logging_sample_rate(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    tui_profiler.watch(net, "net")
    stop, own = torch.zeros(1), OwnFigures()
    while not stop.item():
        own.step(model)
        if is_slow and chosen.slow_where == "host":
            time.sleep(chosen.slow_seconds)
        loss = model(torch.randn(16, WIDTH)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        if chosen.by_hand:
            for parameter in net.parameters():
                distributed.all_reduce(parameter.grad)
        optimizer.step()
        stop.fill_(float(chosen.until.exists()))
        distributed.all_reduce(stop)
        if chosen.own_figures:
            own.write(chosen.own_figures / f"{rank}.json")
    distributed.destroy_process_group()


class OwnFigures:
    """What a rank says of itself: steps by its own clock, and what DDP logs."""

    def __init__(self) -> None:
        self._began = self._written = time.perf_counter()
        self._steps: deque[float] = deque(maxlen=64)
        self._sent: deque[float] = deque(maxlen=64)
        self._count = 0

    def step(self, model: nn.Module) -> None:
        """Note that a step begins."""
        now = time.perf_counter()
        self._steps.append(now - self._began)
        self._began = now
        self._count += 1
        if isinstance(model, DistributedDataParallel):
            logged = model._get_ddp_logging_data().get("backward_comm_time", 0)
            self._sent.append(logged * 1e-9)

    def write(self, path: Path) -> None:
        """Write the figures, ten times per second."""
        if time.perf_counter() - self._written > 0.1:
            self._written = time.perf_counter()
            figures = {
                "at": time.time(),
                "steps": self._count,
                "step": median(self._steps),
                "sent": median(self._sent) if self._sent else None,
            }
            path.with_suffix(".new").write_text(json.dumps(figures))
            path.with_suffix(".new").rename(path)


if __name__ == "__main__":
    main()
