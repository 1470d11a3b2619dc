"""Files that would write a file when they are opened or run, one by each way that is known.

``write_corpus(folder)`` writes them. Each has a canary: a file that the attack creates, or changes
where it is there already. ``shown`` says what proves that the attack is real: ``torch`` where torch
itself, or ultralytics for YAML, asked to load and run the file, makes the canary; ``refused by
torch`` where torch stops before it; ``part`` where the file has only a part of an attack. Such a
file makes no canary here with any loader, and is refused for what it stands for: ``stands_for``.
Counts of attacks that are real do not include it.
"""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import torch
from msgspec import Struct
from torch import nn
from torch.export.pt2_archive import constants as archive_names

from tests.archive.hostile.zips import Raw
from tui_profiler.probe.load.architectures.ultralytics_models import ultralytics_tasks
from tui_profiler.probe.load.common.errors import LoadError

Shown = Literal["torch", "refused by torch", "part"]
Members = dict[str, bytes]


class Attack(Struct, frozen=True):
    """One file and what it tries."""

    name: str
    """Of the file or folder, in the folder of the corpus."""
    says: str
    """A part of the refusal."""
    shown: Shown
    spec: str = ""
    """What the user would type, where it is not the file."""


_STANDS_FOR = {
    "twin_exact": "two members of one name: which is found depends on the reader of the zip",
    "leads_out": "a reader that extracts members; torch's does not",
    "absolute": "a reader that extracts members; torch's does not",
    "long_name": "names that torch cuts, so that another member is meant than was checked",
    "compiled": "a compiled library for this machine, which torch loads as code",
    "call_": "a target that torch looks up by its name; its arguments are those of another one",
    "operator_argument": "an operator that calls the operator it is passed",
    "subgraph": "a graph that an operator runs, as another torch may load it",
    "value": "a name that becomes Python source, as parameter.pt2 shows of another field",
    "module": "a name that becomes Python source, as parameter.pt2 shows of another field",
    "printing": "escape sequences for the terminal: no file is written",
    "code_print": "escape sequences for the terminal: no file is written",
    "code_twin": "two members that differ by case: torch takes the one that sorts first",
    "code_": "code that torch refuses or reads otherwise today: a spelling, a class, an operator",
    "old_model": "a format that torch read before 1.0",
    "constants": "a pickle that torch reads without imports, and Python would run",
    "bytecode": "a pickle that torch reads without imports, and Python would run",
    "saved_twin": "two members that differ by case: torch takes the one that sorts first",
    "index_": "values of a file elsewhere: it is read, and none is written",
    "auto_": "code of the folder, which transformers runs where trust_remote_code is given",
    "timm_": "a checkpoint that older versions of timm unpickle",
    "hub_kernel": "code that the package kernels downloads and runs",
    "nested_": "text that ultralytics evaluates while it builds the model",
    "torchvision_": "a download, or a file read as weights: none is written",
}
"""By the start of a name, the longest that fits: what an attack stands for that is ``part``."""


def stands_for(attack: Attack) -> str:
    """Return what an attack stands for that no loader here shows to be real; empty for others."""
    if attack.shown != "part":
        return ""
    starts = [start for start in _STANDS_FOR if attack.name.startswith(start)]
    return _STANDS_FOR[max(starts, key=len)]


class Corpus:
    """The attacks written so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.attacks: list[Attack] = []

    def canary(self, name: str) -> Path:
        """Return the file that the attack of this name makes or changes."""
        return self.folder / "canaries" / name

    def add(self, name: str, data: bytes, says: str, shown: Shown = "torch") -> None:
        """Write a file."""
        (self.folder / name).write_bytes(data)
        self.attacks.append(Attack(name, says, shown))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.register_buffer("mark", torch.ones(3, dtype=torch.uint8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.fc(x) + self.mark
        return y


def write_corpus(folder: Path) -> Corpus:
    """Write every attack into a folder."""
    (folder / "canaries").mkdir()
    corpus = Corpus(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _exported(corpus)
        _scripted(corpus)
        _saved(corpus)
    _folders(corpus)
    with contextlib.suppress(LoadError):  # No YAML is opened without it, or its system libraries.
        ultralytics_tasks()
        _architectures(corpus)
    return corpus


class _Touch:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return open, (str(self.path), "w")


def touching(path: Path) -> bytes:
    """Return a file of torch.save that creates a file when it is unpickled."""
    data = io.BytesIO()
    torch.save((_Touch(path),), data)
    return data.getvalue()


def members_of(path: Path) -> Members:
    """Return the members of a zip without their top folder."""
    with zipfile.ZipFile(path) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def packed(members: Members, root: str = "m/") -> bytes:
    """Return a zip of members as they are, none compressed, the top folder before each."""
    raw = Raw()
    for name, data in members.items():
        encoded = (root + name).encode()
        raw.add(encoded, data, flags=0 if encoded.isascii() else 0x800)
    return raw.bytes()


# --- torch.export


def _exported(corpus: Corpus) -> None:
    base = corpus.folder / "base.pt2"
    batch = torch.export.Dim("batch", min=1, max=8)
    program = torch.export.export(Net().eval(), (torch.randn(2, 3),), dynamic_shapes=({0: batch},))
    torch.export.save(program, base)
    members = members_of(base)
    base.unlink()
    _sample_inputs(corpus, members)
    _odd_zips(corpus, members)
    _other_pickles(corpus, members)
    _graphs(corpus, members)
    _generated_code(corpus, members)
    _imports(corpus, members)


_INPUTS = "data/sample_inputs/model.pt"


def _sample_inputs(corpus: Corpus, members: Members) -> None:
    without = {name: data for name, data in members.items() if name != _INPUTS}
    spellings: dict[str, tuple[str, str, Shown]] = {
        "inputs_honest": (_INPUTS, "which weights_only refuses", "torch"),
        "inputs_ending": ("data/sample_inputs/model.PT", "which torch.export does not", "torch"),
        "inputs_folder": ("data/Sample_inputs/model.pt", "which torch.export does not", "torch"),
        "inputs_capitals": (_INPUTS.upper(), "which torch.export does not", "torch"),
        "inputs_model": ("data/sample_inputs/MODEL.pt", "which weights_only refuses", "torch"),
        "inputs_long_s": ("data/ſample_inputs/model.pt", "does not write", "refused by torch"),
        "inputs_dotless": ("data/sample_ınputs/model.pt", "does not write", "refused by torch"),
        "inputs_wide": ("data/sample_inputs/ｍodel.pt", "does not write", "refused by torch"),
        "inputs_here": ("./" + _INPUTS, "not written as torch", "refused by torch"),
        "inputs_slashes": ("data//sample_inputs/model.pt", "not written as", "refused by torch"),
        "inputs_back": (_INPUTS.replace("/", "\\"), "not a relative path", "refused by torch"),
        "inputs_up": ("data/x/../sample_inputs/model.pt", "leads out", "refused by torch"),
        "inputs_nul": (_INPUTS + "\0.txt", "a control character", "refused by torch"),
        "inputs_joiner": ("data/sample_inputs/mo\u200ddel.pt", "control", "refused by torch"),
    }
    for name, (member, says, shown) in spellings.items():
        evil = touching(corpus.canary(f"{name}.pt2"))
        corpus.add(f"{name}.pt2", packed({**without, member: evil}), says, shown)


def _odd_zips(corpus: Corpus, members: Members) -> None:
    for name, twin in (
        ("twin_case", _INPUTS.upper()),
        ("twin_last", "data/sample_inputs/model.PT"),
    ):
        evil = touching(corpus.canary(f"{name}.pt2"))
        data = packed({twin: evil, **members})
        corpus.add(f"{name}.pt2", data, "twice")
    evil = touching(corpus.canary("twin_exact.pt2"))
    corpus.add("twin_exact.pt2", packed_twice(members, _INPUTS, evil), "twice", "part")
    evil = touching(corpus.canary("local_header.pt2"))
    raw = Raw()
    for member, data in members.items():
        if member == _INPUTS:
            raw.add(
                f"m/{member}".encode(), evil, local_name=b"m/extra/harmless.txt-------------"[:29]
            )
        else:
            raw.add(f"m/{member}".encode(), data)
    corpus.add("local_header.pt2", raw.bytes(), "disagrees with the directory")
    evil = touching(corpus.canary("two_roots.pt2"))
    data = packed({"m/" + key: value for key, value in members.items()} | {"n/x": b"x"}, "")
    corpus.add("two_roots.pt2", data, "", "refused by torch")
    data = packed({**members, "../../etc/x": b"x"})
    corpus.add("leads_out.pt2", data, "leads out of the archive", "part")
    data = packed({**members, "/etc/x": b"x"}, "m")
    corpus.add("absolute.pt2", data, "", "part")
    inner = packed({"DATA.PKL": _pickled(corpus.canary("nested.pt2")), "version": b"3\n"}, "a/")
    corpus.add("nested.pt2", packed({**members, _INPUTS: inner}), "which weights_only refuses")
    long = "extra/" + "x" * 600
    corpus.add("long_name.pt2", packed({**members, long: b"x"}), "longer than the 511", "part")


def packed_twice(members: Members, name: str, other: bytes) -> bytes:
    """Return a zip in which one name stands twice."""
    raw = Raw()
    for member, data in members.items():
        raw.add(f"m/{member}".encode(), data)
    raw.add(f"m/{name}".encode(), other)
    return raw.bytes()


def _pickled(path: Path) -> bytes:
    return pickle.dumps((_Touch(path),), 2)


def _other_pickles(corpus: Corpus, members: Members) -> None:
    def config(name: str, **entry: object) -> bytes:
        content = json.loads(members[name])
        first = next(iter(content["config"]), "fc.weight")
        kept = content["config"].get(first, {"is_param": True, "tensor_meta": None})
        content["config"][first] = {**kept, **entry}
        return json.dumps(content).encode()

    weights = "data/weights/model_weights_config.json"
    constants = "data/constants/model_constants_config.json"
    for name, changed, entry, member in (
        ("weight_pickled", weights, {"path_name": "weight_0"}, "data/weights/weight_0"),
        ("weight_elsewhere", weights, {"path_name": "../../x"}, "extra/x"),
        ("constant_pickled", constants, {"path_name": "tensor_0"}, "data/constants/tensor_0"),
        (
            "constant_opaque",
            constants,
            {"path_name": "opaque_obj_0"},
            "data/constants/opaque_obj_0",
        ),
        (
            "constant_custom",
            constants,
            {"path_name": "custom_obj_0"},
            "data/constants/custom_obj_0",
        ),
    ):
        file = f"{name}.pt2"
        is_bare = name in ("constant_opaque", "constant_custom")
        make = _pickled if is_bare else touching
        evil = make(corpus.canary(file))
        data = packed({**members, changed: config(changed, use_pickle=True, **entry), member: evil})
        says = {
            "constant_opaque": "a pickled object",
            "constant_custom": "custom class",
            "weight_elsewhere": "has no member",
        }
        refused = name in ("weight_elsewhere", "constant_custom") or (
            # Torch 2.10 does not read such constants.
            name == "constant_opaque" and not hasattr(archive_names, "OPAQUE_OBJ_FILENAME_PREFIX")
        )
        corpus.add(
            file,
            data,
            says.get(name, "pickled weights"),
            "refused by torch" if refused else "torch",
        )
    for name, member in (
        ("old_weights", "data/weights/model.pt"),
        ("old_constants", "data/constants/model.pt"),
    ):
        evil = touching(corpus.canary(f"{name}.pt2"))
        corpus.add(f"{name}.pt2", packed({**members, member: evil}), "which weights_only refuses")
    library = {**members, "data/aotinductor/model/model.wrapper.so": b"\x7fELF"}
    corpus.add("compiled.pt2", packed(library), "a compiled library", "part")
    old = {
        "serialized_exported_program.json": members["models/model.json"],
        "serialized_state_dict.pt": touching(corpus.canary("old_2_7.pt2")),
        "serialized_constants.pt": touching(corpus.canary("old_2_7.pt2")),
        "serialized_example_inputs.pt": touching(corpus.canary("old_2_7.pt2")),
        "version": b"8.2",
    }
    corpus.add("old_2_7.pt2", packed(old, ""), "before torch 2.8")


Graph = dict[str, object]


def _changed(members: Members, change: Callable[[dict], None]) -> bytes:  # type: ignore[type-arg]
    graph = json.loads(members["models/model.json"])
    change(graph)
    return packed({**members, "models/model.json": json.dumps(graph).encode()})


def _tensor(name: str, arg: str) -> dict[str, object]:
    return {"name": name, "arg": {"as_tensor": {"name": arg}}, "kind": 1}


def _node(target: str, inputs: list[dict[str, object]], output: str) -> dict[str, object]:
    return {
        "target": target, "inputs": inputs, "outputs": [{"as_tensor": {"name": output}}],
        "metadata": {}, "is_hop_single_tensor_return": None, "name": output,
    }  # fmt: skip


def _file_nodes(path: Path) -> list[dict[str, object]]:
    """Return nodes that map a file, 1 byte, and write an A into it."""
    arguments: list[dict[str, object]] = [
        {"name": "filename", "arg": {"as_string": str(path)}, "kind": 1},
        {"name": "shared", "arg": {"as_bool": True}, "kind": 1},
        {"name": "size", "arg": {"as_int": 1}, "kind": 1},
        {"name": "dtype", "arg": {"as_scalar_type": 1}, "kind": 2},
    ]
    fill = {"name": "value", "arg": {"as_int": 65}, "kind": 1}
    return [
        _node("torch.ops.aten.from_file.default", arguments, "mapped"),
        _node("torch.ops.aten.fill_.Scalar", [_tensor("self", "mapped"), fill], "filled"),
    ]


def _with_values(graph: Graph, *names: str) -> None:
    meta = {
        "dtype": 1, "sizes": [{"as_int": 1}], "requires_grad": False,
        "device": {"type": "cpu", "index": None}, "strides": [{"as_int": 1}],
        "storage_offset": {"as_int": 0}, "layout": 7,
    }  # fmt: skip
    for name in names:
        graph["tensor_values"][name] = meta  # type: ignore[index]


def _graphs(corpus: Corpus, members: Members) -> None:
    victim = corpus.canary("from_file.pt2")
    victim.write_bytes(b"x")

    def maps(graph: dict) -> None:  # type: ignore[type-arg]
        inner = graph["graph_module"]["graph"]
        inner["nodes"][:0] = _file_nodes(victim)
        _with_values(inner, "mapped", "filled")

    corpus.add("from_file.pt2", _changed(members, maps), "reads or writes a file")
    for name, target, says in (
        ("load_library", "torch.ops.load_library", "is not an operator"),
        ("hub", "torch.hub.load", "is not an operator"),
        ("load", "torch.load", "is not an operator"),
        ("system", "torch.os.system", "is not an operator"),
        ("save", "torch.ops.aten.save.default", "reads or writes a file"),
        ("write_file", "torch.ops.image.write_file.default", "not an allowed operator"),
        ("load_tensor", "torch.ops.debugprims.load_tensor.default", "not an allowed operator"),
        ("seed", "torch.ops.aten.manual_seed.default", "random numbers"),
        ("print", "torch.ops.aten._print.default", "prints"),
        ("torchbind", "torch.ops.higher_order.call_torchbind", "not an allowed operator"),
        ("effects", "torch.ops.higher_order.with_effects", "not an allowed operator"),
        ("functionalized", "torch.ops.higher_order.auto_functionalized", "not an allowed operator"),
        ("invoke", "torch.ops.higher_order.flat_apply", "not an allowed operator"),
        (
            "triton",
            "torch.ops.higher_order.triton_kernel_wrapper_mutation",
            "not an allowed operator",
        ),
        ("collective", "torch.ops._c10d_functional.all_reduce.default", "not an allowed operator"),
        ("packet", "torch.ops.aten.relu", "not an allowed operator"),
        ("dunder", "torch.ops.aten.relu.__class__", "not an allowed operator"),
    ):

        def calls(graph: dict, target: str = target) -> None:  # type: ignore[type-arg]
            graph["graph_module"]["graph"]["nodes"][0]["target"] = target

        corpus.add(f"call_{name}.pt2", _changed(members, calls), says, "part")

    inside = corpus.canary("operator_argument.pt2")

    def passes(graph: dict) -> None:  # type: ignore[type-arg]
        argument = {
            "name": "",
            "arg": {"as_operator": "torch.ops.aten.from_file.default"},
            "kind": 1,
        }
        graph["graph_module"]["graph"]["nodes"][0]["inputs"].append(argument)

    corpus.add(f"{inside.name}", _changed(members, passes), "reads or writes a file", "part")
    nested = corpus.canary("subgraph.pt2")
    nested.write_bytes(b"x")
    branched = _changed(members, lambda graph: _in_branch(graph, nested))
    corpus.add("subgraph.pt2", branched, "reads or writes a file", "part")
    write = corpus.canary("expression.pt2")

    def evaluates(graph: dict) -> None:  # type: ignore[type-arg]
        symbol = next(iter(graph["range_constraints"]))
        evil = f"Symbol('{symbol}')*len(open({str(write)!r}, 'w').name)"
        for value in graph["graph_module"]["graph"]["tensor_values"].values():
            for size in value["sizes"]:
                if "as_expr" in size:
                    size["as_expr"]["expr_str"] = evil

    corpus.add("expression.pt2", _changed(members, evaluates), "the expression")


def _in_branch(graph: dict, victim: Path) -> None:  # type: ignore[type-arg]
    """Put the writing nodes into a graph that ``wrap_with_set_grad_enabled`` runs."""
    inner = graph["graph_module"]["graph"]
    nodes = [*_file_nodes(victim)]
    branch = {
        "inputs": [], "outputs": [{"as_tensor": {"name": "filled"}}], "nodes": nodes,
        "tensor_values": {}, "sym_int_values": {}, "sym_bool_values": {},
        "is_single_tensor_return": False, "custom_obj_values": {}, "sym_float_values": {},
    }  # fmt: skip
    _with_values(branch, "mapped", "filled")
    wrapped = _node(
        "torch.ops.higher_order.wrap_with_set_grad_enabled",
        [
            {"name": "", "arg": {"as_bool": False}, "kind": 1},
            {"name": "", "arg": {"as_graph": {"name": "branch", "graph": branch}}, "kind": 1},
        ],
        "wrapped",
    )
    inner["nodes"][:0] = [wrapped]
    _with_values(inner, "wrapped")


def _generated_code(corpus: Corpus, members: Members) -> None:
    def opens(name: str) -> str:
        path = corpus.canary(name)
        # Without dots and quotes, which other parts of the name would be cut at.
        codes = ",".join(str(byte) for byte in f"open({str(path)!r},'w')".encode())
        return f"eval(bytes([{codes}]))"

    def argument(graph: dict) -> None:  # type: ignore[type-arg]
        for entry in graph["graph_module"]["module_call_graph"]:
            if entry["signature"]:
                entry["signature"]["forward_arg_names"] = [f"x={opens('argument.pt2')}"]

    corpus.add("argument.pt2", _changed(members, argument), "an argument named", "refused by torch")

    def value(graph: dict) -> None:  # type: ignore[type-arg]
        text = json.dumps(graph)
        text = text.replace('"name": "x"', json.dumps({"name": f"x={opens('value.pt2')}"})[1:-1])
        graph.update(json.loads(text))

    corpus.add("value.pt2", _changed(members, value), "an argument named", "part")
    evil = f'training"),{opens("parameter.pt2")},getattr(self,"training'
    quoted = json.dumps(evil)[1:-1].encode()
    changed = {
        name: data.replace(b"fc.weight", quoted) if name.endswith(".json") else data
        for name, data in members.items()
    }
    corpus.add("parameter.pt2", packed(changed), "a weight named")

    def module(graph: dict) -> None:  # type: ignore[type-arg]
        evil = f'fc"),{opens("module.pt2")},getattr(self,"fc'
        node = graph["graph_module"]["graph"]["nodes"][0]
        node["metadata"]["nn_module_stack"] = f"L__self__,,Net;L__self__fc,{evil},Linear"

    corpus.add("module.pt2", _changed(members, module), "a module at", "part")


def _imports(corpus: Corpus, members: Members) -> None:
    for name, key, escaped in (
        ("enum", "__enum__", False), ("enum_escaped", "__enum__", True), ("factory", "", False),
    ):  # fmt: skip
        evil_module = f"evil_{name}"
        canary = corpus.canary(f"{name}.pt2")
        (corpus.folder / f"{evil_module}.py").write_text(f"open({str(canary)!r}, 'w')\n")

        def structure(
            graph: dict,  # type: ignore[type-arg]
            module: str = evil_module,
            key: str = key,
            escaped: bool = escaped,
        ) -> None:
            for entry in graph["graph_module"]["module_call_graph"]:
                if not entry["signature"]:
                    continue
                spec = json.loads(entry["signature"]["in_spec"])
                keywords = spec[1]["children_spec"][1]
                if key:
                    context = json.dumps([{key: True, "fqn": f"{module}:X", "name": "A"}])
                    keywords["context"] = (
                        context.replace("__enum__", "__en\\u0075m__") if escaped else context
                    )
                else:
                    keywords["type"] = "collections.defaultdict"
                    keywords["context"] = {
                        "default_factory_module": module,
                        "default_factory_name": "X",
                        "dict_context": [],
                    }
                entry["signature"]["in_spec"] = json.dumps(spec)

        says = "an import of a class" if key else "a container of the class"
        corpus.add(f"{name}.pt2", _changed(members, structure), says)


# --- TorchScript


class _WithPath(nn.Module):
    """Returns what it is given."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


class Saving(_WithPath):
    """Its state is restored by code that the archive brings."""

    @torch.jit.export
    def __getstate__(self) -> str:
        return self.path

    @torch.jit.export
    def __setstate__(self, path: str) -> None:
        torch.save(torch.ones(1), path)
        self.path = path
        self.training = False


class Mapping(_WithPath):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mapped = torch.from_file(self.path, True, 1, dtype=torch.uint8)
        mapped.fill_(65)
        return mapped + x.sum()


class Inner(_WithPath):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.save(x, self.path)
        return x


class Outer(nn.Module):
    def __init__(self, path: str) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.ReLU(), Inner(path))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layers(x)
        return y


with warnings.catch_warnings():
    warnings.simplefilter("ignore")

    @torch.jit.interface
    class Step(nn.Module):
        def step(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[empty-body]
            pass


class Steps(_WithPath):
    @torch.jit.export
    def step(self, x: torch.Tensor) -> torch.Tensor:
        torch.save(x, self.path)
        return x


class Stepping(nn.Module):
    inner: Step

    def __init__(self, path: str) -> None:
        super().__init__()
        self.inner = Steps(path)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner.step(x)


# TorchScript does not resolve annotations that are text.
Stepping.__annotations__["inner"] = Step


class Forking(nn.Module):
    def __init__(self, path: str) -> None:
        super().__init__()
        self.inner = Inner(path)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        future = torch.jit.fork(self.inner, x)
        y: torch.Tensor = torch.jit.wait(future)
        return y


class Printing(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        print("\x1b]0;title\x07")
        return x


def _scripted(corpus: Corpus) -> None:
    makers: dict[str, Callable[[str], nn.Module]] = {
        "setstate": Saving, "mapping": Mapping, "submodule": Outer, "interface": Stepping,
        "forked": Forking,
    }  # fmt: skip
    for name, make in makers.items():
        file = f"{name}.pt"
        canary = corpus.canary(file)
        if name == "mapping":
            canary.write_bytes(b"x")
        model = torch.jit.script(make(str(canary)).eval())
        torch.jit.save(model, corpus.folder / file)
        canary.unlink() if canary.exists() and name != "mapping" else None
        corpus.attacks.append(Attack(file, "reads or writes a file", "torch"))
    torch.jit.save(torch.jit.script(Printing()), corpus.folder / "printing.pt")
    corpus.attacks.append(Attack("printing.pt", "print (code/", "part"))
    _edited(corpus)


_FORWARD = "    return x\n"


def _edited(corpus: Corpus) -> None:
    base = corpus.folder / "base.pt"
    torch.jit.save(torch.jit.script(nn.Sequential(nn.Identity())), base)
    members = members_of(base)
    base.unlink()
    code = "code/__torch__/torch/nn/modules/linear.py"
    assert b"    pass" in members[code] or b"return input" in members[code], members[code]
    honest = members[code].decode()
    start = honest.index("    return input")

    def with_lines(*lines: str) -> bytes:
        text = honest[:start] + "".join(f"    {line}\n" for line in lines) + honest[start:]
        return text.encode()

    texts: dict[str, tuple[Callable[[str], tuple[str, ...]], str, Shown]] = {
        "code_operator": (lambda p: (f"ops.aten.save(input, {p})",), "a file", "torch"),
        "code_method": (lambda p: (f"(input).save({p}, )",), "a file", "refused by torch"),
        "code_alias": (
            lambda p: ("f = torch.save", f"f(input, {p})"), "a file", "torch",
        ),
        "code_torch": (lambda p: (f"torch.save(input, {p})",), "a file", "torch"),
        "code_autograd": (lambda p: (f"torch.autograd.save(input, {p})",), "a file", "torch"),
        "code_name_alias": (
            lambda p: ("t = torch", f"t.save(input, {p})"), "the name torch", "torch",
        ),
        "code_ops_alias": (
            lambda p: ("o = ops.aten", f"o.save(input, {p})"), "the name ops.aten", "torch",
        ),
        "code_getattr": (
            lambda p: (f'getattr(input, "save")({p})',), "a file", "refused by torch",
        ),
        "code_string_method": (
            lambda p: (f"y = ({p}).from_file(True, 1, dtype=0)", "y.fill_(65)"), "a file",
            "refused by torch",
        ),
        "code_tuple": (
            lambda p: ("f, g = (input).save, (input).add", f"f({p}, )"), "a file", "part",
        ),
        "code_comment": (
            lambda p: ("x = 1  # \\", f"torch.save(input, {p})"), "cannot be read", "torch",
        ),
        "code_continued": (lambda p: ("torch.\\", f"save(input, {p})"), "cannot be read", "torch"),
        "code_quotes": (
            lambda p: ("x = 'a'", f"torch.save(input, {p})"), "cannot be read", "torch",
        ),
        "code_triple": (
            lambda p: ('x = """a"', f'torch.save(input, {p})"""'), "cannot be read", "part",
        ),
        "code_wide": (lambda p: (f"torch.ｓave(input, {p})",), "cannot be read", "part"),
        "code_return": (lambda p: (f"x = 1\r    torch.save(input, {p})",), "cannot be", "part"),
        "code_print": (lambda p: ('print("\\033]0;title\\007")',), "print (code/", "part"),
        "code_write_file": (
            lambda p: (f"ops.image.write_file({p}, input)",), "image::write_file", "part",
        ),
        "code_class": (
            lambda p: ("x = __torch__.torch.classes.c10d.FileStore()",),
            "the class torch.classes.c10d.FileStore", "part",
        ),
        "code_cast": (
            lambda p: ("x = unchecked_cast(__torch__.torch.nn.modules.linear.Identity, input)",),
            "an unchecked cast", "part",
        ),
        "code_rpc": (lambda p: ("ops.prim.rpc_async(input)",), "prim::rpc_async", "part"),
        "code_python": (lambda p: ("ops.prim.PythonOp(input)",), "prim::PythonOp", "part"),
        "code_import": (lambda p: ("import os",), "Import in code", "part"),
        "code_lambda": (lambda p: ("f = lambda: input",), "Lambda in code", "part"),
        "code_seed": (lambda p: ("torch.manual_seed(0)",), "aten::manual_seed", "part"),
    }  # fmt: skip
    for name, (lines, says, shown) in texts.items():
        file = f"{name}.pt"
        canary = corpus.canary(file)
        if name == "code_string_method":
            canary.write_bytes(b"x")
        edited = with_lines(*lines(json.dumps(str(canary))))
        corpus.add(file, packed({**members, code: edited}), says, shown)
    for name, member, says, shown2 in (
        ("code_capitals", "CODE/__torch__/torch/nn/modules/linear.PY", "does not write", "torch"),
        ("code_ending", code.replace(".py", ".PY"), "does not write", "torch"),
    ):
        file = f"{name}.pt"
        path = json.dumps(str(corpus.canary(file)))
        without = {key: data for key, data in members.items() if key != code}
        evil = with_lines(f"torch.save(input, {path})")
        corpus.add(
            file, packed({**without, member: evil}), says, "torch" if shown2 == "torch" else "part"
        )
    twin = corpus.canary("code_twin.pt")
    evil = with_lines(f"torch.save(input, {json.dumps(str(twin))})")
    upper = code.replace("linear.py", "LINEAR.py")
    corpus.add("code_twin.pt", packed({upper: evil, **members}), "reads or writes a file", "part")
    corpus.add("old_model.pt", packed({**members, "model.json": b"{}"}), "does not write", "part")
    evil_object = pickle.dumps(_Touch(corpus.canary("object.pt")), 2)
    corpus.add(
        "object.pt", packed({**members, "data.pkl": evil_object}), "open", "refused by torch"
    )
    corpus.add("constants.pt", packed({**members, "constants.pkl": evil_object}), "open", "part")
    corpus.add("bytecode.pt", packed({**members, "bytecode.pkl": evil_object}), "open", "part")


# --- torch.save


def _saved(corpus: Corpus) -> None:
    data = io.BytesIO()
    torch.save(Net(), data)
    members = {
        name.partition("/")[2]: content
        for name, content in (
            (name, zipfile.ZipFile(data).read(name)) for name in zipfile.ZipFile(data).namelist()
        )
    }
    for name, member, says in (
        ("saved.pt", "data.pkl", "open"),
        ("saved_capitals.pt", "DATA.PKL", "not a known model format"),
    ):
        without = {key: content for key, content in members.items() if key != "data.pkl"}
        corpus.add(name, packed({**without, member: _pickled(corpus.canary(name))}), says)
    both = {"DATA.PKL": _pickled(corpus.canary("saved_twin.pt")), **members}
    corpus.add("saved_twin.pt", packed(both), "twice", "part")
    corpus.add("bare.pkl", _pickled(corpus.canary("bare.pkl")), "open")


# --- folders


def _folders(corpus: Corpus) -> None:
    for name, target in (
        ("index_up", "../secret.safetensors"), ("index_absolute", "/etc/hostname"),
        ("index_back", "..\\secret.safetensors"), ("index_nul", "a\0b"), ("index_self", "."),
    ):  # fmt: skip
        folder = corpus.folder / name
        folder.mkdir()
        index = {"metadata": {}, "weight_map": {"w": target}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        corpus.attacks.append(Attack(name, "which is not a file beside it", "part", f"./{name}"))
    for name, file, key in (
        ("auto_map", "config.json", "AutoConfig"), ("auto_model", "config.json", "AutoModel"),
    ):  # fmt: skip
        folder = corpus.folder / name
        folder.mkdir()
        canary = corpus.canary(name)
        (folder / "evil.py").write_text(f"open({str(canary)!r}, 'w')\nclass Evil: pass\n")
        config = {"model_type": "evil", "auto_map": {key: "evil.Evil"}, "architectures": ["Evil"]}
        (folder / file).write_text(json.dumps(config))
        (folder / "tokenizer_config.json").write_text(
            json.dumps({"auto_map": {"AutoTokenizer": ["evil.Evil", None]}})
        )
        (folder / "preprocessor_config.json").write_text(
            json.dumps({"auto_map": {"AutoImageProcessor": "evil.Evil"}})
        )
        corpus.attacks.append(Attack(name, "", "part", f"hf:./{name}"))
    for name, model_args in (
        (
            "timm_checkpoint",
            {"architecture": "resnet18", "model_args": {"checkpoint_path": "e.pt"}},
        ),
        ("timm_folder", {"architecture": "local-dir:./timm_folder"}),
    ):
        folder = corpus.folder / name
        folder.mkdir()
        (corpus.folder / "e.pt").write_bytes(_pickled(corpus.canary(name)))
        config = {"model_type": "timm_wrapper", "num_classes": 3, **model_args}
        (folder / "config.json").write_text(json.dumps(config))
        says = "names a file" if name == "timm_checkpoint" else "lies elsewhere"
        corpus.attacks.append(Attack(name, says, "part", f"hf:./{name}"))
    folder = corpus.folder / "hub_kernel"
    folder.mkdir()
    config = {"model_type": "bert", "attn_implementation": "kernels-community/flash-attn"}
    (folder / "config.json").write_text(json.dumps(config))
    corpus.attacks.append(
        Attack("hub_kernel", "names code of the Hub's", "part", "hf:./hub_kernel")
    )


# --- YAML of ultralytics


_YAML = """nc: 2
{}
backbone:
  - [-1, 1, Conv, [16, 3, 2]]
  - [-1, 1, Conv, [16, 3, 2]]
{}head:
  - [-1, 1, Classify, [nc]]
"""


def _architectures(corpus: Corpus) -> None:
    for name, activation, row, says in (
        ("activation", "open({!r}, 'w')", "", "its activation"),
        ("activation_called", "nn.ReLU(open({!r}, 'w'))(1)", "", "its activation"),
        ("activation_attribute", "nn.ReLU(open({!r}, 'w')).x", "", "its activation"),
        ("nested_model", "", "ClassificationModel, [INNER]", "ClassificationModel is not a layer"),
        ("nested_file", "", "ClassificationModel, [./activation.yaml]", "is not a layer"),
        ("torchvision_model", "", "TorchVision, [64, ../e.pt]", "is not a torchvision model"),
        ("torchvision_backbone", "", "TorchVision, [64, fcn_resnet50]", "would download"),
    ):
        path = str(corpus.canary(f"{name}.yaml"))
        inner = {
            "nc": 2, "activation": f"open({path!r}, 'w')", "backbone": [[-1, 1, "Conv", [8, 3, 2]]],
            "head": [[-1, 1, "Classify", ["nc"]]],
        }  # fmt: skip
        text = _YAML.format(
            f"activation: {json.dumps(activation.format(path))}" if activation else "",
            f"  - [-1, 1, {row.replace('INNER', json.dumps(inner))}]\n" if row else "",
        )
        (corpus.folder / f"{name}.yaml").write_text(text)
        is_run = name.startswith("activation") or name == "nested_model"
        corpus.attacks.append(
            Attack(f"{name}.yaml", says, "torch" if is_run else "part", f"./{name}.yaml")
        )
