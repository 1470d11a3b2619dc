from __future__ import annotations

from array import array
from itertools import pairwise

from msgspec.structs import replace

from tests.cost import cpu_seconds
from tests.queries.sessions import session_of
from tests.training_session import column, step_parts, trained, training_step
from tui_profiler.messages import SlowStep
from tui_profiler.queries.time.step_seconds import node_share
from tui_profiler.queries.training.step_blocks import Level, slow_step_blocks, step_blocks
from tui_profiler.session import EMPTY, Session

TREE = (
    "m M 0 0\n  all A 0 0\n    a A 0 0\n      inner I 0 0\n    box ModuleList 0 0\n      b B 0 0\n"
)
PARTS = step_parts(data=0.25, forward=0.25, backward=0.5)
TOLD = replace(
    training_step(PARTS),
    nodes=array("I", (0, 1, 2, 3, 5)).tobytes(),
    forward=column(0.25, 0.25, 0.125, 0.0625, 0.125),
    own_forward=column(0.0, 0.0, 0.0625, 0.0625, 0.125),
    backward=column(0.375, 0.375, 0.125, 0.0, 0.125),
    own_backward=column(0.0, 0.125, 0.125, 0.0, 0.125),
    recomputed=column(0.0, 0.0, 0.0, 0.0, 0.125),
    own_recomputed=column(0.0, 0.0, 0.0, 0.0, 0.125),
)


def session() -> Session:
    return trained(TOLD, session_of(TREE))


def places(level: Level) -> list[tuple[int, int, str, int | None]]:
    return [(block.start, block.cells, block.part, block.node) for block in level]


def test_modules_lie_below_forward_in_order_and_below_backward_in_the_other() -> None:
    found = [places(level) for level in step_blocks(session(), 0, 64)]
    assert found == [
        [(0, 16, "data", None), (16, 16, "forward", None), (32, 32, "backward", None)],
        [
            *((16, 8, "forward", 2), (24, 8, "forward", 4)),
            *((32, 16, "backward", 4), (48, 8, "backward", 2)),
        ],
        [(16, 4, "forward", 3), (24, 8, "forward", 5), (32, 16, "backward", 5)],
    ]


def test_blocks_lie_within_one_above_at_every_width() -> None:
    for cells in range(1, 130):
        levels = step_blocks(session(), 0, cells)
        assert sum(block.cells for block in levels[0]) == cells
        for above, below in pairwise(levels):
            taken = [range(block.start, block.start + block.cells) for block in above]
            for block in below:
                last = block.start + block.cells - 1
                assert any(block.start in one and last in one for one in taken)


def test_times_of_a_gpu_are_not_drawn_below_the_thread_s_and_nothing_without_a_step() -> None:
    on_device = trained(replace(TOLD, on_device=True), session_of(TREE))
    assert len(step_blocks(on_device, 0, 64)) == 1
    assert step_blocks(EMPTY, 0, 64) == ()


def test_a_slow_step_stands_beside_the_mean_to_one_scale() -> None:
    slow = SlowStep(5.0, 512, 2.0, step_parts(data=1.25, backward=0.5), thread=None, lines=())
    one, mean = slow_step_blocks(session(), slow, 70)
    assert places(one) == [(0, 44, "data", None), (44, 17, "backward", None)]  # 9 are not known.
    assert [block.cells for block in mean] == [9, 9, 17]
    assert slow_step_blocks(EMPTY, slow, 70)[1] == ()


def test_laying_out_many_modules_costs_a_small_share_of_asking_for_each() -> None:
    """21.8 ms for 6,000 modules before, 3.4 ms since."""
    lines = [f"  b{number} B 0 0\n    l L 0 0\n" for number in range(1000)]
    count = 2001
    figures = column(*[0.25, *[0.25 / 1000] * (count - 1)])
    told = replace(
        training_step(PARTS),
        nodes=array("I", range(count)).tobytes(),
        **dict.fromkeys(("forward", "own_forward", "backward", "own_backward"), figures),
        **dict.fromkeys(("recomputed", "own_recomputed"), column(*[0.0] * count)),
    )
    session = trained(told, session_of("m M 0 0\n" + "".join(lines)))
    asking = cpu_seconds(lambda: [node_share(session, node) for node in range(count)], 5)
    assert cpu_seconds(lambda: step_blocks(session, 0, 120), 5) < 0.5 * asking
