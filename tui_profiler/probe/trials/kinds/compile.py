"""``torch.compile`` with its defaults."""

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
from tui_profiler.probe.trials.kinds import change

_COMPILERS = ("g++", "clang++", "c++")


def compiled(subject: change.Subject, backend: str = "inductor") -> change.Change:
    """Return the change; compiling happens in the first call."""
    module = torch.compile(subject.module, backend=backend)
    assert isinstance(module, nn.Module)
    side = change.plain(module, subject.inputs)
    threads = os.environ.get("TORCHINDUCTOR_COMPILE_THREADS")
    by = f", compiled by {threads} process" if threads == "1" else ""
    return change.Change(subject.baseline(), side, f"by {backend}{by}")


def _why_not(module: nn.Module, inputs: Inputs) -> str:
    if isinstance(module, torch.jit.ScriptModule):
        return "torch.compile does not change TorchScript"
    if why_opaque(module) == COMPILED:
        return "it is compiled already"
    if confinement() is not None:
        return NO_COMPILER
    if change.device_of(module).type == "cuda":
        has_triton = importlib.util.find_spec("triton") is not None
        return "" if has_triton else "torch.compile on a GPU needs triton, which is not installed"
    named = os.environ.get("CXX", "")
    if not any(shutil.which(name) for name in (named, *_COMPILERS) if name):
        return "no C++ compiler (g++ or clang++) is installed"
    if not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        return "Python headers (Python.h) are not installed"
    return ""


KIND = change.Kind(compiled, _why_not)
