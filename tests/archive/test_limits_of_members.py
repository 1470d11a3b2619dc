"""What a member of a zip or a storage claims of itself is checked, not believed."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from tests.archive.hostile.zips import Raw
from tui_profiler.archive.pickles.reader import Named, Persistent
from tui_profiler.archive.pickles.tensors import claim_of
from tui_profiler.archive.reading.file_region import ArchiveError, open_file
from tui_profiler.archive.reading.zips import inflated, read_zip

TEXT = b"def forward(self, x):\n    return x\n" * 40


def deflated(end: int) -> bytes:
    stream = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return stream.compress(TEXT) + stream.flush(end)


@pytest.mark.parametrize(
    ("data", "size", "is_whole"),
    [
        (deflated(zlib.Z_FINISH), len(TEXT), True),
        (deflated(zlib.Z_SYNC_FLUSH), len(TEXT), False),  # All bytes, and no end.
        (deflated(zlib.Z_FINISH), len(TEXT) - 1, False),
        (deflated(zlib.Z_FINISH), len(TEXT) + 1, False),
    ],
)
def test_a_deflated_member_is_whole_or_refused(
    tmp_path: Path, data: bytes, size: int, is_whole: bool
) -> None:
    raw = Raw()
    raw.add(b"a/code/a.py", data, method=8, size=size)
    path = tmp_path / "a.pt"
    path.write_bytes(raw.bytes())
    with open_file(path) as region:
        archive = read_zip(region)
        if is_whole:
            assert inflated(archive, "code/a.py", 1 << 20) == TEXT
            return
        with pytest.raises(ArchiveError, match=f"does not become the {size} bytes"):
            inflated(archive, "code/a.py", 1 << 20)


@pytest.mark.parametrize(
    ("view", "offset"), [(None, 0), (("k", 3, 1), 3), (("k", -1, 1), None), (("k", 3), None)]
)
def test_a_view_begins_within_its_storage_or_the_storage_is_unknown(
    view: object, offset: int | None
) -> None:
    """Files of ``torch.save`` before 0.4 have views: key, first element, elements."""
    key = ("storage", Named("torch.FloatStorage"), "0", "cpu", 4, view)
    claim = claim_of(Persistent(key, 0))
    assert (None if claim is None else claim.offset_elements) == offset
