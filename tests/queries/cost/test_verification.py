"""What must be equal to what others count, on a model whose figures were worked out by hand."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.small_model import DONE, FACTS, TRACED, folded
from tui_profiler.messages import Counted, ModelFacts, SecondOpinion, TraceDone
from tui_profiler.queries.cost.verification import (
    Check,
    Part,
    Verification,
    checks,
    no_opinion,
    verify_verdict,
)

PARAMETERS, CONVOLUTION, PRODUCT = 2678, 6912, 2560
PEAK = 10712 + 2048 + 512


def made(*opinions: SecondOpinion, facts: ModelFacts = FACTS, done: TraceDone = DONE):
    others = [m for m in TRACED if not isinstance(m, ModelFacts | TraceDone)]
    return Verification(folded((facts, *others, done)), opinions)


def only(verification: Verification) -> Check:
    (found,) = checks(verification)
    return found


def torch(macs: int, *skipped: str, operators: tuple[Counted, ...] = ()) -> SecondOpinion:
    names = tuple(Counted(name, 1) for name in skipped)
    return SecondOpinion(
        "flop_counter", "torch", 0.1, macs=macs, flops=2 * macs, operators=operators, skipped=names
    )


def test_published_figures_are_equal_to_three_decimals() -> None:
    right = replace(FACTS, published_parameters=PARAMETERS, published_gmacs=0.0)
    assert [check.verdict for check in checks(made(facts=right))] == ["holds", "holds"]
    wrong = replace(FACTS, published_parameters=PARAMETERS + 1, published_gmacs=0.001)
    assert [check.verdict for check in checks(made(facts=wrong))] == ["fails", "fails"]


def test_published_figures_are_of_one_item() -> None:
    facts = replace(FACTS, published_gmacs=0.001, batch=9)
    check = only(made(facts=facts))
    assert check.theirs == pytest.approx(9e6)
    assert check.verdict == "fails"


def test_the_same_multiply_accumulates_hold() -> None:
    check = only(made(torch(CONVOLUTION + PRODUCT)))
    assert (check.verdict, check.why, check.left_out) == ("holds", "", ())


def test_one_more_does_not_hold_and_the_operator_is_named() -> None:
    theirs = (Counted("aten.convolution", 1, CONVOLUTION), Counted("aten.addmm", 1, PRODUCT + 1))
    check = only(made(torch(CONVOLUTION + PRODUCT + 1, operators=theirs)))
    assert check.verdict == "fails"
    assert "aten.addmm: 2,560 here, 2,561 there" in check.why


def test_an_operator_that_is_counted_0_there_is_left_out_and_named() -> None:
    check = only(made(torch(CONVOLUTION, "aten.addmm", "aten.relu_")))
    assert check.verdict == "holds"
    assert check.left_out == (Part("aten.addmm", PRODUCT),)


def test_what_is_left_out_excuses_nothing_else() -> None:
    assert only(made(torch(CONVOLUTION - 1, "aten.addmm"))).verdict == "fails"


def test_fvcore_is_within_a_thousandth() -> None:
    near = SecondOpinion("fvcore", "fvcore", 0.1, macs=CONVOLUTION + PRODUCT + 9)
    far = SecondOpinion("fvcore", "fvcore", 0.1, macs=CONVOLUTION + PRODUCT + 10)
    assert only(made(near)).verdict == "holds"
    assert only(made(far)).verdict == "fails"


def test_an_operator_that_has_several_names_with_us_cannot_be_compared() -> None:
    skipped = (Counted("aten::lstm", 1),)
    opinion = SecondOpinion("fvcore", "fvcore", 0.1, macs=PRODUCT, skipped=skipped)
    check = only(made(opinion))
    assert check.verdict == "not compared"
    assert "aten::lstm" in check.why


@pytest.mark.parametrize(("calls", "verdict"), [(2, "not compared"), (1, "fails")])
def test_what_is_skipped_more_often_there_is_in_other_operators_of_ours(
    calls: int, verdict: str
) -> None:
    skipped = (Counted("custom::addmm", calls),)  # ours is called once
    opinion = SecondOpinion("fvcore", "fvcore", 0.1, macs=CONVOLUTION // 2, skipped=skipped)
    assert only(made(opinion)).verdict == verdict


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [(PEAK, "holds"), (PEAK * 1.09, "holds"), (PEAK * 1.12, "fails"), (PEAK * 0.9, "fails")],
)
def test_the_peak_is_within_a_tenth_of_what_is_measured(measured: float, verdict: str) -> None:
    opinion = SecondOpinion("measured", "torch", 0.1, peak_bytes=int(measured))
    assert only(made(opinion)).verdict == verdict


def test_where_figures_depend_on_data_others_may_be_lower_but_not_higher() -> None:
    bound = replace(DONE, bounded=("aten::nonzero",))
    ours = CONVOLUTION + PRODUCT
    assert only(made(torch(ours - 1), done=bound)).verdict == "holds"
    assert only(made(torch(ours + 1), done=bound)).verdict == "fails"


def test_a_counter_that_failed_is_not_held_against_us() -> None:
    verification = made(no_opinion("fvcore", "RuntimeError: no"))
    assert only(verification).why == "RuntimeError: no"
    assert verify_verdict(verification) == "not compared"


def test_one_check_that_fails_is_enough() -> None:
    verification = made(torch(CONVOLUTION + PRODUCT), torch(1))
    assert verify_verdict(verification) == "fails"
