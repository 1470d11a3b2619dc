"""Real files of every format, as torch and safetensors write them, small enough to damage often."""

from __future__ import annotations

import io
import json
import pickle
import warnings
import zipfile
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn


class Net(nn.Module):
    """Every sort of state: convolution, norm with buffers, tied weights, a half, an embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.embed = nn.Embedding(5, 4)
        self.out = nn.Linear(4, 5)
        self.out.weight = self.embed.weight
        # Most bytes of a real file are values.
        self.wide = nn.Linear(64, 128)
        self.register_buffer("scale", torch.ones(3).half())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (batch, 3, height, width)."""
        y = self.out(self.norm(self.conv(x)).mean((2, 3))) * self.scale.sum()
        return y.sum() + self.wide(x[0, 0].reshape(-1))


def net() -> Net:
    torch.manual_seed(0)
    return Net().eval()


def write_seeds(folder: Path) -> dict[str, Path]:
    """Write one file of each format into a folder; give them by name."""
    model = net()
    state = {key: value.clone() for key, value in model.state_dict().items()}
    paths = {
        name: folder / name
        for name in (
            "state.pt", "module.pt", "checkpoint.pt", "legacy.pt", "legacy_module.pt",
            "scripted.pt", "exported.pt2", "exported_2_8.pt2", "exported_2_7.pt2",
            "model.safetensors",
            "model.safetensors.index.json", "bare.pkl", "proto5.pt",
        )
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.save(model.state_dict(), paths["state.pt"])
        # A class of torch's own, so that a loader needs none of ours.
        torch.save(nn.Sequential(model.conv, model.norm, model.wide), paths["module.pt"])
        torch.save({"epoch": 3, "state_dict": state, "lr": 0.1}, paths["checkpoint.pt"])
        torch.save(state, paths["legacy.pt"], _use_new_zipfile_serialization=False)
        torch.save(
            nn.Sequential(model.conv),
            paths["legacy_module.pt"],
            _use_new_zipfile_serialization=False,
        )
        torch.save(state, paths["proto5.pt"], pickle_protocol=5)
        torch.jit.save(torch.jit.script(model), paths["scripted.pt"])
        program = torch.export.export(model, (torch.randn(1, 3, 8, 8),))
        torch.export.save(program, paths["exported.pt2"])
    # With nn.Parameters in it, as torch.export wrote it.
    as_2_8(paths["exported.pt2"], paths["exported_2_8.pt2"], program.state_dict)
    as_2_7(paths["exported.pt2"], paths["exported_2_7.pt2"], program.state_dict)
    save_file(state, paths["model.safetensors"], metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": dict.fromkeys(state, "model.safetensors")}
    paths["model.safetensors.index.json"].write_text(json.dumps(index))
    paths["bare.pkl"].write_bytes(pickle.dumps({"weights": [1.0, 2.0], "tensor": torch.ones(2)}))
    return paths


def as_2_8(new: Path, path: Path, state: dict[str, torch.Tensor]) -> None:
    """Write the archive as torch 2.8 laid it out: weights by torch.save in one member."""
    writer = torch._C.PyTorchFileWriter(str(path))
    for name, data in (
        ("archive_format", b"pt2"),
        ("archive_version", b"0"),
        ("models/model.json", program_of(new)),
        ("data/weights/model.pt", saved(state)),
        ("data/constants/model.pt", saved({})),
        ("data/sample_inputs/model.pt", saved((torch.ones(1),))),
    ):
        writer.write_record(name, data, len(data))
    writer.write_end_of_file()


def as_2_7(new: Path, path: Path, state: dict[str, torch.Tensor]) -> None:
    """Write the archive as torch 2.1 to 2.7 laid it out: a plain zip with serialized_… members."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("serialized_exported_program.json", program_of(new))
        archive.writestr("serialized_state_dict.pt", saved(state))
        archive.writestr("serialized_constants.pt", saved({}))
        archive.writestr("serialized_example_inputs.pt", saved((torch.ones(1),)))
        archive.writestr("version", "8.2")


def program_of(path: Path) -> bytes:
    with zipfile.ZipFile(path) as archive:
        name = next(name for name in archive.namelist() if name.endswith("models/model.json"))
        return archive.read(name)


def saved(value: object) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()
