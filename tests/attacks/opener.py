"""Opens files of the corpus and says which canaries were made, and what time and memory it took.

``python -m tests.attacks.opener FOLDER`` writes the files into a folder, says which there are, and
then answers each line of its input, an ``Opening`` as JSON, with an ``Opened``. Torch and what else
is used is imported once; each file is opened by a fork of the process. A fork goes on to the next
file where the one before was refused before torch saw it.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Literal

import msgspec
from msgspec import Struct

from tests.attacks.bombs import Bomb, write_bombs
from tests.attacks.corpus import Attack, write_corpus
from tui_profiler.messages import LoadSpec

_ROOT = Path(__file__).resolve().parents[2]
_SECONDS = 120
_MEMORY_BYTES = 3 << 30
"""What a file may take before the machine does not have it."""
By = Literal["profiler", "trusted", "torch"]
"""``profiler``: as ``tui-profiler NAME`` without ``--trust`` loads, traces and runs it;
``trusted``: the same with ``--trust``; ``torch``: the loader of torch, or of ultralytics for YAML,
and a forward."""
Sandbox = Literal["off", "landlock", "seccomp", "landlock+seccomp"]


class Written(Struct, frozen=True):
    """The files of the folder."""

    attacks: list[Attack]
    bombs: list[Bomb]


class Opening(Struct, frozen=True):
    """How one file is to be opened."""

    name: str
    spec: str
    """What the user types; empty for the name."""
    by: By
    sandbox: Sandbox = "off"


class Opened(Struct, frozen=True):
    """What came of opening one file."""

    name: str
    outcome: str
    """``opened``, ``refused`` by the profiler with a sentence, ``failed`` with an error of torch's,
    or ``ended`` where the process did."""
    said: str
    canaries: list[str] = []
    """Files that were made or changed, by name."""
    cpu_seconds: float = 0.0
    peak_bytes: int = 0
    """More than the process had before."""


class Opener:
    """A process that has written the corpus into a folder, and opens its files."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.attacks.opener", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=_ROOT,
        )
        assert self._process.stdout is not None
        self.written = msgspec.json.decode(self._process.stdout.readline(), type=Written)

    def __enter__(self) -> Opener:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._process.communicate()

    def opened(
        self, files: Iterable[Attack | Bomb], by: By, sandbox: Sandbox = "off"
    ) -> dict[str, Opened]:
        """Open files of the corpus, each by its name."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        answers = {}
        for file in files:
            wanted = Opening(file.name, file.spec, by, sandbox)
            self._process.stdin.write(msgspec.json.encode(wanted) + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
            answers[file.name] = msgspec.json.decode(line, type=Opened)
        return answers


def main() -> None:
    """Write the files, and answer for each opening of the input."""
    folder = Path(sys.argv[1])
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    # Before ultralytics replaces ``torch.save``.
    written = Written(write_corpus(folder).attacks, write_bombs(folder))
    _import_all()
    answers.write(msgspec.json.encode(written) + b"\n")
    canaries = folder / "canaries"
    # Modules of the attacker's that lie where the user is.
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    fork: _Fork | None = None
    for line in sys.stdin.buffer:
        wanted = msgspec.json.decode(line, type=Opening)
        before = _state(canaries)
        if fork is not None and not fork.takes(wanted):
            fork.end()
            fork = None
        fork = fork or _Fork(wanted, folder)
        came = fork.open(wanted)
        if came.outcome != "refused":
            fork.end()
            fork = None
        after = _state(canaries)
        changed = [path for path in after if after[path] != before.get(path)]
        for path in changed:
            if path in before:
                (canaries / path).write_bytes(before[path])
            else:
                (canaries / path).unlink()
        answers.write(msgspec.json.encode(msgspec.structs.replace(came, canaries=changed)) + b"\n")
    if fork is not None:
        fork.end()


def _import_all() -> None:
    import torch
    import torchvision  # noqa: F401  # registers operators, as most programs have it
    import transformers  # noqa: F401

    from tui_profiler.probe.load.architectures.ultralytics_models import ultralytics_tasks
    from tui_profiler.probe.load.common.errors import LoadError
    from tui_profiler.probe.load.files import export_archive, torchscript  # noqa: F401
    from tui_profiler.probe.load.files.allowed_operators import admitted
    from tui_profiler.probe.load.python import pickled  # noqa: F401
    from tui_profiler.probe.sandbox import confinement  # noqa: F401
    from tui_profiler.probe.trace import trace  # noqa: F401

    with contextlib.suppress(LoadError):  # Not installed, or without its system libraries.
        ultralytics_tasks()
    admitted()
    torch.set_num_threads(1)


def _state(canaries: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in canaries.iterdir()}


class _Fork:
    """A fork of this process, which opens one file after the other until one is not refused."""

    def __init__(self, first: Opening, folder: Path) -> None:
        self._by = first.by, first.sandbox
        asked, self._ask = os.pipe()
        self._answer, answering = os.pipe()
        self._child = os.fork()
        if not self._child:
            os.close(self._ask)
            _serve(asked, answering, folder)
        os.close(asked)
        os.close(answering)
        self._answers = os.fdopen(self._answer, "rb")

    def takes(self, wanted: Opening) -> bool:
        """Say whether it opens files in this way."""
        return self._by == (wanted.by, wanted.sandbox)

    def open(self, wanted: Opening) -> Opened:
        """Open one file."""
        os.write(self._ask, msgspec.json.encode(wanted) + b"\n")
        line = self._answers.readline()
        return msgspec.json.decode(line, type=Opened) if line else Opened(wanted.name, "ended", "")

    def end(self) -> None:
        """Let go of the process and wait for it."""
        os.close(self._ask)
        self._answers.close()
        os.waitpid(self._child, 0)


def _serve(asked: int, answering: int, folder: Path) -> None:
    """Be the fork; never returns."""
    most = _of_status("VmData") + _MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    is_confined = False
    with os.fdopen(asked, "rb") as lines:
        for line in lines:
            wanted = msgspec.json.decode(line, type=Opening)
            if not is_confined:
                _confine(wanted, folder)
                is_confined = True
            signal.alarm(_SECONDS)
            started = time.process_time()
            # proc(5): 5 resets the peak of the resident set.
            if wanted.sandbox == "off":
                Path("/proc/self/clear_refs").write_text("5")
            held = _of_status("VmRSS")
            outcome, said = "failed", ""
            try:
                outcome, said = _run(wanted, folder)
            except BaseException as error:
                said = f"{type(error).__name__}: {error}"[:500]
            peak = max(_of_status("VmHWM") - held, 0)
            taken = time.process_time() - started
            came = Opened(wanted.name, outcome, said, [], taken, peak)
            os.write(answering, msgspec.json.encode(came)[:60_000] + b"\n")
            if outcome != "refused":
                break
    os._exit(0)


def _of_status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"the kernel does not say {name}")


def _confine(wanted: Opening, folder: Path) -> None:
    """Enter the sandbox in which files are to be opened, once; a process cannot leave it."""
    from tui_profiler.messages import Sandbox, Start
    from tui_profiler.probe.sandbox.confinement import SWITCH, confine

    if wanted.sandbox == "off":
        return
    os.environ[SWITCH] = wanted.sandbox if "+" not in wanted.sandbox else ""
    told = confine(Start(_spec(wanted, folder)), os.open(os.devnull, os.O_RDONLY), always=True)
    assert isinstance(told, Sandbox), told
    assert told.kind == wanted.sandbox, told


def _spec(wanted: Opening, folder: Path) -> LoadSpec:
    name = wanted.spec or wanted.name
    return LoadSpec(name, folder=str(folder), trust=wanted.by == "trusted")


def _run(wanted: Opening, folder: Path) -> tuple[str, str]:
    from tui_profiler.probe.load.common.errors import LoadError
    from tui_profiler.probe.load.load import load
    from tui_profiler.probe.trace.trace import trace

    spec = _spec(wanted, folder)
    if wanted.by == "torch":
        _by_torch(folder / spec.model)
        return "opened", ""
    try:
        loaded = load(spec)
    except LoadError as error:
        return "refused", error.failed.what
    candidates = tuple(loaded.candidates)
    trace(loaded.model, candidates)
    loaded.model(*candidates[0].args, **candidates[0].kwargs)
    return "opened", ""


def _by_torch(path: Path) -> None:
    import torch

    x = torch.randn(2, 3)
    if path.suffix == ".yaml":
        from ultralytics.nn.tasks import ClassificationModel

        ClassificationModel(str(path), verbose=False)
    elif path.suffix == ".pt2":
        with path.open("rb") as stream:
            torch.export.load(stream).module()(x)
    elif path.name.startswith(("saved", "bare")):
        if path.suffix == ".pkl":
            import pickle

            pickle.loads(path.read_bytes())
        torch.load(path, weights_only=False)
    else:
        torch.jit.load(str(path))(x)


if __name__ == "__main__":
    main()
