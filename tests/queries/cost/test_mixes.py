from __future__ import annotations

import random
from array import array

import pytest
from msgspec.structs import replace

from tests.queries.sessions import (
    RESNET,
    RESNET_SECONDS,
    cost_of,
    medians_alone,
    node_of,
    resnet,
    session_of,
    ticked,
    traced,
)
from tui_profiler.messages import Ceiling, Ceilings, Cost, Node, Unknown
from tui_profiler.queries.cost import bound
from tui_profiler.queries.cost.bound_classes import KINDS
from tui_profiler.queries.tree.cells import Figures
from tui_profiler.session import Session, apply

NONE = Unknown("not measured")
MACHINES = [
    Ceilings("cpu", 2, (Ceiling("float32", 4e11),), 2e10, 5e-6, 0.0, 0.0),
    Ceilings("cpu", 2, (Ceiling("float32", 4e13),), 2e10, 1e-4, 0.0, 0.0),
    Ceilings("cpu", 2, (Ceiling("float32", NONE),), 2e7, NONE, 0.0, 0.0),
    Ceilings("cpu", 2, (), NONE, 5e-6, 0.0, 0.0),
    Ceilings("cpu", 2, (Ceiling("float32", 4e10),), 2e11, 1e-7, 0.0, 0.0),
    Ceilings("cpu", 2, (Ceiling("float16", 4e11),), 2e10, NONE, 0.0, 0.0),
]


def sums_of(session: Session) -> bound.ClassSeconds:
    assert session.tree is not None
    assert session.ceilings is not None
    assert session.timings is not None
    return bound.mixes(*bound.mix_arguments(session, session.ceilings))


def judged(cost: Cost, seconds: float, machine: Ceilings) -> int:
    """Judge one module's own work by the definition, written out once more."""
    roofs = {one.dtype: one.flops_per_second for one in machine.compute}
    flops_roof, bytes_roof, call = (
        roofs.get("float32"),
        machine.bytes_per_second,
        machine.op_seconds,
    )
    floors = [
        cost.flops / flops_roof if isinstance(flops_roof, float) else 0.0,
        (cost.input_bytes + cost.weight_bytes + cost.output_bytes) / bytes_roof
        if isinstance(bytes_roof, float)
        else 0.0,
        cost.ops * call if isinstance(call, float) else 0.0,
    ]
    if (
        (cost.flops and not isinstance(flops_roof, float))
        or (cost.ops and not isinstance(call, float))
        or (
            any((cost.input_bytes, cost.weight_bytes, cost.output_bytes))
            and not isinstance(bytes_roof, float)
        )
    ):
        return bound.NOT_DECIDED
    largest = max(floors)
    return (
        floors.index(largest)
        if largest > 0 and largest >= 0.1 * seconds
        else KINDS.index("unexplained")
    )


def walked(session: Session, node: int) -> tuple[float, ...]:
    """Add up the own times of a module and of all modules inside, each in its own class."""
    assert session.tree is not None
    assert session.timings is not None
    assert session.ceilings is not None
    tree, seconds = session.tree, [0.0] * (bound.NOT_DECIDED + 1)
    for index in range(node, tree.ends[node]):
        own = session.timings.own_per_forward(index)
        if tree.nodes[index].kind == "module" and own:
            seconds[judged(bound.certain_cost(tree, index), own, session.ceilings)] += own
    return tuple(seconds)


@pytest.mark.parametrize("ceilings", MACHINES)
def test_the_sums_are_those_of_walking_the_subtree(ceilings: Ceilings) -> None:
    session = apply(ticked(session_of(RESNET), RESNET_SECONDS), ceilings)
    sums = sums_of(session)
    assert session.tree is not None

    for node, found in enumerate(session.tree.nodes):
        if found.kind == "module":
            assert sums.of(node) == pytest.approx(walked(session, node), abs=1e-12), found.path


def test_the_whole_is_the_time_of_all_modules_themselves() -> None:
    session = resnet()
    assert session.timings is not None
    assert session.tree is not None
    own = [session.timings.own_per_forward(node) or 0.0 for node in range(len(session.tree))]

    assert sum(sums_of(session).of(0)) == pytest.approx(sum(own))


def made(seed: int) -> Session:
    """Make a random tree with random work and times: some opaque, some never called."""
    chance = random.Random(seed)
    nodes: list[Node] = []
    costs: list[Cost] = []

    def grow(parent: int, name: str, depth: int, *, is_inside: bool = False) -> None:
        index = len(nodes)
        is_op = parent >= 0 and chance.random() < 0.3
        node = node_of(parent, f"aten::{name}" if is_op else name, "T", nodes)
        opaque = not is_op and chance.random() < 0.05
        calls = (
            0 if chance.random() < 0.1 or is_inside else 1
        )  # Inside of an opaque one: not timed.
        nodes.append(replace(node, is_opaque=opaque, calls=calls))
        costs.append(cost_of(0, 0))
        if is_op:
            flops, moved = 10 ** chance.uniform(2, 9), 10 ** chance.uniform(2, 8)
            one = cost_of(0, int(flops), moved=int(moved))
            costs[index] = replace(one, ops=chance.randint(1, 4))
            return
        for child in range(chance.randint(0, 4) if depth < 5 else 0):
            grow(index, str(child), depth + 1, is_inside=is_inside or opaque)
        direct = [costs[i] for i in range(index + 1, len(nodes)) if nodes[i].parent == index]
        names = Cost.__struct_fields__
        costs[index] = Cost(*(sum(getattr(cost, name) or 0 for cost in direct) for name in names))

    grow(-1, "model", 0)
    session = traced(nodes, costs)
    seconds: dict[int, float] = {}
    for index in reversed(range(len(nodes))):
        if nodes[index].kind == "module" and nodes[index].calls:
            inside = sum(s for i, s in seconds.items() if nodes[i].parent == index)
            own = 0.0 if chance.random() < 0.1 else 10 ** chance.uniform(-7, -1)
            seconds[index] = inside + own
    session = ticked(session, {nodes[i].path: s for i, s in seconds.items()})
    assert session.tick is not None
    # Own times need not add up: medians, of recordings of older versions, do not.
    own_seconds = array("f", session.tick.own_per_forward)
    for place in range(len(own_seconds)):
        own_seconds[place] *= chance.uniform(0.5, 1.5)
    tick = medians_alone(session.tick, own=own_seconds.tobytes())
    return apply(apply(session, tick), chance.choice(MACHINES))


@pytest.mark.parametrize("seed", range(60))
def test_the_class_is_the_largest_part_of_the_mix_and_of_the_bar(seed: int) -> None:
    session = made(seed)
    assert session.tree is not None
    found = bound.mixes_of(session)
    assert found is not None
    figures = Figures()
    figures.update(session)
    for node, each in enumerate(session.tree.nodes):
        if each.kind == "op":
            continue
        parts = walked(session, node)
        assert found.of(node) == pytest.approx(parts, rel=1e-9, abs=1e-12)
        limit, cells = bound.bound(session, node), figures.cells(node, 40)
        most, second, *_ = sorted(parts[: bound.NOT_DECIDED], reverse=True)
        if not most or most < second + parts[bound.NOT_DECIDED]:
            assert limit is None or not limit.measured
            assert cells.bar.mix == ()
            continue
        assert limit is not None
        assert limit.measured
        assert parts[KINDS.index(limit.kind)] == pytest.approx(max(parts))
        assert sum(limit.mix) + limit.not_decided == pytest.approx(1.0)
        assert cells.bound == limit.kind
        drawn = cells.bar.mix
        assert not drawn or drawn[KINDS.index(limit.kind)] == max(drawn)


def test_a_bar_follows_the_letter_beside_it_at_once() -> None:
    figures = Figures()
    tree = traced(
        [node_of(-1, "model", "M", []), node_of(0, "0", "T", [node_of(-1, "model", "M", [])])],
        [cost_of(0, 10**9), cost_of(0, 10**9)],
    )
    session = apply(tree, MACHINES[0])
    last = KINDS.index("unexplained")
    for at, seconds, kind in (
        *((1.0, 0.006, 0), (1.25, 0.9, last), (1.5, 0.006, 0), (1.75, 0.9, last)),
    ):
        session = ticked(session, {"": seconds, "0": seconds}, at=at)
        figures.update(session)
        cells = figures.cells(1, 40)
        assert cells.bound == KINDS[kind]
        assert cells.bar.mix[kind] == max(cells.bar.mix) > 0
