"""What is said of the names in a pickle agrees with torch."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from tui_profiler.archive import structure_of
from tui_profiler.archive.pickles.safe_globals import (
    _LOADED_BY_TORCH,
    is_dangerous,
    is_loaded_by_torch,
    sorted_by_trust,
)
from tui_profiler.archive.reading.tensor_layout import BITS


def test_torch_loads_without_trust_what_we_say_it_does() -> None:
    from torch._weights_only_unpickler import _get_allowed_globals

    # Tensor classes (torch.cuda.FloatTensor) are types, not values, and in no file of weights.
    allowed = {name for name in _get_allowed_globals() if not name.endswith("Tensor")}
    missing = {name for name in allowed if not is_loaded_by_torch(name)}
    # Torch 2.15 asks for trust, earlier releases do not: so it is asked for with all of them.
    assert missing <= {"torch._utils._rebuild_nested_tensor"}
    assert not any(is_dangerous(name) for name in allowed)


def test_nothing_is_said_to_need_no_trust_that_torch_refuses() -> None:
    from torch._weights_only_unpickler import _get_allowed_globals

    refused = _LOADED_BY_TORCH - set(_get_allowed_globals())
    # Element types that this release does not have: torch.bcomplex32 came after 2.10.
    assert not [name for name in refused if hasattr(torch, name.removeprefix("torch."))]
    assert all(name.removeprefix("torch.") in BITS for name in refused)


def test_nested_tensors_need_trust_with_every_release(tmp_path: Path) -> None:
    nested = torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])
    torch.save({"n": nested}, tmp_path / "n.pt")
    found = structure_of(tmp_path / "n.pt")
    assert found.untrusted_globals == ("torch._utils._rebuild_nested_tensor",)
    assert not found.dangerous_globals


def test_untrusted_names_are_those_that_torch_refuses(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.MultiheadAttention(4, 2), nn.LSTM(4, 4))
    torch.save(model, tmp_path / "m.pt")
    refused = torch.serialization.get_unsafe_globals_in_checkpoint(tmp_path / "m.pt")
    assert structure_of(tmp_path / "m.pt").untrusted_globals == tuple(sorted(refused))


def test_names_are_told_apart_each_once() -> None:
    names = ("os.system", "torch.Size", "mine.Net", "os.system", "torch.FloatStorage")
    assert sorted_by_trust(names) == (
        ("mine.Net", "os.system", "torch.FloatStorage", "torch.Size"),
        ("mine.Net", "os.system"),
        ("os.system",),
    )


def test_a_class_of_torchscript_may_be_called_as_it_likes() -> None:
    # torch.jit makes it anew from the file's own code, and imports nothing by its name.
    assert not is_dangerous("__torch__.models.system.os.Net")
    assert is_dangerous("models.system.os.Net")


def test_dangerous_names_are_told_apart_from_unknown_ones() -> None:
    for name in (
        "os.system",
        "posix.system",
        "builtins.eval",
        "torch.hub.load",
        "torch.load",
        "torch.serialization.os.system",
        "numpy.testing._private.utils.runstring",
        "shutil.os.system",
    ):
        assert is_dangerous(name), name
    for name in (
        "mymodels.nets.Net",
        "torch.nn.modules.conv.Conv2d",
        "builtins.set",
        "pathlib.PosixPath",
        "collections.OrderedDict",
        "ultralytics.nn.tasks.DetectionModel",
        "numpy._core.multiarray.scalar",
        "argparse.Namespace",
    ):
        assert not is_dangerous(name), name
