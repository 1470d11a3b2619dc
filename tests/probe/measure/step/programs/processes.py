"""Programs of several processes over gloo, each run alone and watched.

``python -m tests.probe.measure.step.programs.processes STEPS [NAME...]`` prints a JSON object: by
name, the digests of all ranks alone and watched, and the seconds of backward that were found.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch._dynamo  # By optimizers, at the latest: here once, not in each rank.
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.parallel import DistributedDataParallel

from tests.probe.measure.step.programs import Program, Watch, left_behind, state_of
from tests.probe.measure.step.programs.graph import WIDTH, Mlp, batch
from tests.probe.measure.step.programs.watched import Watched


class Parts(nn.Module):
    """Of its parts, every second step leaves one out."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.aside, self.last = Mlp(), Mlp(), Mlp()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        self.calls += 1
        if self.calls % 2 == 0:
            x = x + self.aside(x)
        found: Tensor = self.last(x)
        return found


def _train(model: nn.Module, steps: int, watch: Watch) -> list[object]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    watch(model)
    torch.manual_seed(distributed.get_rank())
    losses: list[object] = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(batch()).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def ddp(steps: int, watch: Watch) -> Iterable[object]:
    model = DistributedDataParallel(nn.Sequential(Mlp(), Mlp()), bucket_cap_mb=1)
    return [*_train(model, steps, watch), *state_of(model)]


def ddp_unused(steps: int, watch: Watch) -> Iterable[object]:
    """Parameters that get no gradient, and gradients that are exchanged every second time."""
    model = DistributedDataParallel(Parts(), find_unused_parameters=True)
    losses = _train(model, steps, watch)
    for step in range(steps):
        if step % 2:
            with model.no_sync():
                model(batch()).square().mean().backward()
        else:
            model(batch()).square().mean().backward()
    return [*losses, *state_of(model)]


def fsdp(steps: int, watch: Watch) -> Iterable[object]:
    mesh = init_device_mesh("cpu", (distributed.get_world_size(),))
    model = nn.Sequential(Mlp(), Mlp(), nn.Linear(WIDTH, WIDTH))
    for part in model:
        fully_shard(part, mesh=mesh)
    fully_shard(model, mesh=mesh)
    losses = _train(model, steps, watch)
    shards: list[object] = [one.to_local() for one in model.parameters()]  # type: ignore[attr-defined]  # DTensor
    return [*losses, *shards]


def fsdp_flat(steps: int, watch: Watch) -> Iterable[object]:
    """The first version, which makes one flat parameter of many."""
    model = nn.Sequential(
        _flat(Mlp()),
        _flat(Mlp()),
    )
    whole = _flat(model)
    return [*_train(whole, steps, watch), *(one.detach() for one in whole.parameters())]


def _flat(module: nn.Module) -> nn.Module:
    return FullyShardedDataParallel(module, device_id=torch.device("cpu"))


class Ranks(NamedTuple):
    program: Program
    count: int


PROGRAMS: dict[str, Ranks] = {
    "DDP, 2 ranks": Ranks(ddp, 2),
    "DDP, 4 ranks": Ranks(ddp, 4),
    "DDP, unused parameters": Ranks(ddp_unused, 2),
    "FSDP": Ranks(fsdp, 2),
    "FSDP, flat parameters": Ranks(fsdp_flat, 2),
}


def main() -> None:
    """Run the programs asked for."""
    steps, names = int(sys.argv[1]), sys.argv[2:] or [*PROGRAMS]
    print(json.dumps({name: [_run(name, steps, one) for one in (False, True)] for name in names}))


def _run(name: str, steps: int, is_watched: bool) -> list[Any]:
    """Run all ranks, each a fork of this process; return what each told."""
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for rank in range(PROGRAMS[name].count):
            child = os.fork()
            if not child:
                try:
                    told = _rank(name, steps, rank, Path(folder), is_watched=is_watched)
                    (Path(folder) / str(rank)).write_text(json.dumps(told))
                finally:
                    os._exit(0)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
        written = [Path(folder) / str(rank) for rank in range(PROGRAMS[name].count)]
        return [json.loads(one.read_text()) if one.exists() else None for one in written]


def _rank(name: str, steps: int, rank: int, folder: Path, *, is_watched: bool) -> Any:
    torch.set_num_threads(1)
    ranks = PROGRAMS[name]
    store = distributed.FileStore(str(folder / "store"), ranks.count)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=ranks.count)
    watched = Watched()
    with watched:
        digest = left_behind(ranks.program, steps, watched if is_watched else lambda model: None)
    distributed.destroy_process_group()
    return [digest, watched.seconds.get("backward"), watched.trouble, watched.windows]


if __name__ == "__main__":
    main()
