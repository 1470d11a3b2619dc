"""Times of modules on a GPU beside the kernels that ``torch.profiler`` saw in them.

``python -m benchmarks.gpu.module_times [--seconds 4] [MODEL:BATCH[:DTYPE]...]``

Prints for each model what a forward takes in a plain loop of the program's own, what ours says, and
for each leaf module with 1 % of the time the kernels' time and the ratio. Kernels are added up by
``record_function`` around each module, in a process of its own beside the report's.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from statistics import median
from typing import Any

import torch
import torchvision
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

FORWARDS = 30
MODELS = ("resnet50:64", "resnet50:8", "vit_b_16:64:bfloat16", "resnet18:1")


def ours(name: str, batch: int, dtype: str, seconds: float) -> dict[str, Any]:
    """Return our report of a model on the GPU."""
    command = [sys.executable, "-m", "tui_profiler", "report", name, "--device", "cuda"]
    command += ["--batch", str(batch), "--measure", str(seconds), "--format", "json"]
    command += ["--dtype", dtype] if dtype else []
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def label(model: nn.Module) -> None:
    """Have each module's forward stand in the profile under its path."""
    for path, module in model.named_modules():
        spans: list[Any] = []

        def begin(_: nn.Module, __: object, path: str = path, spans: list[Any] = spans) -> None:
            spans.append(record_function(f"module:{path}"))
            spans[-1].__enter__()

        def end(_: nn.Module, __: object, ___: object, spans: list[Any] = spans) -> None:
            spans.pop().__exit__(None, None, None)

        module.register_forward_pre_hook(begin)
        module.register_forward_hook(end)


def seconds_of(model: nn.Module, x: torch.Tensor) -> float:
    """Return the mean seconds of a forward in a loop."""
    for _ in range(FORWARDS):
        model(x)
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(FORWARDS):
        model(x)
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / FORWARDS


def kernels(model: nn.Module, x: torch.Tensor) -> dict[str, float]:
    """Return the seconds of kernels by path of the module that launched them."""
    label(model)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        for _ in range(FORWARDS):
            model(x)
        torch.cuda.synchronize()
    return {
        event.key.removeprefix("module:"): event.device_time_total / FORWARDS / 1e6
        for event in profiled.key_averages()
        if event.key.startswith("module:")
    }


def compare(name: str, batch: int, dtype: str, seconds: float) -> None:
    report = ours(name, batch, dtype, seconds)
    model = getattr(torchvision.models, name)().cuda().eval()
    x = torch.randn(batch, 3, 224, 224, device="cuda")
    if dtype:
        model, x = model.to(getattr(torch, dtype)), x.to(getattr(torch, dtype))
    with torch.no_grad():
        plain = seconds_of(model, x)
        found = kernels(model, x)
    times = {
        layer["path"]: layer["timing"]["mean_per_forward_s"]
        for layer in report["layers"]
        if layer["kind"] == "module" and layer["timing"]
    }
    whole, latency = times[""], report["latency"]
    print(f"\n{name}, batch {batch} {dtype or 'float32'}, {torch.cuda.get_device_name()}")
    print(f"  a forward in a plain loop {plain * 1e3:8.3f} ms")
    print(f"  ours                      {whole * 1e3:8.3f} ms   {whole / plain:.3f} of it")
    print(f"  {latency['gpu']}")
    leaves = [path for path in times if not any(p.startswith(f"{path}.") for p in times) and path]
    least = 0.01 * sum(found.get(path, 0.0) for path in leaves)
    ratios = []
    for path in leaves:
        if (seen := found.get(path, 0.0)) > least:
            ratios.append(times[path] / seen)
            both = f"{times[path] * 1e3:8.4f} kernels {seen * 1e3:8.4f} ms"
            print(f"  {path:32} {both} {ratios[-1]:.3f}")
    if ratios:
        most = f"{min(ratios):.3f} to {max(ratios):.3f}"
        print(f"  {len(ratios)} modules: median {median(ratios):.3f}, {most}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--seconds", type=float, default=4.0)
    given = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("no GPU of CUDA's on this machine")
    for one in given.models:
        name, batch, *dtype = one.split(":")
        compare(name, int(batch), dtype[0] if dtype else "", given.seconds)


if __name__ == "__main__":
    main()
