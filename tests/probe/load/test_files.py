"""Files of models: what each kind gives, and what is refused."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
import torch
import torchvision
from safetensors.torch import save_file
from torch import nn

from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.common.errors import LoadError
from tui_profiler.probe.load.common.loaded_model import Loaded
from tui_profiler.probe.load.files.inspection import checked, inspected, is_file, refusal
from tui_profiler.probe.load.load import load
from tui_profiler.probe.trace.trace import trace


def opened(folder: Path, name: str, **options: object) -> Loaded:
    spec = LoadSpec(name, folder=str(folder), **options)  # type: ignore[arg-type] # its fields
    return load(spec)


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2)).eval()


def said(folder: Path, name: str, **options: object) -> str:
    with pytest.raises(LoadError) as caught:
        opened(folder, name, **options)
    failed = caught.value.failed
    assert failed.remedies
    assert "\n" not in failed.what
    return failed.what


def test_a_plain_word_is_what_lies_in_the_folder_unless_an_architecture(tmp_path: Path) -> None:
    _written(_two_layers(), tmp_path, "folder")
    (tmp_path / "shards.d").rename(tmp_path / "sharded")
    torch.save(_two_layers(), tmp_path / "weights")
    for name in ("sharded", "weights"):
        spec = LoadSpec(name, folder=str(tmp_path))
        assert is_file(spec)
        assert inspected(spec).parameters == sum(t.numel() for t in _two_layers().values())
    for name in torchvision.models.list_models():
        (tmp_path / name).mkdir()
    named = [one.name for one in tmp_path.iterdir()]
    assert [one for one in named if is_file(LoadSpec(one, folder=str(tmp_path)))] == [
        one for one in named if one in ("sharded", "weights")
    ]
    assert not is_file(LoadSpec("ResNet18", folder=str(tmp_path)))
    assert not is_file(LoadSpec("absent", folder=str(tmp_path)))
    assert is_file(LoadSpec("./resnet18", folder=str(tmp_path)))
    assert is_file(LoadSpec("weights.pt", folder=str(tmp_path)))
    assert not is_file(LoadSpec("net.py", folder=str(tmp_path)))
    assert not is_file(LoadSpec("pkg.net:build", folder=str(tmp_path)))


def test_what_is_no_model_is_refused_in_a_sentence_and_nothing_hangs(tmp_path: Path) -> None:
    (tmp_path / "empty.pt").touch()
    (tmp_path / "noise.pt").write_bytes(b"nothing that is known")
    (tmp_path / "cut.pt").write_bytes(b"PK\x03\x04 and no more")
    (tmp_path / "bare.d").mkdir()
    (tmp_path / "gone.pt").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "pipe.pt")
    assert said(tmp_path, "empty.pt") == "empty.pt is empty"
    assert "not a known model format" in said(tmp_path, "noise.pt")
    assert said(tmp_path, "cut.pt").startswith("cut.pt ")
    assert said(tmp_path, "bare.d").startswith("bare.d ")
    assert "gone" in said(tmp_path, "gone.pt")
    assert "pipe" in said(tmp_path, "pipe.pt")
    assert "no file absent.pt" in said(tmp_path, "absent.pt")
    with pytest.raises(LoadError) as caught:
        opened(tmp_path, "absent/")
    assert all("absent" not in one.command for one in caught.value.failed.remedies)
    if Path("/dev/zero").exists():
        assert "a device" in said(tmp_path, "/dev/zero")


def test_a_pickled_module_is_loaded_only_with_trust(tmp_path: Path) -> None:
    torch.save(net(), tmp_path / "net.pt")
    torch.save(net(), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    for name in ("net.pt", "old.pt"):
        refused = said(tmp_path, name)
        assert "torch.nn.modules" in refused
        loaded = opened(tmp_path, name, trust=True)
        made = trace(loaded.model, tuple(loaded.candidates))
        assert (loaded.facts_source, made.costs[0].macs) == ("pickled module", 6 * 5 + 5 * 2)


def test_the_model_of_a_checkpoint_is_found_in_its_own_precision(tmp_path: Path) -> None:
    torch.save({"epoch": 3, "ema": None, "model": net().half()}, tmp_path / "last.pt")
    loaded = opened(tmp_path, "last.pt", trust=True)
    assert loaded.candidates[0].specs[0].dtype == "float16"


class Trap:
    def __reduce__(self) -> tuple[object, ...]:
        return (open, ("stepped_into", "w"))


def test_a_trap_is_not_stepped_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with (tmp_path / "raw.pkl").open("wb") as stream:
        pickle.dump(Trap(), stream)
    torch.save({"weight": torch.ones(1), "trap": Trap()}, tmp_path / "zip.pt")
    torch.save(Trap(), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    for name in ("raw.pkl", "zip.pt", "old.pt"):
        found = inspected(LoadSpec(name, folder=str(tmp_path)))
        if refusal(found, LoadSpec(name)) is None:
            assert found.content == "parameters"
        with pytest.raises(LoadError):
            opened(tmp_path, name)
    assert not (tmp_path / "stepped_into").exists()


def test_a_flipped_bit_in_the_values_is_found(tmp_path: Path) -> None:
    path = tmp_path / "net.pt"
    torch.save(net().state_dict(), path)
    content = bytearray(path.read_bytes())
    at = content.index(net_bytes(path))
    content[at + 1] ^= 4
    path.write_bytes(content)
    found = checked(inspected(LoadSpec("net.pt", folder=str(tmp_path))))
    assert found.checksum == "failed"
    assert "data/" in found.problems[0].where


def net_bytes(path: Path) -> bytes:
    return bytes(next(iter(torch.load(path).values())).numpy().tobytes())


@pytest.mark.parametrize("form", ["safetensors", "index", "folder", "legacy"])
def test_weights_of_every_format_are_bound_to_a_model(tmp_path: Path, form: str) -> None:
    (tmp_path / "net.py").write_text(
        "from torch import nn\nbuild = lambda: nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 2))\n"
    )
    state = {name: torch.full_like(value, 3) for name, value in _two_layers().items()}
    weights = _written(state, tmp_path, form)
    loaded = opened(tmp_path, "net.py:build", weights=weights)
    bound = loaded.model.state_dict()
    assert bound.keys() == state.keys()
    assert all(torch.equal(bound[name], state[name]) for name in state)


def _two_layers() -> dict[str, torch.Tensor]:
    return dict(nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 2)).state_dict())


def _written(state: dict[str, torch.Tensor], folder: Path, form: str) -> str:
    if form == "safetensors":
        save_file(state, folder / "w.bin")
        return "w.bin"
    if form == "legacy":
        torch.save(state, folder / "w.pt", _use_new_zipfile_serialization=False)
        return "w.pt"
    shards = folder / "shards.d"
    shards.mkdir()
    names = sorted(state)
    for number, part in enumerate((names[:2], names[2:])):
        save_file({name: state[name] for name in part}, shards / f"part-{number}.safetensors")
    index = {name: f"part-{place // 2}.safetensors" for place, name in enumerate(names)}
    text = '{"metadata": {}, "weight_map": ' + str(index).replace("'", '"') + "}"
    (shards / "model.safetensors.index.json").write_text(text)
    return "shards.d" if form == "folder" else "shards.d/model.safetensors.index.json"


def test_damaged_weights_are_not_bound(tmp_path: Path) -> None:
    test_a_flipped_bit_in_the_values_is_found(tmp_path)
    refused = said(tmp_path, "mnasnet0_5", weights="net.pt")
    assert "not those that were written" in refused
