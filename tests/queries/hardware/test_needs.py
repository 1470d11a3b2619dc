"""What a model needs of a device: nothing is concluded where a part of it is not known."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.small_model import TRACED, folded
from tui_profiler.messages import Unknown
from tui_profiler.queries.hardware.fits import Need, need_of
from tui_profiler.session import Session

MADE = Unknown("made unknown by the test")


def with_part(name: str, value: float | Unknown) -> Session:
    session = folded(TRACED)
    assert session.tree is not None
    assert session.tree.done is not None
    peak = replace(session.tree.done.peak_memory, **{name: value})
    tree = replace(session.tree, done=replace(session.tree.done, peak_memory=peak))
    return replace(session, tree=tree)


@pytest.mark.parametrize("name", ["parameters", "buffers", "activations", "kv_cache"])
def test_without_a_part_of_the_peak_nothing_is_said_to_fit(name: str) -> None:
    assert isinstance(need_of(folded(TRACED)), Need)
    assert need_of(with_part(name, MADE)) == MADE


def test_a_cache_is_needed_beside_the_rest() -> None:
    before, after = need_of(folded(TRACED)), need_of(with_part("kv_cache", 4096.0))
    assert isinstance(before, Need)
    assert isinstance(after, Need)
    assert (before.cache, after.cache) == (0.0, 4096.0)
