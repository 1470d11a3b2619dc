"""Training scripts of libraries, unmodified under ``run``: they end as alone, and steps are named.

Losses and weights (of torchtune, gradient norms) are compared to the last digit that Python prints,
which is every bit of them.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).with_name("training_scripts")
RUNNER = Path(__file__).with_name("watched_script.py")
NAMED, IN_MODULES = 0.95, 0.90


def printed(*arguments: object) -> list[str]:
    root = str(FOLDER.parents[2])
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("name", "libraries", "has_loss_inside"),
    [
        ("hugging_face_trainer", ("accelerate", "transformers"), True),
        ("accelerate_loop", ("accelerate",), False),
        ("lightning_trainer", ("lightning",), False),
        ("torchtune_recipe", ("torchtune", "torchao"), True),
    ],
)
def test_a_script_ends_as_alone_and_its_steps_are_named(
    name: str, libraries: tuple[str, ...], has_loss_inside: bool
) -> None:
    for library in libraries:
        if importlib.util.find_spec(library) is None:  # Imported by the script alone.
            pytest.skip(f"{library} is not installed")
    script = FOLDER / f"{name}.py"
    lines = printed(RUNNER, script)
    ends = [line.rstrip() for line in lines if line.startswith("ENDS")]
    assert ends == [line for line in printed(script) if line.startswith("ENDS")]
    found = json.loads(lines[-1])
    assert found["recorded"] > 8
    assert found["named"] >= NAMED
    assert found["forward"] >= IN_MODULES
    # Else a part of the backward is that of the loss, outside of the model: told by its line.
    assert found["modules" if has_loss_inside else "with_lines"] >= IN_MODULES
