"""The members that torch's writers put into an archive, by kind: every other one is unexpected.

Names are compared as written. ``Data/sample_inputs/model.pt`` is not
``data/sample_inputs/model.pt`` here, although torch's reader treats them as equal.

Sources: ``_save`` in torch/serialization.py; torch/csrc/jit/serialization/export_module.cpp;
torch/csrc/export/pt2_archive_constants.h and ``package_pt2`` in
torch/export/pt2_archive/_package.py; caffe2/serialize/inline_container.h for the records that
every writer adds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from tui_profiler.archive.zips.directory import Zip

Writer = Literal["torch.save", "torch.jit.save", "torch.export.save"]

_OF_EVERY_WRITER = (
    r"version|byteorder|\.data/(version|serialization_id)|\.format_version|\.storage_alignment"
)
_NUMBERED = r"(0|[1-9]\d{0,9})"
_MODULE = r"[^\W\d]\w*"
_OF_WRITER: dict[Writer, str] = {
    "torch.save": rf"data\.pkl|data/{_NUMBERED}",
    "torch.jit.save": (
        rf"(data|constants|traced_inputs)(\.pkl|/{_NUMBERED})"
        rf"|code/{_MODULE}(/{_MODULE})*\.py(\.debug_pkl)?|extra/.+"
        # The lite interpreter's; torch.jit.load does not read them.
        rf"|bytecode\.pkl|mobile_debug_handles\.pkl|bytecode/{_NUMBERED}"
    ),
    "torch.export.save": (
        rf"archive_format|archive_version|models/{_MODULE}\.json|extra/.+"
        rf"|data/weights/({_MODULE}_weights_config\.json|weight_{_NUMBERED}|{_MODULE}\.pt)"
        rf"|data/constants/({_MODULE}_constants_config\.json|tensor_{_NUMBERED}|{_MODULE}\.pt)"
        rf"|data/sample_inputs/{_MODULE}\.pt"
    ),
}


def unexpected_members(archive: Zip, writer: Writer) -> Iterator[str]:
    """Name the members that ``writer`` does not write, in the order of the directory."""
    pattern = re.compile(f"{_OF_EVERY_WRITER}|{_OF_WRITER[writer]}", re.ASCII)
    if not archive.root:
        yield from (f"{name[:200]!a} outside of one top folder" for name in archive.members)
        return
    for name in archive.members:
        if not pattern.fullmatch(name):
            yield f"{name[:200]!a}"
