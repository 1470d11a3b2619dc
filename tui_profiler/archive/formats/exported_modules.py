"""The modules of an exported program, as its operators remember them.

An operator's ``nn_module_stack`` is a text such as ``L__self__,,Net;L__self__conv,conv,Conv2d``:
key, path and class of each module around it. The program is searched for these texts and not
parsed: it can be a hundred times larger than its list of modules.

Source: ``serialize_metadata`` of GraphModuleSerializer in torch/_export/serde/serialize.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from tui_profiler.archive.reading import limits
from tui_profiler.archive.reading.file_contents import ModuleEntry
from tui_profiler.archive.zips.directory import Zip
from tui_profiler.archive.zips.members import inflated

_STACK = re.compile(rb'"nn_module_stack": ?("(?:[^"\\]|\\.){0,65536}")')
_PARTS = 3
_CALL = re.compile(r"@\d+$")


def modules_of_program(archive: Zip, programs: Iterable[str]) -> list[ModuleEntry]:
    """Give the modules that operators of the programs came from, in the order of their first one.

    Raises:
        ArchiveError: A program is larger than any, or damaged.
    """
    classes: dict[str, str] = {}
    seen: set[bytes] = set()
    for program in programs:
        text = inflated(archive, program, limits.PROGRAM_BYTES)
        for match in _STACK.finditer(text):
            if match[1] not in seen:
                seen.add(match[1])
                _add(match[1], classes)
            if len(seen) > limits.MODULES or len(classes) > limits.MODULES:
                raise archive.error(
                    archive.members[program], f"has more than {limits.MODULES} modules"
                )
    return [ModuleEntry(path, name) for path, name in classes.items()]


def _add(quoted: bytes, classes: dict[str, str]) -> None:
    try:
        stack = json.loads(quoted)
    except ValueError:
        return
    for level in str(stack).split(";"):
        parts = level.rsplit(",", _PARTS - 1)
        if len(parts) == _PARTS:
            # A module that is called again has @1 behind its path.
            classes.setdefault(_CALL.sub("", parts[1]), parts[2])
