"""Loads damaged files with torch and safetensors, in a separate process, and compares values.

It says what a file would have done to someone who loaded it: an error, the same values, or other
values without a word.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
from pathlib import Path
from types import TracebackType

_ROOT = Path(__file__).resolve().parents[3]
_SECONDS = 60.0


class Loader:
    """A process that loads files, started anew when one has killed it."""

    def __init__(self, seeds: dict[str, Path]) -> None:
        self._seeds = {name: str(path) for name, path in seeds.items()}
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Loader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._end()

    def load(self, path: Path, seed: str) -> str:
        """Return ``error``, ``same``, ``differs`` or ``crash`` for a damaged copy of a seed."""
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        print(json.dumps([str(path), self._seeds[seed]]), file=process.stdin, flush=True)
        ready, _, _ = select.select([process.stdout], [], [], _SECONDS)
        line = process.stdout.readline().strip() if ready else ""
        if not line:
            self._end()
            return "crash"
        return line

    def _start(self) -> subprocess.Popen[str]:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.archive.hostile.loading"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=_ROOT,
            text=True,
        )
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def main() -> None:
    """Answer for each pair of paths of the input."""
    import os
    import warnings

    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    known: dict[str, dict[str, object] | None] = {}
    for line in sys.stdin:
        damaged, seed = json.loads(line)
        name = Path(seed).name
        if seed not in known:
            known[seed] = _loaded(Path(seed), name)
        values, original = _loaded(Path(damaged), name), known[seed]
        if values is None or original is None:
            answer = "error"
        else:
            answer = "same" if _equal(values, original) else "differs"
        print(answer, file=answers, flush=True)


def _loaded(path: Path, seed: str) -> dict[str, object] | None:
    try:
        return _values(path, seed)
    except BaseException:
        return None


def _values(path: Path, seed: str) -> dict[str, object]:
    import torch
    from safetensors.torch import load_file

    if seed.endswith(".json"):
        return dict(json.loads(path.read_text())["weight_map"])
    if seed.endswith(".safetensors"):
        return dict(load_file(path))
    if seed.startswith("scripted"):
        return dict(torch.jit.load(path).state_dict())
    if seed.startswith("exported"):
        return dict(torch.export.load(path).state_dict)
    # Modules, and protocol 5, are beyond weights_only.
    content = torch.load(path, weights_only=not seed.startswith(("module", "legacy_m", "proto5")))
    if isinstance(content, torch.nn.Module):
        return dict(content.state_dict())
    return dict(content.get("state_dict", content))


def _equal(values: dict[str, object], others: dict[str, object]) -> bool:
    import torch

    if values.keys() != others.keys():
        return False
    for name, value in values.items():
        other = others[name]
        if isinstance(value, torch.Tensor) and isinstance(other, torch.Tensor):
            if value.dtype != other.dtype or value.shape != other.shape:
                return False
            if not torch.equal(_bits(value), _bits(other)):
                return False
        elif value is not other and value != other:
            return False
    return True


def _bits(value: object) -> object:
    import torch

    assert isinstance(value, torch.Tensor)
    return value.detach().contiguous().view(-1).view(torch.uint8) if value.numel() else value


if __name__ == "__main__":
    main()
