"""torchtune's ``full_finetune_single_device.py``, unmodified: a small Llama, random words."""

import os
import re
import runpy
import sys
import tempfile
from importlib.metadata import distribution
from pathlib import Path

from benchmarks.training.coverage import fine_tuning

STEPS = 100
RECIPE = str(distribution("torchtune").locate_file("recipes/full_finetune_single_device.py"))

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    os.environ["HF_HOME"] = str(folder / "cache")  # Before ``datasets`` is imported.
    fine_tuning(folder)
    changes = ["epochs=1", f"max_steps_per_epoch={STEPS}"]
    sys.argv = [RECIPE, "--config", str(folder / "tiny.yaml"), *changes]
    try:
        runpy.run_path(RECIPE, run_name="__main__")
    except SystemExit as ended:
        if ended.code:
            raise
    [log] = (folder / "tiny" / "logs").glob("*.txt")
    figures = re.findall(r"(?:loss|grad_norm):(\S+)", log.read_text())
assert len(figures) == 2 * STEPS
print("ENDS", figures, flush=True)
