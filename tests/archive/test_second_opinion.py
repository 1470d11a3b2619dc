"""fickling's verdict on the same pickles: nothing that we call safe is malicious to it."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
import torch

from tests.archive.hostile.pickles import NEEDS_A_LOADER, malicious
from tests.archive.hostile.seeds import net
from tui_profiler.archive import ArchiveError, structure_of

fickle = pytest.importorskip("fickling.fickle", reason="fickling is not installed")
analysis = pytest.importorskip("fickling.analysis", reason="fickling is not installed")

_NOT_READ = "not read"


def opinion(pickled: bytes) -> str:
    """Return fickling's severity of a pickle, or that fickling cannot read it."""
    try:
        return str(analysis.check_safety(fickle.Pickled.load(pickled)).severity.name)
    except Exception as error:
        return f"{_NOT_READ}: {type(error).__name__}"


def pickle_of(value: object) -> bytes:
    data = io.BytesIO()
    torch.save(value, data)
    with zipfile.ZipFile(data) as archive:
        return archive.read(next(name for name in archive.namelist() if name.endswith("data.pkl")))


def test_what_is_safe_here_is_not_malicious_to_fickling(tmp_path: Path) -> None:
    model = net()
    half = {"scale": torch.ones(3).half(), "step": torch.tensor(3), "epoch": 3, "lr": 0.1}
    for value in (model.state_dict(), half, {"state_dict": model.state_dict(), "names": ["a"]}):
        torch.save(value, tmp_path / "m.pt")
        found = structure_of(tmp_path / "m.pt")
        assert found.untrusted_globals == ()
        severity = opinion(pickle_of(value))
        assert not severity.endswith("OVERTLY_MALICIOUS"), severity
        assert not severity.startswith(_NOT_READ), severity


def test_what_is_malicious_to_fickling_is_not_safe_here(tmp_path: Path) -> None:
    path = tmp_path / "p.pkl"
    judged = 0
    for name, data in malicious(tmp_path / "canary").items():
        path.write_bytes(data)
        try:
            found = structure_of(path)
        except ArchiveError:
            continue  # refused, whatever fickling says
        severity = opinion(data)
        judged += not severity.startswith(_NOT_READ)
        if severity.endswith("OVERTLY_MALICIOUS"):
            assert found.untrusted_globals, (name, severity)
        if found.dangerous_globals and name not in NEEDS_A_LOADER:
            assert severity != "LIKELY_SAFE", name
    assert judged >= 20
