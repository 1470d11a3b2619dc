"""torchtune's ``full_finetune_single_device.py``, unmodified: a small Llama, random words."""

import re
import runpy
import sys
import tempfile
from pathlib import Path

import torchtune

from benchmarks.training.coverage import fine_tuning

RECIPE = Path(torchtune.__file__).parents[1] / "recipes" / "full_finetune_single_device.py"
STEPS = 60

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    fine_tuning(folder)
    changes = ["epochs=1", f"max_steps_per_epoch={STEPS}"]
    sys.argv = [str(RECIPE), "--config", str(folder / "tiny.yaml"), *changes]
    try:
        runpy.run_path(str(RECIPE), run_name="__main__")
    except SystemExit as ended:
        if ended.code:
            raise
    [log] = (folder / "tiny" / "logs").glob("*.txt")
    figures = re.findall(r"(?:loss|grad_norm):(\S+)", log.read_text())
assert len(figures) == 2 * STEPS
print("ENDS", figures, flush=True)
