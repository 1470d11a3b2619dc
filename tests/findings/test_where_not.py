"""Models that look like those that a kind of advice is for, and of which it would be false."""

from __future__ import annotations

import pytest
import torch
from msgspec.structs import replace
from torch import nn
from torch.nn import functional

from tests.findings.made import (
    CEILINGS,
    ENVIRONMENT,
    IMAGE,
    ROW,
    Normed,
    all_times,
    figure,
    found,
    on_paper,
    timed,
    with_host,
)
from tests.machine_session import FULL
from tests.machine_session import measured as with_energy_counted
from tests.small_model import SAMPLE
from tui_profiler.findings import findings
from tui_profiler.findings.evidence.finding import Kind
from tui_profiler.messages import Hello, ModeSeen, Program, Setting, StepTimes, known
from tui_profiler.session import Session, apply


def served(session: Session, threads: int = 1) -> Session:
    """Return it as of a program that infers with the model."""
    program = Program("net", 1, "python serve.py", 0.0, 0.0)
    session = apply(session, Hello(1, 1, ("Observe",), program=program))
    return apply(session, ModeSeen(1.0, (Setting(False, "no_grad", threads, True, 9),), 9, 0))


def opaque(session: Session, path: str) -> Session:
    """Return it with a module whose inside is compiled."""
    assert session.tree is not None
    at = session.tree.find(path)
    nodes = tuple(
        replace(node, is_opaque=index == at) for index, node in enumerate(session.tree.nodes)
    )
    return replace(session, tree=replace(session.tree, nodes=nodes))


def test_sixteen_bits_move_half_the_bytes_and_keep_half_the_activations() -> None:
    # 4 FLOPs per byte: casting takes longer than half of the bytes saves.
    moving = on_paper(nn.Sequential(nn.Linear(16, 16, bias=False)), torch.zeros(65536, 16))
    assert found("bf16-autocast", timed(moving, {"": 1e-3, "0": 8e-4})) is None
    rows = 2048
    session = on_paper(nn.Sequential(nn.Linear(1024, 1024, bias=False)), torch.zeros(rows, 1024))
    one = found("bf16-autocast", timed(session, {"": 5e-2, "0": 4e-2}))
    assert one is not None
    weights, activations = 1024 * 1024 * 4, 2 * rows * 1024 * 4
    memory = one.gains[1]
    assert memory.of == "memory"
    assert session.tree is not None
    assert session.tree.done is not None
    peak = session.tree.done.peak_memory
    assert (peak.parameters, peak.activations) == (weights, activations)
    whole = weights + activations + (known(peak.workspace) or 0)
    # The copies of the weights, half as large, are held beside them.
    assert memory.share == pytest.approx((activations / 2 - weights / 2) / whole, rel=1e-6)


class Heads(nn.Module):
    """One layer that is called and two that are not, which share their weight."""

    def __init__(self) -> None:
        super().__init__()
        self.used = nn.Linear(16, 16, bias=False)
        self.one = nn.Linear(16, 1000, bias=False)
        self.other = nn.Linear(16, 1000, bias=False)
        self.other.weight = self.one.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.used(x)
        return y


def test_of_shared_weights_that_nothing_reads_each_byte_counts_once() -> None:
    one = found("unused-parameters", on_paper(Heads(), ROW))
    assert one is not None
    assert figure(one, "parameters that") == 16 * 1000 * 4


def test_what_a_compiled_module_reads_and_joins_is_not_known() -> None:
    session = on_paper(Heads(), ROW)
    assert found("unused-parameters", opaque(session, "used")) is None

    class Chain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(16, 16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = (self.inner(x) + 1).sigmoid() * 2
            return y

    chained = timed(all_times(on_paper(Chain(), ROW), 1e-4), {"": 1e-3})
    chained = with_host(chained, 6e-4, 1e-3)
    assert found("compile", chained) is not None
    assert found("compile", opaque(chained, "inner")) is None
    joined = all_times(
        on_paper(nn.Sequential(nn.Sequential(nn.Linear(16, 16), nn.ReLU())), ROW), 1e-4
    )
    assert found("fuse-activation", joined) is not None
    assert found("fuse-activation", opaque(joined, "0")) is None


def test_a_model_in_training_mode_is_not_told_to_run_under_inference_mode() -> None:
    session = served(timed(on_paper(nn.Sequential(nn.ReLU()), ROW), {"": 5e-5, "0": 2e-5}))
    assert found("inference-mode", session) is not None
    assert session.model is not None
    trains = replace(session, model=replace(session.model, training=True))
    assert found("inference-mode", trains) is None


def test_a_rank_is_idle_while_its_host_does_something_else_not_while_it_waits_for_others() -> None:
    session = served(timed(on_paper(nn.Sequential(nn.ReLU()), ROW), {"": 1e-2, "0": 1e-2}))
    steps = StepTimes(1.0, 50, 50, 0.1, 0.05, 0.02, 0.03, 0.05, 0.0)
    one = found("input-idle", apply(session, steps))
    assert one is not None
    assert one.gain.share == pytest.approx(0.3)
    assert figure(one, "of it, in the model") == pytest.approx(0.07)
    assert found("input-idle", apply(session, replace(steps, wait=0.045, host=0.005))) is None


class Picks(nn.Module):
    def forward(self, x: torch.Tensor, which: torch.Tensor) -> torch.Tensor:
        return x[which]


def test_an_index_of_numbers_waits_for_no_value() -> None:
    numbers, mask = torch.tensor([0, 2]), torch.tensor([True, False, True])
    x = torch.zeros(3, 4)
    assert found("synchronise", on_paper(Picks(), x, numbers)) is None
    assert found("synchronise", on_paper(Picks(), x, mask)) is not None


def test_cores_that_a_program_keeps_busy_say_nothing_of_the_model_s_threads() -> None:
    linear = nn.Sequential(nn.Linear(1024, 1024, bias=False))
    session = timed(on_paper(linear, torch.zeros(512, 1024)), {"": 1e-2, "0": 8e-3})
    session = apply(session, replace(ENVIRONMENT, threads=4))
    session = apply(session, replace(SAMPLE, process_cpu=1.1))
    assert found("threads", session) is not None
    assert found("threads", served(session, threads=4)) is None


def test_an_image_of_one_channel_has_one_order() -> None:
    one, many = torch.zeros(1, 1, 64, 64), torch.zeros(1, 2, 64, 64)
    for image, is_copied in ((one, False), (many, True)):
        net = nn.Sequential(nn.Conv2d(image.shape[1], 8, 3, padding=1))
        session = timed(on_paper(net, image), {"": 1e-3, "0": 9e-4})
        assert (found("channels-last", session) is not None) is is_copied


class Twice(nn.Module):
    """A convolution and its norm, called twice in a forward."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.norm(self.conv(self.norm(self.conv(x))))
        return y


def test_a_norm_of_the_batch_s_own_statistics_or_called_twice_cannot_be_folded() -> None:
    assert found("fold-conv-bn", on_paper(Normed(), IMAGE)) is not None
    own = Normed()
    own.norm = nn.BatchNorm2d(4, track_running_stats=False)
    assert found("fold-conv-bn", on_paper(own, IMAGE)) is None
    assert found("fold-conv-bn", on_paper(Twice(), IMAGE)) is None


class Adds(nn.Module):
    """What a layer wrote is read by its activation, and, if asked, once more."""

    def __init__(self, *, again: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.again = again

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.linear(x)
        z = functional.gelu(y)
        return z + y if self.again else z


@pytest.mark.parametrize("again", [False, True])
def test_an_activation_is_joined_with_what_it_alone_reads(again: bool) -> None:
    session = timed(all_times(on_paper(Adds(again=again), ROW), 2e-5), {"": 1e-3})
    assert (found("fuse-activation", session) is None) is again


class Grows(nn.Module):
    def __init__(self, axis: int) -> None:
        super().__init__()
        self.axis = axis

    def forward(self, new: torch.Tensor, past: torch.Tensor) -> torch.Tensor:
        keys = torch.cat((past, new * 2), dim=self.axis)
        return functional.scaled_dot_product_attention(keys, keys, keys)


@pytest.mark.parametrize(("axis", "is_cache"), [(2, True), (1, False)])
def test_a_cache_grows_along_its_tokens(axis: int, is_cache: bool) -> None:
    both = torch.zeros(1, 2, 4, 4)
    session = timed(all_times(on_paper(Grows(axis), both, both), 1e-4), {"": 1e-3})
    assert (found("static-kv-cache", session) is not None) is is_cache


class Scores(nn.Module):
    """A softmax of a product, of which no product is made."""

    def forward(self, q: torch.Tensor) -> torch.Tensor:
        return (q @ q.transpose(-1, -2)).softmax(-1).sum(-1)


def test_a_softmax_that_weighs_nothing_is_no_attention() -> None:
    session = all_times(on_paper(Scores(), torch.zeros(2, 4, 32, 16)), 1e-4)
    assert found("sdpa", timed(session, {"": 1e-3})) is None


class WidensAndNarrows(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 64, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).float().exp().bfloat16()


def test_a_cast_to_fewer_bits_is_no_upcast() -> None:
    rows = torch.zeros(32, 64, dtype=torch.bfloat16)
    one = found("upcast", on_paper(WidensAndNarrows(), rows))
    assert one is not None
    assert figure(one, "casts") == 1


def energies(session: Session) -> dict[Kind, bool]:
    """Return of every finding that saves time whether it saves energy as well."""
    return {
        one.kind: any(gain.of == "energy" for gain in one.gains)
        for one in findings(session)
        if one.gain.of == "time" and isinstance(one.gain.share, float)
    }


def test_more_threads_and_less_waiting_are_not_told_in_energy() -> None:
    counted = with_host(with_energy_counted(replace(FULL, process_cpu=1.6)), 4e-4, 1e-3)
    told = energies(counted)
    assert told["larger-batch"]
    linear = nn.Sequential(nn.Linear(1024, 1024, bias=False))
    wide = timed(on_paper(linear, torch.zeros(512, 1024)), {"": 1e-2, "0": 8e-3})
    busy = with_energy_counted(replace(FULL, process_cpu=1.6))
    busy = replace(busy, tree=wide.tree, timings=wide.timings, ceilings=wide.ceilings)
    told = energies(apply(busy, replace(ENVIRONMENT, threads=2, cores=4)))
    assert told["threads"] is False


def test_energy_of_mixed_forwards_is_no_forward_s() -> None:
    counted = with_host(with_energy_counted(), 4e-4, 1e-3)
    assert energies(counted)["larger-batch"]
    assert counted.timings is not None
    mixed = apply(counted, replace(counted.timings.tick, at=9.5, others=3, others_share=0.1))
    assert energies(mixed)["larger-batch"] is False


def test_times_of_other_forwards_are_not_set_against_costs() -> None:
    session = timed(on_paper(Normed(), IMAGE), {"": 1e-3, "conv": 7e-4, "norm": 2e-4})

    def share(session: Session) -> object:
        (gain,) = (one.gain for one in findings(session) if one.kind == "fold-conv-bn")
        return gain.share, gain.provenance

    assert share(session) == (pytest.approx(0.2), "derived")
    assert session.timings is not None
    others = apply(session, replace(session.timings.tick, at=2.0, as_traced=False))
    # By the roofs, where calling both operators takes longest: a half.
    assert CEILINGS.op_seconds > 0
    assert share(others) == (pytest.approx(0.5), "estimated")
