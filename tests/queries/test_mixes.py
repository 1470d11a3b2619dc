from __future__ import annotations

import pytest

from tests.queries.sessions import RESNET, RESNET_SECONDS, resnet, session_of, ticked
from tui_profiler.messages import Ceiling, Ceilings, Unknown
from tui_profiler.queries import bound
from tui_profiler.queries.mixes import Mixes, limits, mixes
from tui_profiler.session import Session, apply

NONE = Unknown("not measured")


def mixes_of(session: Session) -> Mixes:
    assert session.tree is not None
    assert session.ceilings is not None
    assert session.timings is not None
    return mixes(session.tree, limits(session.tree, session.ceilings), session.timings)


@pytest.mark.parametrize(
    "ceilings",
    [
        Ceilings("cpu", 2, (Ceiling("float32", 4e11),), 2e10, 5e-6, 0.0, 0.0),
        Ceilings("cpu", 2, (Ceiling("float32", 4e13),), 2e10, 1e-4, 0.0, 0.0),
        Ceilings("cpu", 2, (Ceiling("float32", NONE),), 2e7, NONE, 0.0, 0.0),
        Ceilings("cpu", 2, (), NONE, 5e-6, 0.0, 0.0),
        Ceilings("cpu", 2, (Ceiling("float16", 4e11),), 2e10, NONE, 0.0, 0.0),
    ],
)
def test_the_sums_say_what_walking_the_subtree_says(ceilings: Ceilings) -> None:
    session = apply(ticked(session_of(RESNET), RESNET_SECONDS), ceilings)
    sums = mixes_of(session)
    assert session.tree is not None

    for node, found in enumerate(session.tree.nodes):
        if found.kind == "module":
            walked = tuple(bound.mix(session, node).values())
            assert sums.of(node) == pytest.approx(walked, abs=1e-12), found.path


def test_the_whole_is_the_time_of_all_modules_themselves() -> None:
    session = resnet()
    assert session.timings is not None
    assert session.tree is not None
    own = [session.timings.own_per_forward(node) or 0.0 for node in range(len(session.tree))]

    assert sum(mixes_of(session).of(0)) == pytest.approx(sum(own))
