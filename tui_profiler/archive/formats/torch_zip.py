"""Reads what torch.save writes: a zip with one pickle, and a member for each storage."""

from __future__ import annotations

from tui_profiler.archive.formats.totals import found_of
from tui_profiler.archive.pickles.contents import Gathering
from tui_profiler.archive.pickles.reader import read_pickle
from tui_profiler.archive.pickles.state_dict import gather
from tui_profiler.archive.pickles.storages import ZipStorages
from tui_profiler.archive.pickles.trust import told_apart
from tui_profiler.archive.reading.file_contents import Content, Found, Kind
from tui_profiler.archive.reading.file_region import Region
from tui_profiler.archive.zips.directory import DEFLATED, Zip
from tui_profiler.archive.zips.member_names import unexpected_members
from tui_profiler.archive.zips.members import checksum_of, read_member, small_texts

PICKLE = "data.pkl"
_STORAGES = "data/"


def is_torch_zip(archive: Zip) -> bool:
    """Say if a zip is one that torch.save wrote."""
    return PICKLE in archive.members


def read_torch_zip(archive: Zip) -> Found:
    """Give what a file of torch.save holds.

    Raises:
        ArchiveError: Its pickle is damaged, or does what no honest one does.
    """
    region = read_member(archive, PICKLE)
    pickled = read_pickle(region)
    gathering = Gathering(region, ZipStorages(archive, _STORAGES))
    content, metadata = gather(pickled.value, gathering)
    check_whole(pickled.end, region, gathering)
    check_stored(archive, gathering)
    for name in unexpected_members(archive, "torch.save"):
        # torch.load does not read it.
        gathering.problem(
            archive.region.where, f"has the member {name}, which torch.save does not write"
        )
    return found_of(
        _kind(content, metadata),
        archive.region.file,
        content,
        gathering,
        names=told_apart(pickled.names),
        checksum=checksum_of(archive),
        metadata={**small_texts(archive, ("byteorder", ".format_version", "version")), **metadata},
    )


def check_whole(end: int, region: Region, gathering: Gathering) -> None:
    """Tell of bytes behind a pickle's end, which nothing reads and something may hide in."""
    if end != region.size:
        gathering.problem(
            f"{region.where}, byte {end}", f"{region.size - end} bytes follow the end of the pickle"
        )


def check_stored(archive: Zip, gathering: Gathering) -> None:
    """Tell of compressed members: torch.save writes none, and a small one can become a huge one."""
    for member in archive.members.values():
        if member.method == DEFLATED:
            gathering.problem(
                archive.place(member),
                f"is compressed, {member.bytes} bytes out of {member.stored_bytes}: "
                "torch.save never writes that",
            )


def _kind(content: Content, metadata: dict[str, str]) -> Kind:
    if content == "module":
        return "torch-zip-module"
    # One tensor has no name to bind it by.
    return (
        "torch-zip-state-dict"
        if content == "parameters" and "holds" not in metadata
        else "torch-zip-other"
    )
