"""Which GPU is which ``cuda:N``, as NVIDIA's guides say."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tui_profiler.gpus.gpus import unknown_gpu
from tui_profiler.gpus.nvml import cuda_indices
from tui_profiler.messages import Gpu, MigDevice, Unknown


def present(number: int, model: str, uuid: str, *slices: str) -> Gpu:
    mig = tuple(MigDevice(model, one, 0.0, 0.0) for one in slices)
    gpu = unknown_gpu("NVIDIA", Unknown("not asked"))
    return replace(gpu, name=f"{number}: {model}", uuid=uuid, mig=mig)


ALIKE = tuple(present(at, "H100", f"GPU-{one * 8}-0000") for at, one in enumerate("abc"))
UNLIKE = (present(0, "T4", "GPU-aaaa"), present(1, "H100", "GPU-bbbb"))
DIVIDED = (
    present(0, "H100", "GPU-aaaa", "MIG-1111", "MIG-2222"),
    present(1, "H100", "GPU-bbbb"),
)
A, B, C = (gpu.uuid for gpu in ALIKE)


@pytest.mark.parametrize(
    ("visible", "numbers"),
    [
        (None, {A: 0, B: 1, C: 2}),
        ("", {}),
        ("2", {C: 0}),
        ("2,0", {C: 0, A: 1}),
        (" 1 , 2 ", {B: 0, C: 1}),
        ("0,-1,1", {A: 0}),
        ("0,7,1", {A: 0}),
        ("0,no,1", {A: 0}),
        ("1,1", {}),
        (B, {B: 0}),
        ("GPU-cc,GPU-aaaaaaaa", {C: 0, A: 1}),
        ("GPU-", {}),
        (f"{C},1", {C: 0, B: 1}),
    ],
)
def test_the_list_decides_which_and_in_what_order(
    visible: str | None, numbers: dict[str, int]
) -> None:
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}

    assert cuda_indices(ALIKE, environment) == numbers


def test_the_fastest_comes_first_so_that_the_order_of_unlike_gpus_is_not_sure() -> None:
    assert cuda_indices(UNLIKE, {}) == {}
    assert cuda_indices(UNLIKE, {"CUDA_VISIBLE_DEVICES": "1"}) == {}
    assert cuda_indices(UNLIKE, {"CUDA_VISIBLE_DEVICES": "0,GPU-bbbb"}) == {"GPU-bbbb": 1}


def test_in_the_order_of_the_bus_it_is_sure() -> None:
    environment = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1,0"}

    assert cuda_indices(UNLIKE, environment) == {"GPU-bbbb": 0, "GPU-aaaa": 1}


@pytest.mark.parametrize(
    ("visible", "numbers"),
    [
        (None, {"MIG-1111": 0}),
        ("0", {"MIG-1111": 0}),
        ("MIG-2222", {"MIG-2222": 0}),
        ("MIG-2222,MIG-1111", {"MIG-2222": 0}),
        ("1", {"GPU-bbbb": 0}),
    ],
)
def test_of_a_divided_gpu_one_slice_is_seen(visible: str | None, numbers: dict[str, int]) -> None:
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}

    assert cuda_indices(DIVIDED, environment) == numbers


def test_what_cuda_says_decides() -> None:
    environment = {"CUDA_VISIBLE_DEVICES": "0"}

    assert cuda_indices(UNLIKE, environment, ["bbbb", "aaaa"]) == {"GPU-bbbb": 0, "GPU-aaaa": 1}
    assert cuda_indices(UNLIKE, environment, []) == {}
