"""Parameter statistics: accuracy, speed and memory.

``OMP_NUM_THREADS=1 python benchmarks/weights/parameters.py [accuracy] [speed] [memory]`` prints,
all three unless some are named:

- ``accuracy``: the largest differences from numpy and scipy in float64, on 50 random tensors of all
  types and on the weights of resnet50, vit_b_16 and the demo decoder.
- ``speed``: seconds of the one pass beside those of a plain ``torch.aminmax`` and ``mean`` over the
  same file, mapped into memory, in turn on one thread, the least of five; and of all parts.
- ``memory``: a checkpoint of twice the memory that a process is allowed.
"""

from __future__ import annotations

import itertools
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from scipy import stats
from torchvision import models

from tui_profiler.archive import structure_of
from tui_profiler.messages import (
    AnalyseParameters,
    ParametersDone,
    ParametersProgress,
    TensorStatistics,
    known,
)
from tui_profiler.messages.parameters import ALL_PARTS
from tui_profiler.probe.load.files.state_dict import mapped_tensors
from tui_profiler.probe.parameters.analysis import Analysis, statistics
from tui_profiler.probe.parameters.subjects import FileSubjects, subjects_of_model

TYPES = (
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *(torch.float8_e4m3fn, torch.float8_e5m2),
    *(torch.int8, torch.uint8, torch.int16, torch.int32),
)
SHAPES = ((11,), (64, 65), (32, 16, 3, 3), (300, 700), (5000, 64))


def random_tensors() -> dict[str, torch.Tensor]:
    """Fifty: every type in every shape."""
    made = torch.Generator().manual_seed(7)
    found = {}
    for dtype, shape in itertools.product(TYPES, SHAPES):
        normal = torch.randn(shape, generator=made) * (1 if dtype.is_floating_point else 30) + 0.1
        whole = normal.abs() if dtype == torch.uint8 else normal
        found[f"{str(dtype)[6:]} {shape}"] = whole.to(dtype)
    return found


def decoder() -> torch.nn.Module:
    """The demo's, as it is built by default."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from demo_models.decoder import build

    return build()


def looked_at(tensors: dict[str, torch.Tensor]) -> Iterable[tuple[torch.Tensor, TensorStatistics]]:
    for tensor in tensors.values():
        holder = torch.nn.Module()
        holder.register_buffer("w", tensor)
        (subject,) = subjects_of_model(holder)
        yield tensor, statistics(subject, (), lambda _: None)


def accuracy() -> None:
    print(f"{'':<14}{'tensors':>8}{'mean/σ':>10}{'std/σ':>10}{'range/σ':>10}{'skewness':>10}"
          f"{'kurtosis':>10}{'L1':>10}{'L2':>10}{'entropy':>10}")  # fmt: skip
    subjects = {
        "50 random": random_tensors(),
        "resnet50": models.resnet50().state_dict(),
        "vit_b_16": models.vit_b_16().state_dict(),
        "demo:decoder": decoder().state_dict(),
    }
    for name, tensors in subjects.items():
        worst = np.zeros(8)
        for tensor, found in looked_at(tensors):
            worst = np.maximum(worst, differences(tensor, found))
        print(f"{name:<14}{len(tensors):>8}" + "".join(f"{one:>10.1e}" for one in worst))


def differences(tensor: torch.Tensor, found: TensorStatistics) -> list[float]:
    values = (tensor.float() if tensor.dtype.itemsize == 1 else tensor).double().flatten().numpy()
    moments, table = found.moments, found.histogram
    assert moments is not None
    assert table is not None
    std = values.std()
    over = std or 1.0
    counts = np.frombuffer(table.counts, "<u8").astype(float)
    skewness, kurtosis = known(moments.skewness), known(moments.kurtosis)
    return [
        abs(moments.mean - values.mean()) / over,
        abs(moments.std - std) / over,
        max(abs(moments.minimum - values.min()), abs(moments.maximum - values.max())) / over,
        0.0 if skewness is None else abs(skewness - stats.skew(values)),
        0.0 if kurtosis is None else abs(kurtosis - stats.kurtosis(values)),
        abs(moments.l1 / (np.abs(values).sum() or 1.0) - bool(moments.l1)),
        abs(moments.l2 / (np.linalg.norm(values) or 1.0) - bool(moments.l2)),
        abs(table.entropy_bits - stats.entropy(counts, base=2)),
    ]


def speed(folder: Path) -> None:
    torch.set_num_threads(1)
    made = torch.Generator().manual_seed(7)
    large = {f"w{i}": torch.randn(4096, 4096, generator=made) for i in range(8)}
    files = {
        "resnet50": models.resnet50().state_dict(),
        "vit_b_16": models.vit_b_16().state_dict(),
        "8 of 4096×4096, float32": large,
        "the same, bfloat16": {name: one.bfloat16() for name, one in large.items()},
    }
    print(f"{'':<26}{'MB':>7}{'plain s':>9}{'GB/s':>7}{'pass s':>9}{'GB/s':>7}{'times':>7}"
          f"{'all s':>8}{'first progress ms':>19}")  # fmt: skip
    for name, tensors in files.items():
        path = folder / "w.safetensors"
        save_file({key: one.contiguous() for key, one in tensors.items()}, path)
        one_file(name, path)
        path.unlink()


def one_file(name: str, path: Path) -> None:
    found = structure_of(path)
    subjects = FileSubjects(found)

    def plain() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Of maps that cannot be written to.
            for tensor in mapped_tensors(found, "w").values():
                torch.aminmax(tensor)
                (tensor if tensor.is_floating_point() else tensor.double()).mean()

    def one_pass() -> None:
        analyse(subjects, AnalyseParameters(parts=(), threads=1), lambda _: None)

    plain_seconds, pass_seconds = in_turn(plain, one_pass)
    said: list[object] = []
    analyse(subjects, AnalyseParameters(parts=ALL_PARTS), said.append)
    progress = next(one.seconds for one in said if isinstance(one, ParametersProgress))
    done = next(one for one in said if isinstance(one, ParametersDone))
    size = done.bytes
    print(f"{name:<26}{size / 1e6:>7.0f}{plain_seconds:>9.3f}{size / plain_seconds / 1e9:>7.2f}"
          f"{pass_seconds:>9.3f}{size / pass_seconds / 1e9:>7.2f}"
          f"{pass_seconds / plain_seconds:>7.1f}{done.seconds:>8.2f}"
          f"{progress * 1e3:>19.0f}", flush=True)  # fmt: skip
    subjects.close()


def analyse(
    subjects: FileSubjects, request: AnalyseParameters, send: Callable[[object], None]
) -> None:
    """Read all that is asked for, with nothing else running."""
    analysis = Analysis(subjects.subjects, "", send, lambda: 0.0, request)
    while not analysis.advance(1.0):
        pass


def in_turn(*calls: Callable[[], None], times: int = 5) -> list[float]:
    """The least seconds of each, run in turn so that a busy machine is busy for all."""
    best = [float("inf")] * len(calls)
    for _ in range(times):
        for place, call in enumerate(calls):
            began = time.perf_counter()
            call()
            best[place] = min(best[place], time.perf_counter() - began)
    return best


def memory(folder: Path) -> None:
    path, allowed = folder / "large.safetensors", 256 << 20
    made = torch.Generator().manual_seed(7)
    save_file({f"w{i}": torch.randn(4096, 4096, generator=made) for i in range(8)}, path)
    print(f"checkpoint {path.stat().st_size >> 20} MiB, allowed {allowed >> 20} MiB", flush=True)
    subprocess.run([sys.executable, __file__, "limited", str(path), str(allowed)], check=True)


def limited(path: Path, allowed: int) -> None:
    """Be the process that is allowed so much more than it has."""
    subjects = FileSubjects(structure_of(path))
    status = Path("/proc/self/status").read_text().splitlines()
    held = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmData"))
    resource.setrlimit(resource.RLIMIT_DATA, (held + allowed, held + allowed))
    try:
        torch.empty(2 * allowed, dtype=torch.uint8)
        print("the limit does not hold")
    except RuntimeError:
        print("reading it whole: refused by the limit")
    said: list[object] = []
    analyse(subjects, AnalyseParameters(), said.append)
    tensors = [one for one in said if isinstance(one, TensorStatistics) and not one.pending]
    done = next(one for one in said if isinstance(one, ParametersDone))
    whole = sum(one.moments is not None and not one.whys for one in tensors)
    print(f"{whole} of {len(tensors)} tensors with every part, {done.seconds:.1f} s, "
          f"{os.cpu_count()} cores")  # fmt: skip


def main() -> None:
    asked = sys.argv[1:]
    if asked[:1] == ["limited"]:
        limited(Path(asked[1]), int(asked[2]))
        return
    with tempfile.TemporaryDirectory() as folder:
        if not asked or "accuracy" in asked:
            accuracy()
        if not asked or "speed" in asked:
            speed(Path(folder))
        if not asked or "memory" in asked:
            memory(Path(folder))


if __name__ == "__main__":
    main()
