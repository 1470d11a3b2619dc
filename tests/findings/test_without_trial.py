"""Advice without a trial: a model where it applies, with figures counted by hand, and one not.

Trees come from real traces; times are given, so that every share can be worked out.
"""

from __future__ import annotations

import pytest
import torch
from msgspec.structs import replace
from torch import nn

from tests.findings.made import (
    CALL,
    all_times,
    figure,
    found,
    on_device,
    on_paper,
    timed,
    with_host,
)
from tests.small_model import operator_times
from tui_profiler.findings.evidence.time_share import host
from tui_profiler.messages import (
    Hello,
    ModeSeen,
    Overhead,
    PeakMemory,
    Program,
    Setting,
    Unknown,
)
from tui_profiler.session import Session, apply

IMAGE = torch.zeros(1, 3, 8, 8)
ROW = torch.zeros(1, 16)


class Reads(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum().item() > 0:
            x = x + 1
        return x[x > 0].sum()


def test_values_that_python_reads_are_found_with_their_line():
    session = on_paper(Reads(), ROW)
    one = found("synchronise", session)
    assert one is not None
    lines = [e.what for e in one.evidence if "test_without_trial.py:" in e.what]
    assert len(lines) >= 2
    first = Reads.forward.__code__.co_firstlineno
    assert any(line.endswith(f":{first + 1}") for line in lines)
    assert any(line.endswith(f":{first + 3}") for line in lines)
    assert isinstance(one.gain.share, Unknown)
    on_gpu = on_device(timed(all_times(session, 1e-4), {"": 1e-3}), "cuda:0")
    one = found("synchronise", on_gpu)
    assert one is not None
    assert one.gain.is_bound
    assert figure(one, "of them in the last operator window") == len(one.nodes)
    assert found("synchronise", on_paper(nn.Sequential(nn.ReLU()), ROW)) is None


def test_a_forward_that_is_python_and_calls_is_found():
    net = nn.Sequential(nn.Linear(16, 16), nn.ReLU())
    session = timed(on_paper(net, ROW), {"": 1e-4, "0": 3e-5, "1": 2e-5})
    one = found("host-overhead", with_host(session, 4e-5, 1e-4))
    assert one is not None
    assert session.tree is not None
    calls = session.tree.costs[0].ops * CALL
    assert one.gain.share == pytest.approx((4e-5 + calls) / 1e-4, rel=1e-4)
    slow = timed(on_paper(net, ROW), {"": 1e-1, "0": 3e-2, "1": 2e-2})
    assert found("host-overhead", with_host(slow, 1e-3, 1e-1)) is None
    assert found("host-overhead", session) is None, "no window was opened"


def test_what_takes_longer_than_operators_and_calls_can_is_not_called_overhead():
    net = nn.Sequential(nn.Linear(16, 16), nn.ReLU())
    # Two operators and three calls of modules: at most 1 ms of Python.
    for seconds, is_overhead in ((9e-4, True), (2e-3, False)):
        session = timed(on_paper(net, ROW), {"": 3e-3, "0": 1e-3, "1": 1e-3})
        session = with_host(session, seconds, 3e-3)
        for kind in ("host-overhead", "compile"):
            assert (found(kind, session) is not None) is is_overhead, kind
        reason = host(session)
        assert isinstance(reason, Unknown) is not is_overhead


def test_a_program_that_leaves_its_model_idle_is_found():
    session = timed(on_paper(nn.Sequential(nn.ReLU()), ROW), {"": 1e-2, "0": 1e-2})
    program = Program("net", 1, "python serve.py", 0.0, 0.0)
    # 27.4 forwards a second of 10 ms each: 36.5 ms from one to the next.
    watched = apply(session, Hello(1, 1, ("Observe",), program=program))
    assert found("input-idle", watched) is None, "the mode is not known"
    serving = Setting(False, "no_grad", 1, True, 9)
    watched = apply(watched, ModeSeen(1.0, (serving,), 9, 0))
    assert found("input-idle", apply(watched, ModeSeen(1.0, (serving,), 9, 3))) is None, (
        "another model is trained meanwhile"
    )
    assert found("input-idle", watched) is None, "it is not known whether the rate was counted"
    watched = apply(watched, Overhead(0.01, 0.0, 0.02, pairs=0, share=1.0))
    one = found("input-idle", watched)
    assert one is not None
    assert one.gain.share == pytest.approx(1 - 27.4 * 1e-2, rel=1e-4)
    assert found("input-idle", session) is None, "our own loop waits for nobody"
    assert session.timings is not None
    busy = replace(session.timings.tick, per_second=99.0)
    assert found("input-idle", apply(watched, busy)) is None
    estimated = apply(watched, Overhead(0.01, 0.0, 0.02, pairs=0, share=0.05))
    assert found("input-idle", estimated) is None, "the rate is no more than an estimate"


class Extra(nn.Module):
    def __init__(self, *, extra: bool) -> None:
        super().__init__()
        self.used = nn.Linear(16, 16)
        if extra:
            self.head = nn.Linear(16, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.used(x)
        return y


def test_parameters_that_nothing_reads_are_found():
    one = found("unused-parameters", on_paper(Extra(extra=True), ROW))
    assert one is not None
    assert figure(one, "parameters that") == (16 * 1000 + 1000) * 4
    assert found("unused-parameters", on_paper(Extra(extra=False), ROW)) is None


def test_weights_that_a_fused_operator_reads_are_used():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    session = on_paper(layer, torch.zeros(1, 4, 16))
    assert session.tree is not None
    assert any("transformer_encoder_layer" in node.name for node in session.tree.nodes)
    assert found("unused-parameters", session) is None


def test_an_activation_after_a_product_is_found():
    net = nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.LayerNorm(16), nn.GELU())
    session = timed(all_times(on_paper(net, ROW), 2e-5), {"": 1e-3, "0": 1e-4})
    one = found("fuse-activation", session)
    assert one is not None
    assert len(one.nodes) == 1, "the second reads a norm"
    assert one.gain.is_bound
    assert one.gain.share == pytest.approx(2e-2, rel=1e-4)
    other = nn.Sequential(nn.LayerNorm(16), nn.GELU())
    assert found("fuse-activation", all_times(on_paper(other, ROW), 1e-5)) is None


def test_a_peak_of_activations_is_told_from_one_of_weights():
    wide = on_paper(nn.Sequential(nn.Conv2d(3, 8, 3, padding=1)), torch.zeros(2, 3, 64, 64))
    one = found("peak-activations", wide)
    assert one is not None
    assert wide.tree is not None
    assert wide.tree.done is not None
    peak = wide.tree.done.peak_memory
    total = sum(
        part
        for part in (peak.parameters, peak.buffers, peak.activations, peak.workspace)
        if not isinstance(part, Unknown)
    )
    assert not isinstance(peak.activations, Unknown)
    assert one.gain.share == pytest.approx(peak.activations / 2 / total)
    heavy = on_paper(nn.Sequential(nn.Linear(512, 512)), torch.zeros(1, 512))
    assert found("peak-activations", heavy) is None
    none = Unknown("not asked for")
    unknown = replace(wide.tree.done, peak_memory=PeakMemory(none, none, none, none, -1, 0, 0))
    without = replace(wide, tree=replace(wide.tree, done=unknown))
    assert found("peak-activations", without) is None


class Widens(nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 64, dtype=torch.bfloat16)
        self.dtype = dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).to(self.dtype).exp()


def test_tensors_that_become_wider_are_found():
    rows = torch.zeros(32, 64, dtype=torch.bfloat16)
    session = timed(all_times(on_paper(Widens(torch.float32), rows), 1e-4), {"": 1e-3})
    one = found("upcast", session)
    assert one is not None
    assert (figure(one, "casts"), figure(one, "operators in a wider")) == (1, 1)
    assert one.gain.share == pytest.approx(0.2, rel=1e-4)
    assert found("upcast", on_paper(Widens(torch.bfloat16), rows)) is None


def test_sizes_that_do_not_fill_tensor_cores_are_found_on_a_gpu_alone():
    net, rows = nn.Sequential(nn.Linear(64, 1001, bias=False)), torch.zeros(4, 64)
    # Without TF32, which is off unless a program asks for it, no tensor core computes in float32.
    assert found("alignment", on_device(on_paper(net, rows), "cuda:0")) is None
    net, rows = net.bfloat16(), rows.bfloat16()
    session = timed(on_paper(net, rows), {"": 1e-3, "0": 9e-4})
    with_op = apply(session, operator_times({node_of(session, "aten::mm"): 8e-4}))
    one = found("alignment", on_device(with_op, "cuda:0"))
    assert one is not None
    assert figure(one, "size of 0") == 1001
    assert one.gain.is_bound
    assert one.gain.share == pytest.approx(0.8, rel=1e-4)
    assert found("alignment", session) is None
    even = nn.Sequential(nn.Linear(64, 1000, bias=False)).bfloat16()
    assert found("alignment", on_device(on_paper(even, rows), "cuda:0")) is None


def node_of(session: Session, name: str) -> int:
    assert session.tree is not None
    return next(i for i, node in enumerate(session.tree.nodes) if node.name == name)
