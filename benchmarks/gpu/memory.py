"""Peak memory on a GPU beside what ``fit`` predicts for that device.

``python -m benchmarks.gpu.memory [MODEL...]`` measures where there is a GPU and else takes the
peaks below, measured on an NVIDIA H200 with torch 2.11.0 and cuDNN 9.19 on 26 November 2026.

The peak is that of torch's allocator in a second forward under ``no_grad``: in the first, cuBLAS's
workspace may not be there yet at the peak.
"""

from __future__ import annotations

import json
import subprocess
import sys
from statistics import median

import torch
import torchvision

DEVICE = "H200-SXM"
MIB = 2.0**20
MEASURED: dict[str, dict[int, float]] = {
    "resnet18": {1: 87.97, 8: 136.81, 16: 194.16},
    "vgg16": {1: 599.51, 8: 958.81, 16: 1355.43},
    "mobilenet_v3_small": {1: 45.30, 8: 62.74, 16: 83.12},
    "vit_b_16": {1: 371.31, 8: 428.03, 16: 492.52},
    "densenet121": {1: 74.01, 8: 145.92, 16: 226.23},
    "convnext_tiny": {1: 156.71, 8: 239.44, 16: 336.94},
}
"""MiB by model and batch size."""


def measured(name: str, batch: int) -> float:
    """Return the peak of a forward in MiB, of what is known or, on a GPU, measured."""
    if not torch.cuda.is_available():
        return MEASURED[name][batch]
    before = torch.cuda.memory_allocated()
    model = getattr(torchvision.models, name)().cuda().eval()
    x = torch.randn(batch, 3, 224, 224, device="cuda")
    with torch.no_grad():
        output = model(x)
        torch.cuda.reset_peak_memory_stats()
        del output
        model(x)
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / MIB


def predicted(name: str, batch: int) -> float:
    """Return what ``fit`` says that a forward needs on the device, in MiB."""
    command = [sys.executable, "-m", "tui_profiler", "fit", name, "--batch", str(batch)]
    command += ["--on", DEVICE, "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)["devices"][0]["needed_bytes"]) / MIB


def main() -> None:
    wanted = sys.argv[1:] or list(MEASURED)
    print(f"{'model':20} batch  measured  predicted  off by")
    errors = []
    for name in wanted:
        for batch in MEASURED[name]:
            peak, found = measured(name, batch), predicted(name, batch)
            errors.append(found / peak - 1)
            print(f"{name:20} {batch:5} {peak:9.1f} {found:10.1f} {errors[-1]:+7.1%}", flush=True)
    least, most = min(errors), max(errors)
    print(f"median {median(map(abs, errors)):.1%}, {least:+.1%} to {most:+.1%}")


if __name__ == "__main__":
    main()
