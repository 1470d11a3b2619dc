"""Reads TorchScript archives: the objects of data.pkl, and the code that says what they are.

Which attributes are parameters and which are buffers stands in the code of a class, as
``__parameters__ = ["weight", ]``. The code is searched for these lines and for nothing else. It is
the only part of a file of torch's that is compressed.

Source: torch/csrc/jit/serialization/export_module.cpp and python_print.cpp.
"""

import re
from collections.abc import Iterator

from tui_profiler.archive.formats.torch_save import check_whole
from tui_profiler.archive.pickles.contents import Gathering
from tui_profiler.archive.pickles.reader import Made, Mapping, Named, read_pickle
from tui_profiler.archive.pickles.safe_globals import sorted_by_trust
from tui_profiler.archive.pickles.state_dict import children, length_of
from tui_profiler.archive.pickles.tensors import ZipStorages, is_tensor
from tui_profiler.archive.reading import limits, zips
from tui_profiler.archive.reading.file_contents import Found, Role
from tui_profiler.archive.reading.zips import DEFLATED, Zip

CODE = "code/"
CONSTANTS = "constants.pkl"
_PICKLE = "data.pkl"
_SCRIPTED = "__torch__."
_MANGLED = re.compile(r"___torch_mangle_\d+\.")
_CLASS = re.compile(
    r"^class (\w+)\(\w+\):\n"
    r"(?:  __parameters__ = \[([^\]\n]*)\]\n)?"
    r"(?:  __buffers__ = \[([^\]\n]*)\]\n)?",
    re.MULTILINE,
)
_QUOTED = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"?')
"""Also a string that is not closed: no character is searched twice, or remembered."""
_DEEPEST = 20_000

Roles = dict[str, dict[str, Role]]
"""Class, as data.pkl names it, to attribute to role."""


def is_torchscript(archive: Zip) -> bool:
    """Say if a zip is a TorchScript archive."""
    return CONSTANTS in archive.members or any(name.startswith(CODE) for name in archive.members)


def read_torchscript(archive: Zip) -> Found:
    """Return what a TorchScript archive holds."""
    region = zips.read_member(archive, _PICKLE)
    pickled = read_pickle(region)
    gathering = Gathering(region, ZipStorages(archive, "data/"))
    check_whole(pickled.end, region, gathering)
    _gather(pickled.value, _roles(archive), gathering)
    names = list(pickled.names)
    if CONSTANTS in archive.members:
        names += _gather_constants(archive, gathering)
    _check_compressed(archive, gathering)
    every, untrusted, dangerous = sorted_by_trust(names)
    # TorchScript's own reader imports nothing: these names are classes of the code in the archive,
    # and a few functions of torch's. Only what is neither needs trust.
    inside = (_SCRIPTED, "torch.jit._pickle.")
    outside = tuple(name for name in untrusted if not name.startswith(inside))
    return gathering.found(
        "torchscript",
        "program",
        names=(every, outside, dangerous),
        checksum=zips.checksum_of(archive),
        metadata=zips.small_texts(archive, ("version", "byteorder")),
    )


def _gather(root: object, roles: Roles, gathering: Gathering) -> None:
    waiting: list[tuple[str, Iterator[tuple[str, object]], dict[str, Role]]] = []

    def enter(path: str, value: object) -> None:
        name = _class(value)
        if name:
            gathering.module(path, _MANGLED.sub("", name).removeprefix(_SCRIPTED))
        waiting.append((path, _parts(value), roles.get(name, {})))

    gathering.visit()
    enter("", root)
    while waiting:
        path, parts, known = waiting[-1]
        for key, value in parts:
            if isinstance(value, Made) and is_tensor(value):
                gathering.visit()
                gathering.tensor(gathering.path(path, key), value, known.get(key, "constant"))
            elif _holds_something(value):
                if len(waiting) >= _DEEPEST:
                    raise gathering.region.error(f"is nested deeper than {_DEEPEST}")
                gathering.visit(length_of(value))
                enter(gathering.path(path, key), value)
                break
        else:
            waiting.pop()


def _class(value: object) -> str:
    if isinstance(value, Made) and isinstance(value.maker, Named):
        name = value.maker.name
        return name if name.startswith(_SCRIPTED) else ""
    return ""


def _parts(value: object) -> Iterator[tuple[str, object]]:
    return children(value.state if isinstance(value, Made) else value)


def _holds_something(value: object) -> bool:
    if isinstance(value, Made):
        return bool(_class(value))
    return isinstance(value, Mapping | list | tuple) and value not in ((), [])


def _gather_constants(archive: Zip, gathering: Gathering) -> tuple[str, ...]:
    region = zips.read_member(archive, CONSTANTS)
    pickled = read_pickle(region)
    constants = Gathering(region, ZipStorages(archive, "constants/"))
    check_whole(pickled.end, region, constants)
    for number, value in children(pickled.value):
        constants.visit()
        if isinstance(value, Made) and is_tensor(value):
            # As the code refers to them.
            constants.tensor(f"CONSTANTS.c{number}", value, "constant")
    gathering.tensors += constants.tensors
    gathering.problems += constants.all_problems()
    return pickled.names


def _roles(archive: Zip) -> Roles:
    found: Roles = {}
    left = limits.INFLATED_BYTES
    for name, member in archive.members.items():
        if not (name.startswith(CODE) and name.endswith(".py")):
            continue
        text = zips.inflated(archive, name, left).decode("utf-8", "replace")
        left -= member.bytes
        module = name.removeprefix(CODE).removesuffix(".py").replace("/", ".")
        for match in _CLASS.finditer(text):
            roles: dict[str, Role] = dict.fromkeys(_QUOTED.findall(match[2] or ""), "parameter")
            roles.update(dict.fromkeys(_QUOTED.findall(match[3] or ""), "buffer"))
            found[f"{module}.{match[1]}"] = roles
    return found


def _check_compressed(archive: Zip, gathering: Gathering) -> None:
    left = limits.DEBUG_BYTES
    for name, member in archive.members.items():
        if member.method == DEFLATED and name.startswith(CODE) and not name.endswith(".py"):
            left -= member.bytes
            if left < 0:
                # torch decompresses them while it loads the code.
                what = "becomes larger than the debug information of any model"
                raise archive.error(member, what)
        if member.method == DEFLATED and not name.startswith((CODE, "extra/")):
            gathering.problem(
                archive.place(member),
                f"is compressed, {member.bytes} bytes out of {member.stored_bytes}: only code is",
            )
