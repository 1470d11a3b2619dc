"""A training step of ``tests/small_model`` on paper, worked out by hand, as messages."""

from __future__ import annotations

from array import array

from tests.small_model import CONV, CONV_OP, FC, FC_OP, ROOT
from tui_profiler.messages import (
    AliveAtPeak,
    Checkpointing,
    PassCost,
    TrainingCost,
    TrainingMemory,
    TrainSpec,
)

NOTHING = PassCost(0, 0, 0, 0, 0, 0, 0)
CONV_MACS, FC_MACS = 6912, 2 * 2560
"""The image needs no gradient, the features do."""
BACKWARD = PassCost(CONV_MACS + FC_MACS, 24_200, 4000, 3000, 2000, 3, 0)
AGAIN = PassCost(1000, 2000, 0, 0, 0, 1, 0)
NODES = (ROOT, CONV, CONV_OP, FC, FC_OP)


def column(*values: int) -> bytes:
    return array("Q", values).tobytes()


def cost(spec: TrainSpec | None = None) -> TrainingCost:
    return TrainingCost(
        spec=spec or TrainSpec("sgd", accumulate=3),
        optimizer="SGD",
        loss="the model's own loss",
        why="",
        backward=BACKWARD,
        recomputed=AGAIN,
        loss_forward=PassCost(8, 30, 40, 0, 4, 2, 0),
        loss_backward=PassCost(16, 60, 40, 0, 4, 2, 0),
        elsewhere=NOTHING,
        optimizer_step=PassCost(0, 2678, 8000, 0, 4000, 4, 0),
        uncosted=("aten::odd_backward",),
        nodes=array("I", NODES).tobytes(),
        macs=column(CONV_MACS + FC_MACS, CONV_MACS, CONV_MACS, FC_MACS, FC_MACS),
        flops=column(24_200, 13_824, 13_824, 10_240, 10_240),
        input_bytes=column(4000, 1000, 1000, 3000, 3000),
        weight_bytes=column(3000, 0, 0, 3000, 3000),
        output_bytes=column(2000, 500, 500, 1500, 1500),
        ops=column(3, 1, 1, 2, 2),
        uncosted_ops=column(0, 0, 0, 0, 0),
        again_macs=column(1000, 1000, 1000, 0, 0),
        again_flops=column(2000, 2000, 2000, 0, 0),
        again_bytes=column(0, 0, 0, 0, 0),
        gradients=column(10_712, 432, 0, 10_280, 0),
        saved=column(2048, 1024, 1024, 1024, 1024),
    )


def memory() -> TrainingMemory:
    """Three operators: forward, backward, optimizer. The second has the peak."""
    return TrainingMemory(
        parameters=10_712,
        buffers=0,
        inputs=768,
        optimizer_state=0,
        gradients=10_752,
        gradients_before=0,
        saved=2048,
        peak=11_480 + 2048 + 10_752,
        workspace=100.0,
        at=FC_OP,
        phase="backward",
        phase_peaks=(13_528, 24_280, 22_232),
        uses=(10_752, 2048, 0, 0),
        alive=(AliveAtPeak(FC_OP, "gradient", 10_752), AliveAtPeak(CONV_OP, "saved", 2048)),
        checkpointing=(
            Checkpointing((CONV,), 1024, 23_356, 13_824),
            Checkpointing((FC,), 64, 30_000, 5_130),
        ),
        calls=3,
        each=1,
        backward_at=1,
        optimizer_at=2,
        nodes=array("i", (CONV_OP, FC_OP, -1)).tobytes(),
        ordinals=array("I", (0, 1, 2)).tobytes(),
        gradient=column(0, 10_752, 10_752),
        saved_bytes=column(2048, 2048, 0),
        recomputed=column(0, 0, 0),
        temporary=column(0, 0, 0),
        scratch=array("q", (0, 100, 0)).tobytes(),
        makers=array("i", (CONV_OP, FC_OP)).tobytes(),
        sizes=column(2048, 10_752),
        first=array("I", (0, 1)).tobytes(),
        last=array("I", (1, 2)).tobytes(),
        kinds=bytes((1, 0)),
    )
