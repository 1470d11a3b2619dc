"""torchtune's ``full_finetune_single_device.py``, unmodified: a small Llama, random words."""

import os
import re
import runpy
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from benchmarks.training.coverage import fine_tuning

STEPS = 60

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    os.environ["HF_HOME"] = str(folder / "cache")  # Read when its data sets are imported.
    fine_tuning(folder)
    package = find_spec("torchtune")
    assert package is not None
    assert package.origin is not None
    recipe = Path(package.origin).parents[1] / "recipes" / "full_finetune_single_device.py"
    changes = ["epochs=1", f"max_steps_per_epoch={STEPS}"]
    sys.argv = [str(recipe), "--config", str(folder / "tiny.yaml"), *changes]
    try:
        runpy.run_path(str(recipe), run_name="__main__")
    except SystemExit as ended:
        if ended.code:
            raise
    [log] = (folder / "tiny" / "logs").glob("*.txt")
    figures = re.findall(r"(?:loss|grad_norm):(\S+)", log.read_text())
assert len(figures) == 2 * STEPS
print("ENDS", figures, flush=True)
