"""What is alive after each operator: by hand, and against the peaks of real models."""

from __future__ import annotations

import importlib
import random

import pytest
import torch
from torch import nn

from tests.probe.cost.test_macs import Function
from tests.probe.trace.traced import traced
from tui_profiler.connection.wire import encode
from tui_profiler.messages import LoadSpec, MemorySteps, Unknown, known
from tui_profiler.probe.load.load import load
from tui_profiler.probe.trace.record_program_forward import ProgramForwardRecorder
from tui_profiler.probe.trace.trace import Trace, messages, trace
from tui_profiler.probe.trace.tree.growing_tree import Place
from tui_profiler.probe.trace.tree.lifetimes import MemoryLog
from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.session.columns import Memory

X = torch.zeros(8, 4)  # 128 bytes


def three_layers() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 1000), nn.ReLU(), nn.Linear(1000, 2))


def mlp() -> Trace:
    return traced(three_layers(), X)


def demo(name: str) -> Trace:
    module = importlib.import_module(f"demo_models.{name}")
    return traced(module.build(), *module.example_inputs(1))


def resnet18() -> Trace:
    loaded = load(LoadSpec("resnet18"))
    return trace(loaded.model, loaded.candidates)


def steps_of(made: Trace) -> Memory:
    """As a viewer has it."""
    session: Session = EMPTY
    for message in messages(made):
        session = apply(session, message)
    assert session.tree is not None
    assert session.tree.memory is not None
    return session.tree.memory


def test_three_layers_by_hand() -> None:
    made = mlp()
    memory = steps_of(made)

    paths = [made.nodes[node].path for node in memory.nodes]
    assert paths == ["0/0", "0/1", "1/0", "2/0", "2/1"]  # a linear layer turns its weight first
    wide, out = 8 * 1000 * 4, 8 * 2 * 4
    assert list(memory.live) == [128, 128 + wide, 128 + 2 * wide, 128 + wide, 128 + wide + out]
    assert list(memory.whole) == list(memory.live)
    assert (memory.steps.input_bytes, memory.steps.start_bytes) == (128, 128)
    assert list(memory.ordinals) == [0, 1, 2, 3, 4]


def test_each_tensor_lives_from_its_operator_to_its_last_reference() -> None:
    made = mlp()
    memory = steps_of(made)

    lives = {
        made.nodes[maker].path: (size, first, last)
        for maker, size, first, last in zip(
            memory.makers, memory.sizes, memory.first, memory.last, strict=True
        )
    }
    assert lives == {"0/1": (32_000, 1, 2), "1/0": (32_000, 2, 4), "2/1": (64, 4, 4)}


@pytest.mark.parametrize(
    "made",
    [mlp, lambda: demo("cnn"), resnet18, lambda: demo("decoder"), lambda: demo("lstm")],
    ids=["mlp", "cnn", "resnet18", "decoder", "lstm"],
)
def test_the_most_of_all_steps_is_the_peak(made) -> None:
    found = made()
    memory, peak = steps_of(found), found.done.peak_memory
    assert not isinstance(peak.activations, Unknown)

    assert max(memory.live) == peak.activations + (known(peak.kv_cache) or 0)
    assert max(memory.whole) == max(memory.live) + (known(peak.workspace) or 0)
    assert memory.nodes[list(memory.live).index(max(memory.live))] == peak.at
    for step, live in enumerate(memory.live):
        at = memory.ordinals[step]
        lives = zip(memory.sizes, memory.first, memory.last, strict=True)
        alive = sum(size for size, first, last in lives if first <= at <= last)
        assert memory.steps.input_bytes + alive == live


def test_a_forward_that_is_overheard_gives_the_same_steps() -> None:
    model = three_layers()
    hearing = ProgramForwardRecorder(model, "mlp")
    with torch.no_grad():
        hearing.run(nn.Module.__call__, (X,), {})
    made = hearing.trace()

    assert made is not None
    assert list(steps_of(made).live) == list(steps_of(mlp()).live)


def test_it_is_sent_with_the_tree_and_before_its_end() -> None:
    kinds = [type(message).__name__ for message in messages(mlp())]

    assert kinds == ["TraceStarted", "Nodes", "Edges", "MemorySteps", "TraceDone"]


def logged(lives: list[int], most: int) -> MemorySteps:
    """A log of one call for each of ``lives``; the place of each is named by its number."""
    log = MemoryLog(most)
    for number, live in enumerate(lives):
        log.add(Place(None, "op", str(number), "", ""), live, number % 3)
    return log.message(lambda place: int(place.name) if place else -1, (), 0, 0)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 16, 17, 100, 1000])
def test_a_long_forward_keeps_the_most_of_neighbours(count: int) -> None:
    chance = random.Random(count)
    lives = [chance.randrange(10**6) for _ in range(count)]

    memory = Memory(steps := logged(lives, most=8))

    assert (steps.calls, len(memory)) == (count, -(-count // steps.each))
    assert len(memory) <= 8
    for position in range(len(memory)):
        group = range(position * steps.each, min((position + 1) * steps.each, count))
        assert memory.live[position] == max(lives[call] for call in group)
        assert memory.whole[position] == max(lives[call] + call % 3 for call in group)
        assert lives[memory.ordinals[position]] == memory.live[position]
        assert memory.nodes[position] == memory.ordinals[position]


def test_of_many_tensors_the_largest_are_told_and_the_others_counted() -> None:
    log = MemoryLog(most=4)
    place = Place(None, "op", "x", "", "")
    for size in range(100):
        made = (place, size, log.calls)
        log.add(place, size, 0)
        log.end(made)

    steps = log.message(lambda _: 0, ((place, 1000, 50),), 0, 0)

    assert list(Memory(steps).sizes) == [1000, 97, 98, 99]
    assert steps.left_out == 101 - 4


def test_workspace_that_is_not_known_of_one_operator_is_not_known() -> None:
    log = MemoryLog()
    place = Place(None, "op", "x", "", "")
    for scratch in (5, None):
        log.add(place, 10, scratch)

    memory = Memory(log.message(lambda _: 0, (), 0, 0))

    assert not memory.knows_workspace
    assert list(memory.whole) == [10, 10]


def test_the_longest_log_fits_into_a_frame() -> None:
    log = MemoryLog()
    place = Place(None, "op", "x", "", "")
    for _ in range(100_000):
        made = (place, 2**40, log.calls)
        log.add(place, 2**40, 2**40)
        log.end(made)

    steps = log.message(lambda _: 0, (), 0, 0)

    assert len(steps.nodes) // 4 <= 20_000
    assert len(steps.makers) // 4 == 20_000
    assert len(encode(steps)) < 1 << 20


def test_views_and_operators_in_place_are_steps_that_add_nothing() -> None:
    memory = steps_of(traced(Function(lambda x: x.view(32).add_(1.0)), X))

    assert list(memory.live) == [128, 128]
