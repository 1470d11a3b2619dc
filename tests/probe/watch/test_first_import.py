"""A package's import is heard, and is the same as without anybody who hears it."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path

import pytest

from tui_profiler.probe.watch.first_import import FirstImport

PACKAGE = "heard_package"


class Heard:
    """What was told of the package, and what was asked when it was there."""

    def __init__(self) -> None:
        self.told: list[object] = []
        self.at_end: Callable[[], None] = lambda: None
        self.listener = FirstImport(PACKAGE, self.begins, self.ended)

    def begins(self) -> None:
        self.told.append("begins")

    def ended(self, is_there: bool) -> None:
        self.told.append(is_there)
        self.at_end()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)  # type: ignore[no-untyped-call]  # pytest
    (tmp_path / PACKAGE).mkdir()
    (tmp_path / PACKAGE / "__init__.py").write_text("VALUE = 7\n")
    (tmp_path / PACKAGE / "part.py").write_text(f"from {PACKAGE} import VALUE\n")
    return tmp_path


@pytest.fixture
def heard(folder: Path) -> Iterator[Heard]:
    finders = list(sys.meta_path)
    found = Heard()
    found.listener.listen()
    yield found
    left, sys.meta_path = sys.meta_path, finders
    assert left == finders
    for name in [name for name in sys.modules if name.startswith(PACKAGE)]:
        del sys.modules[name]


def test_a_package_is_as_without_us(heard: Heard) -> None:
    module = importlib.import_module(PACKAGE)

    assert heard.told == ["begins", True]
    assert module.VALUE == 7
    spec = module.__spec__
    assert type(spec) is ModuleSpec
    assert type(spec.loader) is type(module.__loader__) is SourceFileLoader
    assert vars(spec).keys() == vars(importlib.util.find_spec("json")).keys()
    importlib.reload(module)
    assert heard.told == ["begins", True]


def test_others_may_import_it_and_its_parts_before_it_is_given_back(heard: Heard) -> None:
    def import_elsewhere() -> None:
        names = [PACKAGE, f"{PACKAGE}.part"]
        other = threading.Thread(target=lambda: [*map(importlib.import_module, names)])
        other.start()
        other.join(timeout=60)
        heard.told.append(other.is_alive())

    heard.at_end = import_elsewhere
    exec(f"from {PACKAGE} import part")
    assert heard.told == ["begins", True, False]


def test_an_import_on_another_thread_is_heard_there(heard: Heard) -> None:
    heard.at_end = lambda: heard.told.append(threading.current_thread().name)
    thread = threading.Thread(target=importlib.import_module, args=(PACKAGE,), name="theirs")
    thread.start()
    thread.join(timeout=60)
    assert heard.told == ["begins", True, "theirs"]


def test_what_it_raises_is_raised_as_without_us_and_the_next_try_is_heard(
    heard: Heard, folder: Path
) -> None:
    init = folder / PACKAGE / "__init__.py"
    init.write_text("raise OSError('no such library')\n")
    with pytest.raises(OSError, match="no such library") as raised:
        importlib.import_module(PACKAGE)
    shown = "".join(traceback.format_exception(raised.value))
    assert "probe/watch/first_import.py" not in shown
    assert heard.told == ["begins", False]

    init.write_text("VALUE = 'now it is there'\n")
    importlib.invalidate_caches()
    importlib.import_module(PACKAGE)
    assert heard.told == ["begins", False, "begins", True]


def test_asking_whether_it_is_there_is_no_import(heard: Heard) -> None:
    spec = importlib.util.find_spec(PACKAGE)
    assert isinstance(spec, ModuleSpec)
    assert repr(spec.loader).startswith("<_frozen_importlib_external.SourceFileLoader")
    assert heard.told == []
    importlib.import_module(PACKAGE)
    assert heard.told == ["begins", True]


def test_a_package_that_is_not_there_is_not_there(heard: Heard, folder: Path) -> None:
    (folder / PACKAGE).rename(folder / "elsewhere")
    importlib.invalidate_caches()
    with pytest.raises(ModuleNotFoundError, match=PACKAGE):
        importlib.import_module(PACKAGE)
    assert heard.told == []
    (folder / "elsewhere").rename(folder / PACKAGE)
    importlib.invalidate_caches()
    importlib.import_module(PACKAGE)
    assert heard.told == ["begins", True]
