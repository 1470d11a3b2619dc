"""This machine's own roofs, kept for the host, and measured anew until they are good enough.

1. What is kept counts only for the same host, processor or GPU, torch, threads and precision of
   float32 products. Each roof has a quality of its own (``core_timing.py``, ``rounds.py``).
2. A roof that is not good enough is measured again at the next start, without the others, which
   takes some tenths of a second; after ``MOST_TRIES`` starts at most once per ``REST_SECONDS``. A
   good roof is replaced only when that is asked for, and never by one that is not good.
3. Plausible: no 16-bit rate is more than ``MOST_OVER_FLOAT32`` times that of float32 (AMX has 32
   times the products of AVX-512, tensor cores of a B200 28 times those of its cores); and a nearer
   cache moves at least what a farther one does.
4. A processor's roof of a dtype is that of products or of convolutions, whichever are faster, and
   good where both are: of one that is not good it is not known how fast it may be.
5. Measured work cannot exceed a roof: what does raises it, up to ``MOST_RAISED`` times; beyond that
   the roof is not good enough.

A file that cannot be read is measured again; one that cannot be written is not
kept, and the reason is given: neither is worth stopping for.
"""

import hashlib
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec
import platformdirs
import psutil
import torch
from msgspec.structs import replace

from tui_profiler import messages
from tui_profiler.probe.measure.ceilings.core_timing import MOST_BUSY
from tui_profiler.probe.measure.ceilings.kernels import kernel_costs
from tui_profiler.probe.measure.ceilings.page_faults import fault_seconds
from tui_profiler.probe.measure.ceilings.roofs import (
    cache_rounds,
    convolution_rounds,
    copy_rounds,
    level_bytes,
    operator_rounds,
    product_rounds,
    waits_from,
)
from tui_profiler.probe.measure.ceilings.rounds import (
    ROUNDS,
    Measured,
    Round,
    StealClock,
    in_rounds,
    of_rounds,
)
from tui_profiler.probe.measure.devices.machine import allowed_cores, caches, processor_name
from tui_profiler.system.files import private_directory, write_private
from tui_profiler.system.real_time import perf_counter, process_time, time

DTYPES = ("float32", "bfloat16", "float16", "float64")
MEMORY, OPERATOR = "memory", "operator"
MOST_TRIES = 3
REST_SECONDS = 600.0
MOST_OVER_FLOAT32 = 40.0
MOST_RAISED = 1.25
LEAST_RAISED = 1.05
"""What is less above a roof is noise."""
_WIDE = "float32"
_BEST = 2
"""Of ``_rank``."""
_METHOD = "rounds and convolutions, copies past the caches, page faults, kernels, float64"
"""Of measuring: figures that were measured otherwise are not read."""


class _Kept(msgspec.Struct, frozen=True):
    key: tuple[str, ...]
    ceilings: messages.Ceilings
    tries: int = 1
    """Starts in a row after which a roof was not good enough."""
    tried_at: float = 0.0
    """Unix time of the last of them."""

    def is_due(self) -> bool:
        """Tell whether a roof is to be measured again, by rule 2."""
        if not to_measure_again(self.ceilings):
            return False
        return self.tries < MOST_TRIES or not 0 <= time() - self.tried_at < REST_SECONDS


# Made here, because making it compiles annotations: not while someone's program runs.
_decoder = msgspec.json.Decoder(_Kept)


def ceilings(
    device: str,
    threads: int,
    folder: Path | None = None,
    *,
    refused: Callable[[str], object] = str,
    between: Callable[[], object] = int,
) -> messages.Ceilings:
    """Return what is kept for this host; measure and keep what is missing or not good enough.

    Args:
        device: ``cpu`` or ``cuda:0``.
        threads: intra-operator threads of torch.
        folder: where they are kept; None for the user's cache folder.
        refused: is given the reason where they cannot be cached.
        between: is called between any two rounds of measuring.
    """
    file, key = _file(device, threads, folder)
    kept = _read(file, key)
    if kept is not None and not kept.is_due():
        return replace(kept.ceilings, seconds=0.0)
    return _measure_and_keep(device, threads, folder, kept, refused, between=between)


def kept_ceilings(
    device: str, threads: int, folder: Path | None = None
) -> messages.Ceilings | None:
    """Return what is kept for this host; None where nothing is. Arguments as of ``ceilings``."""
    kept = _read(*_file(device, threads, folder))
    return None if kept is None else replace(kept.ceilings, seconds=0.0)


def are_due(device: str, threads: int, folder: Path | None = None) -> bool:
    """Tell whether ``ceilings`` would measure. Arguments as there."""
    kept = _read(*_file(device, threads, folder))
    return kept is None or kept.is_due()


def measure_again(
    device: str,
    threads: int,
    folder: Path | None = None,
    *,
    refused: Callable[[str], object] = str,
) -> messages.Ceilings:
    """Measure every roof anew; a good one that is kept stays where the new one is not good.

    Arguments as of ``ceilings``.
    """
    kept = _read(*_file(device, threads, folder))
    return _measure_and_keep(device, threads, folder, kept, refused, every=True)


def _measure_and_keep(
    device: str,
    threads: int,
    folder: Path | None,
    before: _Kept | None,
    refused: Callable[[str], object],
    *,
    every: bool = False,
    between: Callable[[], object] = int,
) -> messages.Ceilings:
    found_threads = torch.get_num_threads()
    only = None
    if before is not None and not every:
        only = to_measure_again(before.ceilings)
    try:
        if threads != found_threads:
            torch.set_num_threads(threads)
        measured = measure_ceilings(device, DTYPES, only, between=between)
    finally:
        if threads != found_threads:
            torch.set_num_threads(found_threads)
    if before is not None:
        measured = merged(before.ceilings, measured)
    kernels = before.ceilings.kernels if before is not None and not every else None
    measured = replace(plausible(measured), kernels=kernels or kernel_costs(device))
    _keep(device, threads, folder, measured, before, refused)
    return measured


def _keep(
    device: str,
    threads: int,
    folder: Path | None,
    measured: messages.Ceilings,
    before: _Kept | None,
    refused: Callable[[str], object],
) -> None:
    file, key = _file(device, threads, folder)
    tries = before.tries + 1 if before is not None and to_measure_again(measured) else 1
    why = _write(file, _Kept(key, measured, tries, time()))
    if why:
        refused(why)


def reasons(found: messages.Ceilings) -> dict[str, str]:
    """Return for each roof that has a figure why it is not good enough, empty where it is good."""
    return {
        name: one.quality.why_not_good if one.quality is not None else ""
        for name, one in _by_name(found).items()
        if not isinstance(one.figure, messages.Unknown)
    }


def to_measure_again(found: messages.Ceilings) -> set[str]:
    """Return the names of the roofs that a calmer machine would give better."""
    return {
        name
        for name, one in _by_name(found).items()
        if not isinstance(one.figure, messages.Unknown) and _rank(one) < _BEST
    }


def merged(before: messages.Ceilings, now: messages.Ceilings) -> messages.Ceilings:
    """Return for each roof the newer figure; the older one where that alone is good.

    Of two that are not good enough the higher one counts: what interferes only lowers them.
    """
    newer = _by_name(now)
    found = dict(newer)
    for name, old in _by_name(before).items():
        new = newer.get(name)
        if new is None or new == _NOT_MEASURED or _is_better(name, old, new):
            found[name] = old
    return _with(now, found, before)


def _is_better(name: str, old: Measured, new: Measured) -> bool:
    rate, other = messages.known(old.figure), messages.known(new.figure)
    if rate is None or other is None:
        return other is None and rate is not None
    if _rank(old) != _rank(new) or _rank(new):
        return _rank(old) > _rank(new)
    return rate < other if name == OPERATOR else rate > other


def _rank(one: Measured) -> int:
    """Return 2 for a good roof, 1 for one that follows from one thread, 0 for no good one."""
    if one.quality is None or one.quality.why_not_good:
        return 0
    # On a calm machine the cache is too small for torch to use all threads: it stays so.
    return 1 if one.quality.scaled and one.quality.busy > MOST_BUSY else _BEST


def plausible(found: messages.Ceilings) -> messages.Ceilings:
    """Return the roofs with what cannot be so marked or mended, by rule 3."""
    roofs = _by_name(found)
    wide = messages.known(roofs[_WIDE].figure) if _WIDE in roofs else None
    for product in found.compute:
        rate = messages.known(product.flops_per_second)
        if wide and rate and rate > MOST_OVER_FLOAT32 * wide:
            why = (
                f"{product.dtype} is {rate / wide:.0f} times as fast,"
                f" and no hardware does more than {MOST_OVER_FLOAT32:.0f}"
            )
            roofs[_WIDE] = _doubted(roofs[_WIDE], why)
    farther = MEMORY
    for one in reversed(found.caches):
        name = cache_name(one.level)
        rate = messages.known(roofs[farther].figure)
        if rate and messages.known(roofs[name].figure) is not None:
            roofs[name] = _raised(roofs[name], rate, farther)
        if messages.known(roofs[name].figure) is not None:
            farther = name
    return _with(found, roofs, found)


def raised(found: messages.Ceilings, name: str, rate: float, by: str) -> messages.Ceilings:
    """Return the roofs with one raised to what was reached, by rule 5; the same where none is.

    Args:
        found: the roofs.
        name: a dtype, ``memory`` or the name of a cache's level.
        rate: that was reached, in the unit of the roof.
        by: what reached it.
    """
    roofs = _by_name(found)
    if name not in roofs or messages.known(roofs[name].figure) is None:
        return found
    changed = _raised(roofs[name], rate, by)
    return found if changed is roofs[name] else _with(found, {**roofs, name: changed}, found)


def keep_raised(found: messages.Ceilings, folder: Path | None = None) -> None:
    """Keep roofs that were raised, as long as they are those that are kept and can be cached.

    Args:
        found: after ``raised``.
        folder: as of ``ceilings``.
    """
    file, key = _file(found.device, found.threads, folder)
    kept = _read(file, key)
    if kept is not None and kept.ceilings.measured_at == found.measured_at:
        _write(file, replace(kept, ceilings=found))


def _raised(one: Measured, rate: float, by: str) -> Measured:
    roof = messages.known(one.figure)
    assert roof is not None
    if rate <= LEAST_RAISED * roof or one.quality is None:
        return one
    if rate > MOST_RAISED * roof:
        return _doubted(one, f"{by} achieved {rate / roof:.1f} times of it")
    said = f"{by} achieved {rate / roof * 100 - 100:.0f} % more"
    return Measured(rate, replace(one.quality, raised_by=said))


def _doubted(one: Measured, why: str) -> Measured:
    assert one.quality is not None
    return one._replace(quality=replace(one.quality, why_not_good=why))


def _by_name(found: messages.Ceilings) -> dict[str, Measured]:
    return {
        **{one.dtype: Measured(one.flops_per_second, one.quality) for one in found.compute},
        MEMORY: Measured(found.bytes_per_second, found.memory_quality),
        **{
            cache_name(one.level): Measured(one.bytes_per_second, one.quality)
            for one in found.caches
        },
        OPERATOR: Measured(found.op_seconds, found.op_quality),
    }


def _with(
    found: messages.Ceilings, roofs: Mapping[str, Measured], like: messages.Ceilings
) -> messages.Ceilings:
    """Return ceilings with other roofs; those that both lack a figure for stay as they are."""
    dtypes = list(dict.fromkeys(one.dtype for one in (*like.compute, *found.compute)))
    levels = {one.level: one for one in (*like.caches, *found.caches)}
    return replace(
        found,
        compute=tuple(messages.Ceiling(dtype, *roofs[dtype]) for dtype in dtypes),
        bytes_per_second=roofs[MEMORY].figure,
        memory_quality=roofs[MEMORY].quality,
        op_seconds=roofs[OPERATOR].figure,
        op_quality=roofs[OPERATOR].quality,
        caches=tuple(
            messages.CacheCeiling(level, one.bytes, *roofs[cache_name(level)])
            for level, one in sorted(levels.items())
        ),
    )


def cache_name(level: int) -> str:
    """Name the roof of a cache."""
    return f"L{level}"


def measure_ceilings(
    device: str,
    dtypes: Sequence[str],
    only: Iterable[str] | None = None,
    *,
    between: Callable[[], object] = int,
) -> messages.Ceilings:
    """Measure arithmetic of each dtype, copies in memory and in each cache, and an empty operator.

    Args:
        device: ``cpu`` or ``cuda:0``.
        dtypes: torch's names without prefix. A float32 product has the precision that is set.
        only: names of the roofs that are measured: a dtype, ``memory``, ``L3``, ``operator``; None
            for all. The others have no figure.
        between: is called between any two rounds.
    """
    where, threads = torch.device(device), torch.get_num_threads()
    began, others, steal = perf_counter(), _others_seconds(), StealClock()
    wanted = None if only is None else frozenset(only)
    levels, why_no_caches = _levels(where)
    convolutions = {f"{one} convolutions": one for one in dtypes if where.type == "cpu"}
    roofs = {
        **{dtype: product_rounds(dtype, where) for dtype in dtypes},
        **{name: convolution_rounds(dtype) for name, dtype in convolutions.items()},
        MEMORY: _when_asked(partial(copy_rounds, where)),
        **_cache_roofs(levels, threads),
        OPERATOR: operator_rounds(where),
    }
    wanted_roofs = {
        name: measure
        for name, measure in roofs.items()
        if wanted is None or convolutions.get(name, name) in wanted
    }
    # On a GPU nothing interferes that another round would be free of.
    planned = ROUNDS if where.type == "cpu" else 1
    rounds = in_rounds(wanted_roofs, planned, between)
    stolen = steal.share()
    measured = {
        name: of_rounds(rounds[name], stolen, planned=planned, is_time=name == OPERATOR)
        if name in rounds
        else _NOT_MEASURED
        for name in roofs
    }
    for name, dtype in convolutions.items():
        measured[dtype] = of_arithmetic(measured[dtype], measured[name])
    seconds = perf_counter() - began
    return messages.Ceilings(
        device=device,
        threads=threads,
        compute=tuple(messages.Ceiling(dtype, *measured[dtype]) for dtype in dtypes),
        bytes_per_second=measured[MEMORY].figure,
        memory_quality=measured[MEMORY].quality,
        op_seconds=measured[OPERATOR].figure,
        op_quality=measured[OPERATOR].quality,
        measured_at=time(),
        seconds=seconds,
        busy=max((_others_seconds() - others) / seconds, 0.0),
        caches=tuple(
            messages.CacheCeiling(
                cache.level, level_bytes(cache, threads), *measured[cache_name(cache.level)]
            )
            for cache in levels
        ),
        why_no_caches=why_no_caches,
        waits_from=waits_from() if where.type == "cpu" else "",
        fault_seconds=fault_seconds() if where.type == "cpu" else messages.Unknown("on a GPU"),
    )


def of_arithmetic(products: Measured, convolutions: Measured) -> Measured:
    """Return the roof of a dtype, by rule 4; that of products where it has no convolutions."""
    rate, other = messages.known(products.figure), messages.known(convolutions.figure)
    if not rate or other is None or products.quality is None or convolutions.quality is None:
        return products
    found = products
    if other > LEAST_RAISED * rate:
        more = f"convolutions reach {other / rate * 100 - 100:.0f} % more than products"
        found = Measured(other, replace(convolutions.quality, raised_by=more))
    for name, part in (("products", products), ("convolutions", convolutions)):
        if part.quality is not None and part.quality.why_not_good:
            found = _doubted(found, f"{name}: {part.quality.why_not_good}")
    return found


_NOT_MEASURED = Measured(messages.Unknown("not measured now"), None)


def _levels(device: torch.device) -> tuple[tuple[messages.Cache, ...], str]:
    if device.type != "cpu":
        return (), f"caches of {device.type} are not measured"
    found = tuple(cache for cache in caches(allowed_cores()) if cache.level > 1)
    return found, "" if found else "the kernel does not describe this machine's caches"


def _when_asked(make: Callable[[], Callable[[], Round]]) -> Callable[[], Round]:
    """Return what makes a measurement in its first round: its buffers may be large."""
    made: list[Callable[[], Round]] = []

    def measure() -> Round:
        if not made:
            made.append(make())
        return made[0]()

    return measure


def _cache_roofs(levels: Iterable[messages.Cache], threads: int) -> dict[str, Callable[[], Round]]:
    found, beyond = {}, 0
    for cache in levels:
        found[cache_name(cache.level)] = cache_rounds(cache, threads, beyond)
        beyond = level_bytes(cache, threads)
    return found


def _others_seconds() -> float:
    """Return the processor time of all programs but this one since the machine was started."""
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
        _METHOD,
    )
    # A file for each, so that two workers never have to merge what they write.
    name = hashlib.sha256("\0".join(key).encode()).hexdigest()[:16]
    cache = folder or Path(platformdirs.user_cache_dir("tui-profiler"))
    return cache / f"ceilings-{name}.json", key


def _read(file: Path, key: tuple[str, ...]) -> _Kept | None:
    try:
        kept = _decoder.decode(file.read_bytes())
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return kept if kept.key == key else None


def _write(file: Path, kept: _Kept) -> str:
    """Write a file; returns why it cannot be written, empty where it was."""
    try:
        # Whole or not at all: another worker may read it now.
        write_private(private_directory(file.parent) / file.name, msgspec.json.encode(kept))
    except OSError as error:
        why = error.strerror or type(error).__name__
        return f"{file.parent}: {why}" if error.filename else why
    return ""
