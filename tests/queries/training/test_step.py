from __future__ import annotations

from array import array

import pytest
from msgspec.structs import replace

from tests.queries.sessions import session_of
from tests.training_session import column, with_evaluation, with_longer
from tests.training_session import step_parts as parts
from tests.training_session import trained as session
from tests.training_session import training_step as step
from tui_profiler.messages import SourceLine, ThreadTime, Unknown
from tui_profiler.queries.cost.rules import Quantity, without
from tui_profiler.queries.time.step_seconds import node_share
from tui_profiler.queries.training.source_lines import line_name, whole_line_name
from tui_profiler.queries.training.step import (
    PARTS,
    Rate,
    apart_words,
    between_words,
    longer_words,
    rates,
    step_parts,
    usual_mean,
)
from tui_profiler.queries.training.step_quantities import DATA, EVERY
from tui_profiler.queries.training.verdict import RULE, StepVerdict, step_verdict
from tui_profiler.session import EMPTY


def test_known_parts_have_shares_and_unknown_ones_their_reason() -> None:
    told = step(parts(data=0.5, forward=0.25, backward=0.75, other=0.5), seconds=2.0)
    found = {part.name: part for part in step_parts(session(told))}
    assert [part.share for part in found.values() if part.share is not None] == [
        *(0.25, 0.125, 0.375, 0.25),
    ]
    assert (found["clip"].seconds, found["clip"].why) == (None, "not seen")


@pytest.mark.parametrize(
    ("seconds", "verdict"),
    [
        ({"data": 0.6, "forward": 0.2, "other": 0.2}, "input-bound"),
        ({"data": 0.2, "forward": 0.3, "backward": 0.4, "other": 0.1}, "model-bound"),
        ({"forward": 0.2, "clip": 0.2, "optimizer": 0.4, "other": 0.2}, "optimizer-bound"),
        ({"backward": 0.3, "communication": 0.5, "other": 0.2}, "communication-bound"),
        ({"forward": 0.2, "other": 0.8}, "host-bound"),
    ],
)
def test_the_largest_group_is_the_verdict(seconds: dict[str, float], verdict: str) -> None:
    found = step_verdict(session(step(parts(**seconds))))
    assert isinstance(found, StepVerdict)
    assert found.verdict == verdict
    assert f"{found.share * 100:.0f} %" in found.words


@pytest.mark.parametrize(
    ("forward", "backward", "said"),
    [
        (0.3, 0.4, "model-bound: forward and backward take 70 % of the step on the GPU"),
        (0.1, 0.1, "no verdict: code outside of the model 90 % of the step, in which the thread"),
    ],
)
def test_on_a_gpu_the_thread_waits_where_it_reads_a_value(
    forward: float, backward: float, said: str
) -> None:
    """The parts are the thread's: it enqueues the model, and waits in ``other``."""
    told = step(parts(forward=0.05, backward=0.05, other=0.9))
    nothing = column(0.0, 0.0)
    told = replace(
        told,
        on_device=True,
        why_no_backward="",
        forward=column(forward, 0.0),
        backward=column(backward, 0.0),
        recomputed=nothing,
    )
    found = step_verdict(session(told))
    assert (found if isinstance(found, str) else found.words).startswith(said)
    unseen = step_verdict(session(replace(told, why_no_backward="not marked")))
    assert unseen == "no verdict: no backward on the GPU: not marked"


def test_two_groups_alike_are_no_verdict() -> None:
    found = step_verdict(session(step(parts(data=0.5, forward=0.48, other=0.02))))
    assert found == "no verdict: data and transfer 50 % and forward and backward 48 %"


def test_few_steps_are_no_verdict() -> None:
    assert step_verdict(session(step(parts(data=1.0), recorded=7))) == "7 of 8 steps recorded"
    assert step_verdict(EMPTY) == "no training step was measured"


def test_the_rate_is_of_steps_and_of_those_far_longer() -> None:
    told = with_longer(step(parts(data=1.0)))
    assert usual_mean(told) == pytest.approx(1.0)
    assert longer_words(told) == "10 of the last 100 took far longer, 55 % of the time"
    assert apart_words(told) == longer_words(step(parts(data=1.0))) == ""
    # 90 steps of 1 s and 10 of 11 s: 0.5 steps per second.
    assert told.per_second == 0.5
    older = replace(told, last=0)
    assert isinstance(usual_mean(older), Unknown)


def test_what_lies_between_steps_is_said_with_its_share_of_the_time() -> None:
    told = with_evaluation(step(parts(data=1.0)))
    assert between_words(told) == (
        "evaluation every 200 steps, 3.0 % of the time",
        "inference, 0.2 % of the time",
    )
    often = replace(told.between[0], every=2.5)
    once = replace(told.between[0], count=1)
    each = replace(told.between[0], every=1.0)
    words = between_words(replace(told, between=(often, once, each)))
    assert [one.partition(",")[0] for one in words] == [
        "evaluation every 2.5 steps",
        "1 evaluation",
        "evaluation every step",
    ]


@pytest.mark.parametrize(
    ("per_second", "said", "is_judged"),
    [
        (1.05, "", True),
        (1.2, "recorded steps took 20 % more time than all of the last 100", True),
        (0.8, "recorded steps took 20 % less time than all of the last 100", True),
        (1.6, "recorded steps took 60 % more time than all of the last 100", False),
        (0.6, "recorded steps took 40 % less time than all of the last 100", False),
    ],
)
def test_nothing_is_concluded_from_recorded_steps_unlike_the_others(
    per_second: float, said: str, is_judged: bool
) -> None:
    told = replace(step(parts(data=1.0)), per_second=per_second)
    assert apart_words(told) == said
    found = step_verdict(session(told))
    assert isinstance(found, StepVerdict) == is_judged
    assert is_judged or found == f"no verdict: time of all training steps: {said}"


def test_what_changes_from_step_to_step_is_an_estimate() -> None:
    told = replace(step(parts(data=1.0)), tokens=512.0, tokens_error=0.1)
    assert rates(told) == (Rate(4.0, "items/s", 0.0), Rate(512.0, "tokens/s", 0.1))
    assert [one.mark for one in rates(told)] == ["", "~"]
    assert rates(replace(told, items=Unknown("no axis"))) == rates(told)[1:]


def test_waiting_for_a_core_goes_before_all_parts() -> None:
    thread = ThreadTime(1.0, 0.5, 0.4, 0.0, 0.0, 0.0, 0.0)
    told = replace(step(parts(data=0.9, other=0.1)), thread=thread)
    found = step_verdict(session(told))
    assert isinstance(found, StepVerdict)
    assert (found.verdict, found.words) == ("waiting", "waiting for a core 40 % of the step")


@pytest.mark.parametrize("quantity", RULE.declared, ids=lambda one: one.name)
def test_without_a_figure_of_the_step_there_is_no_verdict(quantity: Quantity) -> None:
    """Half a step is of one group: unknown, it may be of any that is unknown."""
    name = next((part for part in PARTS if f"parts.{part}" in str(quantity.fields)), "forward")
    others = {part: 0.06 for part in PARTS if part != name}
    before = session(step(parts(**others, **{name: 0.58})))
    assert isinstance(step_verdict(before), StepVerdict)
    after = step_verdict(without(before, {quantity: "made unknown"}))
    assert isinstance(after, str)
    assert quantity.name in after or after == "no training step was measured"


def test_an_unknown_part_may_be_the_largest() -> None:
    before = session(step(parts(data=0.4, forward=0.4, other=0.2)))
    after = step_verdict(without(before, {DATA: "made unknown"}))
    assert isinstance(after, str)
    assert after.startswith("no verdict: 40 % of the step is in no known part: time in the data")
    little = session(step(parts(data=0.1, forward=0.7, other=0.2)))
    found = step_verdict(without(little, {DATA: "made unknown"}))
    assert isinstance(found, StepVerdict)
    assert found.verdict == "model-bound", "whatever the rest is"


def test_no_figure_is_read_that_the_verdict_does_not_declare() -> None:
    before = session(step(parts(data=0.6, forward=0.2, other=0.2)))
    for quantity in EVERY:
        if quantity not in RULE.declared:
            without_it = without(before, {quantity: "made unknown"})
            assert step_verdict(without_it) == step_verdict(before)


def test_a_thread_that_waits_is_judged_where_it_was_read_alone() -> None:
    """Of a step of 1 s: off a core for 0.3 s, which may be waiting for a core or for anything."""
    told = step(parts(forward=0.9, other=0.1))
    for on_core, is_judged in ((0.8, True), (0.7, False)):
        used = ThreadTime(1.0, on_core, Unknown("no schedstat"), 0.0, 0.0, 0.0, 0.0)
        found = step_verdict(session(replace(told, thread=used)))
        assert isinstance(found, StepVerdict) == is_judged
    assert isinstance(found, str)
    assert "at most 30 %" in found
    assert "no schedstat" in found


def test_a_node_s_share_is_of_forward_backward_and_what_is_computed_again() -> None:
    told = session(step(parts(other=1.0), seconds=2.0))
    found = node_share(told, 3)
    assert found is not None
    assert (found.share, found.own_share) == (0.25, 0.21875)
    assert node_share(told, 1) is None


def test_a_node_s_share_is_unknown_where_recomputation_is() -> None:
    why = Unknown("compiled autograd may have run it")
    found = node_share(session(replace(step(parts(other=1.0), seconds=2.0), recompute=why)), 3)
    assert found is not None
    assert (found.recomputed, found.share, found.own_share) == (why, why, why)
    assert (found.forward, found.backward) == (0.125, 0.25)


def test_a_container_that_is_never_called_takes_what_is_inside() -> None:
    in_container = session_of("m M 0 0\n  box ModuleList 0 0\n    a A 0 0\n    b B 0 0\n")
    told = session(step(parts(other=1.0), seconds=2.0), in_container)
    found = node_share(told, 1)
    assert found is not None
    assert (found.forward, found.share, found.own_share) == (0.125, 0.25, 0.0)
    assert node_share(told, 2) is None


def test_what_is_run_again_counts_to_all_modules_around_it() -> None:
    tree = session_of("m M 0 0\n  a A 0 0\n  b B 0 0\n    c C 0 0\n    d D 0 0\n")
    told = replace(
        step(parts(other=1.0)),
        nodes=array("I", (3, 0, 2)).tobytes(),
        forward=column(0.125, 0.25, 0.25),
        own_forward=column(0.125, 0.0, 0.125),
        backward=column(0.0, 0.0, 0.0),
        own_backward=column(0.0, 0.0, 0.0),
        recomputed=column(0.25, 0.0, 0.375),
        own_recomputed=column(0.25, 0.0, 0.125),
    )
    found = [node_share(session(told, tree), node) for node in (0, 2, 3)]
    assert [one and one.recomputed for one in found] == [0.375, 0.375, 0.25]
    assert [one and one.share for one in found] == [0.625, 0.625, 0.375]


def test_a_line_is_named_by_function_and_file() -> None:
    line = SourceLine("Trainer.log_metrics", "/home/me/train.py", 54, 0.7)
    assert line_name(line) == "log_metrics, train.py:54"


def test_columns_of_different_lengths_are_refused() -> None:
    told = replace(step(parts(other=1.0)), backward=b"\0\0\0\0")
    assert session(told).training is None


def test_the_middle_of_a_long_name_is_left_out_and_never_its_line() -> None:
    line = SourceLine("main.<locals>." + "log_" * 200, "/me/" + "train" * 100 + ".py", 54, 0.7)
    assert line_name(line).endswith("train.py:54")
    assert len(line_name(line)) < 380
    assert whole_line_name(line) == "log_" * 200 + ", " + "train" * 100 + ".py:54"
    assert len(whole_line_name(replace(line, function="\x1b" * 10**6))) < 9000
