"""Energy of a forward and of its nodes, by hand from the figures of ``machine_session``."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.machine_session import FULL, GPU, IDLE, RUNNING, measured, totals
from tests.small_model import ACT, CONV, CONV_OP, FC, ROOT, UNEVEN, folded
from tui_profiler.messages import Account, EnergyTotals, MigDevice, Replayed, Sample, Unknown
from tui_profiler.messages.hardware import Replay
from tui_profiler.queries.cost.energy import (
    ForwardEnergy,
    NodeEnergy,
    PaperEnergy,
    closure,
    device_totals,
    energy_on_paper,
    forward_energy,
    node_energy,
)
from tui_profiler.session import Session, apply


def with_energy(*counters: EnergyTotals) -> Sample:
    return replace(FULL, energy=counters)


def forward(session: Session) -> ForwardEnergy:
    found = forward_energy(session)
    assert isinstance(found, ForwardEnergy), found
    return found


def node(session: Session, index: int) -> NodeEnergy:
    found = node_energy(session, index)
    assert isinstance(found, NodeEnergy), found
    return found


def test_a_forward_is_the_counter_s_energy_by_the_forwards() -> None:
    found = forward(measured(grid_grams_per_kwh=360.0))

    assert found.joules == pytest.approx(0.1)
    assert found.watts == pytest.approx(100)
    assert found.idle_watts == pytest.approx(40)
    assert found.above_idle_joules == pytest.approx(0.06)
    assert found.flops_per_joule == pytest.approx(18964 / 0.1)
    assert found.grams == pytest.approx(0.1 * 360 / 3.6e6)


def test_no_grams_without_a_grid_that_the_user_named() -> None:
    assert forward(measured()).grams == Unknown("no --grid-intensity was given")


@pytest.mark.parametrize(
    ("running", "reason"),
    [
        (Account(), "window too short: 0 counter steps, 10 needed"),
        (Account(9.0, 900.0, 9, 9000.0), "window too short: 9 counter steps, 10 needed"),
        (Account(4.9, 490.0, 49, 4900.0), "window too short: 4.9 s, 5 needed"),
    ],
)
def test_a_short_time_decides_nothing(running: Account, reason: str) -> None:
    session = measured(with_energy(totals(running)))

    assert forward_energy(session) == Unknown(reason)
    assert node_energy(session, CONV) == Unknown(reason)


def test_idle_power_is_known_only_where_the_machine_rested() -> None:
    found = forward(measured(with_energy(totals(idle=Account(0.5, 20.0, 5)))))

    why = Unknown("idle power was not measured: pause the model for some seconds")
    assert (found.idle_watts, found.above_idle_joules) == (why, why)
    assert found.joules == pytest.approx(0.1)


def test_a_counter_that_is_lost_is_told_with_what_it_had_counted() -> None:
    short = replace(totals(Account(1.0, 100.0, 3, 100.0)), why="the GPU was lost")

    assert forward_energy(measured(with_energy(short))) == Unknown(
        "the GPU was lost; window too short: 3 counter steps, 10 needed"
    )


def test_a_model_on_a_gpu_takes_that_gpu_s_counter() -> None:
    other = replace(GPU, index=1, cuda_index=0)
    first = replace(GPU, cuda_index=1)
    sample = replace(
        FULL,
        gpus=(first, other),
        energy=(totals(), totals(of="gpu", gpu=0), totals(of="gpu", gpu=1)),
    )

    found = device_totals(measured(sample, device="cuda:0"))

    assert isinstance(found, EnergyTotals)
    assert found.gpu == 1


@pytest.mark.parametrize(
    ("device", "energy", "reason"),
    [
        ("cpu", (totals(of="gpu", gpu=0),), "the energy of the processor is not counted"),
        ("cuda:0", (totals(),), "the energy of the GPU is not counted on this machine"),
        ("cuda:3", (totals(of="gpu", gpu=0),), "which of the GPUs is cuda:3 is not known"),
        ("xpu:0", (totals(),), "no counter of energy for a device named xpu"),
    ],
)
def test_another_device_s_counter_says_nothing(
    device: str, energy: tuple[EnergyTotals, ...], reason: str
) -> None:
    sample = replace(FULL, gpus=(GPU,), energy=energy)
    found = device_totals(measured(sample, device=device))

    assert isinstance(found, Unknown)
    assert found.reason.startswith(reason)


def test_a_slice_of_a_gpu_has_no_counter_of_its_own() -> None:
    divided = replace(
        GPU, cuda_index=None, mig=(MigDevice("slice", "MIG-1", 1.0, 2.0, cuda_index=0),)
    )
    sample = replace(FULL, gpus=(divided,), energy=(totals(of="gpu", gpu=0),))

    assert device_totals(measured(sample, device="cuda:0")) == Unknown(
        "it is a slice of a GPU, and energy is counted for all of it"
    )


def test_a_node_s_share_of_the_time_is_an_estimate_within_bounds() -> None:
    # Half of 1 ms: at least 40 W for 0.5 ms, and at most what 40 W leave of 100 mJ in the rest.
    # With at most 205 W in the rest, at least nothing more than that: 100 - 102.5 mJ is below 20.
    found = node(measured(), CONV)

    assert found.tier == "time share"
    assert found.joules == pytest.approx(0.05)
    assert found.low == pytest.approx(0.020)
    assert found.high == pytest.approx(0.080)


def test_the_power_limit_narrows_the_bounds() -> None:
    # At most 120 W: 60 mJ in its half, and at least 100 - 60 mJ because of the other half.
    found = node(measured(with_energy(totals(limit_watts=120.0))), CONV)

    assert (found.low, found.high) == (pytest.approx(0.040), pytest.approx(0.060))


def test_without_idle_power_and_limit_the_bounds_are_nothing_and_all() -> None:
    found = node(measured(with_energy(totals(idle=Account(), limit_watts=None))), CONV)

    assert (found.low, found.high) == (0.0, pytest.approx(0.1))


def test_the_whole_model_has_no_room_between_its_bounds() -> None:
    found = node(measured(), ROOT)

    assert (found.low, found.joules, found.high) == (pytest.approx(0.1),) * 3


def replayed(index: int, *joules_per_call: float) -> Replayed:
    replays = tuple(Replay(5.0, 1000, joules) for joules in joules_per_call)
    return Replayed(index, "processor packages", "counter", replays, 40.0, 0.0005)


def test_a_replay_goes_before_an_estimate_and_gives_its_spread() -> None:
    found = node(apply(measured(), replayed(CONV, 0.03, 0.034, 0.032)), CONV)

    assert (found.tier, found.counts) == ("replay", 3)
    assert found.joules == pytest.approx(0.032)
    assert (found.low, found.high) == (0.03, 0.034)


def test_a_replay_is_multiplied_by_the_calls_per_forward() -> None:
    session = apply(folded(UNEVEN), FULL)
    found = node(apply(session, replayed(ACT, 0.01, 0.014, 0.012)), ACT)

    assert (found.joules, found.low, found.high) == pytest.approx((0.024, 0.02, 0.028))


def test_a_replay_that_was_refused_leaves_the_estimate() -> None:
    refused = Replayed(CONV, "", "counter", (), None, 0.0, "this module was not called")

    assert node(apply(measured(), refused), CONV).tier == "time share"


def test_closure_is_what_the_replays_inside_miss() -> None:
    session = measured()
    parts = [(ROOT, 0.1), (CONV, 0.05), (FC, 0.03)]
    for index, joules in parts:
        session = apply(session, replayed(index, joules, joules, joules))
    assert closure(session, ROOT) == Unknown("it and every module in it must be replayed")

    session = apply(session, replayed(ACT, 0.01, 0.01, 0.01))

    assert closure(session, ROOT) == pytest.approx(-0.1)


def test_on_paper_a_multiply_add_costs_what_the_paper_says() -> None:
    found = energy_on_paper(measured(), CONV)

    # 6,912 multiply-adds of 3.7 + 0.9 pJ; 2,224 bytes at 12.5 or 325 pJ.
    assert isinstance(found, PaperEnergy)
    assert found.low == pytest.approx((6912 * 4.6 + 2224 * 12.5) * 1e-12)
    assert found.high == pytest.approx((6912 * 4.6 + 2224 * 325) * 1e-12)
    assert energy_on_paper(measured(), CONV_OP) == energy_on_paper(measured(), CONV)


def test_on_paper_the_parts_make_the_whole() -> None:
    session = measured()
    whole = energy_on_paper(session, ROOT)
    assert isinstance(whole, PaperEnergy)

    # 9,472 multiply-adds, 20 other FLOPs of 0.9 pJ, 13,728 bytes.
    assert whole.low == pytest.approx((9472 * 4.6 + 20 * 0.9 + 13728 * 12.5) * 1e-12)


def test_idle_and_running_are_what_the_tests_above_say() -> None:
    assert RUNNING.joules / RUNNING.seconds == 100
    assert IDLE.joules / IDLE.seconds == 40
