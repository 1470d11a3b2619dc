"""A full collection takes half a second where all test modules are imported; here come many."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def _old_objects_frozen(old_objects_frozen: None) -> None:
    pass
