"""An invented session for the panels: a slice of a ResNet with figures that a test knows."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from tui_profiler.messages import (
    Ceiling,
    Ceilings,
    Core,
    Cost,
    Edges,
    Environment,
    Gpu,
    Hello,
    InputSpec,
    LoopState,
    Message,
    ModelFacts,
    Node,
    Nodes,
    Overhead,
    PeakMemory,
    Sample,
    StageDone,
    StageStarted,
    Tensor,
    Tick,
    TraceDone,
    TraceStarted,
    Unknown,
    Weight,
)
from tui_profiler.session import EMPTY, Session, apply

KIB = 1024
CONV2, CONV_OP, BN2, BN_OP, RELU, RELU_OP = 3, 4, 5, 6, 7, 8
MAP = Tensor((1, 256, 14, 14), "float32", 196 * KIB)
KERNEL = Weight("weight", (256, 256, 3, 3), "float32", 2304 * KIB, is_buffer=False)


def node(
    parent: int, name: str, path: str, kind: str, detail: str = "", weights: tuple[Weight, ...] = ()
) -> Node:
    return Node(
        parent=parent,
        kind="op" if name.startswith("aten") else "module",
        name=name,
        path=path,
        type=kind,
        calls=1,
        inputs=(MAP,),
        outputs=(MAP,),
        weights=weights,
        detail=detail,
        source="",
        called_from="",
    )


def cost(macs: int, flops: int, *, weight_bytes: int = 0, ops: int = 1, uncosted: int = 0) -> Cost:
    return Cost(
        parameters=weight_bytes // 4,
        parameter_bytes=weight_bytes,
        macs=macs,
        flops=flops,
        input_bytes=196 * KIB,
        weight_bytes=weight_bytes,
        output_bytes=196 * KIB,
        ops=ops,
        uncosted=uncosted,
        trainable=weight_bytes // 4,
    )


CONVOLUTION = cost(115_605_504, 231_211_008, weight_bytes=2304 * KIB)
NORM = cost(0, 100_352, weight_bytes=4 * KIB)
ACTIVATION = cost(0, 50_176)
WHOLE = cost(4_089_184_256, 8_200_000_000, weight_bytes=102_228_128, ops=3)
BLOCK = cost(218_000_000, 436_000_000, weight_bytes=4_480_000, ops=3)
NODES = (
    (node(-1, "resnet50", "", "ResNet"), WHOLE),
    (node(0, "layer3", "layer3", "Sequential"), BLOCK),
    (node(1, "2", "layer3.2", "Bottleneck"), BLOCK),
    (
        node(2, "conv2", "layer3.2.conv2", "Conv2d", "256→256, 3×3, pad 1, no bias", (KERNEL,)),
        CONVOLUTION,
    ),
    (
        node(3, "aten::convolution", "layer3.2.conv2/0", "aten.convolution.default"),
        CONVOLUTION,
    ),
    (
        node(
            2,
            "bn2",
            "layer3.2.bn2",
            "BatchNorm2d",
            weights=(
                Weight("weight", (256,), "float32", KIB, is_buffer=False),
                Weight("running_mean", (256,), "float32", KIB, is_buffer=True),
                Weight("num_batches_tracked", (), "int64", 8, is_buffer=True),
            ),
        ),
        NORM,
    ),
    (node(5, "aten::native_batch_norm", "layer3.2.bn2/0", "aten.native_batch_norm.default"), NORM),
    (node(2, "relu", "layer3.2.relu", "ReLU"), ACTIVATION),
    (node(7, "aten::relu_", "layer3.2.relu/0", "aten.relu_.default"), ACTIVATION),
)
SECONDS = {0: 36.5e-3, 1: 12.15e-3, 2: 1.86e-3, CONV2: 0.89e-3, BN2: 0.03e-3, RELU: 0.09e-3}
FACTS = ModelFacts(
    name="resnet50",
    type="ResNet",
    source="torchvision",
    weights="random",
    inputs=(InputSpec("x", (1, 3, 224, 224), "float32", "its transforms"),),
    batch=1,
    device="cpu",
    training=False,
)
MACHINE = Environment(
    python="3.11.7",
    torch="2.13.0",
    torchvision="0.28.0",
    cuda="",
    cpu="a processor",
    cores=2,
    threads=2,
    memory_bytes=8_321_499_136,
)
CEILINGS = Ceilings(
    device="cpu",
    threads=2,
    compute=(Ceiling("float32", 405e9),),
    bytes_per_second=21e9,
    op_seconds=4e-6,
    measured_at=0.0,
    seconds=2.0,
)
NO_DRIVER = Unknown("no NVIDIA driver on this machine")
H200 = Gpu(
    name="NVIDIA H200",
    utilisation=0.97,
    memory_bytes=12.1 * 2**30,
    memory_total_bytes=139.8 * 2**30,
    temperature_celsius=61.0,
    power_watts=412.0,
    power_limit_watts=700.0,
    clock_hertz=1.98e9,
    throttled_by="",
)


def tick(at: float, last: float = 0.92e-3, calls: int = 1284) -> Tick:
    """Return one tick: every module's median is in ``SECONDS``, the last call is ``last``."""
    seconds = list(SECONDS.values())
    return Tick(
        at=at,
        forwards=calls,
        warmup_forwards=3,
        dropped=0,
        latency_p50=36.5e-3,
        latency_p95=40e-3,
        per_second=27.4,
        window=512,
        nodes=array("I", SECONDS).tobytes(),
        calls=array("Q", [calls] * len(seconds)).tobytes(),
        total=array("d", [calls * value for value in seconds]).tobytes(),
        own=array("d", [calls * value for value in seconds]).tobytes(),
        last=array("f", [last] * len(seconds)).tobytes(),
        p50=array("f", seconds).tobytes(),
        p95=array("f", [1.12e-3] * len(seconds)).tobytes(),
        maximum=array("f", [2.4e-3] * len(seconds)).tobytes(),
        per_forward=array("f", seconds).tobytes(),
        own_per_forward=array("f", seconds).tobytes(),
        mean_per_forward=array("f", seconds).tobytes(),
        own_mean_per_forward=array("f", seconds).tobytes(),
        mean_forwards=214,
    )


def sample(at: float, **changes: object) -> Sample:
    figures: dict[str, object] = {
        "cores": (Core(0.96), Core(0.98)),
        "frequency_hertz": 2.6e9,
        "memory_bytes": 2 * 2**30,
        "memory_total_bytes": 8_321_499_136,
        "process_bytes": 812.0 * 2**20,
        "process_cpu": 1.9,
        "process_threads": 4.0,
        "gpus": NO_DRIVER,
        "package_watts": Unknown("RAPL counters need root"),
    }
    return Sample(at=at, **(figures | changes))


LOADING: tuple[Message, ...] = (
    Hello(1, 48213, ("Start", "Pause", "Resume")),
    StageDone("worker", 0.04, 0.04, "pid 48213"),
    StageStarted("import torch", 0.04),
    sample(0.2),
    StageDone("import torch", 2.69, 2.65, "2.13.0, cpu build"),
    MACHINE,
    StageStarted("load model", 2.69, "resnet50, random weights"),
)
TRACED: tuple[Message, ...] = (
    StageDone("load model", 3.5, 0.81, "resnet50, random weights"),
    StageStarted("trace", 3.5, "build the tree"),
    FACTS,
    TraceStarted(len(NODES), "dispatch:fake"),
    Nodes(tuple(n for n, _ in NODES), tuple(c for _, c in NODES)),
    Edges(((CONV_OP, BN_OP), (BN_OP, RELU_OP))),
    TraceDone((), (), (), PeakMemory(0.0, 0.0, 0.0, 0.0, -1, 0, 0)),
    StageDone("trace", 3.9, 0.41, "9 nodes, by dispatch:fake"),
)
RUN: tuple[Message, ...] = (
    StageStarted("first run", 3.9, "first times"),
    StageDone("first run", 4.0, 0.06, "36.5 ms, not counted"),
    CEILINGS,
    StageDone("ceilings", 4.0, 0.0, "kept from 2025-01-01"),
    LoopState("running", 4.0, 1),
)


def folded(messages: Iterable[Message], session: Session = EMPTY) -> Session:
    for message in messages:
        session = apply(session, message)
    return session


def live(last_calls: Iterable[float] = (0.9e-3, 2.4e-3, 0.92e-3)) -> Session:
    """Return a session that runs; its ticks come once a second from second 5 on."""
    ticks = [tick(5.0 + second, last) for second, last in enumerate(last_calls)]
    samples = [sample(5.0 + second) for second in range(len(ticks))]
    return folded((*LOADING, *TRACED, *RUN, *ticks, *samples, Overhead(0.008, 0.005, 0.011, 30)))
