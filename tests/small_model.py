"""A model of three layers whose every figure was worked out by hand, as messages.

``Net(conv 3→4 3×3 pad 1 no bias on 1×3×8×8, fc 256→10, act ReLU)`` and an unknown operator:

- conv: 4·3·3·3 = 108 parameters, 1·4·8·8 = 256 outputs of 27 multiply-adds each = 6,912 MACs;
- fc: 256·10 + 10 = 2,570 parameters, 2,560 MACs, 10 additions of the bias;
- act: one FLOP for each of 10 elements.
"""

from __future__ import annotations

from array import array

from msgspec.structs import replace

from tui_profiler.messages import (
    Attempt,
    Ceiling,
    Ceilings,
    Core,
    Cost,
    Environment,
    Hello,
    InputSpec,
    LoopState,
    Message,
    ModelFacts,
    Node,
    Nodes,
    OperatorTimes,
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

IMAGE = Tensor((1, 3, 8, 8), "float32", 768, "x")
FEATURES = Tensor((1, 4, 8, 8), "float32", 1024)
CLASSES = Tensor((1, 10), "float32", 40)

ROOT, CONV, CONV_OP, FC, FC_OP, ACT, ACT_OP, STRANGE_OP = range(8)


def cost(**figures: int) -> Cost:
    """Return a cost in which everything that is not named is 0, and no parameter is frozen."""
    trainable = figures.get("parameters", 0)
    nothing = dict.fromkeys(Cost.__struct_fields__, 0)
    return Cost(**{**nothing, "trainable": trainable, **figures})


def node(parent: int, name: str, path: str, node_type: str, **others: object) -> Node:
    """Return a module that is called once, or an operator where its name has a namespace."""
    fields: dict[str, object] = {
        "parent": parent,
        "kind": "op" if "::" in name else "module",
        "name": name,
        "path": path,
        "type": node_type,
        "calls": 1,
        "inputs": (),
        "outputs": (),
        "weights": (),
        "detail": "",
        "source": "net.py:12",
        "called_from": "",
    }
    return Node(**{**fields, **others})  # type: ignore[arg-type]  # typed by the table above


_CONV_COST = cost(
    parameters=108,
    parameter_bytes=432,
    macs=6912,
    flops=13824,
    input_bytes=768,
    weight_bytes=432,
    output_bytes=1024,
    ops=1,
)
_FC_COST = cost(
    parameters=2570,
    parameter_bytes=10280,
    macs=2560,
    flops=5130,
    input_bytes=1024,
    weight_bytes=10280,
    output_bytes=40,
    ops=1,
)
_ACT_COST = cost(flops=10, input_bytes=40, output_bytes=40, ops=1)
_STRANGE_COST = cost(input_bytes=40, output_bytes=40, ops=1, uncosted=1)
_ROOT_COST = cost(
    parameters=2678,
    parameter_bytes=10712,
    macs=9472,
    flops=18964,
    input_bytes=1872,
    weight_bytes=10712,
    output_bytes=1144,
    ops=4,
    uncosted=1,
)

NODES = (
    node(-1, "net", "", "Net", inputs=(IMAGE,), outputs=(CLASSES,)),
    node(
        ROOT,
        "conv",
        "conv",
        "Conv2d",
        inputs=(IMAGE,),
        outputs=(FEATURES,),
        weights=(Weight("weight", (4, 3, 3, 3), "float32", 432, False),),
        detail="3→4, 3×3, pad 1, no bias",
    ),
    node(
        CONV,
        "aten::convolution",
        "conv/0",
        "aten.convolution.default",
        inputs=(IMAGE, Tensor((4, 3, 3, 3), "float32", 432)),
        outputs=(FEATURES,),
    ),
    node(
        ROOT,
        "fc",
        "fc",
        "Linear",
        inputs=(FEATURES,),
        outputs=(CLASSES,),
        weights=(
            Weight("weight", (10, 256), "float32", 10240, False),
            Weight("bias", (10,), "float32", 40, False),
        ),
    ),
    node(FC, "aten::addmm", "fc/0", "aten.addmm.default", outputs=(CLASSES,)),
    node(ROOT, "act", "act", "ReLU", inputs=(CLASSES,), outputs=(CLASSES,)),
    node(ACT, "aten::relu_", "act/0", "aten.relu_.default", outputs=(CLASSES,)),
    node(ROOT, "mine::strange", "/0", "mine.strange.default", outputs=(CLASSES,)),
)
COSTS = (
    _ROOT_COST,
    _CONV_COST,
    replace(_CONV_COST, parameters=0, parameter_bytes=0, trainable=0),
    _FC_COST,
    replace(_FC_COST, parameters=0, parameter_bytes=0, trainable=0),
    _ACT_COST,
    _ACT_COST,
    _STRANGE_COST,
)

DONE = TraceDone(
    attempts=(
        Attempt("dispatch:fake", 0.25, "a value was asked for"),
        Attempt("dispatch:real", 0.125, ""),
    ),
    uncosted=("mine::strange",),
    bounded=(),
    peak_memory=PeakMemory(10712.0, 0.0, 2048.0, 512.0, CONV_OP, 4, 4),
)

FACTS = ModelFacts(
    name="net.py:build",
    type="Net",
    source="net.py",
    weights="random",
    inputs=(InputSpec("x", (1, 3, 8, 8), "float32", "first convolution"),),
    batch=1,
    device="cpu",
    training=False,
)

# Figures that make the shares whole: a FLOP takes 0.1 ns, a byte 1 ns, an operator 10 µs.
CEILINGS = Ceilings(
    device="cpu",
    threads=2,
    compute=(Ceiling("float32", 10e9), Ceiling("bfloat16", Unknown("too slow to measure"))),
    bytes_per_second=1e9,
    op_seconds=10e-6,
    measured_at=1.7e9,
    seconds=2.0,
)

SAMPLE = Sample(
    at=5.0,
    cores=(Core(0.5), Core(1.0)),
    frequency_hertz=2.6e9,
    memory_bytes=2**30,
    memory_total_bytes=2**33,
    process_bytes=2.0**28,
    process_cpu=1.5,
    process_threads=Unknown("the process is not ours"),
    gpus=Unknown("no NVIDIA driver on this machine"),
    package_watts=Unknown("RAPL counters need root"),
)


def tick(seconds: dict[int, tuple[float, float]], *, at: float = 5.0, forwards: int = 100) -> Tick:
    """Return a tick.

    Args:
        seconds: by node, what a forward spends in it, and of that outside modules inside.
        at: when.
        forwards: how many were made; each node was called once in each.
    """
    whole = [inclusive for inclusive, _ in seconds.values()]
    own = [outside for _, outside in seconds.values()]
    narrow = array("f", whole).tobytes()
    return Tick(
        at=at,
        forwards=forwards,
        warmup_forwards=3,
        dropped=0,
        latency_p50=0.001,
        latency_p95=0.002,
        per_second=800.0,
        window=128,
        nodes=array("I", seconds).tobytes(),
        calls=array("Q", [forwards] * len(seconds)).tobytes(),
        total=array("d", [forwards * value for value in whole]).tobytes(),
        own=array("d", [forwards * value for value in own]).tobytes(),
        last=narrow,
        p50=narrow,
        p95=narrow,
        maximum=narrow,
        per_forward=narrow,
        own_per_forward=array("f", own).tobytes(),
        mean_per_forward=narrow,
        own_mean_per_forward=array("f", own).tobytes(),
        mean_forwards=min(forwards, 128),
    )


TICK = tick(
    {ROOT: (0.001, 0.0001), CONV: (0.0005, 0.0005), FC: (0.00025, 0.00025), ACT: (0.00015, 0.00015)}
)

TRACED: tuple[Message, ...] = (
    Hello(1, 42, ("Start", "Stop")),
    StageStarted("import torch", 0.1),
    StageDone("import torch", 1.6, 1.5, "2.15.0"),
    Environment("3.11.7", "2.15.0+cpu", "", "", "Some CPU", 2, 2, 2**33),
    FACTS,
    TraceStarted(len(NODES), "dispatch:real"),
    Nodes(NODES[:3], COSTS[:3]),
    Nodes(NODES[3:], COSTS[3:]),
    DONE,
)
MEASURED: tuple[Message, ...] = (
    *TRACED,
    CEILINGS,
    LoopState("running", 2.0, 1),
    SAMPLE,
    TICK,
    Overhead(0.008, 0.002, 0.014, 12),
    LoopState("finished", 5.0, 1, "3 s were asked for"),
)


def folded(messages: tuple[Message, ...], start: Session = EMPTY) -> Session:
    """Return the session after all of the messages."""
    for message in messages:
        start = apply(start, message)
    return start


def operator_times(seconds: dict[int, float], *, windows: int = 1) -> OperatorTimes:
    """Return the times of operators: by node, what a forward spends in it, in one call."""
    narrow = array("f", list(seconds.values())).tobytes()
    return OperatorTimes(
        at=6.0,
        windows=windows,
        forward_seconds=0.001,
        unmatched=0,
        why_none="",
        nodes=array("I", list(seconds)).tobytes(),
        calls=array("I", [1] * len(seconds)).tobytes(),
        per_forward=narrow,
        last=narrow,
    )


def _columns(tick: Tick, **figures: dict[int, float]) -> Tick:
    """Return a tick in which some figures of some nodes are others: by column, then by node."""
    position = {node: place for place, node in enumerate(memoryview(tick.nodes).cast("I"))}
    made = {}
    for name, values in figures.items():
        kind = {"calls": "Q", "total": "d", "own": "d"}.get(name, "f")
        column = array(kind, getattr(tick, name))
        for node, value in values.items():
            column[position[node]] = int(value) if kind == "Q" else value
        made[name] = column.tobytes()
    return replace(tick, **made)


UNEVEN_TICK = _columns(
    TICK,
    calls={ACT: 200},
    total={ROOT: 0.11},
    p50={ACT: 0.00007},
    p95={ACT: 0.00008, ROOT: 0.0015},
    maximum={ACT: 0.0002, ROOT: 0.003},
    last={ACT: 0.00009, ROOT: 0.0013},
)
"""No two figures of a node are the same: ``act`` is called twice per forward, 100 forwards took
0.11 s, their median is 1 ms, the last took 1.3 ms."""
UNEVEN: tuple[Message, ...] = (
    *(
        Nodes(tuple(replace(n, calls=2) if n.name == "act" else n for n in m.nodes), m.costs)
        if isinstance(m, Nodes)
        else UNEVEN_TICK
        if m is TICK
        else m
        for m in MEASURED
    ),
)
