"""A library that is not installed is one line, and nobody else's models are the worse for it."""

import subprocess
import sys

import pytest

ABSENT = """
import sys
for name in ("timm", "ultralytics"):
    sys.modules[name] = None  # as Python remembers what it did not find
from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.errors import LoadError
from tui_profiler.probe.load.load import load
from tui_profiler.probe.load.names import list_models
print(sorted({source for source, _ in list_models("").names}))
for model in ("timm:vit_tiny_patch16_224", "yolov8n.yaml"):
    try:
        load(LoadSpec(model=model))
    except LoadError as error:
        print(error.failed.what, "|", error.failed.remedies[0].command)
"""


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
