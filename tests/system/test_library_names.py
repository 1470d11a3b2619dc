"""Names read from the source of torchvision and timm, against their own lists."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from torchvision.models import list_models

from tui_profiler.system.library_names import library_names, names_in_source

FILE = "torchvision_names"


def import_only_from(folder: Path, monkeypatch) -> None:
    others = {name: module for name, module in sys.modules.items() if name != "torchvision"}
    monkeypatch.setattr(sys, "path", [str(folder)])
    monkeypatch.setattr(sys, "modules", others)


def test_the_names_are_torchvisions_own(tmp_path: Path) -> None:
    assert library_names("torchvision", tmp_path) == frozenset(list_models())


def test_they_are_cached_for_the_release_that_they_are_of(tmp_path: Path) -> None:
    names = library_names("torchvision", tmp_path)
    assert names is not None
    cached = tmp_path / FILE
    first, *kept = cached.read_text().splitlines()
    assert sorted(kept) == sorted(names)
    cached.write_text(f"{first}\nof_the_cache")
    assert library_names("torchvision", tmp_path) == {"of_the_cache"}
    cached.write_text("of another release\nof_the_cache")
    assert library_names("torchvision", tmp_path) == names


def test_a_cache_that_is_no_text_is_read_anew(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"\xff\x00")
    assert "resnet50" in (library_names("torchvision", tmp_path) or ())


def test_without_torchvision_nothing_is_known(tmp_path: Path, monkeypatch) -> None:
    import_only_from(tmp_path, monkeypatch)
    assert library_names("torchvision", tmp_path) is None


def test_a_release_that_is_written_otherwise_is_not_guessed_at(tmp_path, monkeypatch) -> None:
    models = tmp_path / "torchvision" / "models"
    models.mkdir(parents=True)
    (tmp_path / "torchvision" / "__init__.py").touch()
    (tmp_path / "torchvision" / "version.py").touch()
    (models / "one.py").write_text("@register_model()\ndef one(): ...\n")
    import_only_from(tmp_path, monkeypatch)
    assert library_names("torchvision", tmp_path / "cache") is None


def test_timms_names_are_its_own_and_cached_apart(tmp_path: Path) -> None:
    timm = pytest.importorskip("timm")
    library_names("torchvision", tmp_path)
    assert (
        library_names("timm", tmp_path) == names_in_source("timm") == frozenset(timm.list_models())
    )
    cached = tmp_path / "timm_names"
    first = cached.read_text().splitlines()[0]
    cached.write_text(f"{first}\nof_the_cache")
    assert library_names("timm", tmp_path) == {"of_the_cache"}
    assert len(names_in_source("timm")) > 1000
    assert "resnet50" in (library_names("torchvision", tmp_path) or ())


def test_without_timm_it_has_no_names(tmp_path: Path, monkeypatch) -> None:
    import_only_from(tmp_path, monkeypatch)
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    assert library_names("timm", tmp_path) is None
    assert names_in_source("timm") == frozenset()
