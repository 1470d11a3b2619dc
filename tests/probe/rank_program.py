"""One rank of a training run: ``torchrun --nproc-per-node 4 -m tests.probe.rank_program``.

Trains a small model under DDP until a file appears; one rank is slow inside of one module.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

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
    """Train until told to stop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--slow-rank", type=int, default=-1)
    parser.add_argument("--slow-seconds", type=float, default=0.02)
    parser.add_argument("--until", type=Path, required=True)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    distributed.init_process_group("gloo")
    net = Net()
    if distributed.get_rank() == chosen.slow_rank:
        next(
            layer for layer in net.modules() if isinstance(layer, Slow)
        ).seconds = chosen.slow_seconds
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    tui_profiler.watch(net, "net")
    stop = torch.zeros(1)
    while True:
        loss = model(torch.randn(16, WIDTH)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        stop.fill_(float(chosen.until.exists()))
        distributed.all_reduce(stop)
        if stop.item():
            break
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
