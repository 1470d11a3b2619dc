"""Which GPU of the driver is which ``cuda:N`` of this process.

NVML counts every GPU of the machine in the order of the PCI bus; CUDA counts those that
``CUDA_VISIBLE_DEVICES`` leaves, in the order written there, and by itself the fastest first.

Source: NVIDIA, CUDA C++ Programming Guide, "CUDA Environment Variables"; Multi-Instance GPU User
Guide, "CUDA Device Enumeration".

1. The list ends before the first entry that names nothing: what follows is not visible.
2. An entry is a number, a UUID or the beginning of one, ``GPU-…`` or ``MIG-…``.
3. A process computes on one slice of a divided GPU at most, so that CUDA shows one.
4. Numbers are sure only in the order of the bus, or where all GPUs are of one kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

_UNSURE = "?"


class Present(NamedTuple):
    """One GPU of the machine, in NVML's order."""

    model: str
    uuid: str
    """``GPU-…``; empty where the driver does not tell it."""
    slices: tuple[str, ...]
    """``MIG-…`` of each slice, where it is divided."""


def cuda_indices(
    gpus: Sequence[Present],
    environment: Mapping[str, str],
    seen: Sequence[str] | None = None,
) -> dict[str, int]:
    """Give N of ``cuda:N`` by UUID, of GPUs and of slices; what is not visible or sure is left out.

    Args:
        gpus: every GPU of the machine, in NVML's order.
        environment: with ``CUDA_VISIBLE_DEVICES`` and ``CUDA_DEVICE_ORDER``, as CUDA found it.
        seen: UUIDs as CUDA tells them, with or without what is before the first dash, in its order;
            None where it was not asked.
    """
    if seen is not None:
        known = [uuid for gpu in gpus for uuid in (gpu.uuid, *gpu.slices)]
        return {
            uuid: number
            for number, one in enumerate(seen)
            for uuid in known
            if uuid and _bare(uuid) == _bare(one)
        }
    listed = environment.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        visible = [_whole(gpu) for gpu in gpus] if _is_in_bus_order(gpus, environment) else []
    else:
        visible = _listed(listed, gpus, environment)
    if len(set(visible)) != len(visible):
        return {}  # CUDA refuses a list that names one twice.
    if any(uuid.startswith("MIG-") for uuid in visible):
        visible = [next(uuid for uuid in visible if uuid.startswith("MIG-"))]
    sure = (pair for pair in enumerate(visible) if pair[1] and not pair[1].startswith(_UNSURE))
    return {uuid: number for number, uuid in sure}


def _bare(uuid: str) -> str:
    return uuid.removeprefix("GPU-").removeprefix("MIG-")


def _whole(gpu: Present) -> str:
    """Give what CUDA shows of a GPU that is named as a whole: of a divided one, the first slice."""
    return gpu.slices[0] if gpu.slices else gpu.uuid


def _is_in_bus_order(gpus: Sequence[Present], environment: Mapping[str, str]) -> bool:
    one_kind = len({gpu.model for gpu in gpus}) <= 1
    return one_kind or environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"


def _listed(listed: str, gpus: Sequence[Present], environment: Mapping[str, str]) -> list[str]:
    visible: list[str] = []
    for entry in (part.strip() for part in listed.split(",")):
        if entry.isdigit():
            if int(entry) >= len(gpus):
                break
            sure = _is_in_bus_order(gpus, environment)
            visible.append(_whole(gpus[int(entry)]) if sure else _UNSURE + entry)
        elif uuid := _named(entry, gpus):
            visible.append(uuid)
        else:
            break
    return visible


def _named(entry: str, gpus: Sequence[Present]) -> str:
    """Give the one UUID that begins so; empty where there is none or several."""
    if not entry.startswith(("GPU-", "MIG-")):
        return ""
    of_gpus = [_whole(gpu) for gpu in gpus if gpu.uuid.startswith(entry)]
    of_slices = [uuid for gpu in gpus for uuid in gpu.slices if uuid.startswith(entry)]
    found = of_gpus or of_slices
    return found[0] if len(found) == 1 else ""
