"""A model of three layers whose every figure was worked out by hand, as messages.

``Net(conv 3→4 3×3 pad 1 no bias on 1×3×8×8, fc 256→10, act ReLU)`` and an unknown operator:

- conv: 4·3·3·3 = 108 parameters, 1·4·8·8 = 256 outputs of 27 multiply-adds each = 6,912 MACs;
- fc: 256·10 + 10 = 2,570 parameters, 2,560 MACs, 10 additions of the bias;
- act: one FLOP for each of 10 elements.
"""

from __future__ import annotations

import math
from array import array

from msgspec.structs import replace

from tui_profiler import messages
from tui_profiler.session import EMPTY, Session, apply

IMAGE = messages.Tensor((1, 3, 8, 8), "float32", 768, "x")
FEATURES = messages.Tensor((1, 4, 8, 8), "float32", 1024)
CLASSES = messages.Tensor((1, 10), "float32", 40)

ROOT, CONV, CONV_OP, FC, FC_OP, ACT, ACT_OP, STRANGE_OP = range(8)


def cost(**figures: int) -> messages.Cost:
    """Return a cost in which everything that is not named is 0, and no parameter is frozen."""
    trainable = figures.get("parameters", 0)
    nothing = dict.fromkeys(messages.Cost.__struct_fields__, 0)
    return messages.Cost(**{**nothing, "trainable": trainable, **figures})


def node(parent: int, name: str, path: str, node_type: str, **others: object) -> messages.Node:
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
    return messages.Node(**{**fields, **others})  # type: ignore[arg-type]  # typed by the table above


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
        weights=(messages.Weight("weight", (4, 3, 3, 3), "float32", 432, False),),
        detail="3→4, 3×3, pad 1, no bias",
    ),
    node(
        CONV,
        "aten::convolution",
        "conv/0",
        "aten.convolution.default",
        inputs=(IMAGE, messages.Tensor((4, 3, 3, 3), "float32", 432)),
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
            messages.Weight("weight", (10, 256), "float32", 10240, False),
            messages.Weight("bias", (10,), "float32", 40, False),
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

DONE = messages.TraceDone(
    attempts=(
        messages.Attempt("dispatch:fake", 0.25, "a value was asked for"),
        messages.Attempt("dispatch:real", 0.125, ""),
    ),
    uncosted=("mine::strange",),
    bounded=(),
    peak_memory=messages.PeakMemory(10712.0, 0.0, 2048.0, 512.0, CONV_OP, 4, 4),
)

FACTS = messages.ModelFacts(
    name="net.py:build",
    type="Net",
    source="net.py",
    weights="random",
    inputs=(messages.InputSpec("x", (1, 3, 8, 8), "float32", "first convolution"),),
    batch=1,
    device="cpu",
    training=False,
)

# Figures that make the shares whole: a FLOP takes 0.1 ns, a byte 1 ns, an operator 10 µs.
CEILINGS = messages.Ceilings(
    device="cpu",
    threads=2,
    compute=(
        messages.Ceiling("float32", 10e9),
        messages.Ceiling("bfloat16", messages.Unknown("too slow to measure")),
    ),
    bytes_per_second=1e9,
    op_seconds=10e-6,
    measured_at=1.7e9,
    seconds=2.0,
)

SAMPLE = messages.Sample(
    at=5.0,
    cores=(messages.Core(0.5), messages.Core(1.0)),
    frequency_hertz=2.6e9,
    memory_bytes=2**30,
    memory_total_bytes=2**33,
    process_bytes=2.0**28,
    process_cpu=1.5,
    process_threads=messages.Unknown("the process is not ours"),
    gpus=messages.Unknown("no NVIDIA driver on this machine"),
    package_watts=messages.Unknown("RAPL counters need root"),
)


def tick(
    seconds: dict[int, tuple[float, float]], *, at: float = 5.0, forwards: int = 100
) -> messages.Tick:
    """Return a tick.

    Args:
        seconds: by node, what a forward spends in it, and of that outside modules inside.
        at: when.
        forwards: how many were made; each node was called once in each.
    """
    whole = [inclusive for inclusive, _ in seconds.values()]
    own = [outside for _, outside in seconds.values()]
    narrow = array("f", whole).tobytes()
    return messages.Tick(
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
        thread=messages.ThreadTime(0.001, 0.001, 0.0, 0.0, 0.0, 0.0, 0.0),
    )


def with_cpu_times(before: messages.Tick, cpu: dict[int, tuple[float, float]]) -> messages.Tick:
    """Return a tick with CPU time, the same as time without waiting.

    Args:
        before: without.
        cpu: by node, CPU seconds of a forward, and of them outside modules inside.
    """
    nodes = memoryview(before.nodes).cast("I")
    pairs = [cpu.get(node, (math.nan, math.nan)) for node in nodes]
    whole, own = (array("f", [pair[place] for pair in pairs]).tobytes() for place in (0, 1))
    return replace(
        before,
        cpu_forwards=9,
        cpu_per_forward=whole,
        own_cpu_per_forward=own,
        unwaited_per_forward=whole,
        own_unwaited_per_forward=own,
    )


def with_thread_read(
    before: messages.Tick, read: dict[int, tuple[float, float, float]]
) -> messages.Tick:
    """Return a tick in which calls read what their thread did.

    Args:
        before: without.
        read: by node, own seconds on a core, own seconds asleep and own page faults of a forward.
    """
    nodes = memoryview(before.nodes).cast("I")
    rows = [read.get(node, (math.nan,) * 3) for node in nodes]
    cpu, asleep, faults = (array("f", column).tobytes() for column in zip(*rows, strict=True))
    unwaited = array("f", (one + other for one, other, _ in rows)).tobytes()
    return replace(
        before,
        cpu_forwards=9,
        cpu_per_forward=cpu,
        own_cpu_per_forward=cpu,
        unwaited_per_forward=unwaited,
        own_unwaited_per_forward=unwaited,
        asleep_per_forward=asleep,
        own_asleep_per_forward=asleep,
        faults_per_forward=faults,
        own_faults_per_forward=faults,
    )


def device_times(
    seconds: dict[int, tuple[float, float]],
    *,
    at: float = 5.0,
    forwards: int = 50,
    caught_up: int = 0,
) -> messages.DeviceTimes:
    """Return times on a GPU; arguments as of ``tick``.

    Args:
        seconds: by node.
        at: when.
        forwards: how many were timed there.
        caught_up: in how many of them the GPU had caught up with the host.
    """
    one = tick(seconds, at=at, forwards=forwards)
    shared = ("nodes", "calls", "total", "own", "last", "p50", "p95", "maximum", "per_forward")
    means = ("own_per_forward", "mean_per_forward", "own_mean_per_forward", "mean_forwards")
    columns = {name: getattr(one, name) for name in (*shared, *means)}
    whole = next(iter(seconds.values()))[0]
    return messages.DeviceTimes(
        *(at, forwards, 0, 0, ""),
        **columns,
        window=64,
        asked=forwards,
        caught_up=caught_up,
        latency_p50=whole,
        latency_p95=2 * whole,
    )


TICK = tick(
    {ROOT: (0.001, 0.0001), CONV: (0.0005, 0.0005), FC: (0.00025, 0.00025), ACT: (0.00015, 0.00015)}
)

TRACED: tuple[messages.Message, ...] = (
    messages.Hello(1, 42, ("Start", "Stop")),
    messages.StageStarted("import torch", 0.1),
    messages.StageDone("import torch", 1.6, 1.5, "2.15.0"),
    messages.Environment("3.11.7", "2.15.0+cpu", "", "", "Some CPU", 2, 2, 2**33),
    FACTS,
    messages.TraceStarted(len(NODES), "dispatch:real"),
    messages.Nodes(NODES[:3], COSTS[:3]),
    messages.Nodes(NODES[3:], COSTS[3:]),
    DONE,
)
MEASURED: tuple[messages.Message, ...] = (
    *TRACED,
    CEILINGS,
    messages.LoopState("running", 2.0, 1),
    SAMPLE,
    TICK,
    messages.Overhead(0.008, 0.002, 0.014, 12),
    messages.LoopState("finished", 5.0, 1, "3 s were requested"),
)


def folded(said: tuple[messages.Message, ...], start: Session = EMPTY) -> Session:
    """Return the session after all of the messages."""
    for message in said:
        start = apply(start, message)
    return start


def operator_times(seconds: dict[int, float], *, windows: int = 1) -> messages.OperatorTimes:
    """Return the times of operators: by node, what a forward spends in it, in one call."""
    narrow = array("f", list(seconds.values())).tobytes()
    return messages.OperatorTimes(
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


CALLED = {
    (ROOT, "aten::conv2d"): (1, 450e-6, 50e-6),
    (CONV_OP, "aten::_convolution"): (1, 300e-6, 50e-6),
    (CONV_OP, "aten::mkldnn_convolution"): (1, 250e-6, 250e-6),
    (FC_OP, "aten::relu_"): (2, 20e-6, 20e-6),
}
"""Operators that no node stands for: calls, total and self time, by caller and name."""


def _operators_with_own() -> messages.OperatorTimes:
    names = tuple(sorted({name for _, name in CALLED}))
    calls, seconds, own = zip(*CALLED.values(), strict=True)
    called = messages.CalledOperators(
        names=names,
        nodes=array("I", [node for node, _ in CALLED]).tobytes(),
        name_of=array("I", [names.index(name) for _, name in CALLED]).tobytes(),
        calls=array("I", calls).tobytes(),
        per_forward=array("f", seconds).tobytes(),
        own_per_forward=array("f", own).tobytes(),
    )
    times = operator_times({CONV_OP: 400e-6, FC_OP: 200e-6, ACT_OP: 100e-6})
    own_of_nodes = array("f", [100e-6, 180e-6, 100e-6]).tobytes()
    return replace(times, own_per_forward=own_of_nodes, called=called)


WITH_OWN = _operators_with_own()
"""Self times of 750 µs in all: 380 of operators of the tree, 370 of those that they call."""


def _columns(tick: messages.Tick, **figures: dict[int, float]) -> messages.Tick:
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
UNEVEN: tuple[messages.Message, ...] = (
    *(
        messages.Nodes(
            tuple(replace(n, calls=2) if n.name == "act" else n for n in m.nodes), m.costs
        )
        if isinstance(m, messages.Nodes)
        else UNEVEN_TICK
        if m is TICK
        else m
        for m in MEASURED
    ),
)
