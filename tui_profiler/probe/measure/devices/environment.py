"""The software and machine that a process runs on; torch is imported already."""

import platform
import sys

import torch

from tui_profiler.messages import Environment
from tui_profiler.probe.measure.devices.machine import environment_cpu


def environment() -> Environment:
    """Describe this process; torchvision only where it is imported already."""
    machine = environment_cpu()
    vision = sys.modules.get("torchvision")
    return Environment(
        python=platform.python_version(),
        torch=str(torch.__version__),
        torchvision=str(getattr(vision, "__version__", "")),
        cuda=str(torch.version.cuda or ""),
        cpu=machine.cpu,
        cores=machine.cores,
        threads=int(torch.get_num_threads()),
        memory_bytes=machine.memory_bytes,
    )
