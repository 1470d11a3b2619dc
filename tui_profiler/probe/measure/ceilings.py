"""This machine's own roofs, measured once and kept for the host.

What is kept counts only for the same host, processor or GPU, torch, threads and precision of
float32 products. Other programs only ever lower what is measured: where they were busy, it is
measured again at the next start, at most three times, and the best of all counts.
A file that cannot be read is measured again; one that cannot be written is not
kept: neither is worth stopping for.
"""

from __future__ import annotations

import hashlib
import os
import platform
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import perf_counter, process_time, time

import msgspec
import platformdirs
import psutil
import torch

from tui_profiler.messages import Ceiling, Ceilings, Figure, known
from tui_profiler.probe.measure.machine import processor_name
from tui_profiler.probe.measure.roofs import copy_rate, operator_seconds, product_rate

DTYPES = ("float32", "bfloat16", "float16")


BUSY_CORES = 0.1
MOST_TRIES = 3


class _Kept(msgspec.Struct, frozen=True):
    key: tuple[str, ...]
    ceilings: Ceilings
    tries: int = 1

    @property
    def is_good(self) -> bool:
        return self.ceilings.busy <= BUSY_CORES or self.tries >= MOST_TRIES


def ceilings(device: str, threads: int, folder: Path | None = None) -> Ceilings:
    """Give what is kept for this host, or measure it and keep it; measuring takes two seconds.

    Args:
        device: ``cpu`` or ``cuda:0``.
        threads: intra-operator threads of torch.
        folder: where they are kept; None for the user's cache folder.
    """
    file, key = _file(device, threads, folder)
    kept = _read(file, key)
    if kept is not None and kept.is_good:
        return msgspec.structs.replace(kept.ceilings, seconds=0.0)
    return _measure_and_keep(device, threads, folder, kept)


def kept_ceilings(device: str, threads: int, folder: Path | None = None) -> Ceilings | None:
    """Give what is kept for this host; None where nothing is. Arguments as of ``ceilings``."""
    kept = _read(*_file(device, threads, folder))
    return None if kept is None else msgspec.structs.replace(kept.ceilings, seconds=0.0)


def measure_again(device: str, threads: int, folder: Path | None = None) -> Ceilings:
    """Measure, whatever is kept, and keep that.

    Args:
        device: ``cpu`` or ``cuda:0``.
        threads: intra-operator threads of torch.
        folder: where they are kept; None for the user's cache folder.
    """
    return _measure_and_keep(device, threads, folder, None)


def _measure_and_keep(
    device: str, threads: int, folder: Path | None, before: _Kept | None
) -> Ceilings:
    found_threads = torch.get_num_threads()
    try:
        if threads != found_threads:
            torch.set_num_threads(threads)
        measured = measure_ceilings(device, DTYPES)
    finally:
        if threads != found_threads:
            torch.set_num_threads(found_threads)
    file, key = _file(device, threads, folder)
    if before is not None:
        measured = best(before.ceilings, measured)
    _write(file, _Kept(key, measured, before.tries + 1 if before is not None else 1))
    return measured


def best(one: Ceilings, other: Ceilings) -> Ceilings:
    """Give the higher roofs of two measurements of one machine; else what ``other`` says."""
    before = {ceiling.dtype: known(ceiling.flops_per_second) for ceiling in one.compute}
    op_seconds = [s for s in (known(one.op_seconds), known(other.op_seconds)) if s is not None]
    return msgspec.structs.replace(
        other,
        compute=tuple(
            Ceiling(c.dtype, _higher(before.get(c.dtype), c.flops_per_second))
            for c in other.compute
        ),
        bytes_per_second=_higher(known(one.bytes_per_second), other.bytes_per_second),
        op_seconds=min(op_seconds) if op_seconds else other.op_seconds,
        busy=min(one.busy, other.busy),
    )


def _higher(before: float | None, now: Figure) -> Figure:
    rate = known(now)
    return now if before is None or (rate is not None and rate >= before) else before


def measure_ceilings(device: str, dtypes: Sequence[str]) -> Ceilings:
    """Measure one matrix product for each dtype, one copy and one empty operator.

    Args:
        device: ``cpu`` or ``cuda:0``.
        dtypes: torch's names without prefix. A float32 product has the precision that is set.
    """
    where = torch.device(device)
    began, others = perf_counter(), _others_seconds()
    found = Ceilings(
        device=device,
        threads=torch.get_num_threads(),
        compute=tuple(Ceiling(dtype, product_rate(dtype, where)) for dtype in dtypes),
        bytes_per_second=copy_rate(where),
        op_seconds=operator_seconds(where),
        measured_at=time(),
        seconds=perf_counter() - began,
    )
    busy = (_others_seconds() - others) / found.seconds
    return msgspec.structs.replace(found, busy=max(busy, 0.0))


def _others_seconds() -> float:
    """Give the processor time of all programs but this one since the machine was started."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    return float(sum(times) - idle - getattr(times, "guest", 0.0)) - process_time()


def _file(device: str, threads: int, folder: Path | None) -> tuple[Path, tuple[str, ...]]:
    where = torch.device(device)
    chip = torch.cuda.get_device_name(where) if where.type == "cuda" else processor_name()
    key = (
        platform.node(),
        chip,
        device,
        str(torch.__version__),
        str(threads),
        torch.get_float32_matmul_precision(),
    )
    # A file for each, so that two workers never have to merge what they write.
    name = hashlib.sha256("\0".join(key).encode()).hexdigest()[:16]
    cache = folder or Path(platformdirs.user_cache_dir("tui-profiler"))
    return cache / f"ceilings-{name}.json", key


def _read(file: Path, key: tuple[str, ...]) -> _Kept | None:
    try:
        kept = msgspec.json.decode(file.read_bytes(), type=_Kept)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return kept if kept.key == key else None


def _write(file: Path, kept: _Kept) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f"{file.stem}-")
    except OSError:
        return
    # Renamed when it is whole: another worker reads all of it or nothing.
    new = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(msgspec.json.encode(kept))
        new.replace(file)
    except OSError:
        with suppress(OSError):
            new.unlink()
