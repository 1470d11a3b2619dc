"""Reads pickles that are neither in a zip nor behind torch's magic number.

Loading one runs whatever it says, and torch refuses: what is told of it is what it would import.
"""

from __future__ import annotations

from tui_profiler.archive.formats.totals import found_of
from tui_profiler.archive.pickles.contents import Gathering
from tui_profiler.archive.pickles.reader import read_pickle
from tui_profiler.archive.pickles.state_dict import gather
from tui_profiler.archive.pickles.storages import Storage, StorageClaim
from tui_profiler.archive.pickles.trust import told_apart
from tui_profiler.archive.pickles.values import Named
from tui_profiler.archive.reading.errors import ArchiveError
from tui_profiler.archive.reading.file_contents import Found
from tui_profiler.archive.reading.file_region import Region

_PROTOCOL_MARKS = tuple(b"\x80" + bytes([version]) for version in range(2, 6))
# What a pickle of protocol 0 or 1 begins with: a container, a mark or an import.
_OLD_STARTS = b"(c]})}lditG"


class _NoStorages:
    def __init__(self, region: Region) -> None:
        self._region = region

    def locate(self, claim: StorageClaim) -> Storage:
        raise self._region.error(f"keeps storage {claim.key[:80]!a} outside of the file")


def read_raw_pickle(region: Region) -> Found | None:
    """Give what a bare pickle would import; None where the bytes are no pickle.

    Raises:
        ArchiveError: It begins as a pickle of protocol 2 or later, and is damaged.
    """
    start = region.read(0, min(region.size, 2))
    is_marked = start in _PROTOCOL_MARKS
    if not is_marked and (not start or start[0] not in _OLD_STARTS):
        return None
    try:
        pickled = read_pickle(region)
    except ArchiveError:
        if is_marked:
            raise
        return None
    if not is_marked and not pickled.names and not isinstance(pickled.value, Named):
        # A text that happens to read as a pickle that imports nothing: there are many.
        return None
    gathering = Gathering(region, _NoStorages(region))
    content, metadata = gather(pickled.value, gathering)
    if pickled.end != region.size:
        gathering.problem(
            f"byte {pickled.end}", f"{region.size - pickled.end} bytes follow the end of the pickle"
        )
    return found_of(
        "raw-pickle",
        region.file,
        "other" if content == "parameters" else content,
        gathering,
        names=told_apart(pickled.names),
        checksum="none in this format",
        metadata=metadata,
    )
