"""Peak memory against counts by hand: lives of storages, not of names."""

from __future__ import annotations

import torch
from torch import nn

from tests.probe.test_cost_macs import Function
from tests.probe.traced import at, traced
from tui_profiler.messages import Unknown

KIB = 1024
X = torch.zeros(KIB)  # 4 KiB


def peak(function) -> float:
    activations = traced(Function(function), X).done.peak_memory.activations
    assert not isinstance(activations, Unknown)
    return activations / (4 * KIB)  # in units of the input


def test_a_chain_holds_two_links_and_the_input() -> None:
    def chain(x):
        for _ in range(5):
            x = x + 1.0
        return x

    assert peak(chain) == 3


def test_a_local_keeps_its_tensor_although_nothing_reads_it_again() -> None:
    def kept(x):
        first = x + 1.0
        second = first + 1.0
        third = second + 1.0
        return third

    assert peak(kept) == 4


def test_views_and_operators_in_place_share_their_storage() -> None:
    assert peak(lambda x: x.view(32, 32).t().add_(1.0).flatten().mul_(2.0)) == 2  # flatten copies
    assert peak(lambda x: x.view(32, 32)[:16]) == 1


def test_sizes_are_rounded_up_to_64_bytes() -> None:
    made = traced(Function(lambda x: x + 1.0), torch.zeros(3))

    assert made.done.peak_memory.activations == 128


def test_the_worst_operator_is_named_and_terms_stand_apart() -> None:
    model = nn.Sequential(nn.Linear(4, 1000), nn.ReLU(), nn.Linear(1000, 2), nn.BatchNorm1d(2))

    made = traced(model, torch.zeros(8, 4))

    memory = made.done.peak_memory
    assert made.nodes[memory.at].path == "1/0"
    assert memory.activations == 8 * 4 * 4 + 2 * 8 * 1000 * 4
    assert memory.parameters == sum(p.numel() for p in model.parameters()) * 4
    assert memory.buffers == 2 * 4 + 2 * 4 + 8
    assert memory.workspace == 0
    assert memory.tensors >= memory.sized > 0
    assert memory.skipped == 0


def test_who_is_alive_at_the_peak_is_named_largest_first() -> None:
    model = nn.Sequential(nn.Linear(4, 1000), nn.ReLU(), nn.Linear(1000, 2))

    made = traced(model, torch.zeros(8, 4))

    alive = made.done.peak_memory.alive
    named = [("input" if i < 0 else made.nodes[i].path, size) for i, size in alive]
    assert named == [("0/1", 32_000), ("1/0", 32_000), ("input", 128)]
    assert sum(size for _, size in alive) == made.done.peak_memory.activations


def test_of_many_tensors_alive_only_the_largest_are_named() -> None:
    kept = traced(Function(lambda x: [x.exp() for _ in range(50)][-1]), X).done.peak_memory

    assert len(kept.alive) == 20
    assert kept.activations == 51 * 4 * KIB


def test_a_tensor_without_a_storage_is_skipped() -> None:
    memory = traced(Function(lambda x: x.view(32, 32).to_sparse()), X).done.peak_memory

    assert (memory.tensors, memory.skipped) == (2, 1)


def test_shared_weights_are_counted_once() -> None:
    layer = nn.Linear(8, 8, bias=False)
    other = nn.Linear(8, 8, bias=False)
    other.weight = layer.weight

    made = traced(nn.Sequential(layer, other), torch.zeros(1, 8))

    assert made.done.peak_memory.parameters == 8 * 8 * 4
    assert made.costs[0].parameters == 64
    assert at(made, "1").weights[0].shared_with == "0.weight"


def test_a_fake_run_and_a_real_run_agree() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())

    class ForReal(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x):
            x.numpy()
            return self.model(x)

    image = torch.zeros(1, 3, 16, 16)
    fake, real = traced(model, image), traced(ForReal(), image)

    assert (fake.method, real.method) == ("dispatch:fake", "dispatch:real")
    assert fake.done.peak_memory.activations == real.done.peak_memory.activations
