"""Peak memory against counts by hand: lives of storages, not of names."""

from __future__ import annotations

import gc

import torch
from torch import nn

from tests.probe.cost.test_macs import Function
from tests.probe.trace.traced import at, inputs_of, traced
from tui_profiler.messages import Unknown
from tui_profiler.probe.trace.measured_peak import measured_peak
from tui_profiler.probe.trace.record_program_forward import ProgramForwardRecorder
from tui_profiler.probe.trace.tree.growing_tree import Place

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


def test_what_was_recorded_of_a_programs_forward_is_freed_without_the_collector() -> None:
    def places() -> int:
        return sum(type(one) is Place for one in gc.get_objects())

    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(20)))
    hearing = ProgramForwardRecorder(model, "")
    before = places()
    gc.disable()
    try:
        output = hearing.run(nn.Module.__call__, (torch.zeros(1, 4),), {})
        recorded = places() - before
        made = hearing.trace()
        left = places() - before
    finally:
        gc.enable()

    assert made is not None
    assert hearing.trouble == ""
    assert recorded > 20
    assert left == 0
    del output  # It ends after what followed it was freed.


class Caches(nn.Module):
    """Wide at the start; its last operator makes a table once, and keeps it."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.ones(256))
        self.made: dict[str, torch.Tensor] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.repeat(8).exp()
        x = wide[:1024].clone()
        del wide
        if "cpu" not in self.made:
            self.made["cpu"] = self.table.detach().repeat(16)
        return x + self.made["cpu"][:1024]


def test_what_the_first_forward_keeps_is_alive_from_the_start_of_every_other() -> None:
    model, x = Caches(), torch.zeros(1024)
    first = traced(model, x)
    assert not model.made, "left as it was found"
    wide, kept, narrow = 8 * 4096, 16 * 1024, 4096
    # The input, two wide ones (before and after exp), and the table, which is made later.
    assert first.done.peak_memory.activations == narrow + 2 * wide + kept
    assert measured_peak(model, inputs_of(x)).peak_bytes == narrow + 2 * wide + kept
    with torch.no_grad():
        model(x)
    again = traced(model, x)
    assert again.done.peak_memory.activations == narrow + 2 * wide + kept
    steps = first.memory
    live = memoryview(steps.live).cast("Q")
    assert max(live) == narrow + 2 * wide + kept
    assert steps.start_bytes == narrow + kept
    assert sum(size for _, size in first.done.peak_memory.alive) == narrow + 2 * wide + kept


class Replaces(nn.Module):
    """Keeps its last output, so that the one before is gone with every forward."""

    def __init__(self) -> None:
        super().__init__()
        self.last = torch.zeros(4 * KIB)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last = x.repeat(4)
        return x + 1.0


def test_what_a_forward_replaces_is_alive_until_then() -> None:
    model = Replaces()
    made = traced(model, X)
    live = [size // (4 * KIB) for size in memoryview(made.memory.live).cast("Q")]
    # The input and what is kept; the old and the new one for a moment; then the new and the output.
    assert made.memory.start_bytes == (1 + 4) * 4 * KIB
    assert live == [1 + 4 + 4, 1 + 4 + 1]
    assert made.done.peak_memory.activations == (1 + 4 + 4) * 4 * KIB
    assert model.last.shape == (4 * KIB,)
