"""Sessions made by hand: a tree written as text, and ticks with the figures given."""

from __future__ import annotations

from array import array
from collections.abc import Mapping

from msgspec.structs import replace

from tui_profiler.messages import (
    Ceiling,
    Ceilings,
    Cost,
    Node,
    Nodes,
    PeakMemory,
    ThreadTime,
    Tick,
    TraceDone,
    TraceStarted,
    Unknown,
)
from tui_profiler.session import EMPTY, Session, apply

RESNET = """
resnet50 ResNet 25600000 4090000000
  conv1 Conv2d 9408 118000000
    aten::convolution aten.convolution.default 0 118000000
  bn1 BatchNorm2d 128 0
  relu ReLU 0 0
  maxpool MaxPool2d 0 0
  layer1 Sequential 216000 668000000
    0 Bottleneck 75000 231000000
      conv1 Conv2d 4096 231000000
    1 Bottleneck 70400 218000000
      conv1 Conv2d 16384 218000000
    2 Bottleneck 70400 219000000
      conv1 Conv2d 16384 219000000
  layer2 Sequential 1220000 1030000000
    0 Bottleneck 600000 515000000
    1 Bottleneck 620000 515000000
  avgpool AdaptiveAvgPool2d 0 0
  fc Linear 2049000 2048000
"""
RESNET_SECONDS = {
    "": 0.0365,
    "conv1": 0.00093,
    "bn1": 0.00018,
    "relu": 0.00014,
    "maxpool": 0.00024,
    "layer1": 0.0182,
    "layer1.0": 0.0032,
    "layer1.0.conv1": 0.003,
    "layer1.1": 0.0075,
    "layer1.1.conv1": 0.007,
    "layer1.2": 0.0075,
    "layer1.2.conv1": 0.006,
    "layer2": 0.0157,
    "layer2.0": 0.008,
    "layer2.1": 0.0077,
    "avgpool": 0.00004,
    "fc": 0.00049,
}


def session_of(text: str, *, after: Session = EMPTY) -> Session:
    """Trace a tree: one ``name type parameters macs`` a line, two blanks a level."""
    nodes: list[Node] = []
    costs: list[Cost] = []
    above: list[int] = []
    for line in text.strip("\n").splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        name, kind, parameters, macs = line.split()
        del above[depth:]
        parent = above[-1] if above else -1
        nodes.append(node_of(parent, name, kind, nodes))
        costs.append(cost_of(int(parameters), int(macs), is_op="::" in name))
        above.append(len(nodes) - 1)
    return traced(nodes, costs, after=after)


def node_of(parent: int, name: str, kind: str, before: list[Node]) -> Node:
    path = name if parent > 0 else ("" if parent < 0 else name)
    if parent > 0:
        path = f"{before[parent].path}.{name}"
    is_op = "::" in name
    return Node(
        parent=parent,
        kind="op" if is_op else "module",
        name=name,
        path=f"{before[parent].path}/0" if is_op else path,
        type=kind,
        calls=1,
        inputs=(),
        outputs=(),
        weights=(),
        detail="",
        source="",
        called_from="",
    )


def cost_of(parameters: int, macs: int, *, is_op: bool = False, moved: int = 0) -> Cost:
    return Cost(
        parameters=parameters,
        parameter_bytes=4 * parameters,
        macs=macs,
        flops=2 * macs,
        input_bytes=moved,
        weight_bytes=4 * parameters,
        output_bytes=0,
        ops=1,
        uncosted=0,
        trainable=parameters,
    )


def traced(nodes: list[Node], costs: list[Cost], *, after: Session = EMPTY) -> Session:
    session = apply(after, TraceStarted(len(nodes), "dispatch:fake"))
    session = apply(session, Nodes(tuple(nodes), tuple(costs)))
    none = Unknown("not asked for")
    peak = PeakMemory(none, none, none, none, -1, 0, 0)
    return apply(session, TraceDone((), (), (), peak))


def ticked(
    session: Session,
    seconds: Mapping[str, float],
    *,
    at: float = 1.0,
    forwards: int = 100,
    totals: Mapping[str, float] | None = None,
) -> Session:
    """Return the session after a tick: seconds a forward spends in each path."""
    assert session.tree is not None
    tree = session.tree
    nodes = [i for i, n in enumerate(tree.nodes) if n.kind == "module" and n.path in seconds]
    spent = [seconds[tree.nodes[i].path] for i in nodes]
    own = [
        max(
            seconds[tree.nodes[i].path]
            - sum(
                seconds.get(tree.nodes[child].path, 0.0)
                for child in tree.children(i)
                if tree.nodes[child].kind == "module"
            ),
            0.0,
        )
        for i in nodes
    ]
    whole = [
        totals[tree.nodes[i].path] if totals is not None else forwards * each
        for i, each in zip(nodes, spent, strict=True)
    ]
    single = array("f", spent).tobytes()
    tick = Tick(
        at=at,
        forwards=forwards,
        warmup_forwards=0,
        dropped=0,
        latency_p50=seconds.get("", 0.0),
        latency_p95=seconds.get("", 0.0),
        per_second=27.4,
        window=100,
        nodes=array("I", nodes).tobytes(),
        calls=array("Q", [forwards] * len(nodes)).tobytes(),
        total=array("d", whole).tobytes(),
        own=array("d", [forwards * each for each in own]).tobytes(),
        last=single,
        p50=single,
        p95=array("f", [each * 1.22 for each in spent]).tobytes(),
        maximum=single,
        per_forward=single,
        own_per_forward=array("f", own).tobytes(),
        mean_per_forward=single,
        own_mean_per_forward=array("f", own).tobytes(),
        mean_forwards=min(forwards, 100),
        thread=on_a_core(seconds.get("", 1.0)),
    )
    return apply(session, tick)


def on_a_core(seconds: float) -> ThreadTime:
    """Return what a thread used that was on a core all the time."""
    return ThreadTime(seconds, seconds, 0.0, 0.0, 0.0, 0.0, 0.0)


def medians_alone(tick: Tick, own: bytes = b"") -> Tick:
    """Return a tick as older versions recorded it: without means, perhaps other own medians."""
    without = replace(tick, mean_per_forward=b"", own_mean_per_forward=b"", mean_forwards=0)
    return replace(without, own_per_forward=own) if own else without


def with_ceilings(session: Session) -> Session:
    """Return the session of a machine with 400 GFLOP/s, 20 GB/s, 5 µs an operator."""
    return apply(
        session,
        Ceilings("cpu", 2, (Ceiling("float32", 4e11),), 2e10, 5e-6, 0.0, 0.0),
    )


def resnet(*, measured: bool = True) -> Session:
    """Return a small ResNet, with times or on paper only."""
    session = with_ceilings(session_of(RESNET))
    return ticked(session, RESNET_SECONDS) if measured else session
