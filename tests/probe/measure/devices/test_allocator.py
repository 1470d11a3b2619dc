"""What torch's allocators tell."""

from __future__ import annotations

import subprocess
import sys

import torch

from tui_profiler.messages import Allocator, Unknown
from tui_profiler.probe.measure.devices.allocator import allocators, cuda_uuids, from_statistics


def test_a_machine_without_cuda_has_the_cpu_s_allocator_and_says_what_is_not_counted() -> None:
    [cpu, *others] = allocators()

    assert cpu.device == "cpu"
    assert cpu.allocated_bytes == Unknown("torch keeps no running total of its CPU allocator")
    assert bool(others) == torch.cuda.is_initialized()


def test_asking_does_not_import_torch() -> None:
    program = (
        "import sys\n"
        "from tui_profiler.probe.measure.devices.allocator import allocators, cuda_uuids\n"
        "allocators(), cuda_uuids()\n"
        "print('torch' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert said.stdout.split() == [b"False"]


def test_asking_does_not_start_cuda() -> None:
    was_started = torch.cuda.is_initialized()
    allocators()

    assert (cuda_uuids() is None) is not was_started
    assert torch.cuda.is_initialized() == was_started


def test_the_names_are_those_of_torch_s_statistics() -> None:
    statistics = {
        "allocated_bytes.all.current": 600,
        "allocated_bytes.all.peak": 900,
        "reserved_bytes.all.current": 1000,
        "reserved_bytes.all.peak": 1200,
        "inactive_split_bytes.all.current": 250,
        "num_alloc_retries": 3,
        "num_ooms": 1,
    }

    assert from_statistics("cuda:0", statistics) == Allocator(
        "cuda:0", 600, 1000, 250, 900, 1200, 3, 1
    )


def test_before_the_first_tensor_nothing_is_held() -> None:
    assert from_statistics("cuda:0", {}) == Allocator("cuda:0", 0, 0, 0, 0, 0, 0, 0)


def test_a_figure_that_a_version_of_torch_lacks_says_so() -> None:
    found = from_statistics("cuda:0", {"allocated_bytes.all.current": 5})

    assert found.allocated_bytes == 5
    assert found.retries == Unknown("this version of torch does not count it")
