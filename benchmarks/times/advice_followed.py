"""Follow advice by hand, and compare what it gains with what was predicted.

``python benchmarks/times/advice_followed.py [--cases FILE] [--only A,B] [--threads N]``

Each model is reported by the command line, as a user would. Each finding whose time has a predicted
range is followed by a script: the change is applied, and calls without and with it are timed in
turn, in CPU time of the thread and in wall time. Prints whether the gain in CPU time lies in the
range, and ends with 1 where less than 8 of 10 do, or where advice made a model slower by 5 %.
A file of cases is Python whose factories, named in ``ALL``, set ``example_inputs``.
"""

from __future__ import annotations

import argparse
import copy
import ctypes
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[2]
SLOWER = -0.05
WANTED = 0.8
PAIRS, SECONDS = 7, 6.0
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
_RETURNS = {_TRIM_THRESHOLD: 128 * 1024, _TOP_PAD: 128 * 1024, _MMAP_MAX: 65536}
_KEEPS = {_TRIM_THRESHOLD: -1, _TOP_PAD: 2**26, _MMAP_MAX: 0}
"""Parameters of ``mallopt``: by default, and so that memory is kept."""
Call = Callable[[], object]


def depthwise() -> nn.Module:
    return _with(nn.Conv2d(128, 128, 3, padding=1, groups=128), torch.randn(1, 128, 56, 56))


def double_head() -> nn.Module:
    class Head(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Conv2d(32, 32, 3, padding=1)
            self.precise = nn.Conv2d(32, 32, 3, padding=1).double()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.body(x)
            return self.precise(y.to(self.precise.weight.dtype)).float()

    return _with(Head(), torch.randn(2, 32, 56, 56))


def half_mlp() -> nn.Module:
    return _with(
        nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 256)).half(),
        torch.randn(64, 256).half(),
    )


def wide_mlp() -> nn.Module:
    layers = (nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 2048))
    return _with(nn.Sequential(*layers), torch.randn(2, 2048))


def gru() -> nn.Module:
    return _with(nn.GRU(768, 768, batch_first=True), torch.randn(1, 48, 768))


def small_mlp() -> nn.Module:
    layers = [part for _ in range(30) for part in (nn.Linear(32, 32), nn.ReLU())]
    return _with(nn.Sequential(*layers), torch.randn(4, 32))


def pointwise() -> nn.Module:
    class Chain(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(8):
                x = (x * 1.01 + 0.1).tanh()
            return x

    return _with(Chain(), torch.randn(64, 4096))


def large_outputs() -> nn.Module:
    return _with(nn.Sequential(nn.ReLU(), nn.Sigmoid()), torch.randn(4096, 4096))


OWN = (depthwise, double_head, half_mlp, wide_mlp, gru, small_mlp, pointwise, large_outputs)


def _with(module: nn.Module, *inputs: torch.Tensor) -> nn.Module:
    module.example_inputs = inputs  # type: ignore[assignment]  # The loader reads it.
    return module.eval()


class Row(NamedTuple):
    model: str
    kind: str
    low: float
    high: float
    cpu: float
    wall: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--measure", type=float, default=5.0)
    verbs = parser.add_subparsers(dest="verb")
    follow = verbs.add_parser("follow")
    follow.add_argument("kind")
    follow.add_argument("spec")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.verb == "follow":
        print(json.dumps(_timed(options.kind, *_loaded(options.spec))))
        return 0
    specs = [f"{Path(__file__).resolve()}:{one.__name__}" for one in OWN]
    if options.cases is None:
        print("no file of cases: the models of this benchmark alone", file=sys.stderr)
    elif not options.cases.exists():
        print(f"{options.cases} is not there: skipped", file=sys.stderr)
    else:
        specs += [f"{options.cases}:{name}" for name in _module(options.cases).ALL]
    chosen = set(filter(None, options.only.split(",")))
    rows: list[Row] = []
    for spec in specs:
        if not chosen or spec.rpartition(":")[2] in chosen:
            rows += _followed(spec, options)
    return _verdict(rows)


def _followed(spec: str, options: argparse.Namespace) -> list[Row]:
    name, rows = spec.rpartition(":")[2], []
    report = _report(spec, options)
    if report is None:
        print(f"{name:14} no report")
        return []
    for one in report["findings"]["found"]:
        gain = one["gains"][0]
        if gain["of"] != "time" or gain["low"] is None:
            continue
        if one["kind"] not in CHANGES:
            print(f"{name:14} {one['kind']:16} not followed by this script")
            continue
        command = [sys.executable, __file__, "--threads", str(options.threads)]
        # Threads and allocator are of a process.
        done = subprocess.run(
            [*command, "follow", one["kind"], spec],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        if done.returncode:
            print(f"{name:14} {one['kind']:16} failed: {done.stderr.strip()[-200:]}")
            continue
        cpu, wall = json.loads(done.stdout.splitlines()[-1])
        row = Row(name, one["kind"], gain["low"], gain["high"], cpu, wall)
        rows.append(row)
        print(_line(row), flush=True)
    if not rows:
        print(f"{name:14} nothing with a range is advised", flush=True)
    return rows


def _line(row: Row) -> str:
    word = "in the range" if row.low <= row.cpu <= row.high else "OUTSIDE"
    word += ", SLOWER" * (row.cpu <= SLOWER)
    return (
        f"{row.model:14} {row.kind:16} predicted {row.low:6.1%} to {row.high:6.1%},"
        f" CPU {row.cpu:6.1%}, wall {row.wall:6.1%}: {word}"
    )


def _verdict(rows: list[Row]) -> int:
    inside = sum(row.low <= row.cpu <= row.high for row in rows)
    slower = sum(row.cpu <= SLOWER for row in rows)
    print(f"{inside} of {len(rows)} in the predicted range, {slower} slower by 5 % or more")
    return int(bool(slower) or inside < WANTED * len(rows))


def _report(spec: str, options: argparse.Namespace) -> dict[str, Any] | None:
    command = [sys.executable, "-m", "tui_profiler", "report", spec, "--format", "json"]
    limits = ["--threads", str(options.threads), "--measure", str(options.measure), "--findings"]
    done = subprocess.run(
        [*command, *limits],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    return json.loads(done.stdout) if done.returncode == 0 and done.stdout else None


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("cases", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _loaded(spec: str) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    # As in the worker: freeing a buffer raises the size from which glibc maps memory anew.
    torch.ones(2**22).sum()
    path, _, name = spec.rpartition(":")
    torch.manual_seed(0)
    model = getattr(_module(Path(path)), name)()
    return model.eval(), model.example_inputs


def _timed(kind: str, model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[float, float]:
    """Return the shares of CPU time and of wall time that a change saves."""
    with torch.no_grad():
        before, after, items = CHANGES[kind](model, inputs)
        for call in (before, after, before, after):
            call()
        pairs: list[tuple[float, float]] = []
        began = time.perf_counter()
        while len(pairs) < PAIRS or (len(pairs) < 10 * PAIRS and _left(began)):
            before()  # What the other side left in caches and allocator is no figure of it.
            first = _clocked(before)
            after()
            second = _clocked(after)
            pairs.append(tuple(1 - b / a / items for a, b in zip(first, second, strict=True)))
    return median(one for one, _ in pairs), median(one for _, one in pairs)


def _left(began: float) -> bool:
    return time.perf_counter() - began < SECONDS


def _clocked(call: Call) -> tuple[float, float]:
    """Return CPU and wall seconds of calls that take 20 ms or more together."""
    count, cpu, wall = 0, time.thread_time(), time.perf_counter()
    while count < 1 or time.perf_counter() - wall < 0.02:
        call()
        count += 1
    return (time.thread_time() - cpu) / count, (time.perf_counter() - wall) / count


Change = Callable[[nn.Module, tuple[torch.Tensor, ...]], tuple[Call, Call, float]]
"""Returns the call before, the call after, and how many times as many items the latter has."""


def _int8(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[Call, Call, float]:
    whole = nn.Sequential(model)  # What is replaced has a parent.
    kinds = {nn.Linear, nn.LSTM, nn.GRU, nn.RNNCell, nn.LSTMCell, nn.GRUCell}
    narrow = torch.ao.quantization.quantize_dynamic(whole, kinds, dtype=torch.qint8)
    return lambda: model(*inputs), lambda: narrow[0](*inputs), 1.0


def _channels_last(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[Call, Call, float]:
    last = copy.deepcopy(model).to(memory_format=torch.channels_last)
    given = tuple(
        one.to(memory_format=torch.channels_last) if one.dim() == 4 else one for one in inputs
    )
    return lambda: model(*inputs), lambda: last(*given), 1.0


def _float32(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[Call, Call, float]:
    wide = copy.deepcopy(model).float()
    given = tuple(one.float() if one.is_floating_point() else one for one in inputs)
    return lambda: model(*inputs), lambda: wide(*given), 1.0


def _autocast(dtype: torch.dtype) -> Change:
    def change(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[Call, Call, float]:
        def narrow() -> object:
            with torch.autocast("cpu", dtype):
                return model(*inputs)

        return lambda: model(*inputs), narrow, 1.0

    return change


def _compiled(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[Call, Call, float]:
    compiled = torch.compile(copy.deepcopy(model))
    return lambda: model(*inputs), lambda: compiled(*inputs), 1.0


def _batch(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[Call, Call, float]:
    times = 16
    more = tuple(torch.cat([one] * times) for one in inputs)
    return lambda: model(*inputs), lambda: model(*more), times


def _inference(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[Call, Call, float]:
    def infer() -> object:
        with torch.inference_mode():
            return model(*inputs)

    return lambda: model(*inputs), infer, 1.0


def _reused(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[Call, Call, float]:
    """Compare glibc's allocator as it is with one that keeps memory (``mallopt(3)``)."""
    libc = ctypes.CDLL(None)

    def with_settings(settings: dict[int, int]) -> object:
        for name, value in settings.items():
            libc.mallopt(name, value)
        return model(*inputs)

    return lambda: with_settings(_RETURNS), lambda: with_settings(_KEEPS), 1.0


CHANGES: dict[str, Change] = {
    "int8-dynamic": _int8,
    "channels-last": _channels_last,
    "slow-dtype": _float32,
    "bf16-autocast": _autocast(torch.bfloat16),
    "fp16-autocast": _autocast(torch.float16),
    "compile": _compiled,
    "larger-batch": _batch,
    "inference-mode": _inference,
    "reuse-memory": _reused,
}

if __name__ == "__main__":
    raise SystemExit(main())
