"""The software and machine that a process runs on; torch is imported already."""

import platform
import sys

import torch

from tui_profiler.messages import Environment
from tui_profiler.probe.measure.devices.machine import (
    allowed_cores,
    memory,
    memory_group,
    processor_name,
)


def environment() -> Environment:
    """Describe this process; torchvision only where it is imported already."""
    vision = sys.modules.get("torchvision")
    return Environment(
        python=platform.python_version(),
        torch=str(torch.__version__),
        torchvision=str(getattr(vision, "__version__", "")),
        cuda=str(torch.version.cuda or ""),
        cpu=processor_name(),
        cores=len(allowed_cores()),
        threads=int(torch.get_num_threads()),
        memory_bytes=memory(memory_group()).total_bytes,
    )
