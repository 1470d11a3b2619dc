"""A program that captures CUDA graphs again and again, with a viewer beside it.

``python -m benchmarks.gpu.captures [SECONDS]``

A question about an event on one thread fails while another captures a graph, and ends the capture,
unless it is asked as ``torch_compat/cuda_events.py`` does. Prints the captures, the replays that
gave another output than the model, and the captures that failed.
"""

from __future__ import annotations

import subprocess
import sys
import time

import torch
import torchvision

import tui_profiler


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    if not torch.cuda.is_available():
        sys.exit("no GPU of CUDA's on this machine")
    model = torchvision.models.resnet18().cuda().eval()
    x = torch.randn(4, 3, 224, 224, device="cuda")
    tui_profiler.watch(model, name="captures")
    command = [sys.executable, "-m", "tui_profiler", "report", "--attach", "captures"]
    viewer = subprocess.Popen([*command, "--measure", str(seconds / 2)], stdout=subprocess.DEVNULL)
    end = time.monotonic() + seconds
    captures = differ = failed = 0
    with torch.no_grad():
        wanted = model(x).clone()
        while time.monotonic() < end:
            for _ in range(20):
                model(x)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            try:
                with torch.cuda.graph(graph):
                    found = model(x)
                graph.replay()
                torch.cuda.synchronize()
            except RuntimeError as error:
                failed += 1
                print(str(error).partition("\n")[0])
                continue
            captures += 1
            differ += not torch.equal(found, wanted)
    viewer.wait()
    print(f"{captures} captures, {differ} with another output, {failed} failed")


if __name__ == "__main__":
    main()
