"""Every kind of advice: a model where it applies, with figures counted by hand, and one where not.

Trees come from real traces; times are given, so that every share can be worked out.
"""

from __future__ import annotations

import pytest
import torch
from msgspec.structs import replace
from torch import nn
from torch.nn import functional

from tests.findings.made import (
    BF16,
    CALL,
    CEILINGS,
    COPY,
    ENVIRONMENT,
    FAULT,
    IMAGE,
    KERNELS,
    ROW,
    WIDE,
    Normed,
    all_times,
    figure,
    found,
    on_device,
    on_paper,
    timed,
    with_host,
)
from tests.machine_session import GPU
from tests.small_model import SAMPLE
from tui_profiler.findings import CHECKS
from tui_profiler.findings.evidence.finding import Finding, Kind
from tui_profiler.findings.evidence.time_share import WINDOWS_WAITED, host
from tui_profiler.messages import (
    Ceiling,
    Ceilings,
    ModeSeen,
    RealCost,
    RoofQuality,
    Setting,
    ThreadTime,
    Unknown,
)
from tui_profiler.session import Session, apply


def test_a_batch_norm_that_alone_reads_a_convolution_can_be_folded():
    session = timed(on_paper(Normed(), IMAGE), {"": 1e-3, "conv": 7e-4, "norm": 2e-4})
    one = found("fold-conv-bn", session)
    assert one is not None
    assert session.tree is not None
    assert [session.tree.nodes[node].path for node in one.nodes] == ["norm"]
    assert one.gain.share == pytest.approx(0.2)
    # 4 x 8 x 8 floats read and as many written.
    assert figure(one, "activations") == 2 * 4 * 64 * 4
    assert one.trial == "fold-conv-bn"


def test_a_convolution_that_is_read_elsewhere_keeps_its_norm():
    assert found("fold-conv-bn", on_paper(Normed(read_twice=True), IMAGE)) is None


def test_without_times_a_share_is_on_paper_and_without_roofs_unknown():
    one = found("fold-conv-bn", on_paper(Normed(), IMAGE))
    assert one is not None
    assert one.gain.provenance == "estimated"
    # Both operators are so small that calling them is the largest roof: a half.
    assert one.gain.share == pytest.approx(0.5)
    unknown = found("fold-conv-bn", on_paper(Normed(), IMAGE, ceilings=None))
    assert unknown is not None
    assert isinstance(unknown.gain.share, Unknown)


def test_identity_and_dropout_cost_their_calls():
    net = nn.Sequential(nn.Linear(16, 16), nn.Identity(), nn.Dropout(0.5))
    session = timed(on_paper(net, ROW), {"": 1e-4, "0": 9e-5, "1": 2e-6, "2": 3e-6})
    one = found("remove-dropout-identity", session)
    assert one is not None
    assert one.nodes == (one.nodes[0], one.nodes[1])
    assert one.gain.share == pytest.approx(0.05, rel=1e-6)
    assert session.tree is not None
    assert session.tree.nodes[one.nodes[0]].type == "Dropout"
    plain = timed(on_paper(nn.Sequential(nn.Linear(16, 16)), ROW), {"": 1e-4, "0": 9e-5})
    assert found("remove-dropout-identity", plain) is None


def test_convolutions_in_nchw_are_copied_there_and_back():
    net = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1))
    image = torch.zeros(1, 8, 64, 64)
    session = timed(on_paper(net, image), {"": 1e-3, "0": 9e-4})
    one = found("channels-last", session)
    assert one is not None
    copied = 2 * (2 * 8 * 64 * 64 * 4)
    assert figure(one, "layout conversions") == copied
    # By the copies; by the kernels, which are 1.25 times as fast here.
    assert one.gain.low == pytest.approx(copied / COPY / 1e-3, rel=1e-6)
    assert one.gain.high == pytest.approx(9e-4 * 0.2 / 1e-3, rel=1e-6)
    # Above its roof, which is known to a quarter, it cannot come.
    moved = (2 * 8 * 64 * 64 + 8 * 8 * 9 + 8) * 4
    least = max(2 * 8 * 8 * 9 * 64 * 64 / WIDE, moved / COPY)
    fast = timed(on_paper(net, image), {"": 1e-3, "0": least + 1e-5})
    one = found("channels-last", fast)
    assert one is not None
    assert one.gain.high == pytest.approx((1e-5 + least * 0.2) / 1e-3, rel=1e-3)


def test_page_faults_of_layout_conversions_are_their_part_of_those_of_the_forward() -> None:
    net = nn.Sequential(nn.Conv2d(64, 64, 3, padding=1, groups=64))
    image = torch.zeros(1, 64, 64, 64)
    session = timed(on_paper(net, image), {"": 1e-2, "0": 9e-3})
    assert session.tick is not None
    # 1 MiB in and out: 256 pages of the output, 512 of both copies.
    faulted = with_faults(session, 768.0)
    calm, one = found("channels-last", session), found("channels-last", faulted)
    assert calm is not None
    assert one is not None
    copied = 2 * (2 * 64 * 64 * 64 * 4)
    assert calm.gain.low == pytest.approx(copied / COPY / 1e-2, rel=1e-6)
    paging = 512 * FAULT
    assert one.gain.low == pytest.approx((copied / COPY + 0.75 * paging) / 1e-2, rel=1e-6)
    by_kernel = (9e-3 - paging) / 3  # Depthwise: 1.5 times as fast.
    assert one.gain.high == pytest.approx((by_kernel + 1.25 * paging) / 1e-2, rel=1e-6)


def with_faults(session: Session, faults: float, seconds: float = 1e-2) -> Session:
    assert session.tick is not None
    thread = ThreadTime(seconds, seconds, 0.0, faults, 0.0, 0.0, 0.0)
    return apply(session, replace(session.tick, thread=thread))


def test_page_faults_that_take_much_of_a_forward_are_found_with_the_largest_outputs() -> None:
    class Doubles(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x[:, :2] + 1).sum() + x * 2

    rows = torch.zeros(65536, 16)
    session = timed(all_times(on_paper(Doubles(), rows), 1e-3), {"": 1e-2})
    one = found("reuse-memory", with_faults(session, 1024.0))
    assert one is not None
    assert one.gain.share == pytest.approx(1024 * FAULT / 1e-2)
    assert (one.gain.low, one.gain.high) == pytest.approx(
        (0.75 * 1024 * FAULT / 1e-2, 1.25 * 1024 * FAULT / 1e-2)
    )
    assert session.tree is not None
    largest = session.tree.nodes[one.nodes[0]]
    assert largest.outputs[0].shape == (65536, 16)
    assert found("reuse-memory", with_faults(session, 200.0)) is None, "4 % of the forward"
    # What remains is no faster than the roofs, with a quarter of doubt.
    many = found("reuse-memory", with_faults(session, 1e6))
    assert many is not None
    assert many.gain.most < 1.0


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_a_dtype_that_is_slower_here_is_named_with_its_layer_and_line(dtype: str) -> None:
    slow = replace(CEILINGS.compute[0], dtype=dtype, flops_per_second=WIDE / 8)
    others = tuple(one for one in CEILINGS.compute if one.dtype != dtype)
    roofs = replace(CEILINGS, compute=(*others, slow))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.precise = nn.Conv2d(64, 64, 3, bias=False, dtype=getattr(torch, dtype))
            self.rest = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.precise(x), self.rest(y)

    image = torch.zeros(4, 64, 32, 32, dtype=getattr(torch, dtype))
    session = on_paper(Net(), image, torch.zeros(4, 8), ceilings=roofs)
    flops = 2 * 4 * 64 * 64 * 9 * 30 * 30
    now, then = flops / WIDE * 8, flops / WIDE
    whole, took = 3 * now, 2 * now
    one = found("slow-dtype", timed(session, {"": whole, "precise": took}))
    assert one is not None
    assert one.gain.low == pytest.approx((now - then) / whole, rel=1e-6)
    assert one.gain.share == pytest.approx(took * 7 / 8 / whole, rel=1e-6)
    # The roofs are known to a quarter.
    assert one.gain.high == pytest.approx((took - then / 1.25) / whole, rel=1e-6)
    assert one.title.startswith(f"{dtype} convolution in precise (")
    assert "test_findings.py:" in one.title
    # Where the machine has no such roof nothing is concluded; nor where it is as fast as float32.
    for other in (others, (*others, replace(slow, flops_per_second=WIDE))):
        same = apply(session, replace(CEILINGS, compute=other))
        assert found("slow-dtype", timed(same, {"": whole, "precise": took})) is None


def test_convolutions_in_float64_keep_the_layout_of_the_model() -> None:
    class Precise(nn.Module):
        def __init__(self, dtype: torch.dtype) -> None:
            super().__init__()
            self.body = nn.Conv2d(8, 8, 3, padding=1)
            self.precise = nn.Conv2d(8, 8, 3, padding=1, dtype=dtype)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.precise(self.body(x).to(self.precise.weight.dtype))

    for dtype, is_advised in ((torch.float32, True), (torch.float64, False)):
        session = on_paper(Precise(dtype), torch.zeros(1, 8, 64, 64))
        one = found("channels-last", timed(session, {"": 2e-3, "body": 9e-4, "precise": 9e-4}))
        assert (one is not None) is is_advised


def test_on_paper_a_gain_is_an_upper_bound() -> None:
    """A forward takes longer than the roofs allow: what they do not explain may stay."""
    for kind, net, given in (
        ("bf16-autocast", nn.Linear(1024, 1024), torch.zeros(512, 1024)),
        ("int8-dynamic", nn.Linear(1024, 1024), torch.zeros(1, 1024)),
        ("channels-last", nn.Conv2d(8, 8, 3, padding=1), torch.zeros(1, 8, 64, 64)),
    ):
        one = CHECKS[kind](on_paper(nn.Sequential(net), given))  # type: ignore[index]  # kinds
        assert one is not None
        assert (one.gain.is_bound, one.gain.low) == (True, None)
        assert 0 < one.gain.most < 1


def test_images_that_lie_channels_last_already_need_no_advice():
    net = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1))
    image = torch.zeros(1, 8, 64, 64).to(memory_format=torch.channels_last)
    session = timed(on_paper(net, image), {"": 1e-3, "0": 9e-4})
    assert found("channels-last", session) is None


def test_sixteen_bits_save_what_the_roofs_say():
    net = nn.Sequential(nn.Linear(1024, 1024, bias=False))
    session = timed(on_paper(net, torch.zeros(512, 1024)), {"": 1e-2, "0": 8e-3})
    one = found("bf16-autocast", session)
    assert one is not None
    products = 2 * 512 * 1024 * 1024
    casts = 1024 * 1024 * 4 * 1.5 / COPY
    moved = (512 * 1024 * 2 + 1024 * 1024) * 4
    saved = products / WIDE - max(products / BF16, moved / 2 / COPY) - casts
    # At least: no neighbour is in 16 bits, and inputs and outputs are cast as well.
    activations = 2 * 512 * 1024 * 4 * 1.5 / COPY
    assert one.gain.low == pytest.approx((saved - activations) / 1e-2, rel=1e-6)
    faster = products / WIDE / max(products / BF16, moved / 2 / COPY)
    assert one.gain.high == pytest.approx((8e-3 * (1 - 1 / faster) - casts) / 1e-2, rel=1e-6)
    # Here float16 is no faster in products, and these are not bound by memory.
    assert found("fp16-autocast", session) is None
    half = net.to(torch.bfloat16)
    narrow = on_paper(half, torch.zeros(512, 1024, dtype=torch.bfloat16))
    assert found("bf16-autocast", timed(narrow, {"": 1e-2, "0": 8e-3})) is None


def test_a_roof_of_float16_that_is_higher_makes_it_advice():
    roofs = replace(
        CEILINGS, compute=(CEILINGS.compute[0], replace(CEILINGS.compute[2], flops_per_second=2e12))
    )
    net = nn.Sequential(nn.Linear(1024, 1024, bias=False))
    session = on_paper(net, torch.zeros(512, 1024), ceilings=roofs)
    assert found("fp16-autocast", timed(session, {"": 1e-2, "0": 8e-3})) is not None
    assert found("bf16-autocast", timed(session, {"": 1e-2, "0": 8e-3})) is None


def test_float16_in_training_needs_a_scaled_loss():
    roofs = replace(
        CEILINGS, compute=tuple(replace(one, flops_per_second=2e12) for one in CEILINGS.compute)
    )
    roofs = replace(roofs, compute=(CEILINGS.compute[0], *roofs.compute[1:]))
    net = nn.Sequential(nn.Linear(1024, 1024, bias=False))
    session = on_paper(net, torch.zeros(512, 1024), ceilings=roofs)
    infers = timed(session, {"": 1e-2, "0": 8e-3})
    steps = ModeSeen(1.0, (Setting(True, "grad", 1, True, 9),), 9, 9, reached=9)
    for kind, is_needed in (("fp16-autocast", True), ("bf16-autocast", False)):
        one, in_training = found(kind, infers), found(kind, apply(infers, steps))
        assert one is not None
        assert in_training is not None
        assert "GradScaler" not in one.why
        assert ("GradScaler" in in_training.why) is is_needed


def test_int8_weights_are_a_quarter_of_the_bytes():
    net = nn.Sequential(nn.Linear(1024, 1024, bias=False))
    session = timed(on_paper(net, torch.zeros(1, 1024)), {"": 1e-3, "0": 9e-4})
    one = found("int8-dynamic", session)
    assert one is not None
    weights = 1024 * 1024 * 4
    assert figure(one, "bytes of their weights") == weights
    now = (weights + 2 * 4096) / COPY + CALL
    # The input is read twice and written in a quarter of its bytes.
    then = (weights / 4 + 4096 + 2.25 * 4096) / COPY + CALL
    rest = 9e-4 - now
    low = 9e-4 - (rest + then) - KERNELS.int8_call_seconds
    high = 9e-4 - then / 1.25 - KERNELS.int8_call_seconds
    assert (one.gain.low, one.gain.high) == pytest.approx((low / 1e-3, high / 1e-3), rel=1e-6)
    memory = one.gains[1]
    assert memory.of == "memory"
    assert isinstance(memory.share, float)
    assert 0.7 < memory.share < 0.75
    assert found("int8-dynamic", on_device(session, "cuda:0")) is None
    assert found("int8-dynamic", on_paper(nn.Sequential(nn.ReLU()), ROW)) is None


def test_int8_products_are_as_fast_as_they_were_measured_to_be() -> None:
    net = nn.Sequential(nn.Linear(1024, 1024, bias=False))
    products = 2 * 4096 * 1024 * 1024 / WIDE
    session = timed(on_paper(net, torch.zeros(4096, 1024)), {"": 0.1, "0": 2 * products})
    one = found("int8-dynamic", session)
    assert one is not None
    # Four times as fast; what the roof does not explain stays, or nothing of it does.
    costs = KERNELS.int8_call_seconds
    work = products + CALL
    rest = 2 * products - work
    then = products / 4 + CALL
    assert one.gain.low == pytest.approx((2 * products - rest - then - costs) / 0.1, rel=1e-4)
    assert one.gain.high == pytest.approx((2 * products - then / 1.25 - costs) / 0.1, rel=1e-4)


@pytest.mark.parametrize(
    ("net", "given", "seconds"),
    [
        (nn.Linear(16, 16), ROW, 1e-5),
        (nn.LSTM(32, 32, 2, batch_first=True), torch.zeros(1, 256, 32), 1e-3),
        (nn.GRU(32, 32), torch.zeros(64, 2, 32), 5e-4),
    ],
)
def test_int8_is_not_advised_where_quantising_takes_longer_than_it_saves(
    net: nn.Module, given: torch.Tensor, seconds: float
) -> None:
    session = timed(on_paper(nn.Sequential(net), given), {"": seconds, "0": seconds})
    assert found("int8-dynamic", session) is None


def test_a_recurrent_layer_reads_its_weights_in_every_step() -> None:
    net = nn.Sequential(nn.LSTM(512, 512, batch_first=True, bias=False))
    session = timed(on_paper(net, torch.zeros(1, 64, 512)), {"": 0.1, "0": 0.1})
    one = found("int8-dynamic", session)
    assert one is not None
    weights = 2 * 4 * 512 * 512 * 4
    activations = 64 * 512 * 4
    assert session.tree is not None
    cost = session.tree.costs[session.tree.find("0") or 0]
    now = (64 * weights + cost.input_bytes + cost.output_bytes) / COPY + CALL
    narrow = 64 * weights / 4 + cost.output_bytes + 2.25 * cost.input_bytes
    assert cost.output_bytes >= activations
    then = narrow / COPY + CALL
    # Per step one quantised operator and ten small ones.
    costs = 64 * (KERNELS.int8_call_seconds + 10 * CALL)
    assert one.gain.low == pytest.approx((now - then - costs) / 0.1, rel=1e-3)


def test_int8_of_unknown_kernels_is_not_advised() -> None:
    net = nn.Sequential(nn.Linear(1024, 1024, bias=False))
    session = on_paper(net, torch.zeros(1, 1024), ceilings=replace(CEILINGS, kernels=None))
    assert found("int8-dynamic", timed(session, {"": 1e-3, "0": 9e-4})) is None


def test_a_compiler_joins_elementwise_operators_and_drops_python():
    class Chain(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x + 1).sigmoid() * 2

    rows = torch.zeros(64, 256)
    session = all_times(on_paper(Chain(), rows), 1e-3)
    one = found("compile", with_host(timed(session, {"": 1e-2}), 7e-4, 1e-2))
    assert one is not None
    # Of add, sigmoid and mul the last two read another one; and 0.7 ms of 10 ms is Python.
    assert figure(one, "fusible operators") == 2
    # Half of the bytes of both, to both and half of the one before; Python by one window, with a
    # quarter of doubt, less what remains of an operator, of the module, and of entering the code.
    moved = 2 * 2 * 64 * 256 * 4
    left = (2 * 1 + 1 + 50) * CALL
    assert one.gain.low == pytest.approx((moved / COPY / 2 + 0.75 * 7e-4 - left) / 1e-2, rel=1e-4)
    assert one.gain.high == pytest.approx((2e-3 + 5e-4 + 1.25 * 7e-4 + 2 * CALL) / 1e-2, rel=1e-4)
    single = on_paper(nn.Sequential(nn.Linear(16, 16)), ROW)
    calm = with_host(timed(all_times(single, 1e-4), {"": 1e-3, "0": 9e-4}), 1e-5, 1e-3)
    assert found("compile", calm) is None


def test_python_overhead_is_that_of_all_windows_that_did_not_wait() -> None:
    single = on_paper(nn.Sequential(nn.Linear(16, 16)), ROW)
    session = with_host(timed(all_times(single, 1e-4), {"": 1e-3, "0": 9e-4}), 9e-4, 1e-3)
    assert session.host_windows is not None
    last = session.host_windows.times

    def python(*shares: float) -> object:
        found = host(apply(session, replace(last, host_shares=shares)))
        return (
            found
            if isinstance(found, Unknown)
            else (
                found.least_python,
                found.python,
                found.most_python,
            )
        )

    assert python(0.2, 0.6, 0.3) == pytest.approx((0.75 * 2e-4, 3e-4, 1.25 * 6e-4))
    assert python(0.3) == pytest.approx((0.75 * 3e-4, 3e-4, 1.25 * 3e-4))
    assert python() == WINDOWS_WAITED


def test_compiling_is_not_advised_where_too_many_values_break_the_graph() -> None:
    class Reads(nn.Module):
        def __init__(self, reads: int) -> None:
            super().__init__()
            self.reads = reads

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(self.reads):
                x = x * float(x.sum().item() > 0)
            for _ in range(10):
                x = x @ x.T
            return x

    for reads, is_advised in ((1, True), (100, False)):
        square = torch.zeros(4, 4)
        session = timed(all_times(on_paper(Reads(reads), square), 1e-5), {"": 1e-2})
        assert session.tree is not None
        session = apply(session, RealCost(session.tree.costs[0]))
        one = found("compile", with_host(session, 2e-3, 1e-2))
        assert (one is not None) is is_advised


class Recurrent(nn.Module):
    """Pointwise operators in a part of their own, and around a recurrent layer."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Sequential(nn.Sigmoid(), nn.Tanh())
        self.body = nn.Sequential(nn.GRU(16, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(self.head(x))[0]


def test_a_compiler_skips_recurrent_layers_and_what_their_caller_runs():
    torch._dynamo.reset()
    graphs: list[torch.fx.GraphModule] = []
    compiled = torch.compile(
        Recurrent().eval(), backend=lambda graph, _: graphs.append(graph) or graph
    )
    with torch.no_grad():
        compiled(torch.zeros(4, 16))
    names = [node.name for graph in graphs for node in graph.graph.nodes]
    assert [name for name in names if "gru" in name] == []

    session = all_times(on_paper(Recurrent(), torch.zeros(4, 16)), 1e-4)
    assert session.tree is not None
    whole = session.tree.costs[0].ops * 1e-4
    one = found("compile", with_host(session, whole / 2, whole))
    assert one is not None
    assert figure(one, "fusible operators") == 1  # tanh after sigmoid, none of the gates
    what = "recurrent layers, which torch.compile skips with the function that calls them"
    assert figure(one, what) == 1
    alone = all_times(on_paper(nn.Sequential(nn.GRU(16, 16)), torch.zeros(4, 16)), 1e-4)
    assert found("compile", with_host(alone, 1e-2, 1e-1)) is None


def test_waiting_for_a_core_is_no_overhead_of_python():
    def waited(share: float) -> Session:
        net = nn.Sequential(nn.Linear(16, 16, bias=False))
        session = with_host(timed(on_paper(net, ROW), {"": 1e-3, "0": 5e-4}), 6e-4, 1e-3)
        assert session.timings is not None
        used = ThreadTime(1e-3, 1e-3 * (1 - share), 1e-3 * share, 0.0, 0.0, 0.0, 0.0)
        return apply(session, replace(session.timings.tick, thread=used))

    some = found("host-overhead", waited(0.1))
    assert some is not None
    assert figure(some, "Python overhead (time outside operators)") == pytest.approx(0.9 * 6e-4)
    for kind in ("host-overhead", "larger-batch", "compile"):
        assert found(kind, waited(0.5)) is None


class Routed(nn.Module):
    """An expert that is given the rows which the data choose."""

    def __init__(self) -> None:
        super().__init__()
        self.expert = nn.Linear(256, 256, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        (rows,) = (x[:, 0] > 0).nonzero(as_tuple=True)
        y: torch.Tensor = self.expert(x[rows])
        return y


@pytest.mark.parametrize("kind", ["bf16-autocast", "int8-dynamic"])
def test_what_routed_layers_gain_is_at_most_predicted(kind: Kind) -> None:
    given = torch.zeros(512, 256)
    for net, is_bound in ((Routed(), True), (nn.Sequential(nn.Linear(256, 256)), False)):
        one = found(kind, all_times(on_paper(net, given), 1e-3))
        assert one is not None
        assert one.gain.is_bound is is_bound


class ByHand(nn.Module):
    """Attention as it is written down: product, scale, mask, softmax, product."""

    def forward(self, q: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        scores = q @ q.transpose(-1, -2) / 4.0
        return (scores + mask).softmax(-1) @ q


class Fused(nn.Module):
    def forward(self, q: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)


def test_attention_written_by_hand_is_told_from_fused():
    q, mask = torch.zeros(2, 4, 32, 16), torch.zeros(32, 32)
    session = all_times(on_paper(ByHand(), q, mask), 1e-4)
    one = found("sdpa", timed(session, {"": 2e-3}))
    assert one is not None
    # Scaling, adding the mask and softmax: three of the operators.
    assert one.gain.share == pytest.approx(3e-4 / 2e-3, rel=1e-4)
    assert figure(one, "scores") == 3 * 2 * 4 * 32 * 32 * 4
    assert found("sdpa", all_times(on_paper(Fused(), q, mask), 1e-4)) is None


def test_a_softmax_of_scores_for_classes_is_no_attention():
    net = nn.Sequential(nn.Linear(16, 16), nn.Softmax(-1))
    assert found("sdpa", all_times(on_paper(net, ROW), 1e-4)) is None


def test_what_does_not_grow_with_the_batch_is_shared_by_more_items():
    net = nn.Sequential(nn.Linear(16, 16, bias=False))
    session = with_host(timed(on_paper(net, ROW), {"": 1e-3, "0": 5e-4}), 4e-4, 1e-3)
    unknown = found("larger-batch", session)
    assert unknown is not None
    assert unknown.title == "increase the batch size from 1 to 2", "free memory is not known"
    session = apply(session, SAMPLE)
    one = found("larger-batch", session)
    assert one is not None
    assert session.tree is not None
    weights = 16 * 16 * 4 / COPY
    fixed = 4e-4 + session.tree.costs[0].ops * CALL + weights
    assert one.gain.share == pytest.approx(fixed / 1e-3 * 15 / 16, rel=1e-4)
    calm = with_host(timed(on_paper(net, ROW), {"": 1.0, "0": 0.5}), 1e-3, 1.0)
    assert found("larger-batch", calm) is None


def test_no_other_batch_is_advised_where_no_batch_axis_is_known():
    net = nn.Sequential(nn.Linear(16, 16, bias=False))
    session = with_host(timed(on_paper(net, ROW), {"": 1e-3, "0": 5e-4}), 4e-4, 1e-3)
    assert session.model is not None
    without = apply(session, replace(session.model, batch=None, why_no_batch="no axis follows"))
    assert without.tree is not None
    for kind in ("larger-batch", "host-overhead", "peak-activations"):
        one = found(kind, without)
        assert one is None or "batch" not in f"{one.title} {one.why} {one.why_no_trial} {one.gain}"


def test_a_batch_that_would_not_fit_is_not_advised():
    net = nn.Sequential(nn.Linear(16, 16, bias=False))
    session = with_host(timed(on_paper(net, ROW), {"": 1e-3, "0": 5e-4}), 4e-4, 1e-3)
    full = apply(session, replace(SAMPLE, memory_bytes=2**30, memory_total_bytes=2**30 + 300))
    one = found("larger-batch", full)
    assert one is not None
    # 128 bytes a forward: twice as many fit into 300 bytes, four times as many do not.
    assert one.title == "increase the batch size from 1 to 2"
    none_left = apply(session, replace(SAMPLE, memory_bytes=2**30, memory_total_bytes=2**30))
    assert found("larger-batch", none_left) is None


def test_the_free_memory_is_that_of_the_gpu_that_the_model_is_on():
    """NVML numbers GPUs by the bus, torch by ``CUDA_VISIBLE_DEVICES``: here the other way round."""
    net = nn.Sequential(nn.Linear(16, 16, bias=False))
    session = with_host(timed(on_paper(net, ROW), {"": 1e-3, "0": 5e-4}), 4e-4, 1e-3)
    full, free = (
        replace(GPU, index=index, cuda_index=1 - index, memory_bytes=80.0 * 2**30 - left)
        for index, left in ((0, 300), (1, 40.0 * 2**30))
    )
    session = apply(session, replace(SAMPLE, gpus=(full, free)))
    for device, items in (("cuda:1", 2), ("cuda:0", 16)):
        one = found("larger-batch", on_device(session, device))
        assert one is not None
        assert one.title == f"increase the batch size from 1 to {items}"


def test_autograd_that_follows_or_calls_that_take_the_time_ask_for_inference_mode():
    session = timed(on_paper(nn.Sequential(nn.ReLU()), ROW), {"": 5e-5, "0": 2e-5})
    one = found("inference-mode", session)
    assert one is not None
    assert one.gain.share == pytest.approx(KERNELS.no_grad_seconds / 5e-5, rel=1e-6)
    assert (one.gain.low, one.gain.high) == pytest.approx((0.005, 0.02), rel=1e-6)
    slow = timed(on_paper(nn.Sequential(nn.ReLU()), ROW), {"": 5e-2, "0": 2e-2})
    assert found("inference-mode", slow) is None
    assert slow.tree is not None
    root = slow.tree.nodes[0]
    follows = replace(root, outputs=(replace(root.outputs[0], grad=True),))
    watched = replace(slow, tree=replace(slow.tree, nodes=(follows, *slow.tree.nodes[1:])))
    one = found("inference-mode", watched)
    assert one is not None
    assert figure(one, "outputs recorded by autograd") == 1
    assert one.gain.share == pytest.approx(KERNELS.autograd_seconds / 5e-2, rel=1e-6)


def with_threads(session: Session, threads: int, busy: float) -> Session:
    session = apply(session, replace(ENVIRONMENT, threads=threads))
    return apply(session, replace(SAMPLE, process_cpu=busy))


def test_cores_without_a_thread_are_found():
    net = nn.Sequential(nn.Linear(1024, 1024, bias=False))
    measured = timed(on_paper(net, torch.zeros(512, 1024)), {"": 1e-2, "0": 8e-3})
    one = found("threads", with_threads(measured, 1, 1.0))
    assert one is not None
    # 8 of 10 ms is bound by compute; on four cores three quarters of it go.
    assert one.gain.is_bound
    assert one.gain.share == pytest.approx(0.6, rel=1e-4)
    assert found("threads", with_threads(measured, 4, 3.9)) is None
    # Amdahl on 2 threads with 1.6 busy: p = (1 - 1/1.6) / (1 - 1/2) = 0.75.
    one = found("threads", with_threads(measured, 2, 1.6))
    assert one is not None
    assert one.gain.share == pytest.approx(1 - (0.25 + 0.75 / 4) / (0.25 + 0.75 / 2), rel=1e-6)


def test_threads_that_wait_for_each_other_are_found():
    net = nn.Sequential(nn.Linear(1024, 1024, bias=False))
    measured = timed(on_paper(net, torch.zeros(512, 1024)), {"": 1e-2, "0": 8e-3})
    one = found("threads", with_threads(measured, 4, 1.1))
    assert one is not None
    assert isinstance(one.gain.share, Unknown)
    assert one.title == "run on 1 thread instead of 4"
    # Beside other programs threads are kept from cores: that says nothing of each other.
    contended = with_threads(measured, 4, 1.1)
    assert contended.tick is not None
    waited = ThreadTime(1e-2, 6e-3, 4e-3, 0.0, 0.0, 0.0, 9.0)
    assert found("threads", apply(contended, replace(contended.tick, thread=waited))) is None
    # A forward that sleeps keeps no core busy meanwhile.
    asleep = ThreadTime(1e-2, 3e-3, 0.0, 0.0, 0.0, 3.0, 0.0)
    assert found("threads", apply(contended, replace(contended.tick, thread=asleep))) is None


@pytest.mark.parametrize("threads", [1, 4])
def test_threads_are_not_advised_where_no_operator_has_work_to_share(threads: int) -> None:
    small = timed(on_paper(nn.Sequential(nn.ReLU()), ROW), {"": 5e-5, "0": 2e-5})
    slow = timed(on_paper(nn.Sequential(nn.ReLU()), ROW), {"": 1e-2, "0": 9e-3})
    for session in (small, slow):
        assert found("threads", with_threads(session, threads, 1.0)) is None


class Remembers(nn.Module):
    """One step of a decoder: what was read before is joined with the new token."""

    def forward(self, new: torch.Tensor, past: torch.Tensor) -> torch.Tensor:
        keys = torch.cat((past, new * 2), dim=2)
        return functional.scaled_dot_product_attention(new, keys, keys)


def test_a_cache_that_is_joined_anew_is_found():
    new, past = torch.zeros(1, 2, 1, 8), torch.zeros(1, 2, 63, 8)
    session = all_times(on_paper(Remembers(), new, past), 1e-4)
    one = found("static-kv-cache", timed(session, {"": 1e-3}))
    assert one is not None
    assert figure(one, "cache copied") == 2 * 64 * 8 * 4
    assert one.gain.share == pytest.approx(0.1, rel=1e-4)

    class Joins(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.cat((x, y), dim=1).relu()

    plain = torch.zeros(1, 2, 4, 4)
    assert found("static-kv-cache", all_times(on_paper(Joins(), plain, plain), 1e-4)) is None


DOUBTED = RoofQuality(1.0, 0.9, "0 of 9 pieces ran without waiting for a core")


def without_reasons(finding: Finding | None) -> Finding | None:
    """Return a finding with why a gain is not known left out."""
    if finding is None:
        return None
    gains = (
        replace(gain, share=Unknown("")) if isinstance(gain.share, Unknown) else gain
        for gain in finding.gains
    )
    return replace(finding, gains=tuple(gains))


def test_a_gain_on_paper_needs_the_roof_of_every_operator() -> None:
    # float64 has no roof of its own in CEILINGS, and one operator of it is enough.
    model, given = nn.Sequential(Normed().double()), IMAGE.double()
    unknown = found("fold-conv-bn", on_paper(model, given))
    assert unknown is not None
    assert unknown.gain.share == Unknown("no minimum time: no float64 roof: not measured")
    roofs = (*CEILINGS.compute, Ceiling("float64", 1e10))
    known = found("fold-conv-bn", on_paper(model, given, ceilings=replace(CEILINGS, compute=roofs)))
    assert known is not None
    assert known.gain.share == pytest.approx(0.5)


def test_nothing_is_concluded_from_roofs_that_are_not_good_enough():
    doubted = replace(
        CEILINGS,
        compute=tuple(replace(one, quality=DOUBTED) for one in CEILINGS.compute),
        memory_quality=DOUBTED,
        op_quality=DOUBTED,
    )
    wide = nn.Sequential(nn.Linear(1024, 1024, bias=False))
    models: list[tuple[nn.Module, torch.Tensor]] = [
        (wide, torch.zeros(512, 1024)),
        (wide, torch.zeros(1, 1024)),
        (nn.Sequential(nn.ReLU()), ROW),
        (nn.Sequential(Normed()), IMAGE),
    ]
    concluded: set[str] = set()
    for model, given in models:
        for times in ({"": 1e-2, "0": 8e-3}, {"": 5e-5, "0": 2e-5}, None):

            def seen(
                ceilings: Ceilings | None,
                of: tuple[nn.Module, torch.Tensor] = (model, given),
                spent: dict[str, float] | None = times,
            ) -> dict[str, object]:
                session = on_paper(*of, ceilings=ceilings)
                session = session if spent is None else timed(session, spent)
                return {kind: without_reasons(check(session)) for kind, check in CHECKS.items()}

            without = seen(None)
            assert seen(doubted) == without
            concluded |= {kind for kind, one in seen(CEILINGS).items() if one != without[kind]}
    assert {"bf16-autocast", "int8-dynamic", "inference-mode"} <= concluded
