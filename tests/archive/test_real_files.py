"""What look tells of real files is what torch and safetensors load from them."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path, PosixPath

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from tests.archive.hostile.seeds import net, write_seeds
from tui_profiler.archive import Found, TensorEntry, structure_of, verify


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_seeds(tmp_path_factory.mktemp("seeds"))


def values_of(entry: TensorEntry) -> torch.Tensor:
    """Read a tensor by nothing but its entry: file, offset, shape, strides and dtype."""
    assert entry.offset is not None
    dtype: torch.dtype = getattr(torch, entry.dtype)
    reach = 1 + sum((s - 1) * t for s, t in zip(entry.shape, entry.strides, strict=True))
    count = 0 if 0 in entry.shape else reach
    data = Path(entry.file).read_bytes()[entry.offset :][: count * dtype.itemsize]
    flat = torch.frombuffer(bytearray(data), dtype=dtype) if data else torch.empty(0, dtype=dtype)
    return flat.as_strided(entry.shape, entry.strides)


def assert_same(found: Found, loaded: dict[str, torch.Tensor]) -> None:
    assert found.problems == ()
    assert {entry.name for entry in found.tensors} == set(loaded)
    for entry in found.tensors:
        value = loaded[entry.name].detach()
        assert entry.shape == tuple(value.shape), entry.name
        assert f"torch.{entry.dtype}" == str(value.dtype), entry.name
        assert entry.bytes == value.nbytes
        assert entry.is_contiguous == value.is_contiguous()
        assert torch.equal(values_of(entry), value), entry.name


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("state.pt", "torch-zip-state-dict"),
        ("checkpoint.pt", "torch-zip-state-dict"),
        ("legacy.pt", "torch-legacy"),
        ("proto5.pt", "torch-zip-state-dict"),
        ("module.pt", "torch-zip-module"),
        ("legacy_module.pt", "torch-legacy"),
    ],
)
def test_torch_save_files_read_as_torch_loads_them(
    seeds: dict[str, Path], name: str, kind: str
) -> None:
    loaded = torch.load(seeds[name], weights_only=False)
    if isinstance(loaded, nn.Module):
        loaded = loaded.state_dict()
    found = structure_of(seeds[name])
    assert found.kind == kind
    assert_same(found, loaded.get("state_dict", loaded))


def test_safetensors_read_as_safetensors_loads_them(seeds: dict[str, Path]) -> None:
    from safetensors.torch import load_file

    path = seeds["model.safetensors"]
    found = structure_of(path)
    assert found.kind == "safetensors"
    assert found.checksum == "none in this format"
    assert found.metadata == {"format": "pt"}
    assert_same(found, load_file(path))


@pytest.mark.parametrize("name", ["exported.pt2", "exported_2_8.pt2", "exported_2_7.pt2"])
def test_each_layout_of_exported_programs_reads_as_torch_loads_it(
    seeds: dict[str, Path], name: str
) -> None:
    found = structure_of(seeds[name])
    assert found.kind == "exported-program"
    assert found.content == "program"
    assert_same(found, dict(torch.export.load(seeds[name]).state_dict))
    classes = {module.path: module.class_name for module in found.modules}
    assert classes["conv"] == "torch.nn.modules.conv.Conv2d"
    assert classes[""].endswith("Net")


def test_torchscript_reads_as_torch_loads_it(seeds: dict[str, Path]) -> None:
    found = structure_of(seeds["scripted.pt"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = torch.jit.load(seeds["scripted.pt"])
    assert found.kind == "torchscript"
    assert_same(found, dict(loaded.state_dict()))
    roles = {entry.name: entry.role for entry in found.tensors}
    assert {name for name, role in roles.items() if role == "parameter"} == {
        name for name, _ in loaded.named_parameters(remove_duplicate=False)
    }
    assert {name for name, role in roles.items() if role == "buffer"} == {
        name for name, _ in loaded.named_buffers()
    }


def test_tied_weights_share_a_storage_and_count_once(seeds: dict[str, Path]) -> None:
    found = structure_of(seeds["state.pt"])
    storages = {entry.name: entry.storage for entry in found.tensors}
    assert storages["out.weight"] == storages["embed.weight"]
    assert len(set(storages.values())) == len(storages) - 1
    model = net()
    assert found.bytes == sum(v.nbytes for v in (*model.parameters(), *model.buffers()))


def test_an_expanded_axis_counts_once(tmp_path: Path) -> None:
    torch.save({"w": torch.zeros(3, 1).expand(3, 1000)}, tmp_path / "w.pt")
    found = structure_of(tmp_path / "w.pt")
    assert (found.parameters, found.bytes) == (3, 12)


def test_a_pickled_module_gives_its_tree_with_class_names_and_roles(tmp_path: Path) -> None:
    model = net()
    torch.save(model, tmp_path / "m.pt")
    found = structure_of(tmp_path / "m.pt")
    expected = [
        (path, f"{type(module).__module__}.{type(module).__qualname__}")
        for path, module in model.named_modules()
    ]
    assert [(module.path, module.class_name) for module in found.modules] == expected
    roles = {entry.name: entry.role for entry in found.tensors}
    for name, _ in model.named_buffers():
        assert roles[name] == "buffer"
    # Tied weights have two names and count once.
    assert found.parameters == sum(value.numel() for value in model.parameters())
    assert "tests.archive.hostile.seeds.Net" in found.untrusted_globals


def test_parameters_of_a_state_dict_leave_batch_norms_statistics_out(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 2))
    torch.save(model.state_dict(), tmp_path / "s.pt")
    found = structure_of(tmp_path / "s.pt")
    assert found.parameters == sum(value.numel() for value in model.parameters())


def test_views_expanded_tensors_and_odd_dtypes_are_read(tmp_path: Path) -> None:
    whole = torch.arange(24.0).reshape(4, 6)
    state = {
        "whole": whole,
        "column": whole[:, 2],
        "turned": whole.t(),
        "none": torch.empty(0, 3),
        "scalar": torch.tensor(3),
        "float8": torch.ones(4).to(torch.float8_e4m3fn),
        "uint16": torch.ones(4, dtype=torch.uint16),
        "complex": torch.ones(2, dtype=torch.complex64),
        "bool": torch.tensor([True, False]),
        "bfloat16": torch.ones(3, dtype=torch.bfloat16),
        "parameter": nn.Parameter(torch.ones(2)),
    }
    torch.save(state, tmp_path / "s.pt")
    found = structure_of(tmp_path / "s.pt")
    assert found.problems == ()
    entries = {entry.name: entry for entry in found.tensors}
    assert entries["column"].storage == entries["turned"].storage == entries["whole"].storage
    assert entries["parameter"].role == "parameter"
    for name, value in state.items():
        assert f"torch.{entries[name].dtype}" == str(value.dtype)
        assert entries[name].strides == value.stride()
        if name != "float8":
            assert torch.equal(values_of(entries[name]), value.detach())


def test_quantised_sparse_and_meta_tensors_are_described(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        state = {
            "quantised": torch.quantize_per_tensor(torch.ones(4, 4), 0.1, 0, torch.qint8),
            "channels": torch.quantize_per_channel(
                torch.ones(4, 4), torch.ones(4), torch.zeros(4), 0, torch.qint8
            ),
            "sparse": torch.eye(50).to_sparse(),
            "rows": torch.eye(50).to_sparse_csr(),
            "meta": torch.empty(3, 4, device="meta"),
        }
        torch.save(state, tmp_path / "s.pt")
    found = structure_of(tmp_path / "s.pt")
    assert found.problems == ()
    entries = {entry.name: entry for entry in found.tensors}
    assert {name: entry.shape for name, entry in entries.items()} == {
        name: tuple(value.shape) for name, value in state.items()
    }
    assert entries["quantised"].dtype == "qint8"
    assert entries["quantised"].storage_bytes == 16
    assert entries["sparse"].offset is entries["rows"].offset is entries["meta"].offset is None
    assert entries["meta"].storage_bytes == 0


def test_shards_read_as_one(tmp_path: Path) -> None:
    first, second = {"a": torch.ones(3)}, {"b": torch.ones(4).half()}
    save_file(first, tmp_path / "model-1.safetensors")
    save_file(second, tmp_path / "model-2.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text('{"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}')
    (tmp_path / "config.json").write_text('{"model_type": "llama", "architectures": ["Llama"]}')
    found = structure_of(index)
    assert found.kind == "safetensors-sharded"
    assert_same(found, first | second)
    directory = structure_of(tmp_path)
    assert directory.kind == "hugging-face-directory"
    assert directory.metadata["model_type"] == "llama"
    assert directory.tensors == found.tensors


def test_a_missing_shard_is_a_problem_and_the_others_are_shown(tmp_path: Path) -> None:
    save_file({"a": torch.ones(3)}, tmp_path / "one.safetensors")
    (tmp_path / "x.safetensors.index.json").write_text(
        '{"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}'
    )
    found = structure_of(tmp_path)
    assert [entry.name for entry in found.tensors] == ["a"]
    assert [Path(problem.file).name for problem in found.problems] == ["two.safetensors"]


def test_the_name_of_a_file_has_no_say_in_its_kind(seeds: dict[str, Path], tmp_path: Path) -> None:
    for name, path in seeds.items():
        if not name.endswith(".json"):
            copy = tmp_path / "weights.jpg"
            copy.write_bytes(path.read_bytes())
            assert structure_of(copy).kind == structure_of(path).kind


def test_files_of_other_kinds_are_named(tmp_path: Path) -> None:
    path = tmp_path / "weights.pt"
    path.write_bytes(b"GGUF" + bytes(100))
    found = structure_of(path)
    assert found.kind == "unknown"
    assert found.problems[0].what == "is a GGUF file"


def test_a_bare_pickle_tells_what_it_would_import(tmp_path: Path) -> None:
    path = tmp_path / "p.pt"
    path.write_bytes(pickle.dumps({"a": Path("x"), "b": print}, 4))
    found = structure_of(path)
    assert found.kind == "raw-pickle"
    posix_path = f"{PosixPath.__module__}.PosixPath"
    assert found.globals == ("builtins.print", posix_path)
    assert found.dangerous_globals == ("builtins.print",)


def test_a_path_that_python_3_13_wrote_is_harmless(tmp_path: Path) -> None:
    path = tmp_path / "p.pt"
    path.write_bytes(b"\x80\x04cpathlib._local\nPosixPath\n(X\x01\x00\x00\x00xtR.")
    found = structure_of(path)
    assert found.globals == ("pathlib._local.PosixPath",)
    assert found.dangerous_globals == ()


def test_checksums_are_compared_where_there_are_any(seeds: dict[str, Path], tmp_path: Path) -> None:
    assert verify(seeds["state.pt"]).checksum == "verified"
    assert verify(seeds["state.pt"], is_over=lambda: True).checksum == "not checked"
    assert verify(seeds["model.safetensors"]).checksum == "none in this format"
    entry = next(
        entry for entry in structure_of(seeds["state.pt"]).tensors if entry.name == "conv.weight"
    )
    data = bytearray(seeds["state.pt"].read_bytes())
    assert entry.offset is not None
    data[entry.offset + 1] ^= 1
    damaged = tmp_path / "damaged.pt"
    damaged.write_bytes(data)
    # torch loads it without a word.
    assert torch.load(damaged)["conv.weight"].shape == (4, 3, 3, 3)
    failed = verify(damaged)
    assert failed.checksum == "failed"
    assert "data/" in failed.problems[0].where


def test_files_written_without_checksums_say_so(tmp_path: Path) -> None:
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"a": torch.ones(3)}, tmp_path / "s.pt")
    finally:
        torch.serialization.set_crc32_options(True)
    assert structure_of(tmp_path / "s.pt").checksum == "none in this format"
    assert verify(tmp_path / "s.pt").checksum == "none in this format"
