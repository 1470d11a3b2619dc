"""No operator that needs no trust does more than compute: a sample, called at random.

``benchmarks/hostile/operator_calls.py`` calls all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from tests.attacks.operator_calls import CONTROLS, Caller, why_not

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())


@pytest.fixture(scope="module")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    with Caller(tmp_path_factory.mktemp("canaries")) as made:
        yield made


def test_what_must_not_be_done_is_seen(caller: Caller) -> None:
    came = caller.call(CONTROLS, 12, 22)
    assert {deed.operator for deed in came.deeds} == {name for name, _ in CONTROLS}


def test_operators_that_need_no_trust_only_compute(caller: Caller) -> None:
    sample = Random(1).sample(caller.admitted, 200)
    came = caller.call(sample, 4, 1)
    assert came.deeds == []
    # It could not fail where no call got through.
    assert came.reached > len(sample) / 3, came
