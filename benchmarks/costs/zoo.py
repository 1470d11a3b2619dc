"""Models per minute of ``report --all``, compared with loops of torchinfo over the same models.

``python benchmarks/costs/zoo.py [--shard 0/10] [--jobs 1,2]`` runs ``tui-profiler report --all
torchvision`` on one shard into a folder that goes away, then asks torchinfo for a summary of the
same models at the same input sizes: once in a loop in one process, which a crash would end, and
once with a process for each model, as the zoo has. torchinfo really runs each model; the zoo traces
it on fake tensors, with costs, memory and bounds. Models with other inputs than one tensor are left
to the zoo alone; of which torchinfo gives no summary is printed. Seconds are of the wall clock, and
of the processors, which other programs disturb less; all with one thread (OMP_NUM_THREADS), imports
included.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

PEER = """
import inspect, json, sys, torchinfo, torchvision
for name, shape in json.loads(sys.argv[1]):
    taken = inspect.signature(torchvision.models.get_model_builder(name)).parameters
    options = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    options |= {"weights_backbone": None} if "weights_backbone" in taken else {}
    try:
        model = torchvision.models.get_model(name, weights=None, **options).eval()
        found = torchinfo.summary(model, input_size=shape, verbose=0)
        print(name, found.total_params, found.total_mult_adds, flush=True)
    except RuntimeError:
        print("no summary of", name, file=sys.stderr, flush=True)
"""


def main() -> None:
    """Run the zoo and its peers, and print models a minute."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--shard", default="0/10")
    asked.add_argument("--jobs", default="1,2")
    options = asked.parse_args()
    comparable: list[tuple[str, list[int]]] = []
    for jobs in options.jobs.split(","):
        with tempfile.TemporaryDirectory() as folder:
            began = _now()
            _zoo(options.shard, jobs, folder)
            took = _since(began)
            reports = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("*.json"))]
        good = [report for report in reports if report["schema"] == "tui-profiler/report/1"]
        _told(f"report --all, {jobs} at once", len(reports), took)
        print(f"  {len(good)} reports, {len(reports) - len(good)} failures")
        comparable = [
            (report["model"], report["inputs"][0]["shape"])
            for report in good
            if len(report["inputs"]) == 1 and "quantized" not in report["model"]
        ]
    began = _now()
    done = _peer(comparable)
    _told("torchinfo, one process for all", done, _since(began))
    began = _now()
    done = sum(_peer([one]) for one in comparable)
    _told("torchinfo, a process for each", done, _since(began))


def _now() -> tuple[float, float]:
    """Return wall seconds, and CPU seconds of all ended processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter(), used.ru_utime + used.ru_stime


def _since(began: tuple[float, float]) -> tuple[float, float]:
    wall, processor = _now()
    return wall - began[0], processor - began[1]


def _zoo(shard: str, jobs: str, folder: str) -> None:
    subprocess.run(
        [
            *(sys.executable, "-m", "tui_profiler", "report", "--all", "torchvision"),
            *("--shard", shard, "--jobs", jobs, "--output", folder),
        ],
        cwd=ROOT,
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        check=False,
    )


def _peer(models: list[tuple[str, list[int]]]) -> int:
    """Return the number of summaries; print the models without one."""
    done = subprocess.run(
        [sys.executable, "-c", PEER, json.dumps(models)],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=False,
    )
    lines = done.stderr.strip().splitlines()
    print("".join(f"  {line}\n" for line in lines if line.startswith("no summary of")), end="")
    if done.returncode:
        print(f"  ended by {(lines or ['no reason'])[-1][:90]}")
    return len(done.stdout.splitlines())


def _told(what: str, models: int, took: tuple[float, float]) -> None:
    seconds, processor = took
    each = f"{processor / models:.2f} s of a processor each" if models else "none"
    rate = f"{models / seconds * 60:.1f} a minute"
    print(f"{what:<34}{models:>4} models {seconds:>7.1f} s  {rate}, {each}", flush=True)


if __name__ == "__main__":
    main()
