"""Honest programs open without trust: a sample of what ``benchmarks/attacks.py`` opens."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
import torch

from tests.attacks.honest import Words, architectures, write_forms
from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.load import load

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*deprecated:FutureWarning")

_SMALL = ("mobilenet_v3_small", "shufflenet_v2_x0_5", "squeezenet1_0", "embedding and LSTM")
_NAMES = ("transformer encoder", "texts and forks", *Random(12).sample(_SMALL, 2))


@pytest.mark.parametrize("name", _NAMES)
def test_honest_programs_open_without_trust(name: str, tmp_path: Path) -> None:
    build, inputs = architectures()[name]
    opened = []
    for form, path in write_forms(name, build, inputs, tmp_path):
        if isinstance(path, Path):
            load(LoadSpec(path.name, folder=str(tmp_path)))
            opened.append(form)
    # torch traces no dict and exports no fork.
    assert set(opened) >= ({"scripted"} if build is Words else {"scripted", "traced", "exported"})


def test_a_program_for_the_lite_interpreter_opens(tmp_path: Path) -> None:
    scripted = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(3, 3)))
    scripted._save_for_lite_interpreter(str(tmp_path / "m.ptl"))
    assert load(LoadSpec("./m.ptl", folder=str(tmp_path))).facts_source == "TorchScript archive"
