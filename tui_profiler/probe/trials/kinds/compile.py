"""``torch.compile`` with its defaults; compiling is told apart from running."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sysconfig
from pathlib import Path

import torch
from torch import nn

from tui_profiler.probe.sandbox.confinement import NO_COMPILER, confinement
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.modules import COMPILED, why_opaque
from tui_profiler.probe.trials.kinds.subject import (
    Change,
    Kind,
    Subject,
    as_it_is,
    device_of,
    plain,
)

_COMPILERS = ("g++", "clang++", "c++")


def change(subject: Subject, backend: str = "inductor") -> Change:
    """Compile it; nothing is done before the first call."""
    compiled = torch.compile(subject.module, backend=backend)
    assert isinstance(compiled, nn.Module)
    side = plain(compiled, subject.inputs)
    threads = os.environ.get("TORCHINDUCTOR_COMPILE_THREADS")
    by = f", compiled by {threads} process" if threads == "1" else ""
    return Change(as_it_is(subject), side, f"by {backend}{by}")


def _why_not(module: nn.Module, inputs: Inputs) -> str:
    if isinstance(module, torch.jit.ScriptModule):
        return "torch.compile leaves TorchScript as it is"
    if why_opaque(module) == COMPILED:
        return "it is compiled already"
    if confinement() is not None:
        return NO_COMPILER
    if device_of(module).type == "cuda":
        has_triton = importlib.util.find_spec("triton") is not None
        return "" if has_triton else "torch.compile needs triton for a GPU, and it is not installed"
    named = os.environ.get("CXX", "")
    if not any(shutil.which(name) for name in (named, *_COMPILERS) if name):
        return "there is no C++ compiler on this machine (g++ or clang++)"
    if not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        return "the headers of Python (Python.h) are not installed"
    return ""


KIND = Kind(change, _why_not)
