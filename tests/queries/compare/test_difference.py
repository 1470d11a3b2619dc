"""The difference that a change of batch, input, device or dtype made."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.queries.sessions import session_of, ticked
from tui_profiler.messages import InputSpec, ModelFacts
from tui_profiler.queries.compare.difference import difference, kept
from tui_profiler.session import EMPTY, Session, apply


def run(
    p50: float,
    macs: int = 4_089_000_000,
    *,
    batch: int = 1,
    dtype: str = "float32",
    device: str = "cpu",
    forwards: int = 100,
) -> Session:
    given = InputSpec("x", (batch, 3, 224, 224), dtype, "typed")
    facts = ModelFacts("m", "M", "typed", "random", (given,), batch, device, training=False)
    session = apply(session_of(f"m M 25600000 {macs}"), facts)
    return ticked(session, {"": p50}, forwards=forwards)


def test_another_dtype() -> None:
    forms = difference(run(0.0365), run(0.0212, dtype="bfloat16"))
    # 21.2 / 36.5 is 0.58.
    assert forms == (
        "1×3×224×224 f32 → 1×3×224×224 bf16: p50 36.5 → 21.2 ms (−42 %), same MAC",
        "p50 36.5 → 21.2 ms (−42 %), same MAC",
        "p50 36.5 → 21.2 ms (−42 %)",
    )


def test_another_batch_says_what_one_item_takes() -> None:
    forms = difference(run(0.040), run(0.160, 8 * 4_089_000_000, batch=8))
    assert forms[1] == (
        "p50 40.0 → 160 ms (+300 %), per item 40.0 → 20.0 ms (−50 %), MAC 4.09G → 32.7G"
    )
    assert forms[2] == "p50 40.0 → 160 ms (+300 %), MAC 4.09G → 32.7G"


def test_another_device() -> None:
    forms = difference(run(0.0365), run(0.0009, device="cuda:0"))
    assert forms[0].startswith("cpu → cuda:0: p50 36.5 → 0.90 ms (−98 %)")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (0.0005, 0.5, "p50 0.50 → 500 ms (×1000)"),
        (0.00005, 0.002, "p50 50.0 µs → 2.00 ms (×40)"),
        (0.02, 0.02, "p50 20.0 → 20.0 ms (±0 %)"),
        (0.01, 0.0101, "p50 10.0 → 10.1 ms (+1 %)"),
    ],
)
def test_times_keep_their_own_units(old: float, new: float, said: str) -> None:
    assert difference(run(old), run(new))[-1] == said


def test_nothing_is_said_before_it_is_measured() -> None:
    before = run(0.0365)
    assert difference(EMPTY, run(0.02)) == ()
    assert difference(before, EMPTY) == ()
    assert difference(before, run(0.02, forwards=9)) == ()
    assert difference(before, replace(run(0.02), timings=None)) == ()
    # The same tree goes on running until the new one comes.
    assert difference(before, ticked(before, {"": 0.02}, at=2.0)) == ()


def test_what_is_kept_of_a_session_gives_the_same_difference() -> None:
    before, after = run(0.0365), run(0.02)
    assert difference(kept(before), after) == difference(before, after)
    assert kept(before).history.ticks == ()
