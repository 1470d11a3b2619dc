"""Advice for training, followed: what was predicted, and what it saves.

    python -m benchmarks.training.advice

With and without the change in turn, CPU time of the thread that trains, one thread of torch: other
programs on the machine add nothing to it but what they evict from caches.

- *larger batch*, *accumulate*: ``accumulate`` predicts half of the update's share per item.
- *zero_grad*: ``zero-grad`` predicts four times the bytes of the gradients at the bandwidth, here
  that of a copy of 256 MiB.
- *a batch*: what ``next()`` of a loader takes where the thread loads, and where a worker has loaded
  already; ``loader-workers`` counts on ``WORKER_BATCH_SECONDS`` for the latter. The least of 150.
"""

import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from statistics import median
from time import thread_time

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 10
VOCABULARY, WIDTH, TOKENS = 20_000, 128, 32
BATCH = 8
ROUNDS = 14
MS, US = 1e3, 1e6


class Words(nn.Module):
    """A table of words, of which few are read in each step, and all are updated."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = dense(WIDTH, WIDTH, CLASSES)

    def forward(self, ids: Tensor) -> Tensor:
        """Return (batch, classes) of (batch, tokens)."""
        return self.layers(self.words(ids).mean(1))  # type: ignore[no-any-return]


def dense(*widths: int) -> nn.Sequential:
    """Return linear layers, with a ReLU after each."""
    pairs = pairwise(widths)
    return nn.Sequential(*(one for a, b in pairs for one in (nn.Linear(a, b), nn.ReLU())))


class Side:
    """Steps of one kind, timed per item."""

    def __init__(self, model: nn.Module, made: torch.optim.Optimizer) -> None:
        self.model, self.made = model, made
        self.update: list[float] = []

    def step(self, x: Tensor, passes: int = 1) -> None:
        """Train with a batch, so many times, and update."""
        y = torch.zeros(len(x), dtype=torch.int64)
        for _ in range(passes):
            (cross_entropy(self.model(x), y) / passes).backward()
        began = thread_time()
        self.made.step()
        self.update.append(thread_time() - began)


def seconds(run: Callable[[], None], times: int = 3) -> float:
    """Return the CPU time of a run."""
    began = thread_time()
    for _ in range(times):
        run()
    return (thread_time() - began) / times


def updates(name: str, model: nn.Module, make: Callable[..., torch.optim.Optimizer]) -> None:
    """Print what twice the batch, and twice the passes, save per item."""
    side = Side(model, make(model.parameters()))
    is_words = isinstance(model, Words)

    def batch(items: int) -> Tensor:
        if is_words:
            return torch.randint(0, VOCABULARY, (items, TOKENS))
        return torch.randn(items, model[0].in_features)  # type: ignore[index]

    one, two = batch(BATCH), batch(2 * BATCH)

    def run(x: Tensor, passes: int) -> None:
        side.step(x, passes)
        side.made.zero_grad()

    runs = (partial(run, one, 1), partial(run, two, 1), partial(run, one, 2))
    found: list[list[float]] = [[seconds(each) for each in runs] for _ in range(ROUNDS)]
    plain, larger, twice = (median(row[place] for row in found[2:]) for place in range(3))
    predicted = median(side.update) / plain / 2
    gains = (1 - larger / plain / 2, 1 - twice / plain / 2)
    print(f"{name:<34}{plain * MS:8.2f}{predicted:11.0%}{gains[0]:14.0%}{gains[1]:12.0%}")


def zero_grad(name: str, widths: tuple[int, ...], bandwidth: float) -> None:
    """Print what setting gradients to None saves."""
    model = dense(*widths)
    side = Side(model, torch.optim.SGD(model.parameters(), lr=1e-4))
    x = torch.randn(BATCH, widths[0])
    side.step(x)

    def run(*, to_none: bool) -> None:
        side.made.zero_grad(set_to_none=to_none)
        side.step(x)

    runs = (partial(run, to_none=False), partial(run, to_none=True))
    found = [[seconds(each) for each in runs] for _ in range(ROUNDS)]
    kept, freed = (median(row[place] for row in found[2:]) for place in range(2))
    moved = 4 * sum(one.numel() * one.element_size() for one in model.parameters())
    predicted = moved / bandwidth
    print(f"{name:<34}{kept * MS:8.2f}{predicted / kept:11.0%}{1 - freed / kept:14.0%}")


def fetch_seconds(data: TensorDataset, size: int, workers: int) -> float:
    """Return the least time of ``next()`` of a loader; a worker is given time to load ahead."""
    batches = iter(DataLoader(data, batch_size=size, num_workers=workers))
    found = []
    for _ in range(150):
        time.sleep(0.004 if workers else 0.0)
        began = thread_time()
        next(batches)
        found.append(thread_time() - began)
    return min(found)


def main() -> None:
    """Print all of it."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    fused = partial(torch.optim.AdamW, lr=1e-4, fused=True)
    looped, sgd = partial(torch.optim.AdamW, lr=1e-4), partial(torch.optim.SGD, lr=1e-4)
    wide = (1024, 1024, 1024, CLASSES)
    print(f"{'':<34}{'ms':>8}{'predicted':>11}{'larger batch':>14}{'accumulate':>12}")
    updates("8 MB of linear layers, AdamW", dense(*wide), looped)
    updates("8 MB of linear layers, fused", dense(*wide), fused)
    updates("8 MB of linear layers, SGD", dense(*wide), sgd)
    updates("10 MB of embeddings, AdamW", Words(), looped)
    updates("10 MB of embeddings, fused", Words(), fused)
    updates("10 MB of embeddings, SGD", Words(), sgd)
    updates("60 small layers, AdamW", dense(*[64] * 60, CLASSES), looped)
    source = torch.ones(1 << 26)
    copied = torch.empty_like(source)
    copied.copy_(source)
    bandwidth = 2 * 4 * source.numel() / seconds(partial(copied.copy_, source))  # type: ignore[arg-type]  # what it returns is dropped
    at = f"zero_grad, {bandwidth / 1e9:.1f} GB/s"
    print(f"\n{at:<34}{'ms':>8}{'predicted':>11}{'None':>14}")
    zero_grad("50 MB of gradients, SGD", (2048, 2048, 2048, 2048, CLASSES), bandwidth)
    zero_grad("8 MB of gradients, SGD", wide, bandwidth)
    zero_grad("1 MB of gradients, SGD", (*[64] * 60, CLASSES), bandwidth)
    rows = TensorDataset(torch.ones(40_000, 32), torch.zeros(40_000))
    images = TensorDataset(torch.ones(15_000, 3, 32, 32), torch.zeros(15_000))
    print(f"\n{'a batch':<34}{'thread, us':>14}{'worker, us':>12}")
    for name, data, size in (
        ("32 rows, 4 KB", rows, 32),
        ("128 rows, 17 KB", rows, 128),
        ("64 images, 0.8 MB", images, 64),
    ):
        alone, received = (fetch_seconds(data, size, workers) * US for workers in (0, 1))
        print(f"{name:<34}{alone:>14.0f}{received:>12.0f}")


if __name__ == "__main__":
    main()
