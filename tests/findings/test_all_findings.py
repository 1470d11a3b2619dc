"""All findings together, and those of values that were looked at; figures counted by hand.

Trees come from real traces; times are given, so that every share can be worked out.
"""

from __future__ import annotations

import pytest
import torch
from msgspec.structs import replace
from torch import nn

from tests.findings.made import (
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
from tests.machine_session import measured as with_energy_counted
from tests.small_model import SAMPLE, operator_times
from tui_profiler.findings import CHECKS, findings
from tui_profiler.findings.evidence.finding import Gain, gain_text, whole_text
from tui_profiler.messages import (
    ParametersDone,
    ParametersStarted,
    TensorStatistics,
)
from tui_profiler.messages.parameters import Channels, Moments, Pruned, PrunedChannels, Width
from tui_profiler.session import EMPTY, Session, apply


def test_nothing_known_gives_no_advice():
    assert findings(EMPTY) == ()
    assert all(check(EMPTY) is None for check in CHECKS.values())


def test_every_finding_names_evidence_nodes_and_how_it_was_computed():
    session = with_host(timed(all_times(on_paper(Normed(), IMAGE), 1e-4), {"": 1e-3}), 6e-4, 1e-3)
    every = findings(session)
    assert len(every) >= 4
    assert session.tree is not None
    for one in every:
        assert one.evidence
        assert one.nodes
        assert all(0 <= node < len(session.tree) for node in one.nodes)
        assert all(gain.formula for gain in one.gains)
        assert (one.trial is None) == bool(one.why_no_trial)
        alone = CHECKS[one.kind](session)
        assert alone is not None
        assert set(one.gains) <= set(alone.gains)
    times = [one.gain.likely for one in every if one.gain.rank[:2] == (1, False)]
    assert times == sorted(times, reverse=True)


def test_a_bound_counts_half_and_is_of_a_group_of_its_own() -> None:
    bound, likely = Gain("time", 0.3, "", is_bound=True), Gain("time", 0.2, "", low=0.1, high=0.3)
    assert (bound.least, bound.likely, bound.most) == (0.0, 0.15, 0.3)
    assert (likely.least, likely.likely, likely.most) == (0.1, 0.2, 0.3)
    assert likely.rank < bound.rank < Gain("time", 0.2, "", is_bound=True).rank


def test_a_range_is_shown_with_both_ends() -> None:
    assert gain_text(Gain("time", 0.08, "", "estimated", low=0.052, high=0.12)) == "5.2 to 12 %"
    assert gain_text(Gain("time", 0.08, "", "estimated", low=0.0799, high=0.0801)) == "~8.0 %"
    assert gain_text(Gain("time", 0.2, "", is_bound=True)) == "≤20 %"
    assert whole_text(Gain("time", 0.2, "", per="step")) == "time per step"
    assert whole_text(Gain("memory", 0.2, "")) == "peak memory"


def test_what_saves_less_than_a_hundredth_or_next_to_no_memory_is_not_listed() -> None:
    net = nn.Sequential(nn.Linear(16, 16), nn.Identity())
    for seconds, is_listed in ((1.2e-6, True), (0.8e-6, False)):
        session = timed(on_paper(net, ROW), {"": 1e-4, "0": 9e-5, "1": seconds})
        kinds = {one.kind for one in findings(session)}
        assert ("remove-dropout-identity" in kinds) is is_listed
    wide = on_paper(nn.Sequential(nn.ReLU(), nn.ReLU()), torch.zeros(64, 1024))
    assert "peak-activations" in {one.kind for one in findings(wide)}
    # Half of 0.5 MiB is no room on a machine with more than 256 MiB.
    for total, is_listed in ((2**26, True), (2**33, False)):
        machine = apply(wide, replace(SAMPLE, memory_total_bytes=total))
        assert ("peak-activations" in {one.kind for one in findings(machine)}) is is_listed


def test_a_gain_of_time_is_one_of_energy_where_energy_was_counted() -> None:
    # 10,000 forwards in 10 s took 1000 J of the processor: 100 mJ each, at 100 W.
    counted = with_host(with_energy_counted(), 4e-4, 1e-3)
    one = next(one for one in findings(counted) if one.kind == "larger-batch")
    energy = one.gains[-1]
    assert (energy.of, energy.share) == ("energy", one.gain.share)
    assert "100 mJ per forward" in energy.formula
    assert "100 W" in energy.formula
    without = apply(counted, replace(SAMPLE, at=9.0))
    assert all(gain.of != "energy" for one in findings(without) for gain in one.gains)


def test_operators_have_their_part_of_the_window_that_they_were_timed_in() -> None:
    net = nn.Sequential(nn.Linear(16, 16), nn.GELU())
    session = timed(on_paper(net, ROW), {"": 5e-4, "0": 1e-4, "1": 1e-4})
    # 0.2 ms of a window's forward of 1 ms: a fifth, though other forwards take half as long.
    slow = apply(session, operator_times({node_of(session, "aten::gelu"): 2e-4}))
    one = found("fuse-activation", slow)
    assert one is not None
    assert one.gain.share == pytest.approx(0.2, rel=1e-4)
    assert one.evidence[-1].provenance == "derived"


def looked_at(session: Session, *, is_random: bool, dead: int = 4) -> Session:
    """Return it after a look at the values of one linear layer, of which some rows are nothing."""
    moments = Moments(256, 0, 0, 64, 64, 1e-3, 0.0, 1.0, -2.0, 2.0, 0.0, 0.0, 200.0, 16.0)
    channels = Channels(
        *(16, 16, b"", dead, 0, ()),
        pruned=(PrunedChannels(0.01, dead), PrunedChannels(0.05, dead)),
        near_duplicates=1.0,
        compared=16,
    )
    one = TensorStatistics(
        *("0", "0.weight", (16, 16), "float32", 1024, 1024, 64),
        is_buffer=False,
        moments=moments,
        pruned=(Pruned(0.01, 0.25), Pruned(0.05, 0.5)),
        channels=channels,
        width=Width("int8", "channel", 10.0, 0.01, 704, "40 dB"),
    )
    for message in (
        ParametersStarted(1.0, 1, 1024, is_random=is_random, weights="here.pt"),
        one,
        ParametersDone(2.0, 1.0, 1, 1024),
    ):
        session = apply(session, message)
    return session


def test_channels_that_hold_nothing_can_be_pruned() -> None:
    net = nn.Sequential(nn.Linear(16, 16, bias=False))
    session = timed(on_paper(net, ROW), {"": 1e-3, "0": 8e-4})
    one = found("pruning", looked_at(session, is_random=False))
    assert one is not None
    # Four of sixteen rows: a quarter of 0.8 of 1 ms, and of 1024 bytes.
    assert one.gain.share == pytest.approx(0.2)
    assert (figure(one, "prunable channels"), figure(one, "bytes")) == (4, 256)
    assert figure(one, "prunable values") == 0.5
    assert found("pruning", looked_at(session, is_random=False, dead=0)) is None
    assert found("pruning", looked_at(session, is_random=True)) is None, "of random weights"
    assert found("pruning", session) is None, "nothing was looked at"


def test_values_that_need_fewer_bits_are_found() -> None:
    session = on_paper(nn.Sequential(nn.Linear(16, 16, bias=False)), ROW)
    one = found("quantise-weights", looked_at(session, is_random=False))
    assert one is not None
    assert session.tree is not None
    assert session.tree.done is not None
    peak = session.tree.done.peak_memory
    # 1024 bytes of weights, and 64 each of the input and the output, which are alive together.
    assert (peak.parameters, peak.activations) == (1024, 128)
    assert one.gain.share == pytest.approx(704 / (1024 + 128))
    assert found("quantise-weights", looked_at(session, is_random=True)) is None


def node_of(session: Session, name: str) -> int:
    assert session.tree is not None
    return next(i for i, node in enumerate(session.tree.nodes) if node.name == name)
