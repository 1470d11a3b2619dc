"""Honest programs open without trust: small ones; published ones: benchmarks/hostile/attacks.py."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.attacks.honest import small_architectures, write_forms
from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.load import load

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*deprecated:FutureWarning")


@pytest.mark.parametrize("name", small_architectures())
def test_honest_programs_open_without_trust(name: str, tmp_path: Path) -> None:
    build, inputs = small_architectures()[name]
    opened = []
    for form, path in write_forms(name, build, inputs, tmp_path):
        if isinstance(path, Path):
            load(LoadSpec(path.name, folder=str(tmp_path)))
            opened.append(form)
    # torch traces no dict and exports no fork.
    forms = {"scripted"} if name == "texts and forks" else {"scripted", "traced", "exported"}
    assert set(opened) >= forms


def test_a_program_for_the_lite_interpreter_opens(tmp_path: Path) -> None:
    scripted = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(3, 3)))
    scripted._save_for_lite_interpreter(str(tmp_path / "m.ptl"))
    assert load(LoadSpec("./m.ptl", folder=str(tmp_path))).facts_source == "TorchScript archive"
