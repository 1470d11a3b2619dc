"""Files that would take time or memory without end when they are opened, one by each way known.

``write_bombs(folder)`` writes them; each is a few kilobytes to 40 MB. What is asked of each is a
sentence, within seconds and a bounded memory: ``SECONDS``, ``BYTES``.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import torch
from msgspec import Struct
from torch import nn

SECONDS = 40.0
"""Of processor time; on a free core the slowest takes 10."""
BYTES = 1500 << 20
"""Above what torch needs."""

Members = dict[str, bytes]


class Bomb(Struct, frozen=True):
    """One file, and what its refusal says."""

    name: str
    says: str
    spec: str = ""
    """What the user would type, where it is not the file."""
    is_slow: bool = False
    """It takes over 5 s, and is left to benchmarks/hostile/attacks.py."""


def write_bombs(folder: Path) -> list[Bomb]:
    """Write every bomb into a folder."""
    return [*_scripted(folder), *_exported(folder), *_zips(folder), *_architectures(folder)]


def _packed(members: Members, *compressed: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, content in members.items():
            method = zipfile.ZIP_DEFLATED if name in compressed else zipfile.ZIP_STORED
            archive.writestr(f"m/{name}", content, method, compresslevel=1)
    return data.getvalue()


def _members(data: bytes) -> Members:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def _scripted(folder: Path) -> list[Bomb]:
    saved = io.BytesIO()
    torch.jit.save(torch.jit.script(nn.Sequential(nn.Identity())), saved)
    members = _members(saved.getvalue())
    code = "code/__torch__/torch/nn/modules/linear.py"
    head = members[code]
    body = head[: head.index(b"    return input")]
    functions = b"".join(b"    def f%d(x):\n      return x\n" % n for n in range(10_000))
    variables = b"".join(b"    v%d = 1\n" % n for n in range(10_000))
    levels = b"".join(b" " * (4 + n) + b"def f(x):\n" for n in range(90))
    texts: dict[str, tuple[bytes, str]] = {
        # Each quote once began a search to the end of the text.
        "quotes": (body + b"    x = " + b'\\"' * 8_000_000, "more code than any model"),
        "some_quotes": (body + b"    x = " + b'\\"' * 200_000, "cannot be read"),
        "roles": (b"class A(Module):\n  __parameters__ = [" + b'\\"' * 8_000_000 + b"]\n", "code"),
        "statements": (body + b"    x\n" * 5_000_000, "more code than any model"),
        "some_statements": (body + b"    x\n" * 50_000, "the name x"),
        "brackets": (body + b"    " + b"(" * 10_000_000, "more code than any model"),
        "some_brackets": (body + b"    " + b"(" * 400_000, "cannot be read"),
        "attributes": (body + b"    x" + b".x" * 400_000, "cannot be read"),
        "sums": (body + b"    x" + b"+x" * 400_000, "cannot be read"),
        "digits": (body + b"    x = " + b"9" * 8_000_000, "cannot be read"),
        # Each function once copied the names of the one around it.
        "functions": (body + variables + functions + b"    print(x)\n", "print (code/"),
        "levels": (body + levels + b" " * 95 + b"pass\n", "nested deeper"),
    }
    bombs = []
    for name, (text, says) in texts.items():
        path = folder / f"bomb_{name}.pt"
        path.write_bytes(_packed({**members, code: text}, code))
        bombs.append(Bomb(path.name, says))
    debug = f"{code}.debug_pkl"
    (folder / "bomb_debug.pt").write_bytes(_packed({**members, debug: bytes(257 << 20)}, debug))
    bombs.append(Bomb("bomb_debug.pt", "larger than the debug information"))
    return bombs


def _exported(folder: Path) -> list[Bomb]:
    saved = io.BytesIO()
    batch = torch.export.Dim("batch", min=1, max=8)
    module = nn.Sequential(nn.Linear(3, 3))
    program = torch.export.export(module, (torch.ones(2, 3),), dynamic_shapes=({0: batch},))
    torch.export.save(program, saved)
    members = _members(saved.getvalue())
    graph = "models/model.json"
    text = members[graph]

    def power(expression: str) -> bytes:
        content = json.loads(text)
        for value in content["graph_module"]["graph"]["tensor_values"].values():
            for size in value["sizes"]:
                if "as_expr" in size:
                    size["as_expr"]["expr_str"] = expression
        return json.dumps(content).encode()

    start = text.rstrip()[:-1] + b', "x": '
    stacks = b",".join(
        b'{"nn_module_stack": "'
        + b"".join(b"k,%x,C;" % n for n in range(first, first + 5000))
        + b'"}'
        for first in range(0, 400_000, 5000)
    )
    texts: dict[str, tuple[bytes, str]] = {
        "nested": (start + b"[" * 5_000_000 + b"]" * 5_000_000 + b"}", "RecursionError"),
        "lists": (start + b"[" + b"[]," * 13_000_000 + b"0]}", "larger than any graph"),
        "modules": (start + b"[" + stacks + b"]}", "more than 200000 modules"),
        "tower": (power("9**9**9**9"), "the expression"),
        "base": (power("((((9**64)**64)**64)**64)**64"), "the expression"),
        "natural": (power("PowByNatural(9, PowByNatural(9, 99999999))"), "the expression"),
        "shift": (power("LShift(1, 99999999999)"), "the expression"),
    }
    bombs = []
    for name, (changed, says) in texts.items():
        path = folder / f"bomb_{name}.pt2"
        path.write_bytes(_packed({**members, graph: changed}))
        bombs.append(Bomb(path.name, says))
    huge = {**members, graph: b"[" + b" " * (120 << 20) + b"]"}
    (folder / "bomb_compressed.pt2").write_bytes(_packed(huge, graph))
    return [*bombs, Bomb("bomb_compressed.pt2", "is compressed")]


def _zips(folder: Path) -> list[Bomb]:
    saved = io.BytesIO()
    torch.save({"w": torch.ones(4)}, saved)
    members = _members(saved.getvalue())
    files: dict[str, tuple[Members, tuple[str, ...], str]] = {
        "pickle": ({**members, "data.pkl": bytes(200 << 20)}, ("data.pkl",), "compressed"),
        # Compatibility characters become up to 18 letters each.
        "names": (
            members | {f"data/{n}" + "\ufdfa" * 160: b"" for n in range(20_000)}, (), "normalises",
        ),
    }  # fmt: skip
    bombs = []
    for name, (content, compressed, says) in files.items():
        path = folder / f"bomb_{name}.pt"
        path.write_bytes(_packed(content, *compressed))
        bombs.append(Bomb(path.name, says))
    path = folder / "bomb_members.pt"
    path.write_bytes(_packed(members))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("m/data/1", b"")
        for number in range(2, 210_000):  # In the directory alone, which is what takes the time.
            entry = zipfile.ZipInfo(f"m/data/{number}")
            entry.CRC = entry.header_offset = 0
            archive.filelist.append(entry)
    bombs.append(Bomb(path.name, "more than any"))
    header = b'{"x":' + b"[" * 5_000_000
    (folder / "bomb.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    return [*bombs, Bomb("bomb.safetensors", "more values than any model")]


def _architectures(folder: Path) -> list[Bomb]:
    bombs = []
    bert = {"model_type": "bert", "num_hidden_layers": 1, "vocab_size": 99}
    configs: dict[str, tuple[bytes, str]] = {
        "deep": (b"[" * 5_000_000, "cannot be read as JSON"),
        "layers": (json.dumps({**bert, "num_hidden_layers": 10**9}).encode(), "as num_hidden"),
        "repeated": (
            json.dumps({"model_type": "resnet", "depths": [10**8] * 4}).encode(), "100,000 modules",
        ),
    }  # fmt: skip
    for name, (text, says) in configs.items():
        place = folder / f"bomb_{name}"
        place.mkdir()
        (place / "config.json").write_bytes(text)
        bombs.append(Bomb(place.name, says, f"hf:./{place.name}", name == "repeated"))
    rows = "nc: 2\nbackbone:\n  - [-1, 1, Conv, [16, 3, 2]]\nhead:\n  - [-1, 1, Classify, [nc]]\n"
    aliases = "a0: &a0 [x, x]\n" + "".join(
        f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}"] * 10) + "]\n" for n in range(1, 30)
    )
    yamls: dict[str, tuple[str, str]] = {
        "aliases": (aliases + rows, "not the YAML of a YOLO model"),
        "brackets": (rows + "x: " + "[" * 500_000, "cannot be read"),
        "cycle": ("a: &a [*a]\n" + rows, "not the YAML of a YOLO model"),
        "repeats": (rows.replace("-1, 1, Conv", "-1, 1000000000, Conv"), "100,000 modules"),
    }
    for name, (content, says) in yamls.items():
        (folder / f"bomb_{name}.yaml").write_text(content)
        bombs.append(Bomb(f"bomb_{name}.yaml", says, f"./bomb_{name}.yaml", name == "repeats"))
    return bombs
