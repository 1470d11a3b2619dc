"""What is said of the names in a pickle agrees with torch."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from tui_profiler.archive import look
from tui_profiler.archive.trust import is_dangerous, is_loaded_by_torch


def test_torch_loads_without_trust_what_we_say_it_does() -> None:
    from torch._weights_only_unpickler import _get_allowed_globals

    # Tensor classes (torch.cuda.FloatTensor) are types, not values, and in no file of weights.
    allowed = {name for name in _get_allowed_globals() if not name.endswith("Tensor")}
    missing = {name for name in allowed if not is_loaded_by_torch(name)}
    assert missing == set()
    assert not any(is_dangerous(name) for name in allowed)


def test_untrusted_names_are_those_that_torch_refuses(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.MultiheadAttention(4, 2), nn.LSTM(4, 4))
    torch.save(model, tmp_path / "m.pt")
    refused = torch.serialization.get_unsafe_globals_in_checkpoint(tmp_path / "m.pt")
    assert look(tmp_path / "m.pt").untrusted_globals == tuple(sorted(refused))


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
