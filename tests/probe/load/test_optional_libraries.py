"""A library that is not installed is one line, and nobody else's models are the worse for it."""

import gc
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tui_profiler.probe.load.common.optional_libraries import library

ABSENT = """
import sys
for name in ("timm", "ultralytics"):
    sys.modules[name] = None  # as Python remembers what it did not find
from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.common.errors import LoadError
from tui_profiler.probe.load.load import load
from tui_profiler.probe.load.load import list_models
print(sorted({source for source, _ in list_models("").names}))
for model in ("timm:vit_tiny_patch16_224", "yolov8n.yaml"):
    try:
        load(LoadSpec(model=model))
    except LoadError as error:
        print(error.failed.what, "|", error.failed.remedies[0].command)
"""


def test_a_library_is_imported_without_the_collector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "large_library.py").write_text("import gc\nWAS_ON = gc.isenabled()\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert not library("large_library", "Its models", "large").WAS_ON
    assert gc.isenabled()


@pytest.fixture(scope="module")
def lines() -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", ABSENT], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_what_is_absent_is_not_listed(lines) -> None:
    assert lines[0] == "['demo', 'torchvision']"


def test_the_command_that_brings_it_is_told(lines) -> None:
    assert lines[1:] == [
        "timm models need the package timm, which is not installed"
        " | pip install 'tui-profiler[timm]'",
        "YOLO models need the package ultralytics, which is not installed"
        " | pip install 'tui-profiler[ultralytics]'",
    ]


LISTED_AND_LACKING = """
import sys
from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.common.errors import LoadError
from tui_profiler.probe.load.load import list_models, load
print(len(list_models("timm:").names) > 1000, "timm" in sys.modules)
try:
    load(LoadSpec(model="yolov8n.yaml"))
except LoadError as error:
    print(error.failed.what, "|", error.failed.remedies[0].command)
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("lacking")
    (folder / "cv2.py").write_text(
        "raise ImportError('libGL.so.1: cannot open shared object file: No such file or directory')"
    )
    done = subprocess.run(
        [sys.executable, "-c", LISTED_AND_LACKING],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": f"{folder}:{Path(__file__).resolve().parents[3]}"},
    )
    return done.stdout.splitlines()


@pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="timm is not installed")
def test_names_of_timm_are_read_without_importing_it(told) -> None:
    assert told[0] == "True False"


@pytest.mark.skipif(
    importlib.util.find_spec("ultralytics") is None, reason="ultralytics is not installed"
)
def test_a_system_library_that_is_missing_is_told_with_its_remedy(told) -> None:
    assert told[1:] == [
        "ultralytics is installed, but the system library libGL.so.1 is missing"
        " | pip uninstall -y opencv-python && pip install opencv-python-headless"
    ]
